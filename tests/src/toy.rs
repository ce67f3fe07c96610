//! A toy service whose requests wait for completions. A request is a line, and its reply is the
//! same line, which is sent once the test has completed the request. A connection may have several
//! unanswered lines. They are answered in the order of their arrival.

mod source;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use service::{Abandoned, Next, NoPin, Output, Progress, Service, Session, Tickets, Worker};

pub use source::{Lease, Source};

/// The toy service. It is also the state of each of its workers.
#[derive(Clone, Default)]
pub struct Toy(pub Arc<Source>);

/// The state of a connection: its unanswered requests.
#[derive(Default)]
pub struct ToySession {
    /// The number of the oldest unanswered request.
    first: u32,
    /// The replies to the unanswered requests, in order. `None` until the request is completed.
    answers: VecDeque<Option<Vec<u8>>>,
}

impl Session for ToySession {
    fn result_bytes(&self) -> usize {
        self.answers.iter().flatten().map(Vec::len).sum()
    }
}

impl Service for Toy {
    type Worker = Self;

    fn worker(&self) -> Self {
        self.clone()
    }

    fn rejection(&self) -> &'static [u8] {
        b"full\n"
    }
}

impl Worker for Toy {
    type Session = ToySession;
    type Request<'i> = &'i [u8];
    type Pin = NoPin;
    type Completion = Lease;

    fn open(&self) -> ToySession {
        ToySession::default()
    }

    fn begin_burst(&mut self, _: u64) {}

    fn prepare<'i>(
        &self,
        _: &mut ToySession,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<&'i [u8]>,
    ) -> usize {
        let before = requests.len();
        let lines = input.split_inclusive(|&byte| byte == b'\n');
        requests.extend(lines.filter(|line| line.ends_with(b"\n")).take(max));
        requests.len() - before
    }

    fn answer(
        &mut self,
        session: &mut ToySession,
        requests: &[&[u8]],
        input: &[u8],
        mut tickets: Tickets<'_, Lease>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        let mut consumed = 0;
        for line in requests {
            let number = session.first + session.answers.len() as u32;
            let Some(ticket) = tickets.issue(number) else {
                break;
            };
            session.answers.push_back(None);
            self.0.add(line, ticket);
            consumed += line.len();
        }
        while let Some(Some(answer)) = session.answers.front() {
            out.bytes_mut().extend_from_slice(answer);
            session.answers.pop_front();
            session.first += 1;
        }
        let has_more = input[consumed..].contains(&b'\n');
        let next = match (session.answers.is_empty(), has_more) {
            (false, _) => Next::Completion,
            (true, true) => Next::Yield,
            (true, false) => Next::Input,
        };
        Progress { consumed, next }
    }

    fn maintain(&mut self, _: u64, _: usize) -> bool {
        let fails = self.0.fails_maintenance.swap(false, Ordering::Relaxed);
        assert!(!fails, "intended by the test, outside of any session");
        false
    }

    fn complete(
        &mut self,
        session: &mut ToySession,
        number: u32,
        result: Result<Lease, Abandoned>,
    ) {
        let answer = match &result {
            Ok(leased) => leased.line.clone(),
            Err(Abandoned) => b"lost\n".to_vec(),
        };
        session.answers[(number - session.first) as usize] = Some(answer);
    }
}
