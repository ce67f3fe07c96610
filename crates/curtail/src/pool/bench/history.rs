//! What a client has called and what was answered, to be judged at the end.
//!
//! Each value begins with a number that no other write of the run has. The calls that store the
//! keys before the measurement belong to the history: nothing before them is read.

use std::collections::{BTreeMap, HashMap};

use ::pool::{Completion, OperationError, Outcome};
use anyhow::{Context, bail};
use measure::{Action, Call, check_linearizable};

/// Shortest values that have space for the number.
pub(super) const VALUE_LEN_MIN: u64 = 8;
/// Most calls of all clients of a run: 100 MB.
const CALLS_MAX: usize = 1 << 20;
/// What a value that is too short for a number counts as. No call stores it.
const NO_NUMBER: u64 = u64::MAX;

/// The calls of a client.
pub(super) struct History {
    client: u32,
    calls_max: usize,
    /// Writes so far.
    writes: u64,
    /// Calls without an answer, by their number, with the record.
    open: HashMap<u64, (u64, Call)>,
    calls: Vec<(u64, Call)>,
}

impl History {
    /// Of a client, one of `threads` clients of the run.
    pub(super) fn new(client: u8, threads: u8) -> Self {
        Self {
            client: client.into(),
            calls_max: CALLS_MAX / usize::from(threads.max(1)),
            writes: 0,
            open: HashMap::new(),
            calls: Vec::new(),
        }
    }

    /// A call is about to be made. If it is a write, its number is put into `value`.
    pub(super) fn invoke(
        &mut self,
        now_ns: u64,
        id: u64,
        record: u64,
        is_write: bool,
        value: &mut [u8],
    ) {
        let action = if is_write {
            self.writes += 1;
            let number = u64::from(self.client) << 40 | self.writes;
            if let Some(start) = value.first_chunk_mut() {
                *start = number.to_le_bytes();
            }
            Action::Write { value: number }
        } else {
            Action::Read { found: None }
        };
        let call = Call {
            client: self.client,
            invoked_ns: now_ns,
            answered_ns: None,
            action,
        };
        self.open.insert(id, (record, call));
    }

    /// A call is complete.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn answer(&mut self, now_ns: u64, completion: &Completion) -> anyhow::Result<()> {
        let Some((record, mut call)) = self.open.remove(&completion.id) else {
            return Ok(());
        };
        let is_read = matches!(call.action, Action::Read { .. });
        match &completion.result {
            Ok(outcome) => {
                call.answered_ns = Some(now_ns);
                if is_read {
                    call.action = Action::Read {
                        found: found(outcome),
                    };
                }
            }
            // The write may have taken effect, or may do so later.
            Err(OperationError::Unknown) if !is_read => {}
            // It had no effect, and a read without an answer says nothing.
            Err(_) => return Ok(()),
        }
        if self.calls.len() == self.calls_max {
            bail!(
                "more than {CALLS_MAX} calls are too many to check (choose a shorter --duration)"
            );
        }
        self.calls.push((record, call));
        Ok(())
    }
}

/// The number in the value that was found.
fn found(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Found(item) => {
            let number = item.content.value.first_chunk();
            Some(number.map_or(NO_NUMBER, |bytes| u64::from_le_bytes(*bytes)))
        }
        _ => None,
    }
}

/// Judges the calls of all clients, key by key. Returns their number.
///
/// # Errors
/// No order of the calls of a key explains their answers, or it cannot be decided.
pub(super) fn judge(histories: &[History]) -> anyhow::Result<usize> {
    let mut keys: BTreeMap<u64, Vec<Call>> = BTreeMap::new();
    for history in histories {
        for (record, call) in history.calls.iter().chain(history.open.values()) {
            keys.entry(*record).or_default().push(*call);
        }
    }
    for (record, calls) in &keys {
        check_linearizable(None, calls)
            .with_context(|| format!("verify the history of key {record}"))?;
    }
    Ok(keys.values().map(Vec::len).sum())
}

#[cfg(test)]
mod tests {
    use ::pool::{Item, NewItem};

    use super::*;

    fn completed(id: u64, found: Option<&[u8]>) -> Completion {
        let item = |value: &[u8]| Item {
            content: NewItem {
                value: value.to_vec(),
                ..NewItem::default()
            },
            unique: 0,
        };
        let result = match found {
            Some(value) => Ok(Outcome::Found(item(value))),
            None => Ok(Outcome::Stored(item(b""))),
        };
        Completion { id, result }
    }

    /// Writes twice, then reads the value of the write with this number from 1.
    fn history_that_finds(write: u64) -> History {
        let mut history = History::new(3, 1);
        let mut values = vec![vec![0; 16]; 2];
        for (id, value) in values.iter_mut().enumerate() {
            let id = id as u64;
            history.invoke(id * 10, id, 5, true, value);
            history.answer(id * 10 + 5, &completed(id, None)).unwrap();
        }
        history.invoke(20, 2, 5, false, &mut []);
        let value = values[write as usize - 1].as_slice();
        history.answer(25, &completed(2, Some(value))).unwrap();
        history
    }

    #[test]
    fn a_value_that_was_overwritten_is_rejected_if_it_is_found() {
        assert_eq!(judge(&[history_that_finds(2)]).unwrap(), 3);
        let error = judge(&[history_that_finds(1)]).unwrap_err();
        assert!(format!("{error:#}").contains("key 5"), "{error:#}");
    }

    #[test]
    fn a_write_without_an_answer_may_be_found_or_not_and_a_read_without_says_nothing() {
        let mut history = history_that_finds(2);
        let mut value = [0; 8];
        history.invoke(30, 3, 5, true, &mut value);
        let unknown = |id| Completion {
            id,
            result: Err(OperationError::Unknown),
        };
        history.answer(35, &unknown(3)).unwrap();
        history.invoke(36, 4, 5, false, &mut []);
        history.answer(39, &unknown(4)).unwrap();
        assert_eq!(judge(std::slice::from_ref(&history)).unwrap(), 4);
        history.invoke(40, 5, 5, false, &mut []);
        history.answer(45, &completed(5, Some(&value))).unwrap();
        assert_eq!(judge(&[history]).unwrap(), 5);
    }

    #[test]
    fn a_value_without_a_number_was_never_stored() {
        let mut history = history_that_finds(2);
        history.invoke(30, 3, 5, false, &mut []);
        history.answer(35, &completed(3, Some(b"short"))).unwrap();
        assert!(judge(&[history]).is_err());
    }
}
