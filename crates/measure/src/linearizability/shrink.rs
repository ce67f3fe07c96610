//! A short history with the same fault.
//!
//! Every part of a linearizable history that leaves out later calls, calls that change nothing, or
//! a value with all that tells of it, is linearizable. So what is still rejected without them shows
//! the fault as well; so does what is rejected with answers that say less. First the history is cut
//! after the earliest answer that is wrong; then answers are weakened and calls left out, many at a
//! time and then fewer, within a bound on the work.

use std::collections::HashSet;
use std::ops::Range;

use super::register::stored;
use super::{Action, Call, Rejection, judge};
use crate::limits::{LINEARIZABILITY_SHRINK_STEPS_MAX, LINEARIZABILITY_STEPS_MAX};

pub(super) fn shrink(initial: Option<u64>, calls: &[Call]) -> Vec<Call> {
    let mut budget = LINEARIZABILITY_SHRINK_STEPS_MAX;
    let mut is_wrong = |calls: &[Call]| {
        let Some(left) = budget.checked_sub(calls.len()) else {
            return false;
        };
        let mut steps = left.min(LINEARIZABILITY_STEPS_MAX);
        let spent_of = steps;
        let verdict = judge(initial, calls, &mut steps);
        budget = left - (spent_of - steps);
        matches!(verdict, Err(Rejection::Wrong { .. }))
    };
    let mut calls = cut(calls, &mut is_wrong);
    let mut size = calls.len();
    while size > 0 {
        let mut start = 0;
        while start < calls.len() {
            let end = (start + size).min(calls.len());
            let weaker = weakened(&calls, start..end);
            if weaker != calls && is_wrong(&weaker) {
                calls = weaker;
            }
            let fewer = without(&calls, start..end);
            if fewer.len() < calls.len() && is_safe(&calls, &fewer) && is_wrong(&fewer) {
                calls = fewer;
            } else {
                start = end;
            }
        }
        size /= 2;
    }
    calls.sort_by_key(|call| call.invoked_ns);
    calls
}

/// The history up to the earliest answer at which it is wrong.
fn cut(calls: &[Call], is_wrong: &mut impl FnMut(&[Call]) -> bool) -> Vec<Call> {
    let until = |end_ns: u64| -> Vec<Call> {
        let begun = calls.iter().filter(|call| call.invoked_ns <= end_ns);
        begun
            .map(|call| Call {
                answered_ns: call
                    .answered_ns
                    .filter(|&answered_ns| answered_ns <= end_ns),
                ..*call
            })
            .collect()
    };
    let mut ends: Vec<u64> = calls.iter().filter_map(|call| call.answered_ns).collect();
    ends.sort_unstable();
    let (mut right, mut wrong) = (0, ends.len());
    while right < wrong {
        let middle = usize::midpoint(right, wrong);
        if ends
            .get(middle)
            .is_some_and(|&end_ns| is_wrong(&until(end_ns)))
        {
            wrong = middle;
        } else {
            right = middle + 1;
        }
    }
    ends.get(wrong)
        .map_or_else(|| calls.to_vec(), |&end_ns| until(end_ns))
}

/// The calls with answers that say less, in a range: a deletion does not say what it found, and a
/// comparison with nothing is a write.
fn weakened(calls: &[Call], range: Range<usize>) -> Vec<Call> {
    let mut calls = calls.to_vec();
    for call in &mut calls[range] {
        call.action = match call.action {
            Action::Delete {
                was_present: Some(true),
            } => Action::Delete { was_present: None },
            Action::CompareSwap {
                expected: None,
                value,
                swapped: true,
            } => Action::Write { value },
            other => other,
        };
    }
    calls
}

/// The calls without those of a range, and without those that name what they would have stored.
fn without(calls: &[Call], range: Range<usize>) -> Vec<Call> {
    let mut removed: HashSet<u64> = calls[range.clone()]
        .iter()
        .filter_map(|call| stored(&call.action))
        .collect();
    let mut kept: Vec<bool> = (0..calls.len())
        .map(|index| !range.contains(&index))
        .collect();
    // A comparison that goes takes those along that have found its value.
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for (call, kept) in calls.iter().zip(&mut kept).filter(|(_, kept)| **kept) {
            if named(&call.action).is_some_and(|value| removed.contains(&value)) {
                *kept = false;
                removed.extend(stored(&call.action));
                has_changed = true;
            }
        }
    }
    let kept = calls.iter().zip(kept).filter(|(_, kept)| *kept);
    kept.map(|(call, _)| *call).collect()
}

/// Whether a linearizable history stays so without the calls that are missing in `fewer`.
fn is_safe(calls: &[Call], fewer: &[Call]) -> bool {
    let is_change = |call: &&Call| !matches!(call.action, Action::Read { .. }) && !is_refusal(call);
    let is_delete = |call: &&Call| matches!(call.action, Action::Delete { .. });
    let lost = |of: &dyn Fn(&&Call) -> bool| {
        calls.iter().filter(of).count() > fewer.iter().filter(of).count()
    };
    let (has_lost_change, has_lost_delete) = (lost(&is_change), lost(&is_delete));
    fewer.iter().all(|call| match call.action {
        Action::CompareSwap { swapped: false, .. } => !has_lost_change,
        Action::CompareSwap { expected: None, .. } | Action::Read { found: None } => {
            !has_lost_delete
        }
        Action::Delete { was_present } => was_present.is_none() || !has_lost_change,
        _ => true,
    })
}

/// Whether a call was answered that it changed nothing.
fn is_refusal(call: &Call) -> bool {
    let is_refused = matches!(
        call.action,
        Action::CompareSwap { swapped: false, .. }
            | Action::Delete {
                was_present: Some(false)
            }
    );
    is_refused && call.answered_ns.is_some()
}

/// The value that an answer says was found.
fn named(action: &Action) -> Option<u64> {
    match *action {
        Action::Read { found } => found,
        Action::CompareSwap { expected, .. } => expected,
        Action::Write { .. } | Action::Delete { .. } => None,
    }
}
