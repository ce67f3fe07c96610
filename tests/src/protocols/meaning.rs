//! What a reply says, whatever the protocol.

use protocol::SetMode;
use protocol::binary::reply::Reply;

use super::form::{Form, is_text};
use super::operation::Operation;

/// What a reply says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// There is no reply.
    Nothing,
    Found {
        flags: u32,
        value: Vec<u8>,
    },
    Touched,
    Missed,
    Stored,
    NotStored,
    Exists,
    Deleted,
    Number(u64),
    NotNumeric,
    TooLarge,
    Flushed,
}

/// Whether a quiet request of this form has no reply if `outcome` is its outcome.
pub(super) fn is_omitted(form: Form, operation: &Operation, outcome: &Meaning) -> bool {
    let is_read = matches!(
        operation,
        Operation::Get { .. } | Operation::GetAndTouch { .. }
    );
    let is_flush = matches!(operation, Operation::Flush { .. });
    match form {
        Form::Text | Form::Meta if is_flush => true,
        // `get` and `gat` have no `noreply`.
        Form::Text if is_text(operation) => !is_read,
        _ if is_read => *outcome == Meaning::Missed,
        _ => matches!(
            outcome,
            Meaning::Stored | Meaning::Deleted | Meaning::Number(_) | Meaning::Flushed
        ),
    }
}

/// What `reply` says, which a request of this form has, and the CAS of the item, if it is shown.
///
/// # Panics
/// It is no reply to the operation.
pub(super) fn read(form: Form, operation: &Operation, reply: &[u8]) -> (Meaning, Option<u64>) {
    if reply.is_empty() {
        return (Meaning::Nothing, None);
    }
    let read = match form {
        Form::Binary => binary(operation, reply),
        Form::Text if is_text(operation) => text(operation, reply),
        Form::Meta if matches!(operation, Operation::Flush { .. }) => text(operation, reply),
        Form::Text | Form::Meta => meta(operation, reply),
    };
    let shown = String::from_utf8_lossy(&reply[..reply.len().min(100)]);
    read.unwrap_or_else(|| panic!("{form:?}: {operation:?} was replied {shown:?}"))
}

/// The meaning of a line that both text and meta commands have.
fn line(operation: &Operation, line: &[u8]) -> Option<Meaning> {
    Some(match (operation, line) {
        (_, b"SERVER_ERROR object too large for cache\r\n") => Meaning::TooLarge,
        (
            Operation::Arith { .. },
            b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ) => Meaning::NotNumeric,
        _ => return None,
    })
}

fn text(operation: &Operation, reply: &[u8]) -> Option<(Meaning, Option<u64>)> {
    if let Some(meaning) = line(operation, reply) {
        return Some((meaning, None));
    }
    let meaning = match (operation, reply) {
        (Operation::Get { key, .. } | Operation::GetAndTouch { key, .. }, reply) => {
            if reply == b"END\r\n" {
                return Some((Meaning::Missed, None));
            }
            let head = [b"VALUE ", *key, b" "].concat();
            let rest = reply
                .strip_prefix(&head[..])?
                .strip_suffix(b"\r\nEND\r\n")?;
            let (numbers, value) = split_line(rest)?;
            let mut numbers = numbers.split(' ');
            let flags = numbers.next()?.parse().ok()?;
            let len: usize = numbers.next()?.parse().ok()?;
            let cas = numbers.next().map(|cas| cas.parse().unwrap());
            if len != value.len() {
                return None;
            }
            let value = value.to_vec();
            return Some((Meaning::Found { flags, value }, cas));
        }
        (Operation::Touch { .. }, b"TOUCHED\r\n") => Meaning::Touched,
        (Operation::Store { .. }, b"STORED\r\n") => Meaning::Stored,
        (Operation::Store { .. }, b"NOT_STORED\r\n") => Meaning::NotStored,
        (Operation::Store { .. }, b"EXISTS\r\n") => Meaning::Exists,
        (Operation::Delete { .. }, b"DELETED\r\n") => Meaning::Deleted,
        (Operation::Flush { .. }, b"OK\r\n") => Meaning::Flushed,
        (Operation::Arith { .. }, reply) if reply.first()?.is_ascii_digit() => {
            Meaning::Number(split_line(reply)?.0.parse().ok()?)
        }
        (_, b"NOT_FOUND\r\n") => Meaning::Missed,
        _ => return None,
    };
    Some((meaning, None))
}

fn meta(operation: &Operation, reply: &[u8]) -> Option<(Meaning, Option<u64>)> {
    if let Some(meaning) = line(operation, reply) {
        return Some((meaning, None));
    }
    let (head, rest) = split_line(reply)?;
    let mut words = head.split(' ');
    let status = words.next()?;
    if status != "VA" && !rest.is_empty() {
        return None;
    }
    let meaning = match (operation, status) {
        (_, "VA") => {
            let len: usize = words.next()?.parse().ok()?;
            let value = rest.strip_suffix(b"\r\n")?;
            if value.len() != len {
                return None;
            }
            if matches!(operation, Operation::Arith { .. }) {
                let number = str::from_utf8(value).ok()?.parse().ok()?;
                return Some((Meaning::Number(number), None));
            }
            let mut flag = |letter| words.next()?.strip_prefix(letter)?.parse::<u64>().ok();
            let flags = u32::try_from(flag('f')?).ok()?;
            let cas = flag('c');
            let value = value.to_vec();
            return Some((Meaning::Found { flags, value }, cas));
        }
        (Operation::Touch { .. }, "HD") => Meaning::Touched,
        (Operation::Store { .. }, "HD") => Meaning::Stored,
        (Operation::Store { .. }, "NS") => Meaning::NotStored,
        (Operation::Delete { .. }, "HD") => Meaning::Deleted,
        (_, "EX") => Meaning::Exists,
        (_, "EN" | "NF") => Meaning::Missed,
        _ => return None,
    };
    Some((meaning, None))
}

fn binary(operation: &Operation, reply: &[u8]) -> Option<(Meaning, Option<u64>)> {
    let (reply, len) = Reply::read(reply)
        .ok()?
        .filter(|(_, len)| *len == reply.len())?;
    debug_assert_eq!(len, reply.header.value_at() + reply.value.len());
    assert_eq!(reply.header.head.opaque, 0x0102_0304);
    let cas = Some(reply.header.cas).filter(|&cas| cas != 0);
    let meaning = match (operation, reply.header.status) {
        (Operation::Get { .. } | Operation::GetAndTouch { .. }, 0) => Meaning::Found {
            flags: u32::from_be_bytes(reply.extras.try_into().ok()?),
            value: reply.value.to_vec(),
        },
        (Operation::Touch { .. }, 0) => Meaning::Touched,
        (Operation::Store { .. }, 0) => Meaning::Stored,
        (
            Operation::Store {
                mode: SetMode::Add, ..
            },
            2,
        )
        | (
            Operation::Store {
                mode: SetMode::Replace,
                ..
            },
            1,
        )
        | (Operation::Store { .. }, 5) => Meaning::NotStored,
        (Operation::Delete { .. }, 0) => Meaning::Deleted,
        (Operation::Flush { .. }, 0) => Meaning::Flushed,
        (Operation::Arith { .. }, 0) => {
            Meaning::Number(u64::from_be_bytes(reply.value.try_into().ok()?))
        }
        (Operation::Arith { .. }, 6) => Meaning::NotNumeric,
        (_, 1) => Meaning::Missed,
        (_, 2) => Meaning::Exists,
        (Operation::Store { .. }, 3) => Meaning::TooLarge,
        _ => return None,
    };
    // An error shows no CAS, and a change shows the new one.
    let shows_cas = !matches!(
        operation,
        Operation::Delete { .. } | Operation::Flush { .. }
    );
    assert_eq!(cas.is_some(), reply.header.status == 0 && shows_cas);
    Some((meaning, cas))
}

/// The line at the front as text, and the bytes behind its end.
fn split_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 2..]))
}
