//! What a client does for its user.

use chain::limits::KEY_LEN_MAX;
use chain::node_len;
use thiserror::Error;

use crate::limits::SLAB_LEN_MAX;

/// A value with what belongs to it, to be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewItem {
    /// The value.
    pub value: Vec<u8>,
    /// Opaque flags.
    pub client_flags: u32,
    /// When it expires, in seconds of Unix time; 0 means never.
    pub expiry_s: u32,
}

/// A value that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The value, its flags and its expiry.
    pub content: NewItem,
    /// Differs for every version that a pool has ever stored.
    pub unique: u64,
}

/// An operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The key, 1 to [`KEY_LEN_MAX`] bytes.
    pub key: Vec<u8>,
    /// What is done.
    pub action: Action,
}

impl Operation {
    /// Length in bytes of the value, or of the part of one, that it brings.
    #[must_use]
    pub fn value_len(&self) -> usize {
        match &self.action {
            Action::Set(item)
            | Action::Change(
                Change::Add(item) | Change::Replace(item) | Change::CompareSwap { item, .. },
            ) => item.value.len(),
            Action::Change(Change::Append(bytes) | Change::Prepend(bytes)) => bytes.len(),
            _ => 0,
        }
    }
}

/// Whether some pool takes a value of this length with a key of this length, both in bytes. A pool
/// with small slabs may refuse it ([`Refusal::TooLong`]).
#[must_use]
pub const fn is_storable(key_len: usize, value_len: usize) -> bool {
    node_len(key_len, value_len) <= SLAB_LEN_MAX as usize
}

/// What is done with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read.
    Get,
    /// Store, whatever is there. A middlebox may redirect it.
    Set(NewItem),
    /// Delete, whatever is there. A middlebox may redirect it.
    Delete,
    /// Store what depends on what is there.
    Change(Change),
}

/// A change that depends on what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store if there is nothing.
    Add(NewItem),
    /// Store if there is something.
    Replace(NewItem),
    /// Store if the present version is this one.
    CompareSwap {
        /// [`Item::unique`] of the version.
        unique: u64,
        /// What is stored.
        item: NewItem,
    },
    /// Add bytes behind the value.
    Append(Vec<u8>),
    /// Add bytes before the value.
    Prepend(Vec<u8>),
    /// Change the expiry.
    Touch {
        /// The new expiry, in seconds of Unix time; 0 means never.
        expiry_s: u32,
    },
    /// Add to a decimal number, modulo 2⁶⁴.
    Increment(u64),
    /// Subtract from a decimal number, down to 0.
    Decrement(u64),
    /// Delete if there is something.
    Remove,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of `Get`: what was there.
    Found(Item),
    /// Of `Get`, or a change that needs something: there is nothing. Nothing was stored.
    Missing,
    /// Of `Change`: the condition does not hold. Nothing was stored.
    Refused(Refusal),
    /// It was stored. Of `Set` and `Delete`, the content is left out.
    Stored(Item),
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is something.
    Exists,
    /// Another version is there.
    Different,
    /// The value is no decimal number below 2⁶⁴.
    NotANumber,
    /// The new value would be longer than a slab.
    TooLong,
}

/// Why an operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OperationError {
    /// Nothing was stored: the pool's memory is full.
    #[error("the memory of the pool is full")]
    Full,
    /// Nothing was stored: others changed the key too often meanwhile.
    #[error("others changed the key too often meanwhile")]
    Contended,
    /// Nothing was stored: the pool did not answer in time.
    #[error("the pool did not answer in time")]
    Unavailable,
    /// The pool did not answer in time. Whether anything was stored is unknown.
    #[error("the pool did not answer in time, and whether the value was stored is unknown")]
    Unknown,
}

/// Why an operation is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// As many operations as possible are submitted.
    #[error("as many operations as possible are submitted")]
    Busy,
    /// The key is empty or too long.
    #[error("the key is empty or longer than {KEY_LEN_MAX} bytes")]
    Key,
    /// The value is too long for any pool.
    #[error("the value is too long")]
    TooLong,
}

/// An operation that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number with which it was submitted.
    pub id: u64,
    /// Its result.
    pub result: Result<Outcome, OperationError>,
}

/// What a change stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Store(NewItem),
    Delete,
    Missing,
    Refuse(Refusal),
}

impl Change {
    /// Whether it may store something if there is nothing.
    pub(crate) fn creates(&self) -> bool {
        matches!(self, Self::Add(_))
    }

    /// What to do with what is there.
    pub(crate) fn decide(&self, present: Option<&Item>) -> Decision {
        let Some(Item { content, unique }) = present else {
            return match self {
                Self::Add(item) => Decision::Store(item.clone()),
                _ => Decision::Missing,
            };
        };
        let store_value = |value: Vec<u8>| {
            Decision::Store(NewItem {
                value,
                ..content.clone()
            })
        };
        match self {
            Self::Add(_) => Decision::Refuse(Refusal::Exists),
            Self::Replace(item) => Decision::Store(item.clone()),
            Self::CompareSwap {
                unique: expected,
                item,
            } => {
                if expected == unique {
                    Decision::Store(item.clone())
                } else {
                    Decision::Refuse(Refusal::Different)
                }
            }
            Self::Append(bytes) => store_value([&content.value, bytes.as_slice()].concat()),
            Self::Prepend(bytes) => store_value([bytes.as_slice(), &content.value].concat()),
            Self::Touch { expiry_s } => Decision::Store(NewItem {
                expiry_s: *expiry_s,
                ..content.clone()
            }),
            Self::Increment(by) => match decimal(&content.value) {
                Some(number) => store_value(number.wrapping_add(*by).to_string().into_bytes()),
                None => Decision::Refuse(Refusal::NotANumber),
            },
            Self::Decrement(by) => match decimal(&content.value) {
                Some(number) => store_value(number.saturating_sub(*by).to_string().into_bytes()),
                None => Decision::Refuse(Refusal::NotANumber),
            },
            Self::Remove => Decision::Delete,
        }
    }
}

/// The number that a value is, if it consists of digits.
fn decimal(value: &[u8]) -> Option<u64> {
    let is_digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()
        .filter(|_| is_digits)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: &str) -> NewItem {
        NewItem {
            value: value.into(),
            client_flags: 3,
            expiry_s: 9,
        }
    }

    fn present(value: &str) -> Item {
        Item {
            content: item(value),
            unique: 7,
        }
    }

    #[test]
    fn a_change_of_nothing_stores_only_what_is_added() {
        let add = Change::Add(item("new"));
        assert_eq!(add.decide(None), Decision::Store(item("new")));
        for change in [
            Change::Replace(item("new")),
            Change::Append(b"x".to_vec()),
            Change::Touch { expiry_s: 1 },
            Change::Increment(1),
            Change::Remove,
        ] {
            assert_eq!(change.decide(None), Decision::Missing);
        }
    }

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let decide = |change: Change, value: &str| change.decide(Some(&present(value)));
        let store = |value: &str| Decision::Store(item(value));
        assert_eq!(decide(Change::Append(b"x".to_vec()), "a"), store("ax"));
        assert_eq!(decide(Change::Prepend(b"x".to_vec()), "a"), store("xa"));
        assert_eq!(decide(Change::Increment(3), "9"), store("12"));
        assert_eq!(decide(Change::Decrement(10), "9"), store("0"));
        let most = u64::MAX.to_string();
        assert_eq!(decide(Change::Increment(2), &most), store("1"));
        for value in ["", "-1", "1 ", "x", "18446744073709551616"] {
            let refused = Decision::Refuse(Refusal::NotANumber);
            assert_eq!(decide(Change::Increment(1), value), refused);
        }
        let touched = NewItem {
            expiry_s: 1,
            ..item("a")
        };
        let touch = Change::Touch { expiry_s: 1 };
        assert_eq!(decide(touch, "a"), Decision::Store(touched));
        let swap = |unique| Change::CompareSwap {
            unique,
            item: item("b"),
        };
        assert_eq!(decide(swap(7), "a"), store("b"));
        let different = Decision::Refuse(Refusal::Different);
        assert_eq!(decide(swap(8), "a"), different);
    }
}
