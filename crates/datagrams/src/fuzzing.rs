//! Answering datagrams without sockets, and properties of the replies that hold for any datagrams.
//! Fuzz targets check them.

use std::io;
use std::net::SocketAddr;

use service::{Service, Worker};

use crate::counts::Counts;
use crate::frame::{self, HEADER_LEN};
use crate::limits::{BURST_MAX, REPLY_DATAGRAM_MAX};
use crate::reply_limit::ReplyLimit;
use crate::running::Alarm;
use crate::worker::{Answering, Arrived, Clock, content};

/// The line of an unknown command, with which no reply begins.
const UNKNOWN: &[u8] = b"ERROR\r\n";

/// The datagrams of a reply, in order.
pub type Datagrams = Vec<Vec<u8>>;

/// The thread's way from datagrams to datagrams, without the thread and its sockets.
pub struct Exchanges<W: Worker> {
    answering: Answering<W>,
    limit: ReplyLimit,
    counts: Counts,
    /// Whether a datagram of the last burst needed more than one turn.
    continued: bool,
}

impl<W: Worker> Exchanges<W> {
    /// A server of datagrams with a worker of its own.
    ///
    /// # Errors
    /// The limit of descriptors is reached.
    pub fn new(service: &impl Service<Worker = W>, limit: ReplyLimit) -> io::Result<Self> {
        let mut worker = service.worker();
        worker.online();
        Ok(Self {
            answering: Answering::new(worker, &Alarm::new()?),
            limit,
            counts: Counts::default(),
            continued: false,
        })
    }

    /// Answers datagrams that arrive together at `now_ns`, at most [`BURST_MAX`] of them. Returns
    /// the datagrams that are sent in reply to each. A datagram may be longer than those of UDP.
    /// Time passes only while an exchange waits.
    pub fn answer(&mut self, now_ns: u64, peer: SocketAddr, datagrams: &[&[u8]]) -> Vec<Datagrams> {
        let mut replies = vec![Datagrams::new(); datagrams.len()];
        let (mut indices, mut arrived, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
        for (index, datagram) in datagrams.iter().take(BURST_MAX).enumerate() {
            let len = datagram.len();
            if let Some((request, payload)) = frame::parse(datagram) {
                indices.push(index);
                arrived.push(Arrived { peer, len, request });
                payloads.push(payload);
            }
        }
        self.answering.clock = Clock::Simulated(now_ns);
        self.answering.answer_burst(&payloads, now_ns, &self.counts);
        let exchanges = std::mem::take(&mut self.answering.exchanges);
        self.continued = exchanges.iter().any(|exchange| exchange.turns > 1);
        for (at, exchange) in exchanges.iter().enumerate() {
            let reply = content(
                self.limit,
                &self.counts,
                exchange,
                payloads[at],
                arrived[at],
            );
            let sent = reply.iter().flat_map(|reply| {
                frame::datagrams(arrived[at].request, reply)
                    .map(|(header, payload)| [&header, payload].concat())
            });
            replies[indices[at]] = sent.collect();
        }
        self.answering.keep_buffers(exchanges);
        replies
    }
}

/// The reply that these datagrams contain, which answer `datagram`.
///
/// # Panics
/// A datagram is too long, or its header is not that of its place in the reply.
#[must_use]
pub fn reply_of(datagram: &[u8], reply: &[Vec<u8>]) -> Vec<u8> {
    let mut content = Vec::new();
    for (sequence, sent) in reply.iter().enumerate() {
        assert!((HEADER_LEN + 1..=REPLY_DATAGRAM_MAX).contains(&sent.len()));
        assert!(sequence + 1 == reply.len() || sent.len() == REPLY_DATAGRAM_MAX);
        let [s0, s1] = (sequence as u16).to_be_bytes();
        let [c0, c1] = (reply.len() as u16).to_be_bytes();
        let header = [datagram[0], datagram[1], s0, s1, c0, c1, 0, 0];
        assert_eq!(sent[..HEADER_LEN], header);
        content.extend_from_slice(&sent[HEADER_LEN..]);
    }
    content
}

/// Answers the datagrams of `input`, and checks the replies:
///
/// - A datagram without a valid header has none.
/// - A stranger receives at most as many bytes as the limit says.
/// - No reply begins with the line of an unknown command.
/// - A burst has the replies that its datagrams have alone, which `alone` answers. A datagram that
///   needs more than one turn is the last of its burst, because its later turns come after the
///   first turns of all others.
///
/// The first byte of the input says whether the peer is a stranger (bit 0). For each datagram a
/// length of two bytes follows (little-endian, of which the highest bit begins another burst) and
/// the datagram.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_datagrams<W: Worker>(
    input: &[u8],
    together: &mut Exchanges<W>,
    alone: &mut Exchanges<W>,
) {
    let Some((&switches, rest)) = input.split_first() else {
        return;
    };
    let peer = SocketAddr::from(([[10, 0, 0, 1], [8, 8, 8, 8]][usize::from(switches & 1)], 9));
    for burst in bursts(rest) {
        let mut first = 0;
        let mut expected = Vec::new();
        for (index, datagram) in burst.iter().enumerate() {
            expected.extend(alone.answer(0, peer, &[datagram]));
            if alone.continued || index + 1 == burst.len() {
                let part = &burst[first..=index];
                let replies = together.answer(0, peer, part);
                assert_eq!(replies, expected);
                for (datagram, reply) in part.iter().zip(&replies) {
                    check_reply(datagram, reply, peer, together.limit);
                }
                first = index + 1;
                expected.clear();
            }
        }
    }
}

/// Checks the properties that each reply has.
fn check_reply(datagram: &[u8], reply: &[Vec<u8>], peer: SocketAddr, limit: ReplyLimit) {
    assert!(frame::parse(datagram).is_some() || reply.is_empty());
    assert!(!reply_of(datagram, reply).starts_with(UNKNOWN));
    let len = reply.iter().map(Vec::len).sum();
    assert!(limit.allows(peer, datagram.len(), len));
}

/// The datagrams of an input, by burst.
fn bursts(mut input: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut bursts = vec![Vec::new()];
    while let Some((&[low, high], rest)) = input.split_first_chunk() {
        if high & 0x80 != 0 {
            bursts.push(Vec::new());
        }
        let len = usize::from(u16::from_le_bytes([low, high & 0x7f])).min(rest.len());
        let (datagram, rest) = rest.split_at(len);
        match bursts.last_mut() {
            Some(burst) if burst.len() < BURST_MAX => burst.push(datagram),
            _ => bursts.push(vec![datagram]),
        }
        input = rest;
    }
    bursts
}
