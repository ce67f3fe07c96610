//! A map from keys to items, without eviction and without a memory limit.
//!
//! Times are Unix seconds. A time to live follows memcached's rule: 0 means never, a negative
//! number already expired, up to thirty days is relative to now, and a larger number is a Unix
//! second. In the second of its expiry an item is already gone.

use std::collections::BTreeMap;

use protocol::{ArithMode, SetMode};

/// Longest relative time to live in seconds. A larger number is a Unix second.
pub const RELATIVE_MAX_S: i32 = 60 * 60 * 24 * 30;

/// Bytes that memcached counts towards the item size besides key and value: the header with its
/// CAS, the byte that ends the key and the two that end the value.
pub const ITEM_OVERHEAD: usize = 48 + 8 + 1 + 2;

/// Bytes of client flags, which are stored only if they are not zero.
pub const CLIENT_FLAGS_LEN: usize = 4;

/// The largest item that may be a number, in bytes: half of memcached's slab page. memcached stores
/// a larger item in chunks and does not read it as a number.
pub const NUMERIC_ITEM_MAX: usize = 512 << 10;

/// The size of an item in bytes, as memcached counts it.
#[must_use]
pub fn item_len(key: &[u8], client_flags: u32, value_len: usize) -> usize {
    let flags_len = if client_flags == 0 {
        0
    } else {
        CLIENT_FLAGS_LEN
    };
    ITEM_OVERHEAD + key.len() + flags_len + value_len
}

/// One item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The value.
    pub value: Vec<u8>,
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// The Unix second of its expiry; none means never.
    pub expires_s: Option<u64>,
    /// Changes on every write.
    pub cas: u64,
    /// Marked stale, by `md` or `ms` with flag `I`.
    pub stale: bool,
    /// A client has been given the recache token.
    pub token_sent: bool,
    /// The Unix second of its last write.
    pub written_s: u64,
    /// The item has been read.
    pub fetched: bool,
    /// The Unix second of its last read or write.
    pub accessed_s: u64,
    /// The key was in base64 when the item was last stored as a whole.
    pub base64_key: bool,
}

impl Item {
    /// Seconds left at `now_s`; none if the item never expires.
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
    /// How to treat a present item.
    pub mode: SetMode,
    /// The value, or the bytes to append or prepend.
    pub value: &'a [u8],
    /// The client's own 32 bits. `Append` and `Prepend` keep the present ones.
    pub client_flags: u32,
    /// Time to live, see the module. `Append` and `Prepend` keep the present one.
    pub exptime: i32,
    /// Store only if the present item has this CAS.
    pub compare: Option<u64>,
    /// The item's CAS; by default the next number.
    pub explicit_cas: Option<u64>,
    /// If `compare` is below the present CAS, store the value and mark it stale.
    pub invalidate: bool,
    /// `Append` and `Prepend` store the value if the key is absent, with these flags and this time
    /// to live.
    pub vivify: bool,
    /// The key of the request was in base64.
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

/// The outcome of a [`Write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOutcome {
    /// The value is stored.
    Stored {
        /// The item's CAS.
        cas: u64,
        /// Bytes of the whole value, including the part that was present before.
        value_len: usize,
    },
    /// The mode's condition does not hold (`Add` requires an absent key, every other mode except
    /// `Set` a present one), or the grown value exceeds the item size.
    NotStored,
    /// The present item has another CAS.
    Exists,
    /// There is no present item to compare with.
    NotFound,
}

/// A change of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// Whether to add or subtract.
    pub mode: ArithMode,
    /// The number to add or subtract.
    pub delta: u64,
    /// The value and the time to live of the counter to create if the key is absent.
    pub vivify: Option<(u64, i32)>,
    /// Change only if the present item has this CAS; 0 matches any.
    pub compare: Option<u64>,
    /// The item's CAS; by default the next number.
    pub explicit_cas: Option<u64>,
}

/// The outcome of an [`Arithmetic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithmeticOutcome {
    /// The counter was changed or created.
    Done {
        /// The counter's new value.
        number: u64,
        /// The counter's new CAS.
        cas: u64,
        /// The counter did not exist before.
        created: bool,
    },
    /// There is no such key.
    NotFound,
    /// The present item has another CAS.
    Exists,
    /// The present value is not a 64-bit number.
    NonNumeric,
}

/// A change by `md` that keeps the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Change only if the present item has this CAS.
    pub compare: Option<u64>,
    /// The item's new CAS. Without one, an item that becomes stale gets the next number, and any
    /// other keeps its CAS.
    pub explicit_cas: Option<u64>,
    /// Mark the item stale and take back the recache token.
    pub invalidate: bool,
    /// Replace the item by a new, empty one with these client flags.
    pub empty: Option<u32>,
    /// The new time to live. By default the old one, and never for an emptied item.
    pub exptime: Option<i32>,
}

/// The outcome of a delete or a [`Mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The item was deleted or changed.
    Deleted,
    /// There was no such key.
    NotFound,
    /// The present item has another CAS.
    Exists,
}

/// A cache that never evicts.
#[derive(Debug, Clone)]
pub struct Cache {
    items: BTreeMap<Vec<u8>, Item>,
    item_size_max: usize,
    next_cas: u64,
    /// The Unix second of a delayed flush: from then on, items written before it are gone.
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

    /// The number of items that are neither expired nor flushed.
    #[must_use]
    pub fn len(&mut self, now_s: u64) -> usize {
        self.remove_expired(now_s);
        self.items.len()
    }

    /// The items that are neither expired nor flushed, in the order of their keys.
    pub fn items(&mut self, now_s: u64) -> impl Iterator<Item = (&[u8], &Item)> {
        self.remove_expired(now_s);
        self.items.iter().map(|(key, item)| (&key[..], item))
    }

    /// The item of a key.
    pub fn get(&mut self, now_s: u64, key: &[u8]) -> Option<&Item> {
        self.live(now_s, key).map(|item| &*item)
    }

    /// Returns the item of a key as it was, and gives it a new time to live.
    pub fn get_and_touch(&mut self, now_s: u64, key: &[u8], exptime: i32) -> Option<Item> {
        let found = self.get(now_s, key).cloned();
        self.mark_fetched(now_s, key);
        self.touch(now_s, key, exptime);
        found
    }

    /// Gives an item a new time to live and keeps its CAS. Returns false if there is no item.
    pub fn touch(&mut self, now_s: u64, key: &[u8], exptime: i32) -> bool {
        self.expire_at(now_s, key, expiry(now_s, exptime))
    }

    /// As [`Cache::touch`], with the Unix second of the expiry.
    pub fn expire_at(&mut self, now_s: u64, key: &[u8], expires_s: Option<u64>) -> bool {
        let Some(item) = self.live(now_s, key) else {
            return false;
        };
        item.expires_s = expires_s;
        true
    }

    /// Records that an item has been read.
    pub fn mark_fetched(&mut self, now_s: u64, key: &[u8]) {
        if let Some(item) = self.live(now_s, key) {
            item.fetched = true;
            item.accessed_s = now_s;
        }
    }

    /// Records that a client has been given the recache token of an item.
    pub fn mark_token_sent(&mut self, now_s: u64, key: &[u8]) {
        if let Some(item) = self.live(now_s, key) {
            item.token_sent = true;
        }
    }

    /// Largest item size in bytes, including the overhead.
    #[must_use]
    pub fn item_size_max(&self) -> usize {
        self.item_size_max
    }

    /// Whether an item with a value of this length is within the item size.
    #[must_use]
    pub fn fits(&self, key: &[u8], client_flags: u32, value_len: usize) -> bool {
        item_len(key, client_flags, value_len) <= self.item_size_max
    }

    /// Stores a value. The caller must have checked [`Cache::fits`].
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
                // memcached makes a new item from the two values and does not mark it base64.
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

    /// Adds to a counter or subtracts from it. As in memcached, a result that is shorter than the
    /// text it replaces is padded with trailing spaces.
    pub fn arith(&mut self, now_s: u64, key: &[u8], change: &Arithmetic) -> ArithmeticOutcome {
        let Some(present) = self.get(now_s, key).cloned() else {
            let Some((initial, exptime)) = change.vivify else {
                return ArithmeticOutcome::NotFound;
            };
            let value = initial.to_string().into_bytes();
            let write = Write {
                exptime,
                explicit_cas: change.explicit_cas,
                ..Write::plain(SetMode::Add, &value)
            };
            let SetOutcome::Stored { cas, .. } = self.set(now_s, key, &write) else {
                return ArithmeticOutcome::NotFound;
            };
            return ArithmeticOutcome::Done {
                number: initial,
                cas,
                created: true,
            };
        };
        let len = item_len(key, present.client_flags, present.value.len());
        if present.value.is_empty() || len > NUMERIC_ITEM_MAX {
            return ArithmeticOutcome::NonNumeric;
        }
        if !(matches!(change.compare, None | Some(0)) || change.compare == Some(present.cas)) {
            return ArithmeticOutcome::Exists;
        }
        let Some(number) = number(&present.value) else {
            return ArithmeticOutcome::NonNumeric;
        };
        let number = match change.mode {
            ArithMode::Increment => number.wrapping_add(change.delta),
            ArithMode::Decrement => number.saturating_sub(change.delta),
        };
        let mut value = number.to_string().into_bytes();
        value.resize(value.len().max(present.value.len()), b' ');
        let cas = self.cas(change.explicit_cas);
        // As in memcached, a longer number becomes a new item.
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
        ArithmeticOutcome::Done {
            number,
            cas,
            created: false,
        }
    }

    /// Removes an item. With `compare`, only if the item has this CAS.
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

    /// Marks an item stale or removes its value.
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

    /// Flushes the cache. With 0 or below it removes all items now. Otherwise, from the given time
    /// on, it removes the items written before that time. A later call replaces a pending flush.
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

    /// The item of a key unless it has expired. It checks no other item, because some tests use a
    /// model of many items.
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

/// The Unix second at which a time to live ends; none means never.
#[must_use]
pub fn expiry(now_s: u64, exptime: i32) -> Option<u64> {
    match u64::try_from(exptime) {
        Ok(0) => None,
        Ok(seconds) if exptime <= RELATIVE_MAX_S => Some(now_s + seconds),
        Ok(unix_s) => Some(unix_s),
        Err(_) => Some(0),
    }
}

/// Parses the value of a counter: optional white space and a plus sign, then digits up to white
/// space, a zero byte or the end.
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
