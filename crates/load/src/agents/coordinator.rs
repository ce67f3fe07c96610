//! The coordinator of a run whose load is offered by agents. It sends each agent the settings and
//! the agent's part of the connections, sets a common start time, and merges the agents' summaries.
//!
//! After the start, an agent is *missing* from the time at which it has failed or has lagged. An
//! agent has lagged if a message from it did not arrive within [`LAG_MAX_NS`] after it was due.

use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sys::clock::{monotonic_ns, unix_less_monotonic_ns, unix_ns};
use units::duration_text;

use super::agent_states::{AgentStates, CompleteWindow};
use super::clock::{ClockOffset, Probe};
use super::link::{self, LinkError, Received, Receiver, Sender};
use super::message::Message;
use super::report::{AgentLimits, AgentReport};
use super::token::{Nonces, Role, Token, nonce};
use super::{AgentAddress, AgentError};
use crate::config::{Config, ConfigError, Rate};
use crate::error::Error;
use crate::limits::{
    AGENTS_MAX, AGREED_START_AHEAD_NS, HANDSHAKE_TIMEOUT, LAG_MAX_NS, MESSAGE_LEN_MAX,
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
    /// The measuring client, if any. It offers a small load of its own from this process during the
    /// agents' load, and measures the latencies of its own requests.
    pub client: Option<MeasuringClient>,
}

/// An event during a run.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// All agents have opened their connections, and the offsets of their clocks are known.
    Ready(&'a [AgentReport]),
    /// A second has ended, and all agents that are not missing have sent their measurements of it.
    Second(&'a Second),
    /// An agent has failed or lagged. Its share of the load is missing from now on.
    Missing(&'a AgentReport),
}

impl Coordinator {
    /// Checks the settings, the list of agents and the measuring client.
    ///
    /// # Errors
    /// A setting or the number of agents is out of its bounds, an agent is given twice, the run has
    /// a script or files, which agents do not support, the agents together have more threads than
    /// the run has connections, or the measuring client is invalid.
    pub fn validate(&self, config: &Config) -> Result<(), Error> {
        config.validate()?;
        config.validate_without_script("--agent")?;
        // Checks that the requests are not for the files of a web server.
        config.validate_without_files()?;
        let error = |setting, fault: String| Err(ConfigError::new(setting, fault).into());
        let agents = self.agents.len();
        if !(1..=AGENTS_MAX).contains(&agents) {
            let fault = format!("{agents} is out of bounds; give 1 to {AGENTS_MAX}");
            return error("agents", fault);
        }
        for (index, agent) in self.agents.iter().enumerate() {
            let earlier = &self.agents[..index];
            if earlier.iter().any(|other| other.address == agent.address) {
                let fault = format!("{agent} is given twice; an agent has one part of a run");
                return error("agents", fault);
            }
        }
        let needed = u64::from(config.threads) * agents as u64;
        if u64::from(config.connections) < needed {
            let fault = format!(
                "{} are too few for {agents} agents of {} threads; give {needed} or more",
                config.connections, config.threads
            );
            return error("connections", fault);
        }
        match &self.client {
            Some(client) => client.validate(config),
            None => Ok(()),
        }
    }

    /// Performs one run and returns its summary. Calls `on_progress` for each event during the run.
    ///
    /// # Errors
    /// A setting is invalid, an agent fails before the start, all agents are missing at the end, or
    /// the measuring client or an observer of the server or the machine fails.
    pub fn run(
        &self,
        config: &Config,
        mut on_progress: impl FnMut(Progress<'_>),
    ) -> Result<Summary, Error> {
        self.validate(config)?;
        // The observers measure the server and the machine during the run. This figure is the
        // memory of the observed process before the connections are opened.
        let resident_before_bytes = Observers::resident_bytes(config)?;
        let mut links = self.connect(config)?;
        for link in &mut links {
            let (config, part) = (Box::new(config.clone()), link.report.part);
            link.send(&Message::Prepare { config, part })?;
        }
        let ready_deadline = Instant::now() + PREPARE_TIMEOUT;
        let open_client = |client: &MeasuringClient| {
            // Raises the limit of open files.
            opening::allow_files(client.connections)?;
            MeasuringThreads::open(config, client)
        };
        let measuring_threads = self.client.as_ref().map(open_client).transpose()?;
        for link in &mut links {
            // The limit is for all agents together, so that a ready agent does not give up while
            // the coordinator waits for one slow agent after another. An agent that became ready
            // meanwhile has sent its message, which is received even after the deadline.
            let left = ready_deadline.saturating_duration_since(Instant::now());
            match link.receive(left.max(HANDSHAKE_TIMEOUT))?.message {
                Message::Ready => {}
                Message::Failed { reason } => return Err(link.error(AgentError::Failed(reason))),
                _ => return Err(link.error(AgentError::UnexpectedMessage)),
            }
        }
        for link in &mut links {
            link.report.clock = Some(link.measure_clock()?);
        }
        let reports: Vec<AgentReport> = links.iter().map(|link| link.report.clone()).collect();
        on_progress(Progress::Ready(&reports));
        let timeline = send_start(config, &mut links)?;
        let begin_client = |threads: MeasuringThreads| threads.begin(&timeline);
        let measuring_run = measuring_threads.map(begin_client).transpose()?;
        let observers = Observers::start(config, &timeline)?;
        let (links, results) = monitor_run(config, &timeline, links, &mut on_progress)?;
        let mut summary = merge(links, results)?;
        observers.join(config, resident_before_bytes, &mut summary)?;
        summary.measuring_client = measuring_run.map(MeasuringRun::join).transpose()?;
        Ok(summary)
    }

    /// Connects to all agents. When this returns, the coordinator and each agent have proved to
    /// each other that they have the same token.
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

/// Connects to an agent, then exchanges proofs of the token ([`super::token`]).
fn handshake(agent: &AgentAddress, token: &Token) -> Result<(Receiver, Sender), AgentError> {
    let stream = TcpStream::connect_timeout(&agent.address, HANDSHAKE_TIMEOUT);
    let stream = stream.map_err(AgentError::Connect)?;
    let (mut receiver, mut sender) = link::open(stream).map_err(LinkError::from)?;
    let mut next_message = || {
        let received = receiver.receive(HANDSHAKE_TIMEOUT);
        received.map(|received| received.message)
    };
    let agent_nonce = match next_message()? {
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
    match next_message()? {
        Message::Welcome { proof } if token.verify(Role::Agent, &nonces, &proof) => {}
        Message::Welcome { .. } => return Err(AgentError::TokenNotProved),
        Message::Refused(refusal) => return Err(refusal.into()),
        _ => return Err(AgentError::UnexpectedMessage),
    }
    // Until now, only messages that are short enough for a handshake were accepted.
    receiver.set_body_max(MESSAGE_LEN_MAX);
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
        // Ends the connection in both directions.
        self.sender.close();
    }
}

impl Link {
    /// The error of a run that failed because of this agent.
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

    /// Measures the offset of the agent's clock. Sends [`PROBES`] probes, one after another.
    fn measure_clock(&mut self) -> Result<ClockOffset, Error> {
        let mut probes = Vec::new();
        for number in 0..PROBES {
            let sent_ns = unix_ns();
            self.send(&Message::Probe { number })?;
            let received = self.receive(HANDSHAKE_TIMEOUT)?;
            match received.message {
                Message::Echo {
                    number: echo_number,
                    received_ns,
                    echoed_ns,
                } if echo_number == number => probes.push(Probe {
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
/// Returns the timeline: the start and the end of each phase of the run, on the monotonic clock of
/// this host.
fn send_start(config: &Config, links: &mut [Link]) -> Result<Timeline, Error> {
    // The error of an offset is half of the shortest round-trip delay of its probes. A start
    // message may take many times that delay.
    const MESSAGE_DELAYS: u64 = 16;
    let offsets = links.iter().filter_map(|link| link.report.clock);
    let delay_max_ns = offsets.map(|offset| 2 * offset.error_ns).max();
    let ahead_ns = AGREED_START_AHEAD_NS + MESSAGE_DELAYS * delay_max_ns.unwrap_or(0);
    let start_ns = monotonic_ns() + ahead_ns;
    // Adds the offset between the two clocks of this host: Unix time minus monotonic time.
    let start_unix_ns = start_ns + unix_less_monotonic_ns();
    for link in links {
        // The caller has measured every clock. Without an offset, the clocks are taken as equal.
        let offset = link.report.clock;
        let at_ns = offset.map_or(start_unix_ns, |it| it.to_agent_clock(start_unix_ns));
        link.send(&Message::Start { at_ns })?;
    }
    Ok(Timeline::new(config, start_ns))
}

/// What a reader thread passes to the monitor: a message from an agent, or the error that ended the
/// connection to the agent.
struct AgentMessage {
    /// The agent's index.
    agent: usize,
    received: Result<Received, LinkError>,
}

/// For each agent, the summary of its part or the reason why its share is missing.
type Results = Vec<Result<Box<Summary>, String>>;

/// Receives the agents' messages until each agent is done (has sent its summary) or missing.
/// Returns the links to all agents, and the agents' results.
///
/// One reader thread for each agent receives the messages. The calling thread is the monitor: it
/// processes the messages and declares agents missing.
fn monitor_run(
    config: &Config,
    timeline: &Timeline,
    links: Vec<Link>,
    on_progress: &mut impl FnMut(Progress<'_>),
) -> Result<(Vec<Link>, Results), Error> {
    let mut states = AgentStates::new(timeline.clone(), links.len());
    let (messages_sender, messages) = mpsc::channel();
    // The monitor declares each agent that is still running missing at `last_deadline_ns` +
    // `OVERDUE_GRACE_NS` or earlier. `LAG_MAX_NS` is longer than `OVERDUE_GRACE_NS`. So a reader
    // waits longer for each message than the monitor, and its timeout decides nothing.
    let last_deadline_ns = timeline.grace_end_ns + LAG_MAX_NS;
    let until_last_deadline_ns = last_deadline_ns.saturating_sub(monotonic_ns());
    let reader_timeout = Duration::from_nanos(until_last_deadline_ns + LAG_MAX_NS);
    // The readers take the links. The monitor works on copies of the reports in the links.
    let mut reports: Vec<AgentReport> = links.iter().map(|link| link.report.clone()).collect();
    let links = thread::scope(|scope| {
        // A closer is a further handle on the connection. The monitor can close the connection with
        // it while the reader waits for a message.
        let closer = |link: &Link| {
            link.sender
                .clone_for_close()
                .map_err(|error| link.error(error.into()))
        };
        let closers = links.iter().map(closer).collect::<Result<Vec<_>, _>>()?;
        let mut readers = Vec::new();
        for (agent, link) in links.into_iter().enumerate() {
            let sender = messages_sender.clone();
            let reader = move || read_messages(agent, link, &sender, reader_timeout);
            let builder = thread::Builder::new().name(format!("agent-{agent}"));
            match builder.spawn_scoped(scope, reader) {
                Ok(reader) => readers.push(reader),
                Err(error) => {
                    // The scope waits for the readers that were already started. Closing their
                    // connections makes them end.
                    closers.iter().for_each(Sender::close);
                    return Err(Error::system("start a thread")(error));
                }
            }
        }
        // The readers have their own senders.
        drop(messages_sender);
        let mut monitor = RunMonitor {
            config,
            timeline,
            states: &mut states,
            reports: &mut reports,
            closers: &closers,
            on_progress,
        };
        monitor.run(&messages);
        let links = readers.into_iter().map(thread::ScopedJoinHandle::join);
        let links: Result<Vec<Link>, _> = links.collect();
        links.map_err(|_| Error::Panicked)
    })?;
    Ok((links, states.into_results()))
}

/// Processes the agents' messages after the start. Keeps the state of each agent (running, done or
/// missing), and reports the progress of the run.
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
    /// Processes the messages of the agents until each agent is done or missing.
    ///
    /// An agent whose next message is overdue is not given up immediately. If this thread itself
    /// did not run for a while, the message may already be in the channel. So the loop continues to
    /// receive for [`OVERDUE_GRACE_NS`], and then gives up the agents that are still overdue.
    fn run(&mut self, messages: &mpsc::Receiver<AgentMessage>) {
        // The end of the additional time for overdue agents. None: no agent is known to be overdue.
        let mut overdue_grace_end_ns = None;
        while let Some(deadline_ns) = self.states.next_deadline_ns() {
            let until_ns = overdue_grace_end_ns.unwrap_or(deadline_ns);
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            // Waits for one message, then takes all messages that are already in the channel. If
            // the wait times out, there is no first message.
            let first = messages.recv_timeout(Duration::from_nanos(left_ns));
            for AgentMessage { agent, received } in first.into_iter().chain(messages.try_iter()) {
                if let Err(reason) = record_message(self.states, agent, received, self.config) {
                    self.give_up(agent, &reason);
                }
            }
            self.report_complete_seconds();
            let now_ns = monotonic_ns();
            let overdue = self.states.overdue(now_ns);
            match overdue_grace_end_ns {
                _ if overdue.is_empty() => overdue_grace_end_ns = None,
                None => overdue_grace_end_ns = Some(now_ns + OVERDUE_GRACE_NS),
                Some(end_ns) if now_ns >= end_ns => {
                    let lag_s = Duration::from_nanos(LAG_MAX_NS).as_secs();
                    for agent in overdue {
                        self.give_up(agent, &format!("it lagged by more than {lag_s} s"));
                    }
                    self.report_complete_seconds();
                    overdue_grace_end_ns = None;
                }
                Some(_) => {}
            }
        }
    }

    /// Closes the connection to an agent that has failed or lagged. If the agent was still running,
    /// its share is missing from now on. If it was already done or missing, its state remains.
    fn give_up(&mut self, agent: usize, reason: &str) {
        self.closers[agent].close();
        let since_start_ns = monotonic_ns().saturating_sub(self.timeline.start_ns);
        let since_start = duration_text(Duration::from_nanos(since_start_ns));
        let reason = format!("{reason}, {since_start} into the run");
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
            let CompleteWindow { number, sum, .. } = &complete;
            let open_loop = is_open_loop(self.config);
            // `second` computes the figures from the sum. Its None is for the grace period, of
            // which agents send no measurements.
            if let Some(mut second) = second(self.timeline, *number, sum, open_loop) {
                let agents = self.reports.iter().zip(&complete.included);
                let missing = agents.filter(|&(_, &is_included)| !is_included);
                second.missing_connections = missing.map(|(report, _)| report.part.count).sum();
                (self.on_progress)(Progress::Second(&second));
            }
        }
    }
}

/// The reader thread for one agent. Passes the agent's messages to the monitor, and ends after an
/// error or after the first message that is not the measurements of a second (such as the summary).
/// Returns the link, which is used again after the run. `timeout` is the longest wait for one
/// message.
fn read_messages(
    agent: usize,
    mut link: Link,
    messages: &mpsc::Sender<AgentMessage>,
    timeout: Duration,
) -> Link {
    loop {
        let received = link.receiver.receive(timeout);
        let more_follow = received
            .as_ref()
            .is_ok_and(|received| matches!(received.message, Message::Second(_)));
        // The send cannot fail: the receiver exists until this thread has ended.
        if messages.send(AgentMessage { agent, received }).is_err() || !more_follow {
            return link;
        }
    }
}

/// Whether the requests of the run have intended send times. `Rate::Max` is a closed loop.
fn is_open_loop(config: &Config) -> bool {
    config.rate != Rate::Max
}

/// Records a message from an agent in `states`. If the message is an error or is not valid, the
/// agent must be given up. The result is then the reason.
fn record_message(
    states: &mut AgentStates,
    agent: usize,
    received: Result<Received, LinkError>,
    config: &Config,
) -> Result<(), String> {
    let message = received.map_err(|error| error.to_string())?.message;
    let recorded = match message {
        Message::Second(second) => {
            let window = second
                .window(is_open_loop(config))
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
    recorded.map_err(str::to_owned)
}

/// Merges the agents' summaries into the summary of the run, and adds a report on each agent. The
/// offset of the clock of each agent that is done is measured again. Its change since the start of
/// the run is the drift of the clock, which is part of the report.
fn merge(mut links: Vec<Link>, results: Results) -> Result<Summary, Error> {
    let mut parts = Vec::new();
    for (link, result) in links.iter_mut().zip(results) {
        match result {
            Ok(summary) => {
                link.report.limits = Some(AgentLimits::of(&summary));
                // The measurement fails if the agent has failed since it sent its summary. The
                // summary still counts, and only the drift of the agent's clock is unknown.
                let after = link.measure_clock().ok();
                let before = link.report.clock;
                link.report.clock_moved = after
                    .zip(before)
                    .map(|(after, before)| after.drift_since(&before));
                // Ends the session. The send fails if the agent is gone, which needs no handling.
                let _ = link.sender.send(&Message::Stop);
                parts.push(*summary);
            }
            Err(reason) => link.report.missing = Some(reason),
        }
    }
    let reports: Vec<AgentReport> = links.iter().map(|link| link.report.clone()).collect();
    // If all agents are missing, the error gives the reason of the first.
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
