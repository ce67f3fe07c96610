//! A toy service that waits for completions. A line is answered with itself once the test has
//! completed it; several lines may be outstanding, and are answered in their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use service::{
    Abandoned, Next, NoPin, Output, Progress, Service, Session, Ticket, Tickets, Worker,
};

/// The lines to complete, and the memory lent to them.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) asked: Mutex<Vec<(Lent, Ticket<Lent>)>>,
    lent: Arc<AtomicUsize>,
}

/// Memory of the source. It comes back when it is dropped.
pub(crate) struct Lent {
    pub(crate) line: Vec<u8>,
    count: Arc<AtomicUsize>,
}

impl Source {
    /// How much memory is lent.
    pub(crate) fn lent(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }

    /// The lines asked for so far, without those taken before.
    pub(crate) fn take(&self) -> Vec<(Lent, Ticket<Lent>)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn ask(&self, line: &[u8], ticket: Ticket<Lent>) {
        self.lent.fetch_add(1, Ordering::Relaxed);
        let lent = Lent {
            line: line.to_vec(),
            count: Arc::clone(&self.lent),
        };
        self.asked.lock().unwrap().push((lent, ticket));
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Default)]
pub(crate) struct Toy(pub(crate) Arc<Source>);

/// The answers of a connection, in order; `None`: not completed yet.
#[derive(Default)]
pub(crate) struct ToySession {
    /// The number of the first answer.
    first: u32,
    answers: VecDeque<Option<Vec<u8>>>,
}

impl Session for ToySession {}

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
    type Completion = Lent;

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
        mut tickets: Tickets<'_, Lent>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        let mut consumed = 0;
        for line in requests {
            let number = session.first + session.answers.len() as u32;
            let Some(ticket) = tickets.issue(number) else {
                break;
            };
            session.answers.push_back(None);
            self.0.ask(line, ticket);
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

    fn complete(&mut self, session: &mut ToySession, number: u32, result: Result<Lent, Abandoned>) {
        let answer = match &result {
            Ok(lent) => lent.line.clone(),
            Err(Abandoned) => b"lost\n".to_vec(),
        };
        session.answers[(number - session.first) as usize] = Some(answer);
    }
}
