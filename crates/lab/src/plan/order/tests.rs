//! The order of trials, and the schedules that they share.

use std::collections::HashSet;

use proptest::prelude::*;
use report::record::Repeats;

use super::*;
use crate::plan::tests::{kind, plan, plan_with, plan_without_memcached};

fn trials_of(plan: &Plan) -> Vec<PlannedTrial> {
    trials(plan, &*kind(plan))
}

fn factor(plan: &Plan, planned: &PlannedTrial, name: &str) -> Option<String> {
    let cell = &plan.stages[planned.stage].cells[planned.cell as usize];
    cell.get(name).map(ToString::to_string)
}

proptest! {
    #[test]
    fn the_order_is_a_function_of_the_seed_and_spreads_repeats(
        seed in 0..u64::MAX / 2,
        repeats in 1_u32..8,
        cells in 1_usize..6,
    ) {
        let mut plan = Plan { seed, ..plan(cells) };
        plan.stages[1].repeats = Repeats::fixed(repeats);
        let planned_trials = trials_of(&plan);
        prop_assert_eq!(&planned_trials, &trials_of(&plan));

        let distinct: HashSet<_> = planned_trials.iter().map(|planned| &planned.id).collect();
        prop_assert_eq!(distinct.len(), planned_trials.len());
        let capacities = 2 * plan.stages[0].repeats.most as usize;
        prop_assert_eq!(planned_trials.len(), capacities + 2 * cells * repeats as usize);
        prop_assert_eq!(planned_trials.len() as u64, plan.trials());
        prop_assert!(planned_trials[..capacities].iter().all(|planned| planned.stage == 0));

        // In every prefix of the run, no cell is more than one repeat ahead of another.
        let sweep = &planned_trials[capacities..];
        prop_assert!(sweep.iter().all(|planned| planned.stage == 1));
        for done in 0..=sweep.len() {
            let count = |cell| sweep[..done].iter().filter(|it| it.cell == cell).count();
            let counts: Vec<_> = (0..2 * cells as u32).map(count).collect();
            let most = counts.iter().max().copied().unwrap_or(0);
            let least = counts.iter().min().copied().unwrap_or(0);
            prop_assert!(most - least <= 1, "{counts:?} after {done}");
        }
    }
}

#[test]
fn all_servers_share_schedules_under_every_setting() {
    let plan = plan_with(3, "[[factor]]\nname = \"depth\"\nvalues = [1, 4]\n");
    let planned_trials = trials_of(&plan);
    let repeats = |stage: usize| plan.stages[stage].repeats.most as usize;
    let expected = 2 * 2 * repeats(0) + 2 * 2 * 3 * repeats(1);
    assert_eq!(planned_trials.len(), expected);
    let distinct: HashSet<_> = planned_trials.iter().map(|planned| &planned.id).collect();
    assert_eq!(distinct.len(), planned_trials.len());
    for planned in &planned_trials {
        let alike = planned_trials
            .iter()
            .filter(|other| other.seed == planned.seed);
        let of: HashSet<_> = alike
            .map(|other| {
                (
                    factor(&plan, other, "server"),
                    factor(&plan, other, "depth"),
                )
            })
            .collect();
        assert_eq!(of.len(), 4, "{planned:?}");
        let level = factor(&plan, planned, "level");
        assert_eq!(level.is_some(), planned.stage == 1);
    }
}

#[test]
fn a_skipped_server_has_no_trials() {
    let plan = plan_without_memcached(false);
    let planned_trials = trials_of(&plan);
    assert_eq!(planned_trials.len(), 1 + 2 * 2);
    let mut servers = planned_trials.iter().map(|it| factor(&plan, it, "server"));
    assert!(servers.all(|it| it.as_deref() == Some("curtail")));
}
