//! The order of values: one is over before the other, or the history is wrong.
//!
//! The calls that store or find a value stand together in any order, as each value is stored once.
//! So do values that comparisons have chained. A chain A is before a chain B if a call of A ended
//! before one of B began, that is if the first end in A is before the last start in B. If no two
//! chains are each before the other, all can be ordered: a longer cycle contains one of two.
//!
//! A chain whose first end is before its last start holds the register in between; such intervals
//! must not overlap. The other chains fit into any instant between their last start and first end,
//! if it is not within such an interval.

use super::register::{PENDING, Register};
use super::{Fault, Rejection};

/// The extremes of a chain's calls, and which calls they are.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_end: (i128, Option<usize>),
    last_start: (i128, Option<usize>),
}

/// The time of the initial value, before all calls.
const BEFORE: i128 = -1;

/// # Errors
/// Two values cannot be ordered.
pub(super) fn check(register: &Register<'_>) -> Result<(), Rejection> {
    let mut zones = Vec::new();
    let mut visited = vec![false; register.clusters.len()];
    for (first, cluster) in register.clusters.iter().enumerate() {
        if !cluster.has_predecessor {
            zones.extend(zone_of_chain(register, first, &mut visited)?);
        }
    }
    // Chains without a beginning: each value has replaced another one of them.
    if let Some(cluster) = visited.iter().position(|visited| !visited) {
        let writer = register.clusters[cluster].writer;
        return Err(register.rejection(Fault::Early, writer));
    }
    compare(register, zones)
}

/// The zone of the values from `first`; none if nothing certain tells of them.
fn zone_of_chain(
    register: &Register<'_>,
    first: usize,
    visited: &mut [bool],
) -> Result<Option<Zone>, Rejection> {
    let mut zone: Option<Zone> = None;
    let mut next = Some(first);
    while let Some(index) = next {
        visited[index] = true;
        let cluster = &register.clusters[index];
        let before = zone.map_or((BEFORE, None), |zone| zone.last_start);
        let mut own: Option<Zone> = (register.initial_cluster == Some(index)).then_some(Zone {
            first_end: (BEFORE, None),
            last_start: (BEFORE, None),
        });
        let mut written = before;
        let writer = cluster
            .writer
            .filter(|&writer| register.ops[writer].is_certain);
        for op in writer.into_iter().chain(cluster.readers.iter().copied()) {
            let (start, end) = (register.ops[op].start, register.ops[op].end);
            if end < written.0 {
                // It ended before the value, or one before it in the chain, was stored or found.
                let fault = if written.1 == writer {
                    Fault::Early
                } else {
                    Fault::Overwritten
                };
                return Err(register.rejection(fault, [op].into_iter().chain(written.1)));
            }
            if Some(op) == writer && start > written.0 {
                written = (start, Some(op));
            }
            own = Some(join(own, (end, Some(op)), (start, Some(op))));
        }
        if let Some(own) = own {
            zone = Some(join(zone, own.first_end, own.last_start));
        }
        next = cluster.successor;
    }
    Ok(zone)
}

fn join(
    zone: Option<Zone>,
    first_end: (i128, Option<usize>),
    last_start: (i128, Option<usize>),
) -> Zone {
    match zone {
        None => Zone {
            first_end,
            last_start,
        },
        Some(zone) => Zone {
            first_end: if first_end.0 < zone.first_end.0 {
                first_end
            } else {
                zone.first_end
            },
            last_start: if last_start.0 > zone.last_start.0 {
                last_start
            } else {
                zone.last_start
            },
        },
    }
}

/// Compares all chains.
fn compare(register: &Register<'_>, mut zones: Vec<Zone>) -> Result<(), Rejection> {
    debug_assert!(zones.iter().all(|zone| zone.last_start.0 < PENDING));
    zones.sort_by_key(|zone| zone.first_end.0);
    let (holders, instants): (Vec<Zone>, Vec<Zone>) = zones
        .into_iter()
        .partition(|zone| zone.first_end.0 < zone.last_start.0);
    for pair in holders.windows(2) {
        if pair[1].first_end.0 < pair[0].last_start.0 {
            return Err(conflict(register, pair[0], pair[1]));
        }
    }
    for instant in instants {
        // Intervals do not overlap, so only the last one that begins before can hold it.
        let begun = holders.partition_point(|it| it.first_end.0 < instant.last_start.0);
        if let Some(holder) = begun.checked_sub(1).map(|last| holders[last])
            && instant.first_end.0 < holder.last_start.0
        {
            return Err(conflict(register, holder, instant));
        }
    }
    Ok(())
}

fn conflict(register: &Register<'_>, left: Zone, right: Zone) -> Rejection {
    let ops = [left, right]
        .into_iter()
        .flat_map(|zone| [zone.first_end.1, zone.last_start.1]);
    register.rejection(Fault::Overwritten, ops.flatten())
}
