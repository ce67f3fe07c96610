//! A map from keys to items that keeps what it is given until told otherwise.
//!
//! Times are unix seconds. A time to live follows memcached's rule: 0 never ends, a negative
//! one is over already, up to thirty days count from now, anything above is unix time. An item
//! is gone in the very second it expires in.

use std::collections::BTreeMap;

use protocol::{ArithMode, SetMode};

/// A time to live up to this many seconds counts from now; above, it is unix time.
pub const RELATIVE_MAX_S: i32 = 60 * 60 * 24 * 30;

/// What memcached keeps beside a key and a value, counted against the largest item: the header
/// with its CAS, the byte that ends the key and the two that end the value.
pub const ITEM_OVERHEAD: usize = 48 + 8 + 1 + 2;

/// Bytes of client flags, kept only where they are not zero.
pub const CLIENT_FLAGS_LEN: usize = 4;

/// One item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The bytes stored.
    pub value: Vec<u8>,
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// The unix second it is gone in; none: it stays.
    pub expires_s: Option<u64>,
    /// Changes on every write.
    pub cas: u64,
    /// Stored by a writer that came too late and said so (`ms` with flag `I`).
    pub stale: bool,
    /// Somebody has been told to renew it.
    pub token_sent: bool,
    /// The unix second of its last write.
    pub written_s: u64,
    /// It has been read.
    pub fetched: bool,
    /// The unix second of its last read or write.
    pub accessed_s: u64,
    /// Its key came in base64 when it was last stored as a whole.
    pub base64_key: bool,
}

impl Item {
    /// Seconds left at `now_s`; none: it stays.
    #[must_use]
    pub fn remaining_s(&self, now_s: u64) -> Option<u64> {
        self.expires_s.map(|at_s| at_s.saturating_sub(now_s))
    }

    fn is_expired(&self, now_s: u64) -> bool {
        self.expires_s.is_some_and(|at_s| at_s <= now_s)
    }
}

/// A write of a whole value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    /// What to do with what is there.
    pub mode: SetMode,
    /// The bytes; appended or prepended to what is there in those modes.
    pub value: &'a [u8],
    /// The client's own 32 bits; `Append` and `Prepend` keep those that are there.
    pub client_flags: u32,
    /// See the module; `Append` and `Prepend` keep the one that is there.
    pub exptime: i32,
    /// Store only if the present item's CAS is this one.
    pub compare: Option<u64>,
    /// The CAS the item gets instead of the next number.
    pub explicit_cas: Option<u64>,
    /// If `compare` is below the present CAS, store all the same, as stale.
    pub invalidate: bool,
    /// `Append` and `Prepend` store the value if the key is absent, with these flags and this time
    /// to live.
    pub vivify: bool,
    /// The key came in base64.
    pub base64_key: bool,
}

impl<'a> Write<'a> {
    /// An unconditional write of `value` that never expires.
    #[must_use]
    pub fn plain(mode: SetMode, value: &'a [u8]) -> Self {
        Self {
            mode,
            value,
            client_flags: 0,
            exptime: 0,
            compare: None,
            explicit_cas: None,
            invalidate: false,
            vivify: false,
            base64_key: false,
        }
    }
}

/// What came of a [`Write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOutcome {
    /// It is there now.
    Stored {
        /// Its CAS.
        cas: u64,
        /// Bytes of the whole value, what was there included.
        value_len: usize,
    },
    /// The mode forbids it: `Add` of a present key, the others but `Set` of an absent one, or
    /// the grown value is larger than an item may be.
    NotStored,
    /// The present item has another CAS.
    Exists,
    /// There is nothing to compare with.
    NotFound,
}

/// A change of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// Which way.
    pub mode: ArithMode,
    /// How far.
    pub delta: u64,
    /// What to create if the key is absent: the value and its time to live.
    pub vivify: Option<(u64, i32)>,
    /// Change only if the present item's CAS is this one; 0 compares with nothing.
    pub compare: Option<u64>,
    /// The CAS the item gets instead of the next number.
    pub explicit_cas: Option<u64>,
}

/// What came of an [`Arithmetic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithOutcome {
    /// The counter stands.
    Done {
        /// Its value now.
        number: u64,
        /// Its CAS now.
        cas: u64,
        /// It was not there before.
        created: bool,
    },
    /// There is no such key.
    NotFound,
    /// The present item has another CAS.
    Exists,
    /// The present value is no number of 64 bits.
    NonNumeric,
}

/// What is done to an item instead of deleting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Only if the present item's CAS is this one.
    pub compare: Option<u64>,
    /// The CAS the item gets instead of the next number, or of its own if it does not become stale.
    pub explicit_cas: Option<u64>,
    /// It becomes stale, and the token to renew it has not been sent.
    pub invalidate: bool,
    /// It becomes a new, empty item with these client flags.
    pub empty: Option<u32>,
    /// Its time to live; none: as it was, or without end where it becomes empty.
    pub exptime: Option<i32>,
}

/// What came of a delete or a [`Mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone, or marked.
    Deleted,
    /// There was no such key.
    NotFound,
    /// The present item has another CAS.
    Exists,
}

/// The cache.
#[derive(Debug, Clone)]
pub struct Cache {
    items: BTreeMap<Vec<u8>, Item>,
    item_size_max: usize,
    next_cas: u64,
    /// The unix second from which on whatever was written before it is gone.
    flush_s: Option<u64>,
}

impl Cache {
    /// An empty cache whose items are at most `item_size_max` bytes, overhead included.
    #[must_use]
    pub fn new(item_size_max: usize) -> Self {
        Self {
            items: BTreeMap::new(),
            item_size_max,
            next_cas: 1,
            flush_s: None,
        }
    }

    /// Items that have neither expired nor been flushed.
    #[must_use]
    pub fn len(&mut self, now_s: u64) -> usize {
        self.remove_expired(now_s);
        self.items.len()
    }

    /// The item of a key.
    pub fn get(&mut self, now_s: u64, key: &[u8]) -> Option<&Item> {
        self.live(now_s, key).map(|item| &*item)
    }

    /// The item of a key as it was, and its new time to live.
    pub fn get_and_touch(&mut self, now_s: u64, key: &[u8], exptime: i32) -> Option<Item> {
        let found = self.get(now_s, key).cloned();
        self.mark_fetched(now_s, key);
        self.touch(now_s, key, exptime);
        found
    }

    /// Gives an item a new time to live; its CAS stays. False: there is none.
    pub fn touch(&mut self, now_s: u64, key: &[u8], exptime: i32) -> bool {
        self.expire_at(now_s, key, expiry(now_s, exptime))
    }

    /// As [`Cache::touch`], to the unix second it is gone in.
    pub fn expire_at(&mut self, now_s: u64, key: &[u8], expires_s: Option<u64>) -> bool {
        let Some(item) = self.live(now_s, key) else {
            return false;
        };
        item.expires_s = expires_s;
        true
    }

    /// Notes that an item has been read.
    pub fn mark_fetched(&mut self, now_s: u64, key: &[u8]) {
        if let Some(item) = self.live(now_s, key) {
            item.fetched = true;
            item.accessed_s = now_s;
        }
    }

    /// Notes that somebody has been told to renew an item.
    pub fn mark_token_sent(&mut self, now_s: u64, key: &[u8]) {
        if let Some(item) = self.live(now_s, key) {
            item.token_sent = true;
        }
    }

    /// The size of the largest item, overhead included.
    #[must_use]
    pub fn item_size_max(&self) -> usize {
        self.item_size_max
    }

    /// Whether a value of this length may be stored at all.
    #[must_use]
    pub fn fits(&self, key: &[u8], client_flags: u32, value_len: usize) -> bool {
        let flags_len = if client_flags == 0 {
            0
        } else {
            CLIENT_FLAGS_LEN
        };
        ITEM_OVERHEAD + key.len() + flags_len + value_len <= self.item_size_max
    }

    /// Stores a value. The caller has asked [`Cache::fits`].
    pub fn set(&mut self, now_s: u64, key: &[u8], write: &Write<'_>) -> SetOutcome {
        let present = self.get(now_s, key).cloned();
        let mut item = Item {
            value: write.value.to_vec(),
            client_flags: write.client_flags,
            expires_s: expiry(now_s, write.exptime),
            cas: 0,
            stale: false,
            token_sent: false,
            written_s: now_s,
            fetched: false,
            accessed_s: now_s,
            base64_key: write.base64_key,
        };
        match (write.mode, present) {
            (SetMode::Set | SetMode::Replace, Some(present)) => match write.compare {
                Some(compare) if compare == present.cas && compare != 0 => {}
                Some(compare) if write.invalidate && 0 < compare && compare < present.cas => {
                    item.stale = true;
                    item.token_sent = present.token_sent;
                    item.expires_s = present.expires_s;
                }
                Some(_) => return SetOutcome::Exists,
                None => {}
            },
            (SetMode::Set | SetMode::Replace, None) if write.compare.is_some() => {
                return SetOutcome::NotFound;
            }
            (SetMode::Set | SetMode::Add, None) => {}
            (SetMode::Append | SetMode::Prepend, None) if write.vivify => {}
            (SetMode::Append | SetMode::Prepend, Some(present)) => {
                if !(matches!(write.compare, None | Some(0)) || write.compare == Some(present.cas))
                {
                    return SetOutcome::Exists;
                }
                item.value = match write.mode {
                    SetMode::Append => [&present.value, write.value].concat(),
                    _ => [write.value, &present.value].concat(),
                };
                item.client_flags = present.client_flags;
                // A new item made of the two, which memcached does not give this mark.
                item.base64_key = false;
                item.expires_s = present.expires_s;
                if !self.fits(key, item.client_flags, item.value.len()) {
                    return SetOutcome::NotStored;
                }
            }
            (SetMode::Add, Some(_))
            | (SetMode::Replace | SetMode::Append | SetMode::Prepend, None) => {
                return SetOutcome::NotStored;
            }
        }
        item.cas = self.cas(write.explicit_cas);
        let outcome = SetOutcome::Stored {
            cas: item.cas,
            value_len: item.value.len(),
        };
        self.items.insert(key.to_vec(), item);
        outcome
    }

    /// Adds to or takes from a counter. A result shorter than the text it replaces is padded
    /// with spaces behind, as memcached does.
    pub fn arith(&mut self, now_s: u64, key: &[u8], change: &Arithmetic) -> ArithOutcome {
        let Some(present) = self.get(now_s, key).cloned() else {
            let Some((initial, exptime)) = change.vivify else {
                return ArithOutcome::NotFound;
            };
            let value = initial.to_string().into_bytes();
            let write = Write {
                exptime,
                explicit_cas: change.explicit_cas,
                ..Write::plain(SetMode::Add, &value)
            };
            let SetOutcome::Stored { cas, .. } = self.set(now_s, key, &write) else {
                return ArithOutcome::NotFound;
            };
            return ArithOutcome::Done {
                number: initial,
                cas,
                created: true,
            };
        };
        if present.value.is_empty() {
            return ArithOutcome::NonNumeric;
        }
        if !(matches!(change.compare, None | Some(0)) || change.compare == Some(present.cas)) {
            return ArithOutcome::Exists;
        }
        let Some(number) = number(&present.value) else {
            return ArithOutcome::NonNumeric;
        };
        let number = match change.mode {
            ArithMode::Increment => number.wrapping_add(change.delta),
            ArithMode::Decrement => number.saturating_sub(change.delta),
        };
        let mut value = number.to_string().into_bytes();
        value.resize(value.len().max(present.value.len()), b' ');
        let cas = self.cas(change.explicit_cas);
        // A longer number is a new item, in memcached too.
        let is_as_long = value.len() == present.value.len();
        let item = Item {
            value,
            cas,
            written_s: now_s,
            accessed_s: now_s,
            fetched: is_as_long && present.fetched,
            base64_key: is_as_long && present.base64_key,
            stale: is_as_long && present.stale,
            token_sent: is_as_long && present.token_sent,
            ..present
        };
        self.items.insert(key.to_vec(), item);
        ArithOutcome::Done {
            number,
            cas,
            created: false,
        }
    }

    /// Removes an item, if its CAS is the one given where one is.
    pub fn delete(&mut self, now_s: u64, key: &[u8], compare: Option<u64>) -> DeleteOutcome {
        match self.get(now_s, key) {
            None => DeleteOutcome::NotFound,
            Some(item) if compare.is_some_and(|cas| cas != item.cas) => DeleteOutcome::Exists,
            Some(_) => {
                self.items.remove(key);
                DeleteOutcome::Deleted
            }
        }
    }

    /// Marks an item as stale, or takes its value away.
    pub fn mark(&mut self, now_s: u64, key: &[u8], mark: &Mark) -> DeleteOutcome {
        let Some(mut item) = self.get(now_s, key).cloned() else {
            return DeleteOutcome::NotFound;
        };
        if mark.compare.is_some_and(|cas| cas != item.cas) {
            return DeleteOutcome::Exists;
        }
        if let Some(client_flags) = mark.empty {
            item = Item {
                value: Vec::new(),
                client_flags,
                expires_s: None,
                cas: item.cas,
                stale: false,
                token_sent: false,
                written_s: now_s,
                fetched: false,
                accessed_s: now_s,
                base64_key: false,
            };
        }
        if let Some(exptime) = mark.exptime {
            item.expires_s = expiry(now_s, exptime);
        }
        if mark.invalidate {
            item.stale = true;
            item.token_sent = false;
        }
        if mark.invalidate || mark.explicit_cas.is_some() {
            item.cas = self.cas(mark.explicit_cas);
        }
        item.written_s = now_s;
        item.accessed_s = now_s;
        self.items.insert(key.to_vec(), item);
        DeleteOutcome::Deleted
    }

    /// Empties the cache: at once for 0 and below, else of everything written before the time
    /// named, from that time on. A later call replaces one that still waits.
    pub fn flush_all(&mut self, now_s: u64, exptime: i32) {
        self.remove_expired(now_s);
        if exptime <= 0 {
            self.items.clear();
            self.flush_s = None;
        } else {
            self.flush_s = expiry(now_s, exptime);
            self.remove_expired(now_s);
        }
    }

    /// The item of a key, if it is alive. Looks at no other: a model of many items is used too.
    fn live(&mut self, now_s: u64, key: &[u8]) -> Option<&mut Item> {
        self.flush_if_due(now_s);
        if self
            .items
            .get(key)
            .is_some_and(|item| item.is_expired(now_s))
        {
            self.items.remove(key);
        }
        self.items.get_mut(key)
    }

    fn remove_expired(&mut self, now_s: u64) {
        self.flush_if_due(now_s);
        self.items.retain(|_, item| !item.is_expired(now_s));
    }

    fn flush_if_due(&mut self, now_s: u64) {
        if let Some(flush_s) = self.flush_s.filter(|&flush_s| flush_s <= now_s) {
            self.items.retain(|_, item| item.written_s >= flush_s);
            self.flush_s = None;
        }
    }

    fn cas(&mut self, explicit: Option<u64>) -> u64 {
        explicit.unwrap_or_else(|| {
            self.next_cas += 1;
            self.next_cas - 1
        })
    }
}

/// The unix second a time to live ends in; none: never.
#[must_use]
pub fn expiry(now_s: u64, exptime: i32) -> Option<u64> {
    match u64::try_from(exptime) {
        Ok(0) => None,
        Ok(seconds) if exptime <= RELATIVE_MAX_S => Some(now_s + seconds),
        Ok(unix_s) => Some(unix_s),
        Err(_) => Some(0),
    }
}

/// The counter a value stands for: behind white space and a plus sign digits up to its end, a zero
/// byte or white space.
fn number(value: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(value);
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = text
        .split([' ', '\t', '\n', '\x0b', '\x0c', '\r', '\0'])
        .next()?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}
