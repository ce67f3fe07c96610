//! The main thread while the server runs: it waits for signals, logs problems and runs the store's
//! maintenance.

use std::io;

use runtime::{ConnectionCounts, ConnectionSnapshot};
use session::ServerControl as _;
use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll};
use sys::signals::{Signal, Signals};

use crate::expired_items::ExpiredItems;
use crate::maintenance::MaintenancePacer;
use crate::state::ServerState;

/// Interval in nanoseconds at which a verbose server checks for something to log.
const CHECK_INTERVAL_NS: u64 = 1_000_000_000;

/// The work of the main thread on a store.
pub(crate) struct Background {
    pub(crate) maintenance: MaintenancePacer,
    pub(crate) expired: ExpiredItems,
}

impl Background {
    /// Nanoseconds until the next step of either kind; none if there is no work. `reclaims`: the
    /// memory of expired items is reclaimed.
    fn next_step_in_ns(&self, reclaims: bool) -> Option<u64> {
        let maintenance = self.maintenance.next_step_in_ns();
        let expired = reclaims.then(|| self.expired.next_step_in_ns()).flatten();
        maintenance.into_iter().chain(expired).min()
    }

    /// Makes the steps that are due. `log` receives lines for the operator.
    fn step(&mut self, reclaims: bool, log: &mut dyn FnMut(&str)) {
        self.maintenance.step_unless_paused(log);
        if reclaims {
            self.expired.step();
        }
    }
}

/// Runs until the signal to stop. A server that is not verbose makes no system calls meanwhile,
/// except for the steps of `background` (`None`: there is no store).
pub(crate) fn until_stopped(
    signals: &Signals,
    state: &ServerState,
    counts: &ConnectionCounts,
    mut background: Option<&mut Background>,
    log: &mut dyn FnMut(&str),
) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(signals, 0, Interest::Read)?;
    poll.add(&state.waker, 1, Interest::Read)?;
    let mut events = Events::with_capacity(2);
    let mut last = counts.snapshot();
    let mut has_tier_problem = false;
    let mut check_at_ns = monotonic_ns() + CHECK_INTERVAL_NS;
    loop {
        let check_in_ns = check_at_ns.saturating_sub(monotonic_ns());
        let check_in_ns = (state.verbosity() > 0).then_some(check_in_ns);
        let step_in_ns = background
            .as_ref()
            .and_then(|it| it.next_step_in_ns(state.is_crawler_enabled()));
        poll.wait(&mut events, step_in_ns.into_iter().chain(check_in_ns).min())?;
        state.waker.clear();
        if let Some(background) = &mut background {
            background.step(state.is_crawler_enabled(), &mut |line| {
                if state.verbosity() > 0 {
                    log(line);
                }
            });
        }
        while let Some(signal) = signals.take() {
            match signal {
                Signal::Stop | Signal::User1 => return Ok(()),
                Signal::Reload => {
                    state.reopen_files();
                    if let Some(passwords) = &state.passwords {
                        log(&passwords.reload());
                    }
                }
            }
        }
        if state.is_stopping() {
            return Ok(());
        }
        let now_ns = monotonic_ns();
        if now_ns < check_at_ns {
            continue;
        }
        check_at_ns = now_ns + CHECK_INTERVAL_NS;
        let now = counts.snapshot();
        if state.verbosity() > 0 {
            let options = LogOptions {
                verbosity: state.verbosity(),
                no_tasks: state.no_tasks(),
            };
            log_changes(&last, &now, options, log);
            // Once: it does not end before the next start.
            if !has_tier_problem && let Some(line) = state.tier_problem() {
                has_tier_problem = true;
                log(&line);
            }
        }
        last = now;
    }
}

/// How much to log.
#[derive(Debug, Clone, Copy)]
struct LogOptions {
    verbosity: u32,
    /// Message for a connection that got no thread or stack.
    no_tasks: &'static str,
}

fn log_changes(
    last: &ConnectionSnapshot,
    now: &ConnectionSnapshot,
    options: LogOptions,
    log: &mut dyn FnMut(&str),
) {
    if now.rejected > last.rejected {
        let count = now.rejected - last.rejected;
        let reason = match now.task_pauses > last.task_pauses {
            true => options.no_tasks.to_owned(),
            false => format!("the limit is {} (-c)", now.max),
        };
        log(&format!("rejected {count} connections: {reason}"));
    }
    if now.file_pauses > last.file_pauses {
        log("stopped accepting for a while: out of open files (raise ulimit -n or lower -c)");
    }
    if now.slow_closed > last.slow_closed {
        let count = now.slow_closed - last.slow_closed;
        log(&format!(
            "closed {count} stalled connections that held memory others needed"
        ));
    }
    if now.buffered_closed > last.buffered_closed {
        let count = now.buffered_closed - last.buffered_closed;
        let limit_mib = now.buffered_max >> 20;
        log(&format!(
            "closed {count} connections with the most buffered data: partial requests and unsent \
             replies reached {limit_mib} MiB (conn_buffer_limit)"
        ));
    }
    if now.panics > last.panics {
        let count = now.panics - last.panics;
        log(&format!(
            "closed {count} connections after a panic, which is a bug in curtail: its message above \
             says where"
        ));
    }
    if now.restarts > last.restarts {
        let count = now.restarts - last.restarts;
        log(&format!("{count} workers restarted after a panic"));
    }
    if options.verbosity > 1 && now.total > last.total {
        let count = now.total - last.total;
        log(&format!(
            "accepted {count} connections, {} open",
            now.current
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_connections_are_logged_with_the_limit_to_raise() {
        let before = ConnectionSnapshot {
            max: 8,
            current: 8,
            total: 8,
            rejected: 0,
            is_accepting: true,
            file_pauses: 0,
            task_pauses: 0,
            paused_ns: 0,
            slow_closed: 0,
            idle_closed: 0,
            buffered: 0,
            buffered_max: 64 << 20,
            buffered_closed: 0,
            panics: 0,
            restarts: 0,
        };
        let logged = |rejected, file_pauses, task_pauses| {
            let now = ConnectionSnapshot {
                rejected,
                file_pauses,
                task_pauses,
                ..before
            };
            let options = LogOptions {
                verbosity: 1,
                no_tasks: "no more threads",
            };
            let mut lines = Vec::new();
            log_changes(&before, &now, options, &mut |line| {
                lines.push(line.to_owned());
            });
            lines
        };
        let rejected = "rejected 2 connections: the limit is 8 (-c)";
        assert!(logged(0, 0, 0).is_empty());
        assert_eq!(logged(2, 0, 0), [rejected]);
        let files = logged(0, 1, 0);
        assert!(files.len() == 1 && files[0].contains("out of open files"));
        let threads = logged(1, 0, 1);
        assert!(threads.len() == 1 && threads[0].contains("no more threads"));
        let both = logged(2, 1, 0);
        assert!(both.len() == 2 && both[0] == rejected && both[1].contains("open files"));
        let (mut lines, now) = (
            Vec::new(),
            ConnectionSnapshot {
                buffered_closed: 2,
                panics: 3,
                restarts: 1,
                ..before
            },
        );
        let options = LogOptions {
            verbosity: 1,
            no_tasks: "",
        };
        log_changes(&before, &now, options, &mut |line| {
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
