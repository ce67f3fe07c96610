//! Answers that are lost, or that come late: what a client may conclude from them.

use super::history::{change, get, item, set};
use super::{MILLISECOND_NS, SECOND_NS, call, chain_of, quiet, read, value_of};
use crate::{Change, Completion, Outcome};

/// The anchor passes nodes that the client has not seen linked.
#[test]
fn a_first_write_in_doubt_is_found_although_the_anchor_has_moved_on() {
    for is_exact in [false, true] {
        let mut world = quiet(13);
        for number in [10, 11] {
            world.start_client(number);
            call(&mut world, number, set("other", "1")).unwrap();
        }
        let first = if is_exact {
            change("a", Change::Add(item("1")))
        } else {
            set("a", "1")
        };
        world.submit(10, 2, first);
        let swaps = world.clients[&10].counters().swaps;
        world.run_until(SECOND_NS, |world| {
            world.clients[&10].counters().swaps > swaps
        });
        world.run_for(15_000);
        // It is executed, and the answer is lost, with the connection.
        world.paused = Some(10);
        for round in 0..3 {
            call(&mut world, 11, set("a", &format!("2 {round}"))).unwrap();
            world.run_for(100 * MILLISECOND_NS);
        }
        assert_eq!(chain_of(&world, "a").len(), 2, "the anchor has moved on");
        world.restart_node();
        world.paused = None;
        world.finish();
        let (_, completion) = world.completed.pop().unwrap();
        assert!(
            matches!(completion.result, Ok(Outcome::Stored(_))),
            "{completion:?}"
        );
        assert_eq!(read(&mut world, 11, "a"), Some("2 2".into()), "{is_exact}");
        assert_eq!(world.clients[&10].counters().swaps, swaps + 1);
        chain_of(&world, "a");
    }
}

#[test]
fn that_a_key_was_absent_tells_nothing_to_reads_that_began_later() {
    let mut world = quiet(14);
    for number in [10, 11] {
        world.start_client(number);
        call(&mut world, number, set("other", "1")).unwrap();
    }
    world.submit(10, 2, get("a"));
    // The question arrives, the answer does not.
    world.run_for(15_000);
    world.paused = Some(10);
    call(&mut world, 11, set("a", "1")).unwrap();
    world.paused = None;
    world.submit(10, 3, get("a"));
    world.finish();
    let is_later = |(_, completion): &&(u8, Completion)| completion.id == 3;
    let later = world.completed.iter().find(is_later).unwrap();
    assert_eq!(value_of(&later.1.result), Some("1".into()));
}
