//! The expiry of an item: the second from which reads no longer return the item.

/// The time at which an item expires, in whole seconds of the caller's clock. Reads before second
/// `t` return an item with `Expiry::at(t)`. Reads from second `t` on do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(u32);

impl Expiry {
    /// The expiry of an item that never expires.
    pub const NEVER: Self = Self(u32::MAX);

    /// Creates an expiry at second `second`. The largest `u32` is reserved for [`Expiry::NEVER`],
    /// so it is replaced by the second before.
    #[must_use]
    pub fn at(second: u32) -> Self {
        Self(second.min(u32::MAX - 1))
    }

    /// Decodes an expiry that [`word`](Self::word) returned.
    pub(crate) fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Encodes the expiry as a word to be stored in memory. A later expiry has a larger word.
    pub(crate) fn word(self) -> u32 {
        self.0
    }

    /// Returns true if an item with this expiry has expired at second `now_s`.
    #[must_use]
    pub fn is_past(self, now_s: u32) -> bool {
        self != Self::NEVER && self.0 <= now_s
    }

    /// Returns the seconds until the expiry, 0 if the expiry is past. `None` if the item never
    /// expires.
    #[must_use]
    pub fn seconds_left(self, now_s: u32) -> Option<u32> {
        (self != Self::NEVER).then(|| self.0.saturating_sub(now_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_has_expired_from_the_second_of_its_expiry_on() {
        let expiry = Expiry::at(10);
        assert!(!expiry.is_past(9));
        assert!(expiry.is_past(10));
        assert_eq!(expiry.seconds_left(7), Some(3));
        assert!(!Expiry::NEVER.is_past(u32::MAX));
        assert_eq!(Expiry::NEVER.seconds_left(1), None);
        assert!(Expiry::at(u32::MAX) < Expiry::NEVER);
    }
}
