//! The main thread while the workers work: it waits for signals, says what went wrong, and does
//! what the store must not do while it answers.

use std::io;

use runtime::{Census, Tally};
use sys::poll::{Events, Interest, Poll};
use sys::signals::{Signal, Signals};

use crate::board::Noticeboard;

/// How often a talkative server looks for something to say, in nanoseconds.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// Waits for the signal to stop. A silent server makes no system call meanwhile.
pub(crate) fn until_stopped(
    signals: &Signals,
    board: &Noticeboard,
    census: &Census,
    say: &mut dyn FnMut(&str),
) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(signals, 0, Interest::Read)?;
    poll.add(&board.waker, 1, Interest::Read)?;
    let mut events = Events::with_capacity(2);
    let mut last = census.tally();
    loop {
        poll.wait(
            &mut events,
            (board.verbosity() > 0).then_some(LOOK_EVERY_NS),
        )?;
        board.waker.clear();
        board.store().tend();
        while let Some(signal) = signals.take() {
            if signal == Signal::Stop {
                return Ok(());
            }
        }
        let now = census.tally();
        if board.verbosity() > 0 {
            tell(&last, &now, board.verbosity(), say);
        }
        last = now;
    }
}

fn tell(last: &Tally, now: &Tally, verbosity: u32, say: &mut dyn FnMut(&str)) {
    if now.rejected > last.rejected {
        let count = now.rejected - last.rejected;
        let why = match now.rests > last.rests {
            // Only where a connection needs a thread is one turned away as accepting rests.
            true => {
                "no more threads can be had (raise vm.max_map_count, ulimit -u or the container's \
                 pids.max, or lower -c)"
                    .to_owned()
            }
            false => format!("{} is the most (-c)", now.max),
        };
        say(&format!("turned {count} connections away: {why}"));
    } else if now.rests > last.rests {
        say("accepting rested: open files have run out (raise ulimit -n or lower -c)");
    }
    if now.slow_closed > last.slow_closed {
        let count = now.slow_closed - last.slow_closed;
        say(&format!(
            "closed {count} connections that held memory and did not move"
        ));
    }
    if verbosity > 1 && now.total > last.total {
        let count = now.total - last.total;
        say(&format!(
            "accepted {count} connections, {} are open",
            now.current
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_turned_away_is_told_with_the_limit_to_raise() {
        let before = Tally {
            max: 8,
            current: 8,
            total: 8,
            rejected: 0,
            accepting: true,
            rests: 0,
            rested_ns: 0,
            slow_closed: 0,
        };
        let told = |rejected, rests| {
            let now = Tally {
                rejected,
                rests,
                ..before
            };
            let mut lines = Vec::new();
            tell(&before, &now, 1, &mut |line| lines.push(line.to_owned()));
            lines.join("\n")
        };
        assert_eq!(told(0, 0), "");
        assert_eq!(told(2, 0), "turned 2 connections away: 8 is the most (-c)");
        assert!(told(0, 1).contains("open files have run out"));
        let threads = told(1, 1);
        assert!(threads.starts_with("turned 1 connections away: no more threads"));
        assert!(!threads.contains("open files"));
    }
}
