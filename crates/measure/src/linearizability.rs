//! Linearizability of a register: is there an order of all calls, each between its invocation and
//! its answer, in which every answer is right?
//!
//! ```text
//! calls ─▶ Register: which call wrote what each answer names ─▶ zones ─▶ search ─▶ Ok
//!              └─ unwritten value          two values in both orders ─┘        └─ no order
//!                                                        shrink ─▶ Rejection, a few calls
//! ```
//!
//! A store of independent keys is linearizable if each of its keys is (Herlihy & Wing,
//! "Linearizability: a correctness condition for concurrent objects", ACM TOPLAS 12(3) 1990), so a
//! history has one key.
//!
//! Every write stores a value of its own, so each read names the call that it has read from.
//! Without deletions and failed comparisons, this decides in n log n steps (`zones`; Gibbons &
//! Korach, "Testing shared memories", SIAM J. Comput. 26(4) 1997). Otherwise a search with memory
//! tries the orders (`search`; Wing & Gong 1993, Lowe 2017), within bounds. If it reaches them, the
//! history is not accepted.

use std::fmt;

use thiserror::Error;

use crate::limits::{LINEARIZABILITY_SHOWN_MAX, LINEARIZABILITY_STEPS_MAX};

mod register;
mod search;
mod shrink;
#[cfg(test)]
mod tests;
mod zones;

use register::Register;
use search::Found;

/// A call of a client, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The client, for messages only.
    pub client: u32,
    /// When the call was made. Any clock, common to all clients.
    pub invoked_ns: u64,
    /// When its answer arrived. None: there was none, so the call may have taken effect at any time
    /// since, or may do so later, or never.
    pub answered_ns: Option<u64>,
    /// What was called, and what was answered. Without an answer, only the arguments count.
    pub action: Action,
}

/// What a call does, and the answer.
///
/// Each value that a call stores is different from all others. A call that has certainly not taken
/// effect, such as one that was refused before it was sent, is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the value.
    Read {
        /// The value; none: there was no value.
        found: Option<u64>,
    },
    /// Store a value.
    Write {
        /// The value.
        value: u64,
    },
    /// Remove the value.
    Delete {
        /// Whether there was a value, if the answer says so.
        was_present: Option<bool>,
    },
    /// Store a value if there is an expected one.
    CompareSwap {
        /// The expected value; none: there is to be no value.
        expected: Option<u64>,
        /// The value to store.
        value: u64,
        /// Whether it was stored. False says that another value than the expected one was found.
        swapped: bool,
    },
}

/// Why a history is not accepted. Messages continue "failed to verify the history: ".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// Two calls store the same value, so reads cannot be attributed. A fault of the caller.
    #[error("two calls store the value {0}")]
    NotUnique(u64),
    /// The history is not linearizable.
    #[error("{fault}: {}", Listed(calls))]
    Wrong {
        /// What is wrong.
        fault: Fault,
        /// Calls that are enough to show it, by invocation: a few, but more if a comparison that
        /// failed or an absent value is among them, which all changes before may explain.
        calls: Vec<Call>,
    },
    /// The search reached its bound ([`LINEARIZABILITY_STEPS_MAX`]).
    #[error("its {0} calls are too concurrent to decide within the bounds")]
    Undecided(usize),
}

/// What is wrong with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// A value was read that no successful call has stored.
    #[error("a value was found that was never stored")]
    Unwritten,
    /// A value was read before the call that stores it.
    #[error("a value was found before it was stored")]
    Early,
    /// Several calls replaced one value, and all were told that it was still there.
    #[error("two comparisons have replaced one value")]
    TwoSuccessors,
    /// A value was found before and after another one.
    #[error("a value was found again after another one had replaced it")]
    Overwritten,
    /// No order of the calls explains the answers.
    #[error("no order explains the answers")]
    NoOrder,
}

/// Decides whether the calls of one key are linearizable, from an initial value.
///
/// Two calls are ordered if the answer of one is earlier than the invocation of the other; equal
/// times are concurrent.
///
/// # Errors
/// They are not, or the search for an order reached its bounds.
pub fn check_linearizable(initial: Option<u64>, calls: &[Call]) -> Result<(), Rejection> {
    let mut steps = LINEARIZABILITY_STEPS_MAX;
    match judge(initial, calls, &mut steps) {
        Err(Rejection::Wrong { fault, calls: few }) => {
            let calls = if fault == Fault::NoOrder {
                shrink::shrink(initial, calls)
            } else {
                few
            };
            Err(Rejection::Wrong { fault, calls })
        }
        verdict => verdict,
    }
}

/// The same without shortening the calls of a rejection by search.
fn judge(initial: Option<u64>, calls: &[Call], steps: &mut usize) -> Result<(), Rejection> {
    let register = Register::new(initial, calls)?;
    zones::check(&register)?;
    if !register.needs_search {
        return Ok(());
    }
    match search::search(&register, steps) {
        Found::Order(_) => Ok(()),
        Found::None => Err(register.rejection(Fault::NoOrder, 0..register.ops.len())),
        Found::Undecided => Err(Rejection::Undecided(calls.len())),
    }
}

/// Calls in a message: the last ones, if they are many.
struct Listed<'a>(&'a [Call]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.0.len().saturating_sub(LINEARIZABILITY_SHOWN_MAX);
        if hidden > 0 {
            write!(out, "after {hidden} calls, ")?;
        }
        for (index, call) in self.0[hidden..].iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(out, "{separator}{call}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "client {} from {} ", self.client, self.invoked_ns)?;
        match self.answered_ns {
            Some(answered_ns) => write!(out, "to {answered_ns} ns {}", self.action),
            None => write!(out, "ns without an answer {}", self.action),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: Option<u64>| value.map_or("nothing".to_owned(), |it| it.to_string());
        match *self {
            Self::Read { found } => write!(out, "reads {}", text(found)),
            Self::Write { value } => write!(out, "writes {value}"),
            Self::Delete { was_present: None } => write!(out, "deletes"),
            Self::Delete {
                was_present: Some(true),
            } => write!(out, "deletes a value"),
            Self::Delete { .. } => write!(out, "finds nothing to delete"),
            Self::CompareSwap {
                expected,
                value,
                swapped,
            } => {
                let verb = if swapped { "swaps" } else { "does not swap" };
                write!(out, "{verb} {} for {value}", text(expected))
            }
        }
    }
}
