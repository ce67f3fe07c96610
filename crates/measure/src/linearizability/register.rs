//! The calls of a history, attributed: which call stored the value that an answer names.

use std::collections::{HashMap, HashSet};

use super::{Action, Call, Fault, Rejection};

/// The end of a call without an answer.
pub(super) const PENDING: i128 = i128::MAX;

/// A call with the times that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) action: Action,
    pub(super) start: i128,
    pub(super) end: i128,
    /// Whether it has certainly taken effect: it was answered, or its value was found.
    pub(super) is_certain: bool,
    /// Whether it changes the value, if it takes effect.
    pub(super) is_mutator: bool,
    /// Its index in the caller's list.
    call: usize,
}

/// A value, and the calls that tell of it.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// The call that stored it; none: it was there initially.
    pub(super) writer: Option<usize>,
    pub(super) readers: Vec<usize>,
    /// The value that a comparison has replaced it by.
    pub(super) successor: Option<usize>,
    /// Whether any answer depends on it: it was found, or compared with.
    pub(super) is_named: bool,
    /// Whether it has replaced a value by comparison.
    pub(super) has_predecessor: bool,
}

/// A history of one key.
pub(super) struct Register<'a> {
    calls: &'a [Call],
    pub(super) initial: Option<u64>,
    /// By invocation.
    pub(super) ops: Vec<Op>,
    /// Values, and the absence of one if nothing deletes: then it has one beginning too.
    pub(super) clusters: Vec<Cluster>,
    /// The cluster of the initial state, if it has one.
    pub(super) initial_cluster: Option<usize>,
    by_value: HashMap<u64, usize>,
    has_deletes: bool,
    /// Whether the order of zones is not enough to decide.
    pub(super) needs_search: bool,
}

impl<'a> Register<'a> {
    /// Attributes the calls.
    ///
    /// # Errors
    /// Two calls store one value, or an answer names a value that none has stored, or two answers
    /// name successors of one value.
    pub(super) fn new(initial: Option<u64>, calls: &'a [Call]) -> Result<Self, Rejection> {
        let mut ops: Vec<Op> = calls.iter().enumerate().filter_map(op).collect();
        ops.sort_by_key(|op| op.start);
        let has_deletes = ops
            .iter()
            .any(|op| matches!(op.action, Action::Delete { .. }));
        let has_failures = ops.iter().any(is_failed_swap);
        let mut register = Self {
            calls,
            initial,
            ops,
            clusters: Vec::new(),
            initial_cluster: None,
            by_value: HashMap::new(),
            has_deletes,
            needs_search: has_deletes || has_failures,
        };
        register.add_values()?;
        register.attribute()?;
        Ok(register)
    }

    /// The cluster of a state; none: absence, which has several beginnings.
    pub(super) fn cluster_of(&self, state: Option<u64>) -> Option<usize> {
        match state {
            Some(value) => self.by_value.get(&value).copied(),
            None => self.initial_cluster.filter(|_| self.initial.is_none()),
        }
    }

    /// A rejection with the calls of some operations.
    pub(super) fn rejection(
        &self,
        fault: Fault,
        ops: impl IntoIterator<Item = usize>,
    ) -> Rejection {
        let mut indices: Vec<usize> = ops.into_iter().collect();
        indices.sort_unstable();
        indices.dedup();
        let calls = indices
            .iter()
            .map(|&index| self.calls[self.ops[index].call])
            .collect();
        Rejection::Wrong { fault, calls }
    }

    fn add_values(&mut self) -> Result<(), Rejection> {
        if self.initial.is_some() || !self.has_deletes {
            self.clusters.push(Cluster::default());
            self.initial_cluster = Some(0);
        }
        if let Some(value) = self.initial {
            self.by_value.insert(value, 0);
        }
        let mut failed = HashSet::new();
        for (index, op) in self.ops.iter().enumerate() {
            let Some(value) = stored(&op.action) else {
                continue;
            };
            let is_known = if is_failed_swap(op) {
                self.by_value.contains_key(&value) || !failed.insert(value)
            } else {
                let cluster = self.clusters.len();
                self.clusters.push(Cluster {
                    writer: Some(index),
                    ..Cluster::default()
                });
                failed.contains(&value) || self.by_value.insert(value, cluster).is_some()
            };
            if is_known {
                return Err(Rejection::NotUnique(value));
            }
        }
        Ok(())
    }

    /// Gives each answer to the cluster that it names. A call without an answer has taken effect if
    /// another found its value, which may make the same of the call before it.
    fn attribute(&mut self) -> Result<(), Rejection> {
        for index in 0..self.ops.len() {
            if let Some(cluster) = self.named(index) {
                self.clusters[cluster].is_named = true;
            }
        }
        let mut certain: Vec<usize> = (0..self.ops.len())
            .filter(|&index| self.ops[index].is_certain)
            .collect();
        while let Some(index) = certain.pop() {
            let (named, value) = match self.ops[index].action {
                Action::Read { found } => (found, None),
                Action::CompareSwap {
                    expected, value, ..
                } if self.ops[index].is_mutator => (expected, Some(value)),
                _ => continue,
            };
            let Some(cluster) = self.cluster_of(named) else {
                if named.is_none() && self.has_deletes {
                    continue;
                }
                return Err(self.unwritten(index, named));
            };
            match value.and_then(|value| self.by_value.get(&value).copied()) {
                None => self.clusters[cluster].readers.push(index),
                Some(next) => {
                    if let Some(other) = self.clusters[cluster].successor.replace(next) {
                        let other = self.clusters[other].writer.unwrap_or(index);
                        return Err(self.rejection(Fault::TwoSuccessors, [index, other]));
                    }
                    self.clusters[next].has_predecessor = true;
                }
            }
            if let Some(writer) = self.clusters[cluster].writer
                && !self.ops[writer].is_certain
            {
                self.ops[writer].is_certain = true;
                certain.push(writer);
            }
        }
        Ok(())
    }

    /// The cluster of the value that an answer depends on.
    fn named(&self, index: usize) -> Option<usize> {
        match self.ops[index].action {
            Action::Read { found } => self.cluster_of(found),
            Action::CompareSwap { expected, .. } => self.cluster_of(expected),
            Action::Write { .. } | Action::Delete { .. } => None,
        }
    }

    /// The rejection of a call that found what none has stored, with the call that failed to.
    fn unwritten(&self, index: usize, value: Option<u64>) -> Rejection {
        let failed = self
            .ops
            .iter()
            .position(|op| value.is_some() && is_failed_swap(op) && stored(&op.action) == value);
        self.rejection(Fault::Unwritten, [index].into_iter().chain(failed))
    }
}

/// The operation of a call; none if it tells nothing.
fn op((index, call): (usize, &Call)) -> Option<Op> {
    let is_answered = call.answered_ns.is_some();
    let is_mutator = match call.action {
        Action::Read { .. } => false,
        Action::Write { .. } => true,
        Action::Delete { was_present } => !is_answered || was_present != Some(false),
        Action::CompareSwap { swapped, .. } => !is_answered || swapped,
    };
    let start = i128::from(call.invoked_ns);
    (is_answered || is_mutator).then_some(Op {
        action: call.action,
        start,
        end: call
            .answered_ns
            .map_or(PENDING, |end| i128::from(end).max(start)),
        is_certain: is_answered,
        is_mutator,
        call: index,
    })
}

/// The value that a call stores if it succeeds.
pub(super) fn stored(action: &Action) -> Option<u64> {
    match *action {
        Action::Write { value } | Action::CompareSwap { value, .. } => Some(value),
        Action::Read { .. } | Action::Delete { .. } => None,
    }
}

pub(super) fn is_failed_swap(op: &Op) -> bool {
    matches!(op.action, Action::CompareSwap { .. }) && !op.is_mutator
}
