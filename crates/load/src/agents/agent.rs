//! An agent: a process that waits for coordinators and performs its part of their runs. For each
//! run, a coordinator assigns the agent some of the run's connections (the part). The agent opens
//! these connections and offers their load.
//!
//! Each connection from a coordinator is served by a *session* on a thread of its own. The part of
//! a run is performed on a second thread ([`runner`]). Only one session at a time may perform runs.
//! The comments of this module call the agent's part of a run simply *the run*.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::frame::{FrameError, VERSION};
use super::link::{self, LinkError, Receiver, Sender};
use super::message::{Message, Refusal};
use super::token::{Nonces, Role, Token, nonce};
use crate::limits::{
    GRACE_NS_MAX, HANDSHAKE_TIMEOUT, IDLE_TIMEOUT, LAG_MAX_NS, MESSAGE_LEN_MAX, OVERDUE_GRACE_NS,
    RUN_SLOT_RETRY_DELAY, RUN_SLOT_TRIES, SESSIONS_MAX,
};
use crate::part::Part;

mod runner;

use runner::Runner;

/// How long a session waits for a message before it checks whether the thread of its run has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the agent waits after a failed accept. Without the wait, the loop would occupy the
/// processor while the process has no file descriptor left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// An agent that listens for coordinators and performs one run at a time.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    shared: Arc<SharedState>,
}

/// An event at an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The agent begins to prepare the run of a coordinator.
    Prepares {
        /// The agent's part of the run.
        part: Part,
        /// The number of connections of the whole run, all parts together.
        connections: u32,
    },
    /// A run has succeeded: the agent has sent its summary to the coordinator.
    Done,
    /// A run or a session has ended with an error. The text is the reason.
    Ended(String),
}

/// The state that all sessions of an agent share.
#[derive(Debug)]
struct SharedState {
    token: Token,
    /// The processors to which the threads of runs are pinned. Empty: they are not pinned.
    cpus: Vec<usize>,
    /// The longest time to the next message of a coordinator while a session has no run.
    idle_timeout: Duration,
    /// Whether a session holds the [`RunSlot`].
    is_busy: AtomicBool,
    /// The number of sessions that have not ended.
    sessions: AtomicUsize,
}

impl Agent {
    /// Listens at `address`. The threads of the agent's runs are pinned to `cpus`, unless the list
    /// is empty.
    ///
    /// # Errors
    /// The kernel cannot listen at the address.
    pub fn bind(address: SocketAddr, token: Token, cpus: Vec<usize>) -> io::Result<Self> {
        let shared = SharedState {
            token,
            cpus,
            idle_timeout: IDLE_TIMEOUT,
            is_busy: AtomicBool::new(false),
            sessions: AtomicUsize::new(0),
        };
        Ok(Self {
            listener: TcpListener::bind(address)?,
            shared: Arc::new(shared),
        })
    }

    /// Sets how long the agent waits for the next message of a coordinator while no run is
    /// prepared. The default is [`IDLE_TIMEOUT`].
    #[must_use]
    pub fn with_idle_timeout(mut self, idle_timeout: Duration) -> Self {
        // Nothing serves yet, so nothing else holds the state.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.idle_timeout = idle_timeout;
        }
        self
    }

    /// The address at which the agent listens.
    ///
    /// # Errors
    /// The kernel cannot tell the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves coordinators until the process ends. Calls `on_event` for each event, with the
    /// address of the coordinator.
    pub fn serve(&self, on_event: impl Fn(SocketAddr, &AgentEvent) + Send + Sync + 'static) -> ! {
        let on_event = Arc::new(on_event);
        loop {
            let Ok((stream, peer)) = self.listener.accept() else {
                // For example, the connection ended before it was accepted, or the process has no
                // file descriptor left.
                thread::sleep(ACCEPT_RETRY_DELAY);
                continue;
            };
            let shared = Arc::clone(&self.shared);
            let Some(slot) = SessionSlot::take(&shared) else {
                // There are too many sessions. Dropping `stream` closes the connection.
                continue;
            };
            let session_on_event = Arc::clone(&on_event);
            let session = move || {
                // The slot is given back when the session ends.
                let _slot = slot;
                let mut report = |event: AgentEvent| session_on_event(peer, &event);
                let result = serve_connection(&shared, stream, &mut report);
                if let Err(error) = result {
                    report(AgentEvent::Ended(error.to_string()));
                }
            };
            // If the thread cannot be started, the closure is dropped, which closes the connection.
            // The agent continues, because the host may be able to start a thread later.
            let thread = thread::Builder::new().name("agent-session".to_owned());
            if let Err(error) = thread.spawn(session) {
                let reason = format!("the connection was closed, for want of a thread: {error}");
                on_event(peer, &AgentEvent::Ended(reason));
            }
        }
    }
}

/// The right to be one of at most [`SESSIONS_MAX`] sessions. Dropping it lets another session
/// start.
struct SessionSlot(Arc<SharedState>);

impl SessionSlot {
    /// Takes a slot. None: there are [`SESSIONS_MAX`] sessions already.
    fn take(shared: &Arc<SharedState>) -> Option<Self> {
        let before = shared.sessions.fetch_add(1, Ordering::Relaxed);
        // If there are too many sessions, the slot is dropped here, which undoes the increment.
        let slot = Self(Arc::clone(shared));
        (before < SESSIONS_MAX).then_some(slot)
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right of one session to perform runs. The agent has only one such right. Dropping it lets
/// another session take it.
struct RunSlot(Arc<SharedState>);

impl RunSlot {
    /// Waits for about a second for the right. None: another session still has it.
    ///
    /// Without the wait, the second of two runs in quick succession could be refused. The
    /// coordinator of the second run may connect before the agent has noticed that the coordinator
    /// of the first run is gone.
    fn take(shared: &Arc<SharedState>) -> Option<Self> {
        // Tries are counted, not time, in which this process may stand still.
        for _ in 0..RUN_SLOT_TRIES {
            if !shared.is_busy.swap(true, Ordering::Relaxed) {
                return Some(Self(Arc::clone(shared)));
            }
            thread::sleep(RUN_SLOT_RETRY_DELAY);
        }
        None
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Relaxed);
    }
}

/// Why a session has ended with an error.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("the coordinator: {0}")]
    Link(#[from] LinkError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a coordinator was refused: {}", refusal_text(.0))]
    Refused(Refusal),
    #[error("the coordinator sent an unexpected message")]
    UnexpectedMessage,
    #[error("the coordinator stopped the run")]
    Stopped,
}

/// The reason of a refusal for the agent's log, where "it" is the coordinator. The text of
/// [`Refusal`] itself is for the coordinator's user, where "it" is the agent.
fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Busy => "this agent is busy with the run of another coordinator".to_owned(),
        // The text says only that the tokens differ, so it is true at either end.
        Refusal::Token => refusal.to_string(),
        Refusal::Version { coordinator, .. } => {
            let peer = *coordinator;
            FrameError::Version { peer }.to_string()
        }
    }
}

/// The sending half of a session's connection, which the session and the thread of its run share.
type SharedSender = Arc<Mutex<Sender>>;

/// Locks the sender, so that the frames of two messages are not interleaved.
fn locked(sender: &SharedSender) -> MutexGuard<'_, Sender> {
    // A poisoned lock is used nevertheless. If a thread panicked while it sent a message, the frame
    // may be incomplete. The coordinator then cannot parse the bytes after it, and declares this
    // agent missing.
    sender.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one connection from a coordinator until the session ends, and closes the connection.
fn serve_connection(
    shared: &Arc<SharedState>,
    stream: TcpStream,
    on_event: &mut dyn FnMut(AgentEvent),
) -> Result<(), SessionError> {
    let (mut receiver, mut sender) = link::open(stream)?;
    let run_slot = match handshake(shared, &mut receiver, &mut sender) {
        Ok(run_slot) => run_slot,
        Err(error) => {
            if let SessionError::Refused(refusal) = &error {
                // The send fails if the coordinator is gone, which needs no handling.
                let _ = sender.send(&Message::Refused(refusal.clone()));
                // An immediate close could discard the refusal before the coordinator reads it.
                link::close_gracefully(&mut receiver, &sender);
            }
            return Err(error);
        }
    };
    // Until now, only messages that are short enough for a handshake were accepted.
    receiver.set_body_max(MESSAGE_LEN_MAX);
    let mut session = Session {
        shared,
        sender: Arc::new(Mutex::new(sender)),
        run: None,
        _run_slot: run_slot,
    };
    let result = session.handle_messages(&mut receiver, on_event);
    // Dropping the session stops a run that has not ended, and then frees the run slot.
    let sender = Arc::clone(&session.sender);
    drop(session);
    let mut sender = locked(&sender);
    if let Err(SessionError::Link(LinkError::Frame(_) | LinkError::Message(_)))
    | Err(SessionError::UnexpectedMessage) = &result
    {
        let reason = "a message was malformed or unexpected".to_owned();
        // The send fails if the coordinator is gone, which needs no handling.
        let _ = sender.send(&Message::Failed { reason });
        link::close_gracefully(&mut receiver, &sender);
    }
    sender.close();
    result
}

/// How long an agent whose run has ended waits for the next message of the coordinator. `grace_ns`
/// is the length of the grace period, in which outstanding answers are awaited after the measured
/// interval. `idle_timeout` is how long the agent waits without a run.
///
/// The run of this agent may end as early as the end of the measured interval. The coordinator's
/// next message is a probe of the clock. The coordinator sends it only when no agent runs any
/// longer. It waits for the slowest agent until [`LAG_MAX_NS`] + [`OVERDUE_GRACE_NS`] after the end
/// of the grace period.
fn idle_timeout_after_run(grace_ns: u64, idle_timeout: Duration) -> Duration {
    // The settings are not validated yet. The minimum prevents an overflow.
    let slowest_agent_ns = grace_ns.min(GRACE_NS_MAX) + LAG_MAX_NS + OVERDUE_GRACE_NS;
    Duration::from_nanos(slowest_agent_ns) + idle_timeout
}

/// Exchanges proofs of the token ([`super::token`]) with a coordinator. Returns the right to
/// perform runs, once the coordinator's proof is verified.
fn handshake(
    shared: &Arc<SharedState>,
    receiver: &mut Receiver,
    sender: &mut Sender,
) -> Result<RunSlot, SessionError> {
    let agent_nonce = nonce()?;
    sender.send(&Message::Challenge { nonce: agent_nonce })?;
    let (coordinator_nonce, coordinator_proof) = match receiver.receive(HANDSHAKE_TIMEOUT) {
        Ok(received) => match received.message {
            Message::Hello { nonce, proof } => (nonce, proof),
            _ => return Err(SessionError::UnexpectedMessage),
        },
        Err(LinkError::Frame(FrameError::Version { peer })) => {
            // `peer` is the protocol version of the coordinator.
            return Err(SessionError::Refused(Refusal::Version {
                agent: VERSION,
                coordinator: peer,
            }));
        }
        Err(error) => return Err(error.into()),
    };
    let nonces = Nonces {
        agent: agent_nonce,
        coordinator: coordinator_nonce,
    };
    let token = &shared.token;
    if !token.verify(Role::Coordinator, &nonces, &coordinator_proof) {
        return Err(SessionError::Refused(Refusal::Token));
    }
    let run_slot = RunSlot::take(shared).ok_or(SessionError::Refused(Refusal::Busy))?;
    let proof = token.prove(Role::Agent, &nonces);
    sender.send(&Message::Welcome { proof })?;
    Ok(run_slot)
}

/// A session with a coordinator that has proved its token.
struct Session<'a> {
    shared: &'a SharedState,
    sender: SharedSender,
    /// The run that is being prepared, waits for its start or is performed, if any.
    run: Option<Runner>,
    /// The right to perform runs. Fields are dropped in the order of their declaration, so another
    /// session can take the right only after `run` has stopped.
    _run_slot: RunSlot,
}

impl Session<'_> {
    /// Handles the coordinator's messages until the coordinator ends the session, or an error
    /// occurs.
    fn handle_messages(
        &mut self,
        receiver: &mut Receiver,
        on_event: &mut dyn FnMut(AgentEvent),
    ) -> Result<(), SessionError> {
        // The time of the last message or, if that is later, of the end of the last run.
        let mut last_active_at = Instant::now();
        // The longest time from `last_active_at` to the next message while the session has no run.
        let mut idle_timeout = self.shared.idle_timeout;
        loop {
            let received = receiver.receive(POLL_INTERVAL);
            if let Some(run) = self.run.take_if(|run| run.has_ended()) {
                on_event(run.join());
                last_active_at = Instant::now();
            }
            let has_run = self.run.is_some();
            let received = match received {
                Err(LinkError::TimedOut(_)) if has_run => continue,
                Err(LinkError::TimedOut(_)) if last_active_at.elapsed() < idle_timeout => continue,
                Err(LinkError::TimedOut(_)) => return Err(LinkError::TimedOut(idle_timeout).into()),
                Err(LinkError::Closed) => return self.end(on_event),
                received => received?,
            };
            last_active_at = Instant::now();
            match received.message {
                Message::Probe { number } => {
                    let echo = Message::Echo {
                        number,
                        received_ns: received.at_ns,
                        echoed_ns: sys::clock::unix_ns(),
                    };
                    locked(&self.sender).send(&echo)?;
                }
                Message::Prepare { config, part } if !has_run => {
                    let connections = config.connections;
                    on_event(AgentEvent::Prepares { part, connections });
                    let mut config = *config;
                    idle_timeout =
                        idle_timeout_after_run(config.grace_ns, self.shared.idle_timeout);
                    // The processors in `config` are those of the coordinator's host.
                    config.cpus.clone_from(&self.shared.cpus);
                    let sender = Arc::clone(&self.sender);
                    self.run = Some(Runner::new(config, part, sender)?);
                }
                // `at_ns` is the start of the run, in Unix time by the clock of this host.
                Message::Start { at_ns } => match &self.run {
                    Some(run) => run.set_start(at_ns),
                    None => return Err(SessionError::UnexpectedMessage),
                },
                Message::Stop => return self.end(on_event),
                _ => return Err(SessionError::UnexpectedMessage),
            }
        }
    }

    /// Ends the session after the coordinator has sent a stop or closed the connection. Stops the
    /// run if it has not ended yet.
    ///
    /// # Errors
    /// The session had a run, and the run ended without sending its summary.
    fn end(&mut self, on_event: &mut dyn FnMut(AgentEvent)) -> Result<(), SessionError> {
        let Some(run) = self.run.take() else {
            return Ok(());
        };
        run.stop();
        match run.join() {
            AgentEvent::Done => {
                on_event(AgentEvent::Done);
                Ok(())
            }
            _ => Err(SessionError::Stopped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_in_the_log_calls_the_coordinator_it() {
        // In the log, "this agent" is the agent and "it" is the coordinator.
        let text = |refusal| SessionError::Refused(refusal).to_string();
        assert_eq!(
            text(Refusal::Busy),
            "a coordinator was refused: this agent is busy with the run of another coordinator"
        );
        let version = text(Refusal::Version {
            agent: VERSION,
            coordinator: 9,
        });
        let expected = format!(
            "a coordinator was refused: it speaks version 9 of the agents' protocol, and this \
             program version {VERSION}; "
        );
        assert!(version.starts_with(&expected), "{version}");
    }
}
