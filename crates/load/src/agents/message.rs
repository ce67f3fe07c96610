//! The messages between coordinator and agent. A message is JSON in the body of a frame.
//!
//! The coordinator divides the connections of a run among several agents. Each agent opens its
//! *part* of the connections and offers the load on them. One agent and the coordinator exchange
//! these messages; "…" marks a message that is sent repeatedly:
//!
//! ```text
//! coordinator                        agent
//!           ◄─────────── Challenge ──       contains the agent's nonce
//!   Hello ──────────────────────────►       contains the coordinator's nonce and proof
//!           ◄──── Welcome or Refused ──     Welcome contains the agent's proof
//!   Prepare ────────────────────────►       contains the settings and the agent's part
//!           ◄─────── Ready or Failed ──     Ready: the agent can start its load
//!   Probe… ─────────────────────────►
//!           ◄───────────────── Echo… ──     gives the offset of the agent's clock
//!   Start ──────────────────────────►       contains the start time by the agent's clock
//!           ◄─────────────── Second… ──     contains the measurements of a second that has ended
//!           ◄──────── Done or Failed ──     Done contains the summary of the agent's part
//!   Probe… ─────────────────────────►
//!           ◄───────────────── Echo… ──     gives the drift of the agent's clock during the run
//!   Stop ───────────────────────────►       ends the session
//! ```
//!
//! Nonces and proofs are those of [`super::token`]. The agent ends the run early if it receives a
//! `Stop` or a message that is not expected at that time, or if the connection ends.

use measure::{Histogram, HistogramError};
use serde::{Deserialize, Serialize};
use workload::Op;

use super::frame::{self, FrameError};
use super::token::{Nonce, Proof};
use crate::config::Config;
use crate::metrics::{Counts, Window};
use crate::part::Part;
use crate::summary::Summary;

/// A message from a coordinator or an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Message {
    /// The agent's first message, with its nonce.
    Challenge { nonce: Nonce },
    /// The coordinator's first message, with the coordinator's nonce and proof.
    Hello { nonce: Nonce, proof: Proof },
    /// The agent accepts the coordinator and sends a proof of its own.
    Welcome { proof: Proof },
    /// The agent refuses the coordinator.
    Refused(Refusal),
    /// A request for the time of the agent's clock. The agent answers immediately. `number` is the
    /// number of the probe, from 0.
    Probe { number: u32 },
    /// The answer to the probe `number`. `received_ns` and `echoed_ns` are the times at which the
    /// agent received the probe and sent this answer, in nanoseconds of Unix time by the agent's
    /// clock.
    Echo {
        number: u32,
        received_ns: u64,
        echoed_ns: u64,
    },
    /// Makes the agent prepare a run. The agent opens the connections of `part` and generates their
    /// schedule, which is the list of requests with their intended send times.
    Prepare { config: Box<Config>, part: Part },
    /// The agent has opened its connections and generated their schedule.
    Ready,
    /// Sets the start of the run, in nanoseconds of Unix time by the agent's clock.
    Start { at_ns: u64 },
    /// The agent's measurements of one second of the run. The second has ended.
    Second(Box<EndedSecond>),
    /// The agent's part of the run has ended. This is its summary.
    Done(Box<Summary>),
    /// The agent could not prepare or complete its part of the run, or the coordinator sent a
    /// malformed or unexpected message.
    Failed { reason: String },
    /// Makes the agent end the session, and the run if it has not ended yet.
    Stop,
}

/// Why an agent refuses a coordinator. The coordinator prints the agent's address and then the
/// error text, so "it" in these texts is the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
pub enum Refusal {
    /// The agent is serving another coordinator.
    #[error("it is busy with the run of another coordinator; wait until that run has ended")]
    Busy,
    /// The coordinator's proof is not valid for the agent's token.
    #[error("it has another token; give both ends the same file with --token-file")]
    Token,
    /// The coordinator speaks another version of the agents' protocol.
    #[error(
        "it speaks version {agent} of the agents' protocol, and this program version {coordinator}; \
         run the same curtail on both hosts"
    )]
    Version {
        /// The agent's version.
        agent: u16,
        /// The coordinator's version.
        coordinator: u16,
    },
}

/// An agent's measurements of one window, as a message. A window is a section of a run. Most
/// windows are one second long, hence the name of this type. The first one, and the last one that
/// is sent, may be shorter. The measurements of all operations (get, set and so on) are merged,
/// because the coordinator only shows figures for all operations together. Each `String` is a
/// histogram of times in nanoseconds, serialised in the HDR V2 format and encoded in Base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndedSecond {
    /// The number of the window. The first window of the run has the number 0.
    pub(crate) number: u32,
    /// The counts of requests and connections in the window.
    counts: Counts,
    /// The latencies of answered requests: response times in an open loop, service times in a
    /// closed loop.
    latency: String,
    /// The slips of answered requests. The slip is the actual minus the intended send time.
    slip: String,
    /// Lower bounds of the latencies of requests that failed or were given up without an answer.
    censored: String,
}

/// Why the body of a frame is not a message.
#[derive(Debug, thiserror::Error)]
#[error("a message that is not understood: {0}")]
pub struct MessageError(#[from] serde_json::Error);

impl Message {
    /// Parses a message from the body of a frame.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, MessageError> {
        Ok(serde_json::from_slice(body)?)
    }

    /// Appends a frame that contains the message to `out`. Fails if the body would be too long.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        // Serialisation cannot fail here, so the default is never used. serde_json fails only if a
        // map has a key that is not text, or if the writer fails. Messages have no such map, and
        // writing to a vector does not fail.
        let body = serde_json::to_vec(self).unwrap_or_default();
        frame::emit(&body, out)
    }
}

impl EndedSecond {
    /// Makes the message for the window with the number `number`. `open_loop` says whether the
    /// latencies in the message are response times (open loop) or service times (closed loop).
    pub(crate) fn of(number: usize, window: &Window, open_loop: bool) -> Self {
        // The latencies of all operations, merged.
        let latencies = window.latencies.all();
        let latency = match open_loop {
            true => &latencies.response,
            false => &latencies.service,
        };
        Self {
            // The longest run has fewer than 2³² windows, so the conversion succeeds.
            number: u32::try_from(number).unwrap_or(u32::MAX),
            counts: window.counts.clone(),
            latency: latency.to_base64(),
            slip: window.latencies.slip.to_base64(),
            censored: latencies.censored.to_base64(),
        }
    }

    /// Makes a window from the message. The message does not say to which operations its latencies
    /// belong. Therefore the window has all of these latencies as latencies of [`Op::Get`].
    ///
    /// # Errors
    /// One of the texts is not a histogram.
    pub(crate) fn window(&self, open_loop: bool) -> Result<Window, HistogramError> {
        let mut window = Window {
            counts: self.counts.clone(),
            ..Window::default()
        };
        let get_latencies = window.latencies.of(Op::Get);
        let latency = match open_loop {
            true => &mut get_latencies.response,
            false => &mut get_latencies.service,
        };
        *latency = Histogram::from_base64(&self.latency)?;
        get_latencies.censored = Histogram::from_base64(&self.censored)?;
        window.latencies.slip = Histogram::from_base64(&self.slip)?;
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{HELLO_LEN_MAX, MESSAGE_LEN_MAX};
    use crate::merge::tests::summaries;
    use frame::Parsed;
    use proptest::prelude::*;

    /// Emits a message, parses the emitted bytes, and returns the parsed message.
    fn emit_and_parse(message: &Message) -> Message {
        let mut out = Vec::new();
        message.emit(&mut out).unwrap();
        let Ok(Parsed::Frame { body, len }) = frame::parse(&out, MESSAGE_LEN_MAX) else {
            panic!("{message:?}")
        };
        assert_eq!(len, out.len());
        Message::parse(body).unwrap()
    }

    /// The bytes of a nonce or of a proof.
    fn bytes() -> impl Strategy<Value = [u8; 32]> {
        any::<[u8; 32]>()
    }

    /// Messages of all kinds, except for `Second`, with random content.
    fn messages() -> impl Strategy<Value = Message> {
        let settings = (1_u32..2_000_000, 0.001_f64..1e9, any::<u64>());
        let config = settings.prop_map(|(connections, rate_rps, seed)| {
            let mut config = Config::new("192.0.2.1:11211".parse().unwrap());
            config.connections = connections;
            config.rate = crate::Rate::PerSecond(rate_rps);
            config.seed = seed;
            config
        });
        let part = any::<[u32; 3]>().prop_map(|[number, first, count]| Part {
            number,
            first,
            count,
        });
        prop_oneof![
            bytes().prop_map(|nonce| Message::Challenge { nonce }),
            (bytes(), bytes()).prop_map(|(nonce, proof)| Message::Hello { nonce, proof }),
            bytes().prop_map(|proof| Message::Welcome { proof }),
            Just(Message::Refused(Refusal::Busy)),
            Just(Message::Refused(Refusal::Token)),
            any::<(u16, u16)>().prop_map(|(agent, coordinator)| {
                Message::Refused(Refusal::Version { agent, coordinator })
            }),
            any::<u32>().prop_map(|number| Message::Probe { number }),
            any::<(u32, u64, u64)>().prop_map(|(number, received_ns, echoed_ns)| Message::Echo {
                number,
                received_ns,
                echoed_ns,
            }),
            (config, part).prop_map(|(config, part)| Message::Prepare {
                config: Box::new(config),
                part,
            }),
            any::<u64>().prop_map(|at_ns| Message::Start { at_ns }),
            summaries().prop_map(|summary| Message::Done(Box::new(summary))),
            any::<String>().prop_map(|reason| Message::Failed { reason }),
            Just(Message::Ready),
            Just(Message::Stop),
        ]
    }

    proptest! {
        #[test]
        fn emitted_message_is_parsed_unchanged(message in messages()) {
            prop_assert_eq!(emit_and_parse(&message), message);
        }

    }

    proptest! {
        // Fewer cases than the usual 256, because each case serialises several histograms.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn parsed_window_has_the_measurements_of_the_sent_window(
            values in prop::collection::vec(1_u64..200_000_000_000, 0..50),
            answered in any::<u64>(),
            open_loop in any::<bool>(),
        ) {
            let mut window = Window::default();
            window.counts.answered = answered;
            for &value in &values {
                let op = if value % 2 == 0 { Op::Get } else { Op::Cas };
                let latencies = window.latencies.of(op);
                let answered_latencies = match open_loop {
                    true => &mut latencies.response,
                    false => &mut latencies.service,
                };
                answered_latencies.record(value);
                // The quotients only make the three histograms different.
                latencies.censored.record(value / 3);
                window.latencies.slip.record(value / 2);
            }
            let second = Message::Second(Box::new(EndedSecond::of(7, &window, open_loop)));
            let Message::Second(parsed) = emit_and_parse(&second) else { panic!() };
            prop_assert_eq!(parsed.number, 7);
            let parsed_window = parsed.window(open_loop).unwrap();
            prop_assert_eq!(parsed_window.counts.answered, answered);
            let (sent, received) = (window.latencies.all(), parsed_window.latencies.all());
            prop_assert_eq!(&received.response, &sent.response);
            prop_assert_eq!(&received.service, &sent.service);
            prop_assert_eq!(&received.censored, &sent.censored);
            prop_assert_eq!(&parsed_window.latencies.slip, &window.latencies.slip);
        }
    }

    #[test]
    fn longest_hello_is_not_longer_than_the_limit_of_the_handshake() {
        let mut out = Vec::new();
        // 255 has the most digits of all bytes. `Hello` is the longest message of the handshake.
        let (nonce, proof) = ([255; 32], [255; 32]);
        Message::Hello { nonce, proof }.emit(&mut out).unwrap();
        assert!(out.len() <= HELLO_LEN_MAX, "{}", out.len());
    }

    /// The corpus of the fuzz target contains recorded messages of a coordinator and of an agent.
    /// If this test fails because the messages have changed, the corpus must be recorded again.
    #[test]
    fn all_messages_in_the_corpus_are_parsed() {
        let coordinator =
            include_bytes!("../../../../fuzz/corpus/agent_frames/run-of-a-coordinator");
        let agent = include_bytes!("../../../../fuzz/corpus/agent_frames/run-of-an-agent");
        for mut input in [&coordinator[..], &agent[..]] {
            while let Ok(Parsed::Frame { body, len }) = frame::parse(input, MESSAGE_LEN_MAX) {
                Message::parse(body).unwrap();
                input = &input[len..];
            }
            assert!(input.is_empty());
        }
    }

    #[test]
    fn unknown_or_malformed_messages_are_errors() {
        for body in [
            r#""Dance""#,
            r#"{"Probe":{"number":1,"more":2}}"#,
            r#"{"Probe":{"number":-1}}"#,
            r#"{"Echo":{"number":1}}"#,
            "",
            "[[[[[[",
        ] {
            assert!(Message::parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
