//! The stack and a client host, connected by a link in memory and in virtual time.

mod world;

use proptest::prelude::*;

use crate::Checksums;
use crate::limits::{
    ANSWER_NS, ANSWERS_MAX, CLOSING_NS, ETHERNET_HEADER, FRAMES_MAX, HALF_OPEN_MAX, KEEPALIVE_NS,
    PROBE_NS, PROBES_MAX, UNACKNOWLEDGED_NS,
};
use crate::testing::{Faults, State};
use world::{ACK, PORT, RST, SYN, World};

/// How long a connection may be half-open.
const HALF_OPEN_NS: u64 = ANSWER_NS * ANSWERS_MAX as u64;
const NO_FAULTS: Faults = Faults {
    lost: 0,
    repeated: 0,
    late: 0,
    damaged: 0,
};

#[test]
fn bytes_are_echoed_and_the_end_is_passed_on() {
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.connect(PORT);
    let sent = numbered_bytes(200_000);
    assert!(world.exchange(client, &sent) == sent);
    world.host.socket(client).close();
    world.run_until("closed", |world| world.stack.is_empty());
    assert_eq!(world.stack.counts().reset, 0);
    assert_eq!(world.stack.counts().established, 1);
}

#[test]
fn a_port_without_a_service_is_answered_by_a_reset() {
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.begin(PORT + 1);
    world.run_until("refused", |world| {
        world.host.socket(client).state() == State::Closed
    });
    assert!(world.now_ns < 1_000_000, "at once: {} ns", world.now_ns);
    assert_eq!(world.stack.counts().unknown, 1);
    assert!(world.stack.is_empty());
}

#[test]
fn a_stack_that_stops_listening_keeps_its_connections() {
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.connect(PORT);
    world.stack.stop_listening();
    let late = world.begin(PORT);
    world.run_until("refused", |world| {
        world.host.socket(late).state() == State::Closed
    });
    assert_eq!(world.exchange(client, b"still"), b"still");
}

#[test]
fn a_reset_reaches_the_owner() {
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.connect(PORT);
    world.exchange(client, b"hello");
    world.host.socket(client).abort();
    world.run_until("gone", |world| world.stack.is_empty());
    assert_eq!(world.lost, 1);
}

#[test]
fn a_stack_that_ends_resets_its_connections_in_portions() {
    const COUNT: usize = FRAMES_MAX + 50;
    let mut world = World::new(NO_FAULTS, 1);
    let clients: Vec<_> = (0..COUNT).map(|_| world.connect(PORT)).collect();
    world.exchange(clients[0], b"hello");
    assert!(world.stack.reset_some());
    assert_eq!(world.stack.len(), 50);
    world.pass(1_000_000);
    assert!(!world.stack.reset_some());
    assert!(world.stack.is_empty());
    world.pass(1_000_000);
    for client in clients {
        assert_eq!(world.host.socket(client).state(), State::Closed);
    }
    assert_eq!(world.stack.counts().reset, COUNT as u64);
}

#[test]
fn a_flood_of_syns_holds_bounded_memory_and_others_still_connect() {
    let mut world = World::new(NO_FAULTS, 1);
    for number in 0..5_000 {
        world.flood(number);
    }
    assert_eq!(world.stack.len(), HALF_OPEN_MAX);
    assert_eq!(
        world.stack.counts().half_open_dropped,
        5_000 - HALF_OPEN_MAX as u64
    );
    let client = world.connect(PORT);
    assert_eq!(world.exchange(client, b"through"), b"through");
    world.pass(HALF_OPEN_NS + 1);
    assert_eq!(world.stack.len(), 1, "only the connection is left");
}

/// Who does not see the answer has to guess its number.
#[test]
fn only_an_acknowledgement_of_the_answer_opens_a_connection() {
    let mut world = World::new(NO_FAULTS, 1);
    world.syn(7);
    let answer = number_of(&world.take_frames()[0]);
    for wrong in [answer, answer.wrapping_add(2), answer ^ 0x4000_0000] {
        world.segment(7, ACK, [2, wrong]);
        let frames = world.take_frames();
        assert_eq!((frames.len(), frames[0][FLAGS]), (1, RST));
    }
    for (flags, sequence) in [(RST, 3), (0, 2)] {
        world.segment(7, flags, [sequence, 0]);
        assert!(world.take_frames().is_empty());
    }
    let half_open = world.stack.len();
    assert_eq!((half_open, world.stack.counts().established), (1, 0));
    world.segment(7, ACK, [2, answer.wrapping_add(1)]);
    assert_eq!(world.stack.counts().established, 1);

    world.syn(8);
    assert_ne!(number_of(&world.take_frames()[0]), answer);
    assert_eq!(world.stack.len(), 2);
    world.segment(8, RST, [2, 0]);
    assert_eq!(world.stack.len(), 1);
}

#[test]
fn half_open_connections_that_find_no_space_are_answered_later() {
    const MORE: usize = 10;
    let mut world = World::new(NO_FAULTS, 1);
    for number in 0..FRAMES_MAX / 2 + MORE {
        world.syn(number as u32);
        // A SYN that is repeated while it waits is answered once.
        world.syn(number as u32);
    }
    assert_eq!(world.take_frames().len(), FRAMES_MAX / 2);
    let mut answered = 0;
    while world.stack.has_pending() {
        world.stack.flush(world.now_ns);
        answered += world.take_frames().len();
    }
    // Those that were answered before their SYN was repeated are answered again.
    assert_eq!(answered, FRAMES_MAX / 4 + MORE, "{answered}");
}

/// The stack sends nothing while more connect than it keeps.
#[test]
fn a_half_open_connection_is_not_forgotten_by_a_flood_that_waits_for_space() {
    let mut world = World::new(NO_FAULTS, 1);
    for number in 0..HALF_OPEN_MAX as u32 {
        world.syn(number);
    }
    // The oldest entries come to the end of the list of deadlines, but not of those to answer.
    world.now_ns += ANSWER_NS;
    world.stack.advance(world.now_ns);
    for number in 0..200 {
        world.syn(10_000 + number);
    }
    let mut last = 0;
    while world.stack.has_pending() {
        world.stack.frames().clear();
        world.stack.flush(world.now_ns);
        last = world.stack.frames().len();
    }
    assert!(last > 0);
    // Whoever is still there is answered when it asks again.
    world.stack.frames().clear();
    let half_open = world.stack.len();
    assert_eq!(half_open, HALF_OPEN_MAX);
    let dropped = world.stack.counts().half_open_dropped;
    let mut answers = 0;
    for number in 0..HALF_OPEN_MAX as u32 {
        world.syn(number);
        answers += world.take_frames().len();
    }
    assert_eq!(
        answers, HALF_OPEN_MAX,
        "{dropped} were dropped, and are opened again"
    );
}

#[test]
fn a_syn_is_answered_again_by_the_same_number() {
    let mut world = World::new(NO_FAULTS, 1);
    world.syn(7);
    let answer = world.take_frames();
    assert_eq!((answer.len(), answer[0][FLAGS]), (1, SYN | ACK));
    world.syn(7);
    assert_eq!(world.take_frames(), answer);
    for _ in 1..ANSWERS_MAX {
        assert_eq!(
            world.stack.next_deadline_ns(),
            Some(world.now_ns + ANSWER_NS)
        );
        world.now_ns += ANSWER_NS;
        world.stack.advance(world.now_ns);
        world.stack.flush(world.now_ns);
        assert_eq!(world.take_frames(), answer);
    }
    world.pass(ANSWER_NS);
    assert!(world.stack.is_empty());
}

#[test]
fn a_peer_that_vanishes_after_a_close_is_reset_in_time() {
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.connect(PORT);
    world.exchange(client, b"hello");
    world.host.remove(client);
    world.is_cut = true;
    world.close_all();
    world.pass(CLOSING_NS / 2);
    assert_eq!(world.stack.len(), 1, "it may still answer");
    world.pass(CLOSING_NS);
    assert!(world.stack.is_empty());
    assert_eq!(world.stack.counts().reset, 1);
}

#[test]
fn a_peer_that_goes_on_sending_after_a_close_is_reset() {
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.connect(PORT);
    world.exchange(client, b"hello");
    world.close_all();
    let mut sent = 0;
    world.run_until("reset", |world| {
        let socket = world.host.socket(client);
        sent += socket.send_slice(&[b'x'; 4096]).unwrap_or(0);
        socket.state() == State::Closed
    });
    assert!((1 << 20..3 << 20).contains(&sent), "{sent} bytes");
    assert!(world.stack.is_empty());
    assert_eq!(world.stack.counts().reset, 1);
}

#[test]
fn a_peer_that_rebooted_connects_from_the_same_port() {
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.connect(PORT);
    world.exchange(client, b"before");
    world.host.reboot();
    let client = world.connect(PORT);
    assert_eq!(world.exchange(client, b"after"), b"after");
    assert_eq!((world.lost, world.stack.counts().established), (1, 2));
}

#[test]
fn a_silent_peer_is_probed_and_reset_if_it_has_vanished() {
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.connect(PORT);
    world.exchange(client, b"hello");
    world.pass(3 * KEEPALIVE_NS);
    assert_eq!(world.exchange(client, b"still"), b"still");
    // Its last acknowledgement arrives.
    world.pass(1_000_000_000);
    world.is_cut = true;
    world.pass(KEEPALIVE_NS + (PROBES_MAX - 1) * PROBE_NS);
    assert_eq!(world.stack.counts().reset, 0);
    world.pass(2 * PROBE_NS);
    assert_eq!(world.stack.counts().reset, 1);
    world.run_until("closed", |world| world.lost == 1);
}

/// A host that does not see the connection's packets knows its addresses and ports at most.
#[test]
fn a_blind_segment_neither_redirects_replies_nor_keeps_a_connection_alive() {
    const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 9];
    /// Offset of the sequence number in a frame, and of the acknowledgement.
    const NUMBERS: [usize; 2] = [ETHERNET_HEADER + 20 + 4, ETHERNET_HEADER + 20 + 8];
    let mut world = World::new(NO_FAULTS, 1);
    let client = world.connect(PORT);
    world.exchange(client, b"hello");
    world.host.socket(client).send_slice(b"next").unwrap();
    world.host.poll(world.now_ns);
    let genuine = world.host.take_frame().unwrap();
    let probe_ns = world.stack.next_deadline_ns().unwrap();
    world.now_ns += 1_000_000_000;
    for wrong in [&NUMBERS[..], &NUMBERS[..1], &NUMBERS[1..]] {
        let mut blind = genuine.clone();
        blind[6..12].copy_from_slice(&STRANGER);
        wrong.iter().for_each(|&at| blind[at] ^= 0x40);
        world
            .stack
            .receive(&blind, Checksums::Verified, world.now_ns);
        world.stack.flush(world.now_ns);
        let is_to_peer = |frame: &[u8]| frame[..6] == genuine[6..12];
        assert!(world.stack.frames().iter().all(is_to_peer));
        world.stack.frames().clear();
        assert_eq!(world.stack.next_deadline_ns(), Some(probe_ns));
    }
    // A host that moves is followed. The second segment is acknowledged at once.
    let mut moved = genuine;
    moved[6..12].copy_from_slice(&STRANGER);
    for _ in 0..2 {
        world
            .stack
            .receive(&moved, Checksums::Verified, world.now_ns);
    }
    world.stack.flush(world.now_ns);
    let frames: Vec<_> = world
        .stack
        .frames()
        .iter()
        .map(|it| it[..6].to_vec())
        .collect();
    assert!(
        !frames.is_empty() && frames.iter().all(|it| *it == STRANGER),
        "{frames:?}"
    );
}

#[test]
fn an_idle_stack_waits_for_its_first_probe() {
    let mut world = World::new(NO_FAULTS, 1);
    for _ in 0..50 {
        let client = world.connect(PORT);
        assert_eq!(world.exchange(client, b"x"), b"x");
    }
    world.pass(HALF_OPEN_NS + 1_000_000_000);
    assert_eq!(world.stack.len(), 50);
    let idle_ns = world.stack.next_deadline_ns().unwrap() - world.now_ns;
    assert!(idle_ns > KEEPALIVE_NS - 2 * HALF_OPEN_NS, "{idle_ns} ns");
}

/// More connections send at the same time than there is space for, so that the space ends between
/// two segments of one of them.
#[test]
fn a_connection_whose_last_segments_find_no_space_sends_them_later() {
    const LEN: usize = 3000;
    let mut world = World::new(NO_FAULTS, 1);
    let clients: Vec<_> = (0..FRAMES_MAX / 2)
        .map(|_| {
            let client = world.connect(PORT);
            // Opens the congestion window.
            world.exchange(client, &[b'x'; 4 * LEN]);
            client
        })
        .collect();
    for &client in &clients {
        let sent = world.host.socket(client).send_slice(&[b'y'; LEN]);
        assert_eq!(sent, Ok(LEN));
    }
    let (mut frames_max, start_ns) = (0, world.now_ns);
    world.run_until("echoed", |world| {
        assert!(world.now_ns - start_ns < 1_000_000_000, "one of them waits");
        frames_max = frames_max.max(world.frames_of_turn);
        let mut queues = clients.iter().map(|&it| world.host.socket(it).recv_queue());
        queues.all(|len| len == LEN)
    });
    assert_eq!(frames_max, FRAMES_MAX);
}

#[test]
fn the_arp_request_of_a_host_without_an_address_is_answered() {
    let mut world = World::new(NO_FAULTS, 1);
    let mut probe = vec![0xff; 6];
    probe.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    probe.extend([2, 0, 0, 0, 0, 9, 0, 0, 0, 0]);
    probe.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    world.stack.receive(&probe, Checksums::Unverified, 0);
    let frames: Vec<Vec<u8>> = world.stack.frames().iter().map(<[u8]>::to_vec).collect();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0][..6], [2, 0, 0, 0, 0, 9]);
    assert_eq!(frames[0][20..22], [0, 2], "a reply");
    assert_eq!(frames[0][22..32], [2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
}

/// An echo request with a payload, as `ping` sends it.
#[test]
fn pings_are_answered_unless_they_are_broadcast() {
    let mut world = World::new(NO_FAULTS, 1);
    let mut ping = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    ping.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 1, 0x66, 0xd4]);
    ping.extend([10, 0, 0, 9, 10, 0, 0, 1]);
    ping.extend([8, 0, 0x33, 0x37, 0, 1, 0, 1]);
    ping.extend(*b"abcd");
    let receive = |world: &mut World, frame: &[u8]| {
        let unverified = Checksums::Unverified;
        world.stack.receive(frame, unverified, 0);
        let frames: Vec<Vec<u8>> = world.stack.frames().iter().map(<[u8]>::to_vec).collect();
        world.stack.frames().clear();
        frames
    };
    let answers = receive(&mut world, &ping);
    assert_eq!(answers.len(), 1, "{:?}", world.stack.counts());
    assert_eq!(answers[0][..6], [2, 0, 0, 0, 0, 9]);
    assert_eq!(answers[0][34], 0, "an echo reply");
    assert_eq!(answers[0][42..], *b"abcd");
    ping[..6].fill(0xff);
    assert!(receive(&mut world, &ping).is_empty());
    ping[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    ping[45] ^= 1;
    assert!(receive(&mut world, &ping).is_empty());
    assert_eq!(world.stack.counts().damaged, 1);
}

#[test]
fn the_first_frames_can_be_removed() {
    let mut world = World::new(NO_FAULTS, 1);
    for number in 0..3 {
        world.syn(number);
    }
    let frames: Vec<Vec<u8>> = world.stack.frames().iter().map(<[u8]>::to_vec).collect();
    assert_eq!(frames.len(), 3);
    world.stack.frames().remove_first(2);
    assert_eq!(world.stack.frames().iter().next(), Some(&frames[2][..]));
    world.stack.frames().remove_first(1);
    assert!(world.stack.frames().is_empty());
}

/// Each end has received what the other one retransmits, and has missed its acknowledgement. Found
/// by `every_byte_arrives_in_order_over_a_faulty_link`.
#[test]
fn ends_that_both_retransmit_go_on() {
    let faults = Faults {
        lost: 66,
        repeated: 12,
        late: 149,
        damaged: 16,
    };
    let mut world = World::new(faults, 5_417_833_702_873_535_717);
    let client = world.connect(PORT);
    let sent = numbered_bytes(47_015);
    assert!(world.exchange(client, &sent) == sent);
    assert!(world.now_ns < 60_000_000_000, "{} ns", world.now_ns);
}

/// The offset of the flags of TCP in a frame.
const FLAGS: usize = ETHERNET_HEADER + 20 + 13;

/// The sequence number of a frame.
fn number_of(frame: &[u8]) -> u32 {
    let at = ETHERNET_HEADER + 20 + 4;
    u32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}

fn numbered_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Losses, repetitions, reordering and damage of both directions.
    #[test]
    fn every_byte_arrives_in_order_over_a_faulty_link(
        seed: u64,
        lost in 0_u64..80,
        repeated in 0_u64..50,
        late in 0_u64..200,
        damaged in 0_u64..30,
        len in 1_usize..60_000,
    ) {
        let faults = Faults { lost, repeated, late, damaged };
        let mut world = World::new(faults, seed);
        let client = world.connect(PORT);
        let sent = numbered_bytes(len);
        let received = world.exchange(client, &sent);
        prop_assert!(sent.starts_with(&received));
        let silent_ns = world.now_ns - world.last_arrival_ns;
        let counts = world.stack.counts();
        let may_be_reset = match counts.reset {
            0 => counts.half_open_dropped > 0,
            _ => silent_ns >= UNACKNOWLEDGED_NS,
        };
        prop_assert!(received == sent || may_be_reset, "{counts:?} after {silent_ns} ns");
        prop_assert!(world.now_ns < 3_600_000_000_000, "{} ns", world.now_ns);
    }

    /// Any frames, in any order.
    #[test]
    fn no_frames_make_the_stack_panic(
        steps in proptest::collection::vec(
            (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..120)),
            0..60,
        ),
    ) {
        let mut input = Vec::new();
        for (kind, bytes) in steps {
            input.extend([kind, bytes.len() as u8]);
            input.extend(bytes);
        }
        let _ = crate::fuzzing::check_sequence(&input);
    }
}
