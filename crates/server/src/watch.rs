//! The main thread while the workers work: it waits for signals, says what went wrong, and does
//! what the store must not do while it answers.

use std::io;

use runtime::{Census, Tally};
use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll};
use sys::signals::{Signal, Signals};

use crate::maintenance::MaintenancePacer;
use crate::state::ServerState;

/// How often a talkative server looks for something to say, in nanoseconds.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// Waits for the signal to stop. A silent server makes no system call meanwhile, once what the
/// store needs is done.
pub(crate) fn until_stopped(
    signals: &Signals,
    state: &ServerState,
    census: &Census,
    maintenance: &mut MaintenancePacer,
    say: &mut dyn FnMut(&str),
) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(signals, 0, Interest::Read)?;
    poll.add(&state.waker, 1, Interest::Read)?;
    let mut events = Events::with_capacity(2);
    let mut last = census.tally();
    let mut look_at_ns = monotonic_ns() + LOOK_EVERY_NS;
    loop {
        let look_ns = look_at_ns.saturating_sub(monotonic_ns());
        let look_ns = (state.verbosity() > 0).then_some(look_ns);
        poll.wait(&mut events, maintenance.due_ns().or(look_ns))?;
        state.waker.clear();
        maintenance.attend(&mut |line| {
            if state.verbosity() > 0 {
                say(line);
            }
        });
        while let Some(signal) = signals.take() {
            if signal == Signal::Stop {
                return Ok(());
            }
        }
        let now_ns = monotonic_ns();
        if now_ns < look_at_ns {
            continue;
        }
        look_at_ns = now_ns + LOOK_EVERY_NS;
        let now = census.tally();
        if state.verbosity() > 0 {
            let manner = Manner {
                verbosity: state.verbosity(),
                no_tasks: state.no_tasks(),
            };
            tell(&last, &now, manner, say);
        }
        last = now;
    }
}

/// What is told how.
#[derive(Debug, Clone, Copy)]
struct Manner {
    verbosity: u32,
    /// How it is said that a connection found no thread or stack.
    no_tasks: &'static str,
}

fn tell(last: &Tally, now: &Tally, manner: Manner, say: &mut dyn FnMut(&str)) {
    if now.rejected > last.rejected {
        let count = now.rejected - last.rejected;
        let why = match now.task_rests > last.task_rests {
            true => manner.no_tasks.to_owned(),
            false => format!("{} is the most (-c)", now.max),
        };
        say(&format!("turned {count} connections away: {why}"));
    }
    if now.file_rests > last.file_rests {
        say("accepting rested: open files have run out (raise ulimit -n or lower -c)");
    }
    if now.slow_closed > last.slow_closed {
        let count = now.slow_closed - last.slow_closed;
        say(&format!(
            "closed {count} connections that held memory and did not move"
        ));
    }
    if now.buffered_closed > last.buffered_closed {
        let count = now.buffered_closed - last.buffered_closed;
        let limit_mib = now.buffered_max >> 20;
        say(&format!(
            "closed {count} connections that kept most: unfinished lines and answers not taken \
             reached {limit_mib} MiB (conn_buffer_limit)"
        ));
    }
    if now.panics > last.panics {
        let count = now.panics - last.panics;
        say(&format!(
            "closed {count} connections because of a panic, which is a fault of this program: its \
             message above says where"
        ));
    }
    if now.restarts > last.restarts {
        let count = now.restarts - last.restarts;
        say(&format!("{count} workers could not go on and began anew"));
    }
    if manner.verbosity > 1 && now.total > last.total {
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
            file_rests: 0,
            task_rests: 0,
            rested_ns: 0,
            slow_closed: 0,
            buffered: 0,
            buffered_max: 64 << 20,
            buffered_closed: 0,
            panics: 0,
            restarts: 0,
        };
        let told = |rejected, file_rests, task_rests| {
            let now = Tally {
                rejected,
                file_rests,
                task_rests,
                ..before
            };
            let manner = Manner {
                verbosity: 1,
                no_tasks: "no more threads",
            };
            let mut lines = Vec::new();
            tell(&before, &now, manner, &mut |line| {
                lines.push(line.to_owned());
            });
            lines
        };
        let most = "turned 2 connections away: 8 is the most (-c)";
        assert!(told(0, 0, 0).is_empty());
        assert_eq!(told(2, 0, 0), [most]);
        let files = told(0, 1, 0);
        assert!(files.len() == 1 && files[0].contains("open files have run out"));
        let threads = told(1, 0, 1);
        assert!(threads.len() == 1 && threads[0].contains("no more threads"));
        let both = told(2, 1, 0);
        assert!(both.len() == 2 && both[0] == most && both[1].contains("open files"));
        let (mut lines, now) = (
            Vec::new(),
            Tally {
                buffered_closed: 2,
                panics: 3,
                restarts: 1,
                ..before
            },
        );
        let manner = Manner {
            verbosity: 1,
            no_tasks: "",
        };
        tell(&before, &now, manner, &mut |line| {
            lines.push(line.to_owned());
        });
        assert!(
            lines.len() == 3 && lines[1].contains("closed 3 connections"),
            "{lines:?}"
        );
        assert!(
            lines[0].contains("closed 2") && lines[0].contains("64 MiB"),
            "{lines:?}"
        );
        assert!(lines[2].contains("1 workers"), "{lines:?}");
    }
}
