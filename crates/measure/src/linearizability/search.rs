//! The search for an order of the calls.
//!
//! A step puts one call next: one that began before every remaining call ended. A call that changes
//! nothing and has the right answer is put at once, as it could not stand better later. So only
//! calls that change the value branch. A value is left only when all calls that found it have been
//! put, and if a comparison has replaced it, only by this one.
//!
//! What was tried is remembered as the set of calls that were put and the value: 128 bits, the
//! exclusive or of a random number for each call. Two of n sets collide with a probability below
//! n² ÷ 2¹²⁸.

use std::collections::HashSet;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::Action;
use super::register::{Op, Register, is_failed_swap};
use crate::limits::LINEARIZABILITY_STATES_MAX;

/// A call that was put, and the others that could have been.
struct Branch {
    /// The calls that may come next, best last.
    choices: Vec<usize>,
    /// The length of the order before.
    len: usize,
    state: Option<u64>,
}

struct Search<'a> {
    register: &'a Register<'a>,
    /// The next and the previous remaining call, by invocation, in a ring; the last entry is its
    /// head.
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Calls in the order in which they were put.
    order: Vec<usize>,
    state: Option<u64>,
    /// For each value, the calls that found it and remain.
    readers: Vec<usize>,
    /// Answered calls that remain.
    remaining: usize,
    names: Vec<u128>,
    /// The name of the set of calls that were put.
    name: u128,
    tried: HashSet<u128>,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An order of all answered calls, and of those without an answer that have taken effect.
    Order(Vec<usize>),
    /// There is no order.
    None,
    /// The bounds did not suffice.
    Undecided,
}

/// Searches for an order. Counts `steps` down.
pub(super) fn search(register: &Register<'_>, steps: &mut usize) -> Found {
    let mut search = Search::new(register);
    let mut branches: Vec<Branch> = Vec::new();
    loop {
        if !search.put_observers(steps) {
            return Found::Undecided;
        }
        if search.remaining == 0 {
            return Found::Order(search.order);
        }
        if search.tried.len() == LINEARIZABILITY_STATES_MAX {
            return Found::Undecided;
        }
        let is_new = search.tried.insert(search.fingerprint());
        let choices = if is_new {
            search.choices(steps)
        } else {
            Some(Vec::new())
        };
        let Some(choices) = choices else {
            return Found::Undecided;
        };
        branches.push(Branch {
            choices,
            len: search.order.len(),
            state: search.state,
        });
        // Back to the last branch with a choice, and one step on.
        let op = loop {
            let Some(branch) = branches.last_mut() else {
                return Found::None;
            };
            let (len, state) = (branch.len, branch.state);
            let choice = branch.choices.pop();
            search.take_back(len, state);
            match choice {
                Some(op) => break op,
                None => branches.pop(),
            };
        };
        search.put(op);
    }
}

impl<'a> Search<'a> {
    fn new(register: &'a Register<'a>) -> Self {
        let count = register.ops.len();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(count as u64);
        let mut name = || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        Self {
            register,
            next: (0..=count).map(|index| (index + 1) % (count + 1)).collect(),
            previous: (0..=count)
                .map(|index| (index + count) % (count + 1))
                .collect(),
            order: Vec::new(),
            state: register.initial,
            readers: register
                .clusters
                .iter()
                .map(|it| it.readers.len())
                .collect(),
            remaining: register.ops.iter().filter(|op| op.is_certain).count(),
            names: (0..count + 2 + register.clusters.len())
                .map(|_| name())
                .collect(),
            name: 0,
            tried: HashSet::new(),
        }
    }

    /// Remaining calls that may come next: none has ended before they began.
    fn candidates(&self) -> impl Iterator<Item = usize> + '_ {
        let head = self.register.ops.len();
        let mut at = self.next[head];
        let mut first_end = i128::MAX;
        std::iter::from_fn(move || {
            let op = self.register.ops.get(at)?;
            if op.start > first_end {
                return None;
            }
            first_end = first_end.min(op.end);
            let found = at;
            at = self.next[at];
            Some(found)
        })
    }

    /// Puts all calls that change nothing and have the right answer; false at the bound.
    fn put_observers(&mut self, steps: &mut usize) -> bool {
        loop {
            let mut seen = 0;
            let right = self.candidates().find(|&index| {
                seen += 1;
                let op = &self.register.ops[index];
                !op.is_mutator && self.is_right(op)
            });
            let Some(left) = steps.checked_sub(seen) else {
                return false;
            };
            *steps = left;
            match right {
                Some(op) => self.put(op),
                None => return true,
            }
        }
    }

    /// The calls that may change the value now, the most promising last; none at the bound.
    fn choices(&self, steps: &mut usize) -> Option<Vec<usize>> {
        let cluster = self.register.cluster_of(self.state);
        if cluster.is_some_and(|cluster| self.readers[cluster] > 0) {
            return Some(Vec::new());
        }
        let successor = cluster.and_then(|cluster| self.register.clusters[cluster].successor);
        let by = successor.and_then(|next| self.register.clusters[next].writer);
        let candidates: Vec<usize> = self.candidates().collect();
        *steps = steps.checked_sub(candidates.len())?;
        let mut choices: Vec<usize> = candidates
            .into_iter()
            .filter(|&index| by.is_none_or(|by| by == index))
            .filter(|&index| {
                let op = &self.register.ops[index];
                op.is_mutator && self.is_right(op)
            })
            .collect();
        // Calls that may not have happened come last, then those that end later.
        let promise = |&index: &usize| {
            let op = &self.register.ops[index];
            (!op.is_certain, self.over_at(index))
        };
        choices.sort_by_key(|index| std::cmp::Reverse(promise(index)));
        Some(choices)
    }

    /// When the calls of the value that a call stores have begun, or the call has ended.
    fn over_at(&self, index: usize) -> i128 {
        let op = &self.register.ops[index];
        let cluster = super::register::stored(&op.action)
            .and_then(|value| self.register.cluster_of(Some(value)));
        let last = cluster.and_then(|cluster| {
            let readers = &self.register.clusters[cluster].readers;
            readers
                .iter()
                .map(|&reader| self.register.ops[reader].start)
                .max()
        });
        last.unwrap_or(op.start).max(op.start)
    }

    /// Whether the answer of a call is right if it comes next. Without an answer, a comparison is
    /// right where it succeeds; where it does not, it changes nothing and is left out.
    fn is_right(&self, op: &Op) -> bool {
        match op.action {
            Action::Read { found } => found == self.state,
            Action::Write { .. } => true,
            Action::Delete { was_present } => {
                let is_answered = op.end != super::register::PENDING;
                !is_answered || was_present.is_none_or(|was| was == self.state.is_some())
            }
            Action::CompareSwap { expected, .. } => (expected == self.state) != is_failed_swap(op),
        }
    }

    fn put(&mut self, index: usize) {
        let (next, previous) = (self.next[index], self.previous[index]);
        self.next[previous] = next;
        self.previous[next] = previous;
        self.order.push(index);
        self.name ^= self.names[index];
        let op = &self.register.ops[index];
        self.remaining -= usize::from(op.is_certain);
        match op.action {
            Action::Read { found } => {
                if let Some(cluster) = self.register.cluster_of(found) {
                    self.readers[cluster] -= 1;
                }
            }
            Action::Delete { .. } => self.state = None,
            Action::Write { value } => self.state = Some(value),
            Action::CompareSwap { value, .. } if op.is_mutator => self.state = Some(value),
            Action::CompareSwap { .. } => {}
        }
    }

    /// Takes back all but the first `len` calls.
    fn take_back(&mut self, len: usize, state: Option<u64>) {
        for index in self.order.drain(len..).rev() {
            let (next, previous) = (self.next[index], self.previous[index]);
            self.next[previous] = index;
            self.previous[next] = index;
            self.name ^= self.names[index];
            let op = &self.register.ops[index];
            self.remaining += usize::from(op.is_certain);
            if let Action::Read { found } = op.action
                && let Some(cluster) = self.register.cluster_of(found)
            {
                self.readers[cluster] += 1;
            }
        }
        self.state = state;
    }

    /// The set of calls that were put, and the value. All values on which no answer depends are
    /// one: what comes next does not tell them apart.
    fn fingerprint(&self) -> u128 {
        let first = self.register.ops.len();
        let state = match self.register.cluster_of(self.state) {
            None => first,
            Some(cluster) if self.register.clusters[cluster].is_named => first + 2 + cluster,
            Some(_) => first + 1,
        };
        self.name ^ self.names[state]
    }
}
