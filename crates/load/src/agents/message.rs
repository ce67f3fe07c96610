//! The messages between coordinator and agent, as JSON in a frame.
//!
//! ```text
//! coordinator                        agent
//!           ◄─────────── Challenge ──       the agent's nonce
//!   Hello ──────────────────────────►       the coordinator's nonce and proof
//!           ◄──── Welcome or Refused ──     the agent's proof
//!   Prepare ────────────────────────►       settings and the agent's part of the connections
//!           ◄─────── Ready or Failed ──     connections are open and the schedule is generated
//!   Probe… ─────────────────────────►
//!           ◄───────────────── Echo… ──     measures the offset of the clocks
//!   Start ──────────────────────────►       the start time, by the agent's clock
//!           ◄─────────────── Second… ──     the measurements of each second, as it ends
//!           ◄──────── Done or Failed ──     the summary of the agent's part
//!   Probe… ─────────────────────────►
//!           ◄───────────────── Echo… ──     measures the drift of the clocks during the run
//! ```
//!
//! The agent stops the run immediately after a `Stop`, after the end of the connection, and after a
//! message that is not allowed at that point.

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
    /// The coordinator's first message, with its nonce and its proof of the token.
    Hello { nonce: Nonce, proof: Proof },
    /// The agent accepts the coordinator, and proves that it has the token too.
    Welcome { proof: Proof },
    /// The agent refuses the coordinator.
    Refused(Refusal),
    /// A probe of the agent's clock. The agent echoes it immediately.
    Probe { number: u32 },
    /// The answer to a probe. The times at which the agent received the probe and sent this answer
    /// are in nanoseconds of Unix time, by the agent's clock.
    Echo {
        number: u32,
        received_ns: u64,
        echoed_ns: u64,
    },
    /// Makes the agent prepare a run: open the connections of its part, and generate the schedule
    /// of its part.
    Prepare { config: Box<Config>, part: Part },
    /// The agent has opened its connections and generated its schedule.
    Ready,
    /// Sets the start of the run, in nanoseconds of Unix time by the agent's clock.
    Start { at_ns: u64 },
    /// The agent's measurements of one second of the run, which has ended.
    Second(Box<EndedSecond>),
    /// The agent's run has ended, with the summary of its part.
    Done(Box<Summary>),
    /// The agent could not prepare the run, or the run failed.
    Failed { reason: String },
    /// Makes the agent end the run immediately.
    Stop,
}

/// Why an agent refuses a coordinator. The coordinator shows the error texts after the agent's
/// address, so "it" is the agent.
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

/// The measurements of one window of a run (a second), in the form in which they are sent. All
/// operations are merged, because the figures shown for each second do not distinguish operations.
/// Histograms are serialised in the HDR V2 format and encoded in Base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndedSecond {
    /// The number of the window in the run.
    pub(crate) number: u32,
    counts: Counts,
    /// The histogram of response times, or of service times in a closed loop.
    latency: String,
    /// The histogram of slips: actual minus intended send times.
    slip: String,
    /// The histogram of lower bounds of the latencies of requests without an answer.
    censored: String,
}

/// The error of a frame whose body is not a message.
#[derive(Debug, thiserror::Error)]
#[error("a message that is not understood: {0}")]
pub struct MessageError(#[from] serde_json::Error);

impl Message {
    /// Parses a message from the body of a frame.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, MessageError> {
        Ok(serde_json::from_slice(body)?)
    }

    /// Appends a frame that contains the message.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        // This cannot fail. serde_json fails for two reasons only: a map has a key that is not
        // text, or the writer fails. Messages have no such map, and writing to a vector does not
        // fail.
        let body = serde_json::to_vec(self).unwrap_or_default();
        frame::emit(&body, out)
    }
}

impl EndedSecond {
    /// Makes the message of window `number`. `open_loop` selects which latencies are sent: response
    /// times in an open loop, service times in a closed one.
    pub(crate) fn of(number: usize, window: &Window, open_loop: bool) -> Self {
        let latencies = window.latencies.all();
        let latency = match open_loop {
            true => &latencies.response,
            false => &latencies.service,
        };
        Self {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            counts: window.counts.clone(),
            latency: latency.to_base64(),
            slip: window.latencies.slip.to_base64(),
            censored: latencies.censored.to_base64(),
        }
    }

    /// Makes a window from the message. The message does not say which operations the latencies
    /// belong to, so all are put under [`Op::Get`].
    pub(crate) fn window(&self, open_loop: bool) -> Result<Window, HistogramError> {
        let mut window = Window {
            counts: self.counts.clone(),
            ..Window::default()
        };
        let latencies = window.latencies.of(Op::Get);
        let latency = match open_loop {
            true => &mut latencies.response,
            false => &mut latencies.service,
        };
        *latency = Histogram::from_base64(&self.latency)?;
        latencies.censored = Histogram::from_base64(&self.censored)?;
        window.latencies.slip = Histogram::from_base64(&self.slip)?;
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{FRAME_LEN_MAX, HELLO_LEN_MAX};
    use frame::Parsed;
    use proptest::prelude::*;

    fn round_trip(message: &Message) -> Message {
        let mut out = Vec::new();
        message.emit(&mut out).unwrap();
        let Ok(Parsed::Frame { body, len }) = frame::parse(&out, FRAME_LEN_MAX) else {
            panic!("{message:?}")
        };
        assert_eq!(len, out.len());
        Message::parse(body).unwrap()
    }

    fn messages() -> impl Strategy<Value = Message> {
        let bytes = any::<[u8; 32]>;
        let config = (1_u32..2_000_000, 0.001_f64..1e9, any::<u64>()).prop_map(|values| {
            let mut config = Config::new("192.0.2.1:11211".parse().unwrap());
            let rate_rps;
            (config.connections, rate_rps, config.seed) = values;
            config.rate = crate::Rate::PerSecond(rate_rps);
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
            any::<(u16, u16)>().prop_map(|(agent, coordinator)| {
                Message::Refused(Refusal::Version { agent, coordinator })
            }),
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
            any::<String>().prop_map(|reason| Message::Failed { reason }),
            Just(Message::Ready),
            Just(Message::Stop),
        ]
    }

    proptest! {
        #[test]
        fn emitted_message_is_parsed_unchanged(message in messages()) {
            prop_assert_eq!(round_trip(&message), message);
        }

    }

    proptest! {
        // Few cases, because each of them serialises several histograms.
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
                let answered = match open_loop {
                    true => &mut latencies.response,
                    false => &mut latencies.service,
                };
                answered.record(value);
                latencies.censored.record(value / 3);
                window.latencies.slip.record(value / 2);
            }
            let second = Message::Second(Box::new(EndedSecond::of(7, &window, open_loop)));
            let Message::Second(parsed) = round_trip(&second) else { panic!() };
            prop_assert_eq!(parsed.number, 7);
            let parsed = parsed.window(open_loop).unwrap();
            prop_assert_eq!(parsed.counts.answered, answered);
            let (sent, received) = (window.latencies.all(), parsed.latencies.all());
            prop_assert_eq!(&received.response, &sent.response);
            prop_assert_eq!(&received.service, &sent.service);
            prop_assert_eq!(&received.censored, &sent.censored);
            prop_assert_eq!(&parsed.latencies.slip, &window.latencies.slip);
        }
    }

    #[test]
    fn longest_message_of_the_handshake_is_below_its_bound() {
        let mut out = Vec::new();
        let (nonce, proof) = ([255; 32], [255; 32]);
        Message::Hello { nonce, proof }.emit(&mut out).unwrap();
        assert!(out.len() <= HELLO_LEN_MAX, "{}", out.len());
    }

    /// If this fails because the messages have changed, the corpus of the fuzz target must be
    /// recorded again.
    #[test]
    fn messages_of_the_recorded_runs_are_parsed() {
        let coordinator =
            include_bytes!("../../../../fuzz/corpus/agent_frames/run-of-a-coordinator");
        let agent = include_bytes!("../../../../fuzz/corpus/agent_frames/run-of-an-agent");
        for mut input in [&coordinator[..], &agent[..]] {
            while let Ok(Parsed::Frame { body, len }) = frame::parse(input, FRAME_LEN_MAX) {
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
