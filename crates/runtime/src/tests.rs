//! What cannot be brought about from outside: a panic.

use std::sync::Barrier;

use crate::running::Panicked;
use crate::testing::{Fragile, answer, ask, everywhere};
use crate::{Kind, Tally};

#[test]
fn a_panic_closes_one_connection_and_no_other() {
    everywhere(|start| {
        let served = start(Fragile::default());
        let (other, fragile) = (served.connect(), served.connect());
        assert_eq!(ask(&other, b"set a 0 0 1\r\n1\r\n"), b"STORED\r\n");
        assert_eq!(ask(&fragile, b"stats reset\r\n"), b"");
        assert_eq!(ask(&other, b"get a\r\n"), b"VALUE a 0 1\r\n1\r\nEND\r\n");
        // The same worker serves what is dealt to it.
        assert_eq!(ask(&served.connect(), b"mn\r\n"), b"MN\r\n");
        served.until("counted", |tally| tally.panics == 1);
        drop((other, fragile));
        served.until("empty", |tally| tally.current == 0);
        assert_eq!(served.census.tally().restarts, 0);
        assert_eq!(served.running.stop(), Err(Panicked));
    });
}

/// Requests of the same burst were prepared already; each is answered all the same, once and in
/// full.
#[test]
fn a_panic_leaves_the_others_of_its_burst_their_answers() {
    everywhere(|start| {
        let served = start(Fragile {
            gate: Some(Barrier::new(2)),
            ..Fragile::default()
        });
        let gate = served.board.gate.as_ref().unwrap();
        let holding = served.connect();
        let all: Vec<_> = (0..8).map(|_| served.connect()).collect();
        for stream in &all {
            assert_eq!(ask(stream, b"mn\r\n"), b"MN\r\n");
        }
        // While the worker answers this, all others ask.
        holding.send(b"stats settings\r\n").unwrap();
        gate.wait();
        for (number, stream) in all.iter().enumerate() {
            let question = match number {
                3 => &b"mn\r\nstats reset\r\nmn\r\n"[..],
                // The beginning of a line, looked at and not yet answered.
                number if number % 2 == 0 => b"mn\r\nget unfinished",
                _ => b"mn\r\n",
            };
            stream.send(question).unwrap();
        }
        gate.wait();
        assert_eq!(answer(&holding), b"END\r\n");
        for (number, stream) in all.iter().enumerate() {
            match number {
                3 => {}
                number if number % 2 == 0 => {
                    assert_eq!(answer(stream), b"MN\r\n");
                    assert_eq!(ask(stream, b"-key\r\nmn\r\n"), b"END\r\nMN\r\n");
                }
                _ => assert_eq!(answer(stream), b"MN\r\n"),
            }
        }
        served.until("closed", |tally| (tally.panics, tally.current) == (1, 8));
        assert_eq!(served.running.stop(), Err(Panicked));
    });
}

/// A panic between connections must not leave newcomers waiting.
#[test]
fn a_worker_that_panics_begins_anew() {
    everywhere(|start| {
        let served = start(Fragile::default());
        let all: Vec<_> = (0..8).map(|_| served.connect()).collect();
        for stream in &all {
            assert_eq!(ask(stream, b"mn\r\n"), b"MN\r\n");
        }
        // One of a value that has not come in full holds memory of the store.
        all[1].send(b"set half 0 0 20000\r\nhalf").unwrap();
        all[0].send(b"verbosity 1 noreply\r\n").unwrap();
        // Memory is written that was not populated: the store wants maintenance.
        let is_over = |tally: &Tally| tally.restarts + tally.panics > 0;
        let mut writer = served.connect();
        for number in 0..2000 {
            if is_over(&served.census.tally()) {
                break;
            }
            let line = format!("set k{number} 0 0 30000\r\n");
            let set = [line.as_bytes(), &[b'x'; 30_000], b"\r\n"].concat();
            if writer.send(&set).is_err() || answer(&writer).is_empty() {
                writer = served.connect();
            }
        }
        served.until("panicked", is_over);
        if let Kind::Events | Kind::Rings = served.kind {
            served.until("begun anew", |tally| tally.restarts == 1);
            for stream in &all {
                assert_eq!(answer(stream), b"");
            }
        }
        drop((all, writer));
        // Newcomers do not wait, and counts fall.
        for _ in 0..4 {
            assert_eq!(ask(&served.connect(), b"mn\r\n"), b"MN\r\n");
        }
        served.until("empty", |tally| tally.current == 0);
        let tally = served.census.tally();
        match served.kind {
            Kind::Events | Kind::Rings => assert!(tally.panics >= 8, "{tally:?}"),
            Kind::Threads | Kind::Fibres => assert_eq!(tally.panics + tally.restarts, 1),
        }
        assert_eq!(served.running.stop(), Err(Panicked));
    });
}
