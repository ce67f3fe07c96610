//! A burst: prepare what has come on every connection, answer all, send once each.

use session::{Counter, Next, Now, Progress, prefetch_items, recycle};
use sys::ring::{Arrived, Inputs};

use super::Worker;
use crate::connection::{Held, Unsent};
use crate::table::Place;
use crate::transport::Sent;

/// One connection's part in a burst.
pub(super) struct Part {
    place: Place,
    input: Input,
    /// The peer will send no more.
    ended: bool,
}

/// What came of a part.
pub(super) struct Outcome {
    /// How many requests were planned.
    planned: usize,
    progress: Progress,
    lost: bool,
}

/// Where a connection's input lies during a burst.
enum Input {
    /// Where the kernel has put it.
    Arrived(Arrived),
    /// Behind what was held from before.
    Held(Held),
}

impl Input {
    fn as_slice<'i>(&'i self, inputs: &'i Inputs) -> &'i [u8] {
        match self {
            Self::Arrived(arrived) => inputs.bytes(arrived),
            Self::Held(held) => held.as_slice(),
        }
    }
}

impl Worker {
    /// Serves connections that have something to say.
    pub(super) fn serve(&mut self, places: &[Place], now_ns: u64) {
        let now = self.desk.setup.clock.at(now_ns);
        let mut parts = std::mem::take(&mut self.parts);
        parts.extend(places.iter().filter_map(|&place| self.part(place)));
        self.converse(&parts, now);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for (part, outcome) in parts.drain(..).zip(outcomes.drain(..)) {
            self.put_back(part.place, part.input, outcome.progress.consumed);
            if outcome.lost {
                self.close(part.place);
            } else {
                self.go_on(part.place, outcome.progress.next, part.ended);
            }
        }
        self.parts = parts;
        self.outcomes = outcomes;
    }

    /// What a connection brings to a burst; none: its answers are still on their way, or it was in
    /// the burst already.
    fn part(&mut self, place: Place) -> Option<Part> {
        let connection = self.table.get_mut(place)?;
        if !std::mem::take(&mut connection.queued) {
            return None;
        }
        let wire = &mut connection.wire;
        if connection.unsent.is_some() || wire.is_sending || wire.is_shut {
            return None;
        }
        let input = match (wire.arrived.take(), connection.held.is_empty()) {
            (Some(arrived), true) => Input::Arrived(arrived),
            (arrived, _) => {
                let mut held = std::mem::take(&mut connection.held);
                if let Some(arrived) = arrived {
                    held.append(self.inputs.bytes(&arrived));
                    self.inputs.give_back(arrived);
                }
                Input::Held(held)
            }
        };
        Some(Part {
            place,
            input,
            ended: wire.has_ended,
        })
    }

    /// Prepares all parts, then answers each and sends its answers.
    fn converse(&mut self, parts: &[Part], now: Now) {
        let inputs = self.inputs.clone();
        let mut planned = recycle(std::mem::take(&mut self.planned));
        for part in parts {
            let count = match self.table.get_mut(part.place) {
                Some(connection) => {
                    let input = part.input.as_slice(&inputs);
                    self.desk
                        .prepare(&mut connection.session, input, &mut planned)
                }
                None => 0,
            };
            self.outcomes.push(Outcome {
                planned: count,
                progress: Progress {
                    consumed: 0,
                    next: Next::Close,
                },
                lost: false,
            });
        }
        prefetch_items(&planned, &self.desk.store);
        let mut first = 0;
        for (at, part) in parts.iter().enumerate() {
            let Some(connection) = self.table.get_mut(part.place) else {
                continue;
            };
            let requests = &planned[first..first + self.outcomes[at].planned];
            first += requests.len();
            let input = part.input.as_slice(&inputs);
            let (progress, is_all) = self.desk.answer_turn(connection, requests, input, now);
            self.outcomes[at].progress = progress;
            self.outcomes[at].lost = is_all && !self.send(part.place, now.elapsed_s);
        }
        self.planned = recycle(planned);
    }

    /// Sends the worker's output to a connection: with all others of the burst, or at once where
    /// values are pinned, which only this can wait for. False: the connection is lost.
    fn send(&mut self, place: Place, now_s: u32) -> bool {
        if self.desk.output.is_empty() {
            return true;
        }
        let Some(connection) = self.table.get_mut(place) else {
            return true;
        };
        let memory = self.spare.pop().unwrap_or_default();
        if let Some(bytes) = self.desk.output.give_away(memory) {
            connection.wire.is_sending = true;
            self.ring.send(&connection.transport, place as u32, bytes);
            return true;
        }
        let (sent, is_kept) = match connection.transport.send(&self.desk.output, 0) {
            Ok(Sent::All) => (self.desk.output.len(), true),
            Ok(Sent::Part(sent)) => {
                let output = std::mem::take(&mut self.desk.output);
                connection.unsent = Some(Box::new(Unsent { output, sent }));
                connection.wire.is_watched = true;
                self.ring.watch_room(&connection.transport, place as u32);
                (sent, true)
            }
            Err(_) => (0, false),
        };
        if sent > 0 {
            connection.moved_s = now_s;
        }
        self.desk.counters.add(Counter::BytesWritten, sent as u64);
        self.desk.output.clear();
        is_kept
    }

    /// Keeps the input that was not consumed and frees the rest.
    fn put_back(&mut self, place: Place, input: Input, consumed: usize) {
        let connection = self.table.get_mut(place);
        match (input, connection) {
            (Input::Arrived(arrived), connection) => {
                if let Some(connection) = connection
                    && consumed < arrived.len()
                {
                    let rest = &self.inputs.bytes(&arrived)[consumed..];
                    connection.held.append(rest);
                }
                self.inputs.give_back(arrived);
            }
            (Input::Held(mut held), Some(connection)) => {
                held.consume(consumed);
                connection.held = held;
            }
            (Input::Held(_), None) => {}
        }
    }

    /// Sees to what a connection needs next.
    fn go_on(&mut self, place: Place, next: Next, ended: bool) {
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        let is_blocked = connection.unsent.is_some() || connection.wire.is_sending;
        connection.wants_turn = matches!(next, Next::Turn | Next::Room | Next::Memory);
        // A peer that has sent its last may still be owed answers to what it sent before.
        let is_over = next == Next::Close || (ended && !connection.wants_turn);
        connection.closing |= is_over;
        connection.wire.wants_memory &= next == Next::Memory;
        match (is_blocked, next) {
            // It goes on when they have been taken.
            (true, _) => {}
            (false, _) if is_over => self.close(place),
            (false, Next::Turn | Next::Room) => {
                connection.queued = true;
                self.desk.again.push(place);
                self.desk.counters.count(Counter::ConnYields);
            }
            (false, Next::Memory) => {
                connection.queued = true;
                self.desk.waiting.push(place);
                // One that tries again in vain still waits the same wait.
                if !std::mem::replace(&mut connection.wire.wants_memory, true) {
                    self.desk.counters.count(Counter::HeldWaits);
                }
            }
            (false, Next::Input | Next::Upload | Next::Close) => {}
        }
        self.rein_in(place);
        if !is_blocked && !is_over {
            self.receive(place);
        }
    }
}
