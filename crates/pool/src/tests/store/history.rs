//! What happened to each key, and whether it can have been.
//!
//! Every write stores another value. Then a history of a key is possible only if each value that
//! was read had been written, and no later write was complete before the read began: the conditions
//! of a linearizable register that concern two operations (Gibbons and Korach, SIAM Journal on
//! Computing, 1997).

use std::collections::BTreeMap;

use crate::{Action, Change, Completion, NewItem, Operation, OperationError, Outcome};

/// An operation from its beginning to its end.
#[derive(Clone, Debug)]
struct Call {
    begin_ns: u64,
    /// Nothing while it is not complete, and if its effect is unknown.
    end_ns: Option<u64>,
    operation: Operation,
    result: Option<Result<Outcome, OperationError>>,
}

#[derive(Default)]
pub(crate) struct History {
    calls: BTreeMap<u64, Call>,
}

#[derive(Clone, Debug)]
struct Write {
    value: Option<Vec<u8>>,
    begin_ns: u64,
    end_ns: u64,
}

impl History {
    pub(crate) fn begin(&mut self, now_ns: u64, id: u64, operation: &Operation) {
        let call = Call {
            begin_ns: now_ns,
            end_ns: None,
            operation: operation.clone(),
            result: None,
        };
        assert!(self.calls.insert(id, call).is_none());
    }

    pub(crate) fn end(&mut self, now_ns: u64, completion: &Completion) {
        let call = self.calls.get_mut(&completion.id).expect("a known call");
        assert!(call.result.is_none(), "it completed twice");
        call.end_ns = Some(now_ns);
        call.result = Some(completion.result.clone());
    }

    pub(crate) fn results(&self) -> impl Iterator<Item = &Result<Outcome, OperationError>> {
        self.calls.values().filter_map(|call| call.result.as_ref())
    }

    /// Checks all keys.
    pub(crate) fn check(&self) {
        let mut keys: BTreeMap<&[u8], Vec<&Call>> = BTreeMap::new();
        for call in self.calls.values() {
            keys.entry(&call.operation.key).or_default().push(call);
        }
        for (key, calls) in keys {
            if let Some(problem) = problem(&calls) {
                panic!("key {}: {problem}", String::from_utf8_lossy(key));
            }
        }
    }
}

/// What a call has written, or may have.
fn write_of(call: &Call) -> Option<Write> {
    let value = match &call.operation.action {
        Action::Get => return None,
        Action::Set(item) | Action::Change(Change::Add(item) | Change::Replace(item)) => {
            Some(item.value.clone())
        }
        Action::Delete | Action::Change(Change::Remove) => None,
        Action::Change(_) => return None,
    };
    let end_ns = match &call.result {
        Some(Ok(Outcome::Stored(_))) => call.end_ns.expect("a time"),
        None | Some(Err(OperationError::Unknown)) => u64::MAX,
        Some(_) => return None,
    };
    Some(Write {
        value,
        begin_ns: call.begin_ns,
        end_ns,
    })
}

fn problem(calls: &[&Call]) -> Option<String> {
    let mut writes: Vec<Write> = calls.iter().filter_map(|call| write_of(call)).collect();
    writes.push(Write {
        value: None,
        begin_ns: 0,
        end_ns: 0,
    });
    let mut reads = Vec::new();
    for call in calls {
        let seen = match (&call.operation.action, &call.result) {
            (Action::Get, Some(Ok(Outcome::Found(item)))) => Some(item.content.value.clone()),
            (Action::Get, Some(Ok(Outcome::Missing))) => None,
            _ => continue,
        };
        let end_ns = call.end_ns.expect("a time");
        // Of deletions, only one has to be possible.
        let mut sources = writes.iter().filter(|write| write.value == seen);
        let is_possible = |source: &Write| {
            let is_overwritten = writes.iter().any(|other| {
                other.value != seen
                    && source.end_ns < other.begin_ns
                    && other.end_ns < call.begin_ns
            });
            source.begin_ns <= end_ns && !is_overwritten
        };
        if !sources.any(is_possible) {
            let value = seen.as_deref().map(String::from_utf8_lossy);
            let times = (call.begin_ns, end_ns);
            return Some(format!("{value:?} was read at {times:?} of {writes:?}"));
        }
        reads.push((call.begin_ns, end_ns, seen));
    }
    // No read sees an older value than one that was complete before it began.
    for (_, end_ns, first) in &reads {
        for (begin_ns, _, second) in &reads {
            let (Some(first), Some(second)) = (first, second) else {
                continue;
            };
            if end_ns < begin_ns && first != second {
                let of = |value| {
                    let is_it = |write: &&Write| write.value.as_ref() == Some(value);
                    writes.iter().find(is_it).expect("a write")
                };
                if of(second).end_ns < of(first).begin_ns {
                    return Some(format!("{second:?} was read after {first:?}"));
                }
            }
        }
    }
    None
}

pub(crate) fn get(key: &str) -> Operation {
    Operation {
        key: key.into(),
        action: Action::Get,
    }
}

pub(crate) fn item(value: &str) -> NewItem {
    NewItem {
        value: value.into(),
        client_flags: 0,
        expiry_s: 0,
    }
}

pub(crate) fn set(key: &str, value: &str) -> Operation {
    Operation {
        key: key.into(),
        action: Action::Set(item(value)),
    }
}

pub(crate) fn delete(key: &str) -> Operation {
    Operation {
        key: key.into(),
        action: Action::Delete,
    }
}

pub(crate) fn change(key: &str, change: Change) -> Operation {
    Operation {
        key: key.into(),
        action: Action::Change(change),
    }
}
