//! The loop of the thread: wait, receive a burst, answer it, send.
//!
//! All datagrams of a burst are prepared before the first is answered, so that their memory is
//! prefetched, as the runtimes do with connections. A datagram that needs more than one turn
//! continues alone after the burst.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use protocol::binary::{Header, REQUEST_MAGIC, Status, reply};
use service::{Mailbox, Output, Service, Session as _, Tickets, Worker, recycle};
use sys::clock::monotonic_ns;
use sys::datagram::send_to;
use sys::poll::{Events, Interest, Poll, is_ready_within};

use crate::counts::{Count, Counts};
use crate::exchange::{Exchange, Step};
use crate::frame;
use crate::limits::{
    BURST_MAX, DATAGRAM_MAX, MAINTAIN_INTERVAL_NS, MAINTAIN_ITEMS, MEMORY_RETRY_NS,
    REPLY_DATAGRAM_MAX, REQUESTS_PER_TURN, SEND_WAIT_MAX_NS, TURNS_MAX, WAIT_LATE_NS, WAIT_MAX_NS,
};
use crate::reply_limit::ReplyLimit;
use crate::running::Alarm;

/// An error in place of a reply: in the text protocol, and in the binary protocol.
type Refusal = (&'static [u8], Status);

/// The reply in place of one that is too long.
const TOO_LONG: Refusal = (b"SERVER_ERROR reply too long\r\n", Status::TooLarge);
/// The reply to requests that found no memory or no result in time. Parts of their reply would look
/// like the whole.
const TIMED_OUT: Refusal = (b"SERVER_ERROR timed out\r\n", Status::Internal);
/// The reply to an unknown command. The first line of each reply is one, or a digit, which has a
/// `CLIENT_ERROR` for a reply.
const UNKNOWN: &[u8] = protocol::reply::ERROR;

/// The token of the alarm. The sockets have their indices.
const ALARM_TOKEN: u64 = u64::MAX;

/// The state of the thread.
pub(crate) struct Datagrams<W: Worker> {
    sockets: Vec<UdpSocket>,
    poll: Poll,
    limit: ReplyLimit,
    counts: Arc<Counts>,
    answering: Answering<W>,
    wake_maintenance: Box<dyn Fn() + Send + Sync>,
    /// The buffers of a burst, one behind the other.
    inputs: Vec<u8>,
    arrived: Vec<Arrived>,
    maintain_ns: u64,
}

/// The time that exchanges see.
pub(crate) enum Clock {
    Monotonic,
    /// This time in nanoseconds, which passes only while an exchange waits.
    Simulated(u64),
}

/// The service's worker, and what sessions need to answer.
pub(crate) struct Answering<W: Worker> {
    pub(crate) worker: W,
    pub(crate) clock: Clock,
    alarm: Arc<Alarm>,
    waker: Waker,
    mailbox: Option<Arc<Mailbox<W::Completion>>>,
    out: Output<W::Pin>,
    requests: Vec<W::Request<'static>>,
    pub(crate) exchanges: Vec<Exchange<W>>,
    /// Empty buffers of replies, for reuse.
    replies: Vec<Vec<u8>>,
    /// The number of the next exchange.
    next_number: u32,
}

/// A datagram of the burst.
#[derive(Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) peer: SocketAddr,
    /// Its length with the header.
    pub(crate) len: usize,
    /// The client's number of the request.
    pub(crate) request: u16,
}

impl<W: Worker> Datagrams<W> {
    pub(crate) fn new(
        service: &impl Service<Worker = W>,
        sockets: Vec<UdpSocket>,
        limit: ReplyLimit,
        counts: &Arc<Counts>,
        alarm: &Arc<Alarm>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (index, socket) in sockets.iter().enumerate() {
            poll.add(socket, index as u64, Interest::Read)?;
        }
        poll.add(&alarm.waker, ALARM_TOKEN, Interest::Read)?;
        Ok(Self {
            sockets,
            poll,
            limit,
            counts: Arc::clone(counts),
            answering: Answering::new(service.worker(), alarm),
            wake_maintenance: service.maintenance_waker(),
            inputs: vec![0; BURST_MAX * DATAGRAM_MAX],
            arrived: Vec::with_capacity(BURST_MAX),
            maintain_ns: 0,
        })
    }

    /// Serves until the thread has to stop.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(self.sockets.len() + 1);
        self.answering.worker.offline();
        while !self.must_stop() {
            // It fails only for a wrong descriptor.
            if self.poll.wait(&mut events, None).is_err() {
                return;
            }
            self.answering.alarm.waker.clear();
            self.answering.worker.online();
            // Late results, whose exchanges have ended, would otherwise count as untaken.
            self.answering.deliver();
            for ready in events.iter() {
                if ready.token != ALARM_TOKEN && !self.must_stop() {
                    self.serve_ready(ready.token as usize);
                }
            }
            self.answering.worker.offline();
        }
    }

    fn must_stop(&self) -> bool {
        self.answering.alarm.must_stop()
    }

    /// Serves one burst of a socket. What is left of its datagrams makes the next wait return.
    fn serve_ready(&mut self, index: usize) {
        let served = catch_unwind(AssertUnwindSafe(|| {
            self.receive(index);
            if !self.arrived.is_empty() {
                self.serve_burst(index);
            }
        }));
        if served.is_err() {
            self.counts.add(Count::Panics, 1);
            self.answering.reset();
            // A worker that was reset may be offline, but this thread continues to use it.
            self.answering.worker.online();
        }
    }

    /// Receives the datagrams of a burst that have a valid header.
    fn receive(&mut self, index: usize) {
        self.arrived.clear();
        for _ in 0..BURST_MAX {
            let at = self.arrived.len() * DATAGRAM_MAX;
            let buffer = &mut self.inputs[at..at + DATAGRAM_MAX];
            // Errors other than an empty queue are those of earlier sends, which are dropped.
            let Ok((len, peer)) = self.sockets[index].recv_from(buffer) else {
                return;
            };
            self.counts.add(Count::Received, 1);
            self.counts.add(Count::BytesRead, len as u64);
            match frame::parse(&buffer[..len]) {
                Some((request, _)) => self.arrived.push(Arrived { peer, len, request }),
                None => self.counts.add(Count::Malformed, 1),
            }
        }
    }

    fn serve_burst(&mut self, index: usize) {
        let now_ns = monotonic_ns();
        let mut payloads: [&[u8]; BURST_MAX] = [&[]; BURST_MAX];
        let buffers = self.inputs.chunks(DATAGRAM_MAX).zip(&self.arrived);
        for (payload, (buffer, arrived)) in payloads.iter_mut().zip(buffers) {
            *payload = &buffer[frame::HEADER_LEN..arrived.len];
        }
        let payloads = &payloads[..self.arrived.len()];
        self.answering.answer_burst(payloads, now_ns, &self.counts);
        let exchanges = mem::take(&mut self.answering.exchanges);
        // The replies are copies. While they wait for space, the worker delays no reclamation.
        self.answering.worker.offline();
        for ((exchange, payload), arrived) in exchanges.iter().zip(payloads).zip(&self.arrived) {
            self.reply(index, exchange, payload, *arrived);
        }
        self.answering.keep_buffers(exchanges);
        self.answering.worker.online();
        self.maintain(now_ns);
    }

    /// Sends the reply of an exchange, or an error in its place.
    fn reply(&self, index: usize, exchange: &Exchange<W>, payload: &[u8], to: Arrived) {
        if let Some(content) = content(self.limit, &self.counts, exchange, payload, to) {
            self.send(&self.sockets[index], &content, to);
        }
    }

    /// Sends the datagrams of a reply in order. Drops the rest if the socket has no space for long.
    fn send(&self, socket: &UdpSocket, content: &[u8], to: Arrived) {
        let mut datagram = [0; REPLY_DATAGRAM_MAX];
        let count = frame::count(content) as u64;
        let mut deadline_ns = None;
        for (sent, (header, payload)) in frame::datagrams(to.request, content).enumerate() {
            let len = header.len() + payload.len();
            datagram[..header.len()].copy_from_slice(&header);
            datagram[header.len()..len].copy_from_slice(payload);
            loop {
                match send_to(socket, &datagram[..len], to.peer) {
                    Ok(_) => break,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let now_ns = monotonic_ns();
                        let deadline_ns = *deadline_ns.get_or_insert(now_ns + SEND_WAIT_MAX_NS);
                        if now_ns < deadline_ns
                            && !self.must_stop()
                            && is_ready_within(socket, Interest::Write, deadline_ns - now_ns)
                                .unwrap_or(false)
                        {
                            continue;
                        }
                    }
                    Err(_) => {}
                }
                self.counts.add(Count::Unsent, count - sent as u64);
                return;
            }
            self.counts.add(Count::Sent, 1);
            self.counts.add(Count::BytesWritten, len as u64);
        }
    }

    fn maintain(&mut self, now_ns: u64) {
        let worker = &mut self.answering.worker;
        if now_ns >= self.maintain_ns {
            worker.maintain(now_ns, MAINTAIN_ITEMS);
            self.maintain_ns = now_ns + MAINTAIN_INTERVAL_NS;
        }
        if worker.needs_maintenance_thread() {
            (self.wake_maintenance)();
        }
    }
}

impl<W: Worker> Answering<W> {
    pub(crate) fn new(worker: W, alarm: &Arc<Alarm>) -> Self {
        Self {
            worker,
            clock: Clock::Monotonic,
            alarm: Arc::clone(alarm),
            waker: Waker::from(Arc::clone(alarm)),
            mailbox: None,
            out: Output::default(),
            requests: Vec::new(),
            exchanges: Vec::with_capacity(BURST_MAX),
            replies: Vec::new(),
            next_number: 0,
        }
    }

    /// Answers the requests of these datagrams, each with an exchange in `exchanges`.
    pub(crate) fn answer_burst(&mut self, payloads: &[&[u8]], now_ns: u64, counts: &Counts) {
        self.worker.begin_burst(now_ns);
        let mut requests = recycle::<W>(mem::take(&mut self.requests));
        let mut prepared = [0; BURST_MAX];
        for (payload, prepared) in payloads.iter().zip(&mut prepared) {
            let reply = self.replies.pop().unwrap_or_default();
            let mut exchange = Exchange::new(&self.worker, self.next_number, reply);
            self.next_number = self.next_number.wrapping_add(1);
            let session = &mut exchange.session;
            *prepared = self
                .worker
                .prepare(session, payload, REQUESTS_PER_TURN, &mut requests);
            self.exchanges.push(exchange);
        }
        self.worker.prefetch(&mut requests);
        let mut steps = [Step::Done; BURST_MAX];
        let mut first = 0;
        for (index, payload) in payloads.iter().enumerate() {
            let own = &requests[first..first + prepared[index]];
            first += prepared[index];
            steps[index] = self.turn(index, own, payload);
        }
        self.requests = recycle::<W>(requests);
        let elapsed_ns = self
            .worker
            .needs_elapsed_time()
            .then(|| self.clock.now_ns() - now_ns);
        self.worker.end_burst(elapsed_ns);
        for (index, payload) in payloads.iter().enumerate() {
            match self.finish(index, payload, steps[index]) {
                Step::Done => {}
                Step::Incomplete => counts.add(Count::Incomplete, 1),
                _ => {
                    counts.add(Count::TimedOut, 1);
                    self.exchanges[index].has_timed_out = true;
                }
            }
        }
    }

    /// Gives an exchange one turn, with its prepared requests.
    fn turn(&mut self, index: usize, requests: &[W::Request<'_>], input: &[u8]) -> Step {
        let exchange = &mut self.exchanges[index];
        let tickets = Tickets {
            mailbox: &mut self.mailbox,
            waker: &self.waker,
            connection: exchange.id,
            open: &mut exchange.tickets,
        };
        let (session, out) = (&mut exchange.session, &mut self.out);
        let progress = self.worker.answer(session, requests, input, tickets, out);
        exchange.take(progress, input.len(), &mut self.out)
    }

    /// Gives an exchange further turns until it is complete, or has waited for too long. Returns
    /// the last step.
    fn finish(&mut self, index: usize, payload: &[u8], mut step: Step) -> Step {
        let mut deadline_ns = None;
        for _ in 0..TURNS_MAX {
            let wait_ns = match step {
                Step::Done | Step::Incomplete => return step,
                Step::Turn => 0,
                Step::Memory => MEMORY_RETRY_NS,
                Step::Completion => WAIT_MAX_NS,
            };
            let now_ns = self.clock.now_ns();
            let deadline_ns = deadline_ns.get_or_insert(now_ns + WAIT_MAX_NS);
            if now_ns >= *deadline_ns || self.alarm.must_stop() {
                return step;
            }
            let wait_ns = wait_ns.min(*deadline_ns - now_ns);
            if wait_ns > 0 {
                self.wait(index, wait_ns, step == Step::Completion);
                let after_ns = self.clock.now_ns();
                if after_ns > now_ns + wait_ns + WAIT_LATE_NS {
                    // This process stood still, and with it what the session waits for.
                    *deadline_ns = after_ns + WAIT_MAX_NS;
                }
            }
            step = self.turn_alone(index, payload);
        }
        step
    }

    /// Waits for a result of the exchange if it needs one, or else for the whole time.
    fn wait(&mut self, index: usize, wait_ns: u64, needs_result: bool) {
        let until_ns = self.clock.now_ns() + wait_ns;
        loop {
            self.deliver();
            let now_ns = self.clock.now_ns();
            let has_result = needs_result && self.exchanges[index].has_result;
            if has_result || now_ns >= until_ns || self.alarm.must_stop() {
                return;
            }
            self.worker.offline();
            self.clock.sleep(&self.alarm, until_ns - now_ns);
            self.worker.online();
        }
    }

    /// Delivers the results that have arrived to the exchanges of the burst. Those for earlier
    /// exchanges, which waited for too long, are dropped.
    fn deliver(&mut self) {
        let Some(mailbox) = self.mailbox.clone() else {
            return;
        };
        while let Some(completed) = mailbox.take() {
            let mut exchanges = self.exchanges.iter_mut();
            if let Some(exchange) = exchanges.find(|it| it.id == completed.connection) {
                exchange.tickets.record_delivery();
                exchange.has_result = true;
                let (session, number) = (&mut exchange.session, completed.number);
                self.worker.complete(session, number, completed.result);
            }
        }
    }

    /// Gives an exchange a turn outside of a burst.
    fn turn_alone(&mut self, index: usize, payload: &[u8]) -> Step {
        self.worker.begin_burst(self.clock.now_ns());
        let exchange = &mut self.exchanges[index];
        exchange.has_result = false;
        let input = &payload[exchange.consumed..];
        let mut requests = recycle::<W>(mem::take(&mut self.requests));
        exchange.session.discard_prepared();
        let session = &mut exchange.session;
        self.worker
            .prepare(session, input, REQUESTS_PER_TURN, &mut requests);
        self.worker.prefetch(&mut requests);
        let step = self.turn(index, &requests, input);
        self.requests = recycle::<W>(requests);
        self.worker.end_burst(None);
        step
    }

    /// Keeps the buffers of replies of usual length, and the list.
    pub(crate) fn keep_buffers(&mut self, mut exchanges: Vec<Exchange<W>>) {
        for mut exchange in exchanges.drain(..) {
            let mut reply = mem::take(&mut exchange.reply);
            if reply.capacity() <= DATAGRAM_MAX {
                reply.clear();
                self.replies.push(reply);
            }
        }
        self.exchanges = exchanges;
    }

    /// Replaces what a panic may have left inconsistent.
    fn reset(&mut self) {
        self.worker.reset();
        self.exchanges.clear();
        self.requests.clear();
        self.out = Output::default();
    }
}

impl Clock {
    fn now_ns(&self) -> u64 {
        match *self {
            Self::Monotonic => monotonic_ns(),
            Self::Simulated(now_ns) => now_ns,
        }
    }

    /// Sleeps until the alarm, for at most this time.
    fn sleep(&mut self, alarm: &Alarm, timeout_ns: u64) {
        match self {
            Self::Monotonic => {
                if is_ready_within(&alarm.waker, Interest::Read, timeout_ns).is_ok() {
                    alarm.waker.clear();
                }
            }
            Self::Simulated(now_ns) => *now_ns += timeout_ns,
        }
    }
}

/// The reply of an exchange, or an error in its place. `None` if nothing is sent.
pub(crate) fn content<'a, W: Worker>(
    limit: ReplyLimit,
    counts: &Counts,
    exchange: &'a Exchange<W>,
    payload: &[u8],
    to: Arrived,
) -> Option<Cow<'a, [u8]>> {
    let is_allowed = |content: &[u8]| limit.allows(to.peer, to.len, frame::total_len(content));
    let mut content = Cow::Borrowed(&exchange.reply[..]);
    let mut refusal = exchange.has_timed_out.then_some(TIMED_OUT);
    if refusal.is_none() && (exchange.is_too_long || !is_allowed(&content)) {
        counts.add(Count::Limited, 1);
        refusal = Some(TOO_LONG);
    }
    if let Some(refusal) = refusal {
        let mut error = Vec::new();
        write_refusal(refusal, payload, &mut error);
        if !is_allowed(&error) {
            return None;
        }
        content = Cow::Owned(error);
    }
    if content.starts_with(UNKNOWN) {
        counts.add(Count::Unanswered, 1);
        return None;
    }
    (!content.is_empty()).then_some(content)
}

/// Writes an error in the protocol of the request.
fn write_refusal((line, status): Refusal, payload: &[u8], out: &mut Vec<u8>) {
    match payload.first_chunk() {
        Some(bytes) if bytes[0] == REQUEST_MAGIC => {
            reply::error(out, Header::read(bytes).head, status);
        }
        _ => out.extend_from_slice(line),
    }
}
