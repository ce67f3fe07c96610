//! What the clients have called, by key.

use std::collections::BTreeMap;

use measure::{Action, Call, Histogram, Rejection, check_linearizable};

/// The histories of all keys.
#[derive(Debug, Clone, Default)]
pub struct Histories {
    keys: Vec<Vec<Call>>,
    /// Calls without an answer yet, by client and number.
    open: BTreeMap<(u32, u64), (usize, Call)>,
}

/// A history that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The key.
    pub key: usize,
    /// Why.
    pub rejection: Rejection,
}

impl Histories {
    pub(crate) fn new(keys: u32) -> Self {
        Self {
            keys: vec![Vec::new(); keys as usize],
            open: BTreeMap::new(),
        }
    }

    /// Number of calls that are in the histories.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.keys.iter().map(Vec::len).sum::<usize>() + self.open.len()
    }

    /// A client makes a call, whose answer in `action` does not count yet.
    pub(crate) fn invoke(&mut self, client: u32, id: u64, key: usize, now_ns: u64, action: Action) {
        let call = Call {
            client,
            invoked_ns: now_ns,
            answered_ns: None,
            action,
        };
        self.open.insert((client, id), (key, call));
    }

    /// The call as it was made, before its answer.
    pub(crate) fn called(&self, client: u32, id: u64) -> Option<Action> {
        self.open.get(&(client, id)).map(|(_, call)| call.action)
    }

    /// A call is answered; none: it certainly had no effect, and tells nothing.
    pub(crate) fn answer(&mut self, client: u32, id: u64, now_ns: u64, action: Option<Action>) {
        if let Some((key, call)) = self.open.remove(&(client, id))
            && let Some(action) = action
        {
            self.keys[key].push(Call {
                answered_ns: Some(now_ns),
                action,
                ..call
            });
        }
    }

    /// A call will never be answered.
    pub(crate) fn lose(&mut self, client: u32, id: u64) {
        if let Some((key, call)) = self.open.remove(&(client, id)) {
            self.keys[key].push(call);
        }
    }

    /// None of a client's calls will be answered.
    pub(crate) fn abandon(&mut self, client: u32) {
        let ids: Vec<u64> = self
            .open
            .keys()
            .filter(|key| key.0 == client)
            .map(|key| key.1)
            .collect();
        for id in ids {
            self.lose(client, id);
        }
    }

    /// The times from invocation to answer of all answered calls that were made from a time on:
    /// those of reads, and those of others.
    #[must_use]
    pub fn latencies(&self, from_ns: u64) -> [Histogram; 2] {
        let [mut reads, mut others] = [Histogram::new(), Histogram::new()];
        for call in self.keys.iter().flatten() {
            let Some(answered_ns) = call.answered_ns.filter(|_| call.invoked_ns >= from_ns) else {
                continue;
            };
            let is_read = matches!(call.action, Action::Read { .. });
            let of = if is_read { &mut reads } else { &mut others };
            of.record(answered_ns - call.invoked_ns);
        }
        [reads, others]
    }

    /// Judges all keys. Calls that are still open have no answer.
    ///
    /// # Errors
    /// The first history that is not accepted.
    pub fn judge(&self) -> Result<(), Verdict> {
        self.rejections().next().map_or(Ok(()), Err)
    }

    /// Number of keys whose history is wrong, and of those that cannot be decided.
    #[must_use]
    pub fn count_rejections(&self) -> (usize, usize) {
        self.rejections()
            .fold((0, 0), |(wrong, undecided), found| match found.rejection {
                Rejection::Undecided(_) => (wrong, undecided + 1),
                _ => (wrong + 1, undecided),
            })
    }

    /// The histories that are not accepted.
    fn rejections(&self) -> impl Iterator<Item = Verdict> {
        self.keys.iter().enumerate().filter_map(|(key, calls)| {
            let mut calls = calls.clone();
            let open = self.open.values().filter(|(of, _)| *of == key);
            calls.extend(open.map(|(_, call)| *call));
            let rejection = check_linearizable(None, &calls).err()?;
            Some(Verdict { key, rejection })
        })
    }
}
