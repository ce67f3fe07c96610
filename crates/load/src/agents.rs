//! One load that several hosts offer together: a coordinator and its agents.
//!
//! ```text
//! coordinator ── settings, part of the connections, start time ────► agent ── requests ──► servers
//!             ◄─ measurements of each second, summary of the part ──
//! ```
//!
//! The coordinator divides the connections of a run into *parts* ([`crate::Part`]), one for each
//! agent. In an open loop, a run has a schedule, which is the list of its requests and their
//! intended send times. The schedules of the parts together are exactly the schedule of the run.
//! All agents start at the same time. The coordinator chooses that time, translates it to each
//! agent's clock ([`clock`]), and reports the greatest possible error of the translation. Each
//! agent measures its own requests by its own clock, so no latency is the difference of two clocks.
//! The summaries of the parts are merged without loss ([`crate::Summary::merge`]).
//!
//! If an agent fails before the start, the run ends with an error. An agent is *missing* if it
//! fails after the start, or if its measurements arrive later than [`crate::limits::LAG_MAX_NS`]
//! permits. The other agents then continue. The summary names the missing agents and covers only
//! the connections of the others. If the coordinator fails, each agent stops its part as soon as it
//! notices the end of the connection. The coordinator and the agents must be the same version of
//! the program and have the same token ([`Token`]). `docs/decisions/012-agents.md` gives the
//! reasons.

mod agent;
mod agent_states;
pub mod clock;
mod coordinator;
pub mod frame;
pub mod fuzzing;
mod link;
mod message;
mod report;
mod token;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

pub use agent::{Agent, AgentEvent};
pub use coordinator::{Coordinator, Progress};
pub use link::LinkError;
pub use message::Refusal;
// `lines` formats the lines about the agents below the table of a run, and `clock_text` the offset
// of an agent's clock. `covered` counts the connections that a summary covers.
pub(crate) use report::lines;
pub use report::{AgentLimits, AgentReport, clock_text, covered};
pub use token::{Token, TokenError};

/// The address of an agent: `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAddress {
    /// The address as the user wrote it.
    text: String,
    /// The first address to which the name was resolved.
    address: SocketAddr,
}

/// Why a text is not the address of an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {fault}; give HOST:PORT")]
pub struct AddressError {
    text: String,
    fault: String,
}

impl FromStr for AgentAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |fault: String| AddressError {
            text: text.to_owned(),
            fault,
        };
        let mut addresses = text
            .to_socket_addrs()
            .map_err(|source| error(source.to_string()))?;
        let address = addresses.next();
        Ok(Self {
            text: text.to_owned(),
            address: address.ok_or_else(|| error("the name has no address".to_owned()))?,
        })
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Why an agent does not take part in a run. The error texts follow "failed to run agent
/// HOST:PORT: ", so "it" is the agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The connection to the agent could not be established.
    #[error("{0}; is `curtail agent` running there?")]
    Connect(io::Error),
    /// The connection to the agent failed, or the agent sent bytes that are not a message.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The agent refused this coordinator.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The agent's proof is not valid for the coordinator's token.
    #[error("it has not proved that it has the token; is it the agent you meant?")]
    TokenNotProved,
    /// The agent failed, and sent this reason.
    #[error("{0}")]
    Failed(String),
    /// The agent sent a message that is not allowed at this point of the exchange.
    #[error("it sent an unexpected message")]
    UnexpectedMessage,
    /// No probe of the agent's clock ([`clock::Probe`]) gave a valid offset.
    #[error("its clock, or the clock of this host, was set during every probe")]
    Clock,
}
