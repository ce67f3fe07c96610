//! The coordinator of a run whose load is offered by agents. It sends each agent the settings and
//! its part of the connections, sets a common start time, and merges the agents' summaries.

use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sys::clock::{monotonic_ns, unix_less_monotonic_ns, unix_ns};

use super::agent_states::{AgentStates, Complete};
use super::clock::{ClockOffset, Probe};
use super::link::{self, LinkError, Received, Receiver, Sender};
use super::message::Message;
use super::report::{AgentLimits, AgentReport};
use super::token::{Nonces, Role, Token, nonce};
use super::{AgentAddress, AgentError};
use crate::config::{Config, ConfigError, Rate};
use crate::error::Error;
use crate::limits::{
    AGENTS_MAX, AGREED_START_AHEAD_NS, FRAME_LEN_MAX, HANDSHAKE_TIMEOUT, LAG_MAX_NS,
    OVERDUE_GRACE_NS, PREPARE_TIMEOUT, PROBES,
};
use crate::measuring::{MeasuringClient, MeasuringRun, MeasuringThreads};
use crate::opening;
use crate::part::Part;
use crate::run::Observers;
use crate::second::{Second, second};
use crate::summary::Summary;
use crate::timeline::Timeline;

/// The coordinator of a run whose load is offered by agents.
#[derive(Debug, Clone)]
pub struct Coordinator {
    /// The agents. The first agent gets the connections with the lowest numbers, and so on.
    pub agents: Vec<AgentAddress>,
    /// The token that all agents share with the coordinator.
    pub token: Token,
    /// The measuring client that runs in this process beside the agents' load, if any.
    pub client: Option<MeasuringClient>,
}

/// An event during a run.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// All agents have opened their connections, and the offsets of their clocks are known.
    Ready(&'a [AgentReport]),
    /// A second has ended, and all agents that are not missing have sent their measurements of it.
    Second(&'a Second),
    /// An agent has failed or lagged. Its share is missing from now on.
    Missing(&'a AgentReport),
}

impl Coordinator {
    /// Checks the settings and the list of agents.
    ///
    /// # Errors
    /// A setting or the number of agents is out of its bounds, an agent is given twice, or there
    /// are fewer connections than threads of all agents.
    pub fn validate(&self, config: &Config) -> Result<(), Error> {
        config.validate()?;
        config.validate_without_script("--agent")?;
        config.validate_without_files()?;
        let fault = |setting, fault: String| Err(ConfigError::new(setting, fault).into());
        let agents = self.agents.len();
        if !(1..=AGENTS_MAX).contains(&agents) {
            let text = format!("{agents} is out of bounds; give 1 to {AGENTS_MAX}");
            return fault("agents", text);
        }
        for (at, agent) in self.agents.iter().enumerate() {
            let earlier = &self.agents[..at];
            if earlier.iter().any(|other| other.address == agent.address) {
                let text = format!("{agent} is given twice; an agent has one part of a run");
                return fault("agents", text);
            }
        }
        let needed = u64::from(config.threads) * agents as u64;
        if u64::from(config.connections) < needed {
            let text = format!(
                "{} are too few for {agents} agents of {} threads; give {needed} or more",
                config.connections, config.threads
            );
            return fault("connections", text);
        }
        match &self.client {
            Some(client) => client.validate(config),
            None => Ok(()),
        }
    }

    /// Performs one run and returns its summary. Calls `on_progress` for each event during the run.
    ///
    /// # Errors
    /// A setting is invalid, an agent fails before the start, or all agents fail after it.
    pub fn run(
        &self,
        config: &Config,
        mut on_progress: impl FnMut(Progress<'_>),
    ) -> Result<Summary, Error> {
        self.validate(config)?;
        let resident_before_bytes = Observers::resident_bytes(config)?;
        let mut links = self.connect(config)?;
        for link in &mut links {
            let (config, part) = (Box::new(config.clone()), link.report.part);
            link.send(&Message::Prepare { config, part })?;
        }
        let client = self.client.as_ref().map(|client| {
            opening::allow_files(client.connections)?;
            MeasuringThreads::open(config, client)
        });
        let client = client.transpose()?;
        for link in &mut links {
            match link.receive(PREPARE_TIMEOUT)?.message {
                Message::Ready => {}
                Message::Failed { reason } => return Err(link.error(AgentError::Failed(reason))),
                _ => return Err(link.error(AgentError::UnexpectedMessage)),
            }
        }
        for link in &mut links {
            link.report.clock = Some(link.probe()?);
        }
        let reports: Vec<AgentReport> = links.iter().map(|link| link.report.clone()).collect();
        on_progress(Progress::Ready(&reports));
        let timeline = start(config, &mut links)?;
        let client = client.map(|client| client.begin(&timeline)).transpose()?;
        let observers = Observers::start(config, &timeline)?;
        let (links, results) = monitor_run(config, &timeline, links, &mut on_progress)?;
        let mut summary = merge(links, results)?;
        observers.join(config, resident_before_bytes, &mut summary)?;
        summary.measuring_client = client.map(MeasuringRun::join).transpose()?;
        Ok(summary)
    }

    /// Connects to all agents. When this returns, the coordinator has proved to each agent that it
    /// has the token, and each agent has proved the same to the coordinator.
    fn connect(&self, config: &Config) -> Result<Vec<Link>, Error> {
        let parts = Part::split(config.connections, self.agents.len() as u32);
        let connect = |(agent, part): (&AgentAddress, Part)| {
            let (receiver, sender) =
                handshake(agent, &self.token).map_err(|source| Error::Agent {
                    agent: agent.to_string(),
                    source,
                })?;
            Ok(Link {
                receiver,
                sender,
                report: AgentReport {
                    agent: agent.to_string(),
                    part,
                    missing: None,
                    clock: None,
                    clock_moved: None,
                    limits: None,
                },
            })
        };
        self.agents.iter().zip(parts).map(connect).collect()
    }
}

/// Connects to an agent, then exchanges proofs of the token.
fn handshake(agent: &AgentAddress, token: &Token) -> Result<(Receiver, Sender), AgentError> {
    let stream = TcpStream::connect_timeout(&agent.address, HANDSHAKE_TIMEOUT);
    let stream = stream.map_err(AgentError::Connect)?;
    let (mut receiver, mut sender) = link::open(stream).map_err(LinkError::from)?;
    let mut next = || receiver.receive(HANDSHAKE_TIMEOUT).map(|it| it.message);
    let agent_nonce = match next()? {
        Message::Challenge { nonce } => nonce,
        _ => return Err(AgentError::UnexpectedMessage),
    };
    let nonces = Nonces {
        agent: agent_nonce,
        coordinator: nonce().map_err(LinkError::from)?,
    };
    sender.send(&Message::Hello {
        nonce: nonces.coordinator,
        proof: token.prove(Role::Coordinator, &nonces),
    })?;
    match next()? {
        Message::Welcome { proof } if token.verify(Role::Agent, &nonces, &proof) => {}
        Message::Welcome { .. } => return Err(AgentError::TokenNotProved),
        Message::Refused(refusal) => return Err(refusal.into()),
        _ => return Err(AgentError::UnexpectedMessage),
    }
    receiver.set_body_max(FRAME_LEN_MAX);
    Ok((receiver, sender))
}

/// The connection to an agent, and the report on that agent so far. Dropping the link closes the
/// connection, which makes the agent stop its run.
struct Link {
    receiver: Receiver,
    sender: Sender,
    report: AgentReport,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.sender.close();
    }
}

impl Link {
    fn error(&self, source: AgentError) -> Error {
        Error::Agent {
            agent: self.report.agent.clone(),
            source,
        }
    }

    fn send(&mut self, message: &Message) -> Result<(), Error> {
        let sent = self.sender.send(message);
        sent.map_err(|error| self.error(error.into()))
    }

    fn receive(&mut self, timeout: Duration) -> Result<Received, Error> {
        let received = self.receiver.receive(timeout);
        received.map_err(|error| self.error(error.into()))
    }

    /// Measures the offset of the agent's clock with [`PROBES`] probes.
    fn probe(&mut self) -> Result<ClockOffset, Error> {
        let mut probes = Vec::new();
        for number in 0..PROBES {
            let sent_ns = unix_ns();
            self.send(&Message::Probe { number })?;
            let received = self.receive(HANDSHAKE_TIMEOUT)?;
            match received.message {
                Message::Echo {
                    number: echoed,
                    received_ns,
                    echoed_ns,
                } if echoed == number => probes.push(Probe {
                    sent_ns,
                    received_ns,
                    echoed_ns,
                    returned_ns: received.at_ns,
                }),
                Message::Failed { reason } => return Err(self.error(AgentError::Failed(reason))),
                _ => return Err(self.error(AgentError::UnexpectedMessage)),
            }
        }
        ClockOffset::estimate(&probes).ok_or_else(|| self.error(AgentError::Clock))
    }
}

/// Chooses the start time of the run and sends it to each agent, converted to the agent's clock.
/// Returns the times of the run on the monotonic clock of this host.
fn start(config: &Config, links: &mut [Link]) -> Result<Timeline, Error> {
    let clocks = || links.iter().filter_map(|link| link.report.clock);
    // An offset's error is half of the shortest round-trip delay of its probes. A message may take
    // many times that delay, so 16 round-trip delays are added.
    let delay_ns = clocks().map(|clock| 2 * clock.error_ns).max();
    let ahead_ns = AGREED_START_AHEAD_NS + 16 * delay_ns.unwrap_or(0);
    let start_ns = monotonic_ns() + ahead_ns;
    let start_unix_ns = start_ns + unix_less_monotonic_ns();
    for link in links {
        let clock = link.report.clock;
        let at_ns = clock.map_or(start_unix_ns, |clock| clock.to_agent_clock(start_unix_ns));
        link.send(&Message::Start { at_ns })?;
    }
    Ok(Timeline::new(config, start_ns))
}

/// A message from an agent, or the error that ended the connection to it.
struct FromAgent {
    /// The agent's index.
    agent: usize,
    received: Result<Received, LinkError>,
}

/// For each agent, its summary or the reason why its share is missing.
type Results = Vec<Result<Box<Summary>, String>>;

/// Receives the agents' messages until each agent is done or missing. Returns the links to all
/// agents, and their results.
fn monitor_run(
    config: &Config,
    timeline: &Timeline,
    links: Vec<Link>,
    on_progress: &mut impl FnMut(Progress<'_>),
) -> Result<(Vec<Link>, Results), Error> {
    let mut states = AgentStates::new(timeline.clone(), links.len());
    let (messages, from_agents) = mpsc::channel();
    let end_ns = timeline.grace_end_ns + LAG_MAX_NS;
    // The timeout of the readers. It is longer than the monitor waits for any message, so it is
    // always the monitor that gives an agent up.
    let longest = Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()) + LAG_MAX_NS);
    let mut reports: Vec<AgentReport> = links.iter().map(|link| link.report.clone()).collect();
    let links = thread::scope(|scope| {
        let closer = |link: &Link| {
            link.sender
                .clone_for_close()
                .map_err(|error| link.error(error.into()))
        };
        let closers = links.iter().map(closer).collect::<Result<Vec<_>, _>>()?;
        let mut readers = Vec::new();
        for (agent, link) in links.into_iter().enumerate() {
            let messages = messages.clone();
            let read = move || read(agent, link, &messages, longest);
            let builder = thread::Builder::new().name(format!("agent-{agent}"));
            match builder.spawn_scoped(scope, read) {
                Ok(reader) => readers.push(reader),
                Err(error) => {
                    // The scope waits for the readers that were already started. Closing their
                    // connections makes them end.
                    closers.iter().for_each(Sender::close);
                    return Err(Error::system("start a thread")(error));
                }
            }
        }
        drop(messages);
        let mut monitor = RunMonitor {
            config,
            timeline,
            states: &mut states,
            reports: &mut reports,
            closers: &closers,
            on_progress,
        };
        monitor.run(&from_agents);
        let links = readers.into_iter().map(thread::ScopedJoinHandle::join);
        let links: Result<Vec<Link>, _> = links.collect();
        links.map_err(|_| Error::Panicked)
    })?;
    Ok((links, states.into_results()))
}

/// The coordinator's view of a run that has started: which agents run, and which are missing.
struct RunMonitor<'a, F> {
    config: &'a Config,
    timeline: &'a Timeline,
    states: &'a mut AgentStates,
    reports: &'a mut [AgentReport],
    /// For each agent, a handle that can close the connection to it.
    closers: &'a [Sender],
    on_progress: &'a mut F,
}

impl<F: FnMut(Progress<'_>)> RunMonitor<'_, F> {
    /// Processes the messages of the agents until no agent runs any more.
    ///
    /// An agent whose next message is overdue is not given up immediately. If this thread itself
    /// was kept from running, the message may already be in the channel. So the loop receives for
    /// [`OVERDUE_GRACE_NS`] more, and then gives up the agents that are still overdue.
    fn run(&mut self, from_agents: &mpsc::Receiver<FromAgent>) {
        // The time at which agents that are then still overdue are given up. None: no agent is
        // known to be overdue.
        let mut give_up_ns = None;
        while let Some(deadline_ns) = self.states.next_deadline_ns() {
            let until_ns = give_up_ns.unwrap_or(deadline_ns);
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            let first = from_agents.recv_timeout(Duration::from_nanos(left_ns));
            for FromAgent { agent, received } in first.into_iter().chain(from_agents.try_iter()) {
                if let Err(reason) = apply(self.states, agent, received, self.config) {
                    self.give_up(agent, &reason);
                }
            }
            self.report_complete_seconds();
            let now_ns = monotonic_ns();
            let overdue = self.states.overdue(now_ns);
            match give_up_ns {
                _ if overdue.is_empty() => give_up_ns = None,
                None => give_up_ns = Some(now_ns + OVERDUE_GRACE_NS),
                Some(at_ns) if now_ns >= at_ns => {
                    let lag_s = LAG_MAX_NS / 1_000_000_000;
                    for agent in overdue {
                        self.give_up(agent, &format!("it lagged by more than {lag_s} s"));
                    }
                    self.report_complete_seconds();
                    give_up_ns = None;
                }
                Some(_) => {}
            }
        }
    }

    /// Closes the connection to an agent that has failed or lagged. Unless the agent was done, its
    /// share is missing from now on.
    fn give_up(&mut self, agent: usize, reason: &str) {
        self.closers[agent].close();
        let into_ns = monotonic_ns().saturating_sub(self.timeline.start_ns);
        let reason = format!("{reason}, {:.1} s into the run", into_ns as f64 / 1e9);
        if self.states.set_missing(agent, reason.clone()) {
            let report = &mut self.reports[agent];
            report.missing = Some(reason);
            (self.on_progress)(Progress::Missing(report));
        }
    }

    /// Passes each second to `on_progress` once it is complete: each agent has sent it or is
    /// missing. If an agent failed only after it had sent a second, its connections do not count as
    /// missing in that second.
    fn report_complete_seconds(&mut self) {
        while let Some(complete) = self.states.take_complete() {
            let Complete { number, sum, .. } = &complete;
            let open_loop = self.config.rate != Rate::Max;
            if let Some(mut second) = second(self.timeline, *number, sum, open_loop) {
                let agents = self.reports.iter().zip(&complete.includes);
                let missing = agents.filter(|&(_, &is_included)| !is_included);
                second.missing_connections = missing.map(|(it, _)| it.part.count).sum();
                (self.on_progress)(Progress::Second(&second));
            }
        }
    }
}

/// The coordinator's reader thread for one agent: passes the agent's messages on until the agent's
/// run or connection ends. Returns the link, for the messages after the run. `longest` is the
/// longest wait for one message.
fn read(
    agent: usize,
    mut link: Link,
    messages: &mpsc::Sender<FromAgent>,
    longest: Duration,
) -> Link {
    loop {
        let received = link.receiver.receive(longest);
        let more_follow = received
            .as_ref()
            .is_ok_and(|received| matches!(received.message, Message::Second(_)));
        // The send fails only if the monitor has already stopped receiving.
        if messages.send(FromAgent { agent, received }).is_err() || !more_follow {
            return link;
        }
    }
}

/// Records a message from an agent in `states`. The error is the reason why the agent's share is
/// missing.
fn apply(
    states: &mut AgentStates,
    agent: usize,
    received: Result<Received, LinkError>,
    config: &Config,
) -> Result<(), String> {
    let message = received.map_err(|error| error.to_string())?.message;
    let applied = match message {
        Message::Second(second) => {
            let window = second
                .window(config.rate != Rate::Max)
                .map_err(|error| error.to_string())?;
            states.add_window(agent, second.number as usize, &window, monotonic_ns())
        }
        Message::Done(summary) => {
            // Checked here, because one summary that cannot be merged would otherwise end the run
            // of all agents.
            let checked = summary.check_part(config);
            checked.map_err(|error| format!("it sent a summary that cannot be used: {error}"))?;
            states.set_done(agent, summary)
        }
        Message::Failed { reason } => return Err(reason),
        _ => return Err(AgentError::UnexpectedMessage.to_string()),
    };
    applied.map_err(str::to_owned)
}

/// Merges the agents' summaries into the summary of the run, with a report on each agent. If an
/// agent is done, its clock is probed once more, to report the drift of the clock.
fn merge(mut links: Vec<Link>, results: Results) -> Result<Summary, Error> {
    let mut parts = Vec::new();
    for (link, result) in links.iter_mut().zip(results) {
        match result {
            Ok(summary) => {
                link.report.limits = Some(AgentLimits::of(&summary));
                // If the agent has ended since it sent its summary, this fails. The summary still
                // counts, and only the drift of the agent's clock is unknown.
                let after = link.probe().ok();
                let before = link.report.clock;
                link.report.clock_moved = after
                    .zip(before)
                    .map(|(after, before)| after.drift_since(&before));
                let _ = link.sender.send(&Message::Stop);
                parts.push(*summary);
            }
            Err(reason) => link.report.missing = Some(reason),
        }
    }
    let reports: Vec<AgentReport> = links.iter().map(|link| link.report.clone()).collect();
    if let (true, Some(first)) = (parts.is_empty(), reports.first()) {
        return Err(Error::AgentsMissing {
            agents: reports.len(),
            agent: first.agent.clone(),
            reason: first.missing.clone().unwrap_or_default(),
        });
    }
    let mut summary = Summary::merge(&parts)?;
    summary.agents = reports;
    Ok(summary)
}
