//! The agents of a trial with several clients: `curtail agent` on each client's host.
//!
//! The coordinator then runs on the server's host, because that host alone reaches all clients. It
//! offers no load itself; its connections to the agents are idle during the measured interval but
//! for a line each second.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Setup;
use super::pins::cpu_list;
use crate::error::Error;
use crate::kind::{Context, Trial, TrialError};
use crate::limits;
use crate::process::{Process, WaitResult, with_last_lines};
use hosts::Hosts;

/// The port at which each agent listens. Nothing else does on its host.
const PORT: u16 = 7700;
/// The line that an agent prints when it listens begins with this.
const LISTENING: &str = "agent: listening at ";

/// The agents of one trial. They end when this value is dropped.
#[derive(Debug)]
pub(super) struct Agents {
    agents: Vec<Agent>,
    token: PathBuf,
}

#[derive(Debug)]
struct Agent {
    process: Process,
    address: SocketAddr,
}

impl Agents {
    /// Starts an agent on each client's host, and waits until all listen. None: a single client,
    /// whose host is that of the generator.
    pub(super) fn start(
        setup: &Setup,
        trial: &Trial<'_>,
        context: &Context<'_>,
        hosts: &Hosts,
        threads: usize,
    ) -> Result<Option<Self>, TrialError> {
        if hosts.clients() < 2 {
            return Ok(None);
        }
        let token = context.log(trial.id, "token");
        // Only processes on the trial's hosts can reach its agents, so it need not be a secret.
        let text = format!("the agents of trial {}, seed {}", trial.id, trial.seed);
        fs::write(&token, text).map_err(Error::file("write", &token))?;
        let mut agents = Self {
            agents: Vec::new(),
            token,
        };
        for number in 0..hosts.clients() {
            let cpus = cpus_of(&setup.pins.load, number * threads);
            let log = context.log(trial.id, &format!("agent-{number}"));
            let agent = agents.start_one(setup, context, hosts, number, &cpus, &log)?;
            agents.agents.push(agent);
        }
        Ok(Some(agents))
    }

    fn start_one(
        &self,
        setup: &Setup,
        context: &Context<'_>,
        hosts: &Hosts,
        number: usize,
        cpus: &[usize],
        log: &Path,
    ) -> Result<Agent, TrialError> {
        let output = File::create(log).map_err(Error::file("create", log))?;
        let errors = output.try_clone().map_err(Error::file("open", log))?;
        let address = SocketAddr::from((hosts.client_ip(number), PORT));
        let mut command = hosts.in_client(number, Command::new(&context.options.curtail));
        command.args(["agent", &address.to_string(), "--token-file"]);
        command.arg(&self.token);
        if !cpus.is_empty() {
            command.args(["--cpus", &cpu_list(cpus)]);
        }
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let name = format!("agent {number}");
        let process = Process::start_guarded(&mut command, cpus, setup.pins.go_first, &name)?;
        let mut agent = Agent { process, address };
        agent.wait_until_it_listens(context, log)?;
        Ok(agent)
    }

    /// The arguments of the coordinator.
    pub(super) fn arguments(&self) -> Vec<String> {
        let agents = self.agents.iter();
        let mut arguments: Vec<String> = agents
            .flat_map(|it| ["--agent".to_owned(), it.address.to_string()])
            .collect();
        let token = self.token.to_string_lossy().into_owned();
        arguments.extend(["--token-file".to_owned(), token]);
        arguments
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        // It has no use after the trial; if it remains, it does no harm.
        let _ = fs::remove_file(&self.token);
    }
}

impl Agent {
    fn wait_until_it_listens(
        &mut self,
        context: &Context<'_>,
        log: &Path,
    ) -> Result<(), TrialError> {
        let deadline = Instant::now() + limits::AGENT_START;
        let failed = |what: &str| TrialError::Failed(with_last_lines(what, log));
        loop {
            if fs::read_to_string(log).is_ok_and(|text| text.contains(LISTENING)) {
                return Ok(());
            }
            match self
                .process
                .wait(limits::ATTEMPT_GAP, Some(context.stop_signals))?
            {
                WaitResult::Exited => {
                    let status = self.process.finish()?;
                    return Err(failed(&format!("an agent exited ({status})")));
                }
                WaitResult::StopRequested => return Err(TrialError::StopRequested),
                WaitResult::TimedOut if Instant::now() >= deadline => {
                    return Err(failed("an agent does not listen"));
                }
                WaitResult::TimedOut => {}
            }
        }
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
