//! An agent: a process that waits for coordinators. For each run of a coordinator it opens its part
//! of the connections and offers its part of the load.
//!
//! Each connection from a coordinator is served by a *session* on its own thread. Only one session
//! at a time may have a run. The run has a further thread ([`runner`]).

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
    FRAME_LEN_MAX, GRACE_NS_MAX, HANDSHAKE_TIMEOUT, IDLE_TIMEOUT, LAG_MAX_NS, OVERDUE_GRACE_NS,
    RUN_SLOT_TIMEOUT, SESSIONS_MAX,
};
use crate::part::Part;

mod runner;

use runner::Runner;

/// How long a session waits for a message before it checks whether its run has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

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
    /// A run has ended with a summary.
    Done,
    /// A run has ended without a summary, or a session has ended without a run. The text is the
    /// reason.
    Ended(String),
}

/// The state that all sessions of an agent share.
#[derive(Debug)]
struct SharedState {
    token: Token,
    cpus: Vec<usize>,
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
            is_busy: AtomicBool::new(false),
            sessions: AtomicUsize::new(0),
        };
        Ok(Self {
            listener: TcpListener::bind(address)?,
            shared: Arc::new(shared),
        })
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
                // The connection ended before it was accepted, or the process has no file
                // descriptor left.
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let shared = Arc::clone(&self.shared);
            let Some(slot) = SessionSlot::take(&shared) else {
                continue;
            };
            let session_on_event = Arc::clone(&on_event);
            let session = move || {
                let _slot = slot;
                let on_event = session_on_event;
                let ended = serve_one(&shared, stream, &mut |event| on_event(peer, &event));
                if let Err(reason) = ended {
                    on_event(peer, &AgentEvent::Ended(reason.to_string()));
                }
            };
            // If the thread cannot be started, the closure is dropped, which closes the connection.
            // The agent goes on, because the host may have a thread for the next connection.
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

/// The right to perform runs. Only one session has it at a time. Dropping it lets another session
/// take it.
struct RunSlot(Arc<SharedState>);

impl RunSlot {
    /// Waits up to [`RUN_SLOT_TIMEOUT`] for the right. None: another session still has it.
    ///
    /// Without the wait, the second of two runs in quick succession could be refused: its
    /// coordinator may connect before the agent has noticed that the previous one is gone.
    fn take(shared: &Arc<SharedState>) -> Option<Self> {
        let deadline = Instant::now() + RUN_SLOT_TIMEOUT;
        while shared.is_busy.swap(true, Ordering::Relaxed) {
            if Instant::now() > deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
        Some(Self(Arc::clone(shared)))
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Relaxed);
    }
}

/// Why a session has ended without a run, or before the end of its run.
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

fn locked(sender: &SharedSender) -> MutexGuard<'_, Sender> {
    // A poisoned lock is used nevertheless. If a thread panicked while it sent a message, the frame
    // may be incomplete. The coordinator then cannot parse what follows, and gives this agent up.
    sender.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one connection from a coordinator until it ends.
fn serve_one(
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
                link::close_gracefully(&mut receiver, &sender);
            }
            return Err(error);
        }
    };
    receiver.set_body_max(FRAME_LEN_MAX);
    let mut session = Session {
        shared,
        sender: Arc::new(Mutex::new(sender)),
        run: None,
        _run_slot: run_slot,
    };
    let ended = session.handle_messages(&mut receiver, on_event);
    // Dropping the session stops a run that has not ended, and then frees the run slot.
    let sender = Arc::clone(&session.sender);
    drop(session);
    let mut sender = locked(&sender);
    if let Err(SessionError::Link(LinkError::Frame(_) | LinkError::Message(_)))
    | Err(SessionError::UnexpectedMessage) = &ended
    {
        let reason = "a message was malformed or unexpected".to_owned();
        let _ = sender.send(&Message::Failed { reason });
        link::close_gracefully(&mut receiver, &sender);
    }
    sender.close();
    ended
}

/// How long an agent whose run has ended waits for the next message of the coordinator. The run may
/// end as early as the end of the measured interval. The coordinator's next message is a probe of
/// the clock. It comes only after every agent has ended or was given up, which is at the latest
/// [`LAG_MAX_NS`] + [`OVERDUE_GRACE_NS`] after the end of the grace period.
fn idle_timeout_after_run(grace_ns: u64) -> Duration {
    let others_ns = grace_ns.min(GRACE_NS_MAX) + LAG_MAX_NS + OVERDUE_GRACE_NS;
    Duration::from_nanos(others_ns) + IDLE_TIMEOUT
}

/// Exchanges proofs of the token with a coordinator. Returns the right to perform runs, once the
/// coordinator's proof is verified.
fn handshake(
    shared: &Arc<SharedState>,
    receiver: &mut Receiver,
    sender: &mut Sender,
) -> Result<RunSlot, SessionError> {
    let agent_nonce = nonce()?;
    sender.send(&Message::Challenge { nonce: agent_nonce })?;
    let (nonce, proof) = match receiver.receive(HANDSHAKE_TIMEOUT) {
        Ok(received) => match received.message {
            Message::Hello { nonce, proof } => (nonce, proof),
            _ => return Err(SessionError::UnexpectedMessage),
        },
        Err(LinkError::Frame(FrameError::Version { peer })) => {
            return Err(SessionError::Refused(Refusal::Version {
                agent: VERSION,
                coordinator: peer,
            }));
        }
        Err(error) => return Err(error.into()),
    };
    let nonces = Nonces {
        agent: agent_nonce,
        coordinator: nonce,
    };
    if !shared.token.verify(Role::Coordinator, &nonces, &proof) {
        return Err(SessionError::Refused(Refusal::Token));
    }
    let run_slot = RunSlot::take(shared).ok_or(SessionError::Refused(Refusal::Busy))?;
    let proof = shared.token.prove(Role::Agent, &nonces);
    sender.send(&Message::Welcome { proof })?;
    Ok(run_slot)
}

/// A session with a coordinator that has proved its token.
struct Session<'a> {
    shared: &'a SharedState,
    sender: SharedSender,
    /// The run that is being prepared or performed, if any.
    run: Option<Runner>,
    /// The right to perform runs. Fields are dropped in the order of their declaration, so another
    /// session can take the right only after `run` has stopped.
    _run_slot: RunSlot,
}

impl Session<'_> {
    /// Handles the coordinator's messages until the coordinator ends the session.
    fn handle_messages(
        &mut self,
        receiver: &mut Receiver,
        on_event: &mut dyn FnMut(AgentEvent),
    ) -> Result<(), SessionError> {
        let mut last_message_at = Instant::now();
        // The longest wait for a message while the session has no run.
        let mut idle_timeout = IDLE_TIMEOUT;
        loop {
            let received = receiver.receive(POLL_INTERVAL);
            if let Some(run) = self.run.take_if(|run| run.has_ended()) {
                on_event(run.join());
                last_message_at = Instant::now();
            }
            let is_running = self.run.is_some();
            let received = match received {
                Err(LinkError::TimedOut(_)) if is_running => continue,
                Err(LinkError::TimedOut(_)) if last_message_at.elapsed() < idle_timeout => continue,
                Err(LinkError::TimedOut(_)) => return Err(LinkError::TimedOut(idle_timeout).into()),
                Err(LinkError::Closed) => return self.end(on_event),
                received => received?,
            };
            last_message_at = Instant::now();
            match received.message {
                Message::Probe { number } => {
                    let echo = Message::Echo {
                        number,
                        received_ns: received.at_ns,
                        echoed_ns: sys::clock::unix_ns(),
                    };
                    locked(&self.sender).send(&echo)?;
                }
                Message::Prepare { config, part } if !is_running => {
                    let connections = config.connections;
                    on_event(AgentEvent::Prepares { part, connections });
                    let mut config = *config;
                    idle_timeout = idle_timeout_after_run(config.grace_ns);
                    config.cpus.clone_from(&self.shared.cpus);
                    let sender = Arc::clone(&self.sender);
                    self.run = Some(Runner::new(config, part, sender)?);
                }
                Message::Start { at_ns } => match &self.run {
                    Some(run) => run.set_start(at_ns),
                    None => return Err(SessionError::UnexpectedMessage),
                },
                Message::Stop => return self.end(on_event),
                _ => return Err(SessionError::UnexpectedMessage),
            }
        }
    }

    /// Ends the session after the coordinator stopped it or closed the connection. A run that has
    /// not ended is stopped. This is an error, unless the run has sent its summary nevertheless.
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
    fn refusal_in_the_log_names_the_coordinator_as_the_other_end() {
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
