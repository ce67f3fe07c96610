//! The agents of a trial with several clients: `curtail agent` on each client's host.
//!
//! The coordinator then runs on the server's host, because that host alone reaches all clients. It
//! offers no load itself; its connections to the agents are idle during the measured interval but
//! for a line each second.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use hosts::Hosts;

use super::beside::{Beside, Place, Ready, Running};
use super::pins::cpu_list;
use super::words::Words;
use super::{Setup, Side};
use crate::error::Error;
use crate::kind::{Context, Trial, TrialError};

/// The port at which each agent listens. Nothing else does on its host.
const PORT: u16 = 7700;

/// The agents of one trial. They end when this value is dropped.
#[derive(Debug)]
pub(super) struct Agents {
    agents: Vec<(SocketAddr, Running)>,
    token: PathBuf,
}

impl Agents {
    /// Starts an agent on each client's host, and waits until all listen. None: a single client,
    /// whose host is that of the generator.
    pub(super) fn start(
        setup: &Setup,
        trial: &Trial<'_>,
        context: &Context<'_>,
        hosts: &Hosts,
        words: &Words<'_>,
        threads: usize,
    ) -> Result<Option<Self>, TrialError> {
        if hosts.clients() < 2 {
            return Ok(None);
        }
        let token = context.log(trial.id, "token");
        // Only processes on the trial's hosts can reach its agents, so it need not be a secret.
        let text = format!("the agents of trial {}, seed {}", trial.id, trial.seed);
        fs::write(&token, text).map_err(Error::file("write", &token))?;
        let agents = Vec::new();
        let mut agents = Self { agents, token };
        for number in 0..hosts.clients() {
            let address = SocketAddr::from((hosts.client_ip(number), PORT));
            let mut command = ["{curtail}", "agent", &address.to_string()]
                .map(str::to_owned)
                .to_vec();
            command.extend(agents.token_file());
            let cpus = cpus_of(&setup.pins.load, number * threads);
            if !cpus.is_empty() {
                command.extend(["--cpus".to_owned(), cpu_list(&cpus)]);
            }
            let agent = Beside {
                name: format!("agent-{number}"),
                command,
                host: Side::Client,
                environment: [].into(),
                ready: Ready {
                    line: Some("^agent: listening at ".to_owned()),
                    ..Ready::default()
                },
            };
            let place = Place {
                cpus: &cpus,
                goes_first: setup.pins.go_first,
                timeout: context.options.timeouts.start,
            };
            let running = Running::start(&agent, &place, &words.of_client(number), context)?;
            agents.agents.push((address, running));
        }
        Ok(Some(agents))
    }

    fn token_file(&self) -> [String; 2] {
        let token = self.token.to_string_lossy().into_owned();
        ["--token-file".to_owned(), token]
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        let agents = self.agents.iter();
        let agents = agents.flat_map(|(address, _)| ["--agent".to_owned(), address.to_string()]);
        agents.chain(self.token_file()).collect()
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        // It has no use after the trial; if it remains, it does no harm.
        let _ = fs::remove_file(&self.token);
    }
}

/// The processors of the load, from the `first`: each agent's threads begin where those of the
/// agent before end.
fn cpus_of(all: &[usize], first: usize) -> Vec<usize> {
    let mut cpus = all.to_vec();
    if !cpus.is_empty() {
        cpus.rotate_left(first % all.len());
    }
    cpus
}
