//! Resolves the processors of servers and generator when the machine lacks those of the file.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Processors; an empty list: not pinned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct Pins {
    /// Of what runs on the server's host.
    pub(super) server: Vec<usize>,
    /// Of the load, and what runs on its host.
    pub(super) load: Vec<usize>,
    /// Whether servers and load have raised priority.
    pub(super) go_first: bool,
}

impl Pins {
    pub(super) fn words(&self) -> String {
        let list = |cpus: &[usize]| match cpus {
            [] => "not pinned".to_owned(),
            cpus => format!("on {}", cpu_list(cpus)),
        };
        let first = if self.go_first {
            ", both at nice -20"
        } else {
            ""
        };
        format!(
            "server {}, load {}{first}",
            list(&self.server),
            list(&self.load)
        )
    }
}

pub(super) fn cpu_list(cpus: &[usize]) -> String {
    let words: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    words.join(",")
}

/// The pins to use among the processors `allowed`, and notes on deviations from the file.
///
/// A missing processor is replaced by an unused one, so that server and generator stay on different
/// processors. With too few processors neither is pinned: the kernel then balances them better.
pub(super) fn resolve(wanted: &Pins, allowed: &[usize]) -> (Pins, Vec<String>) {
    let all: BTreeSet<usize> = wanted.server.iter().chain(&wanted.load).copied().collect();
    let missing: Vec<usize> = all
        .iter()
        .copied()
        .filter(|cpu| !allowed.contains(cpu))
        .collect();
    if missing.is_empty() {
        return (wanted.clone(), overlap_note(wanted));
    }
    let free: Vec<usize> = allowed
        .iter()
        .copied()
        .filter(|cpu| !all.contains(cpu))
        .collect();
    let here = format!(
        "processor{} {} not available",
        plural(&missing),
        listed(&missing)
    );
    if free.len() < missing.len() {
        let note = format!(
            "{here}: of the {} configured, only {} can be used (available: {}). Nothing is pinned, and \
             server and generator share processors: latencies and capacities include that \
             competition.",
            all.len(),
            all.len() - missing.len() + free.len(),
            listed(allowed),
        );
        let unpinned = Pins {
            go_first: wanted.go_first,
            ..Pins::default()
        };
        return (unpinned, vec![note]);
    }
    let replace = |cpu: &usize| match missing.iter().position(|gone| gone == cpu) {
        Some(index) => free[index],
        None => *cpu,
    };
    let resolved = Pins {
        server: wanted.server.iter().map(replace).collect(),
        load: wanted.load.iter().map(replace).collect(),
        go_first: wanted.go_first,
    };
    let mut notes = vec![format!(
        "{here}: using processor{} {} instead.",
        plural(&missing),
        listed(&free[..missing.len()]),
    )];
    notes.extend(overlap_note(&resolved));
    (resolved, notes)
}

fn overlap_note(pins: &Pins) -> Vec<String> {
    let shared: Vec<usize> = pins
        .server
        .iter()
        .copied()
        .filter(|cpu| pins.load.contains(cpu))
        .collect();
    if shared.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "Server and generator share processor{} {}: latencies include their competition.",
        plural(&shared),
        listed(&shared),
    )]
}

fn plural(list: &[usize]) -> &'static str {
    if list.len() == 1 { "" } else { "s" }
}

fn listed(list: &[usize]) -> String {
    let words: Vec<String> = list.iter().map(ToString::to_string).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(server: &[usize], load: &[usize]) -> Pins {
        Pins {
            server: server.to_vec(),
            load: load.to_vec(),
            go_first: false,
        }
    }

    #[test]
    fn processors_are_used_as_configured_or_replaced_or_none_is_pinned() {
        let other = "processors 0, 1 not available: using processors 4, 5 instead.";
        let few = "processor 1 not available: of the 2 configured, only 1";
        for (wanted, allowed, used, note) in [
            (pins(&[0], &[1]), &[0, 1][..], pins(&[0], &[1]), ""),
            (pins(&[0], &[1]), &[4, 5], pins(&[4], &[5]), other),
            (
                pins(&[0], &[1]),
                &[0, 7],
                pins(&[0], &[7]),
                "processor 1 not",
            ),
            (pins(&[0], &[1]), &[0], Pins::default(), few),
            (
                pins(&[0], &[0]),
                &[0, 1],
                pins(&[0], &[0]),
                "Server and generator share",
            ),
        ] {
            let (resolved, notes) = resolve(&wanted, allowed);
            assert_eq!(resolved, used, "{allowed:?}");
            assert!(notes.concat().starts_with(note), "{notes:?}");
            assert_eq!(notes.is_empty(), note.is_empty(), "{notes:?}");
        }
    }
}
