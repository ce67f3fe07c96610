//! A comparison of the protocols. The same operations, which are decoded from bytes, are sent to
//! six caches: as text, meta commands and binary frames to sessions, and in the same forms to the
//! model. A seventh receives each operation in a datagram, in one form after the other.
//!
//! ```text
//! bytes ─▶ operation.rs ─▶ form.rs: text, meta, binary ─▶ caches.rs ─▶ meaning.rs ─▶ equal?
//! ```
//!
//! The reply to an operation must mean the same everywhere. A quiet request may leave it out, by
//! the rules of its protocol. In the end all caches must have the same items: values, flags, times
//! to live, and whether they were read. Values of CAS differ. An operation that compares
//! one sends the value that its own cache has replied before.
//!
//! Not compared is what memcached itself does differently: a value that is too large deletes the
//! old item in an `ms` of any mode, in frames only if they are a `set`, and in text only if it is a
//! `set` without a CAS. The item is then deleted everywhere. When an item was read last is not
//! compared either: the store keeps less of it than the model.

#![expect(clippy::unwrap_used, reason = "a check panics when it fails")]

mod caches;
mod form;
mod meaning;
mod operation;

use self::caches::Caches;
use self::meaning::{Meaning, is_omitted};
use self::operation::{Bytes, KEYS, Operation};

/// The maximum number of operations of one input.
const OPERATIONS_MAX: usize = 500;

/// Sends the operations of `input` to all caches, and compares the replies and the items.
///
/// # Panics
/// Two caches differ.
pub fn check(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let mut caches = Caches::new();
    for number in 0..OPERATIONS_MAX {
        let Some(operation) = Operation::read(&mut bytes) else {
            break;
        };
        if let Operation::Tick { seconds } = operation {
            caches.tick(seconds);
            continue;
        }
        let expected = caches.expected(&operation);
        for (name, form, meaning) in caches.replies(&operation, number) {
            let has_no_reply = meaning == Meaning::Nothing;
            match operation.is_quiet() && is_omitted(form, &operation, &expected) {
                true => assert!(has_no_reply, "{name} replied {meaning:?} to {operation:?}"),
                false => assert_eq!(meaning, expected, "{name}, {form:?}: {operation:?}"),
            }
        }
        if expected == Meaning::TooLarge {
            caches.delete_old(&operation);
        }
    }
    for key in KEYS {
        caches.compare_items(key);
    }
}
