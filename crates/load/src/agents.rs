//! One load offered by several hosts: a coordinator and its agents.
//!
//! ```text
//! coordinator ── settings, part of the connections, start ──► agent ── requests ──► servers
//! (`run`)     ◄─ seconds, summary of the part ────────────── (`Agent`)
//! ```
//!
//! The coordinator divides the connections of a run into parts ([`crate::Part`]), one for each
//! agent. The parts together have exactly the run's schedule. All agents start at one agreed time,
//! which is translated to the clock of each ([`clock`]); its error is reported. Each agent measures
//! its own requests by its own clock: no latency is a difference of two clocks. The summaries of
//! the parts are merged without loss ([`crate::Summary::merge`]).
//!
//! An agent that fails before the start ends the run with an error. One that fails or lags
//! afterwards is missing: the others go on, and the summary covers their connections only and says
//! so. A coordinator that fails ends the part of each agent at once. Coordinator and agents are one
//! version and have the same token ([`Token`]).

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
pub(crate) use report::lines;
pub use report::{AgentLimits, AgentReport, clock_text, covered};
pub use token::{Token, TokenError};

/// The address of an agent: `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAddress {
    text: String,
    address: SocketAddr,
}

/// Text that is not an agent's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {fault}; give HOST:PORT")]
pub struct AddressError {
    text: String,
    fault: String,
}

impl FromStr for AgentAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let fault = |fault: String| AddressError {
            text: text.to_owned(),
            fault,
        };
        let mut addresses = text
            .to_socket_addrs()
            .map_err(|error| fault(error.to_string()))?;
        let address = addresses.next();
        Ok(Self {
            text: text.to_owned(),
            address: address.ok_or_else(|| fault("the name has no address".to_owned()))?,
        })
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Why an agent does not take part in a run. Messages read after "failed to run agent HOST:PORT: ".
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It cannot be reached.
    #[error("{0}; is `curtail agent` running there?")]
    Connect(io::Error),
    /// The connection to it failed, or what it sent is not understood.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// It does not serve this coordinator.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It has not proved that it has the token.
    #[error("it has not proved that it has the token; is it the agent you meant?")]
    TokenNotProved,
    /// It failed, and says why.
    #[error("{0}")]
    Failed(String),
    /// It sent a message out of place.
    #[error("it sent a message out of place")]
    UnexpectedMessage,
    /// No probe of its clock succeeded.
    #[error("its clock, or the one here, was set back at every probe")]
    Clock,
}
