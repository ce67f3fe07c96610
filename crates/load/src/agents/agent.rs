//! An agent: opens its part of a run's connections and offers its part of the load.

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
    FRAME_LEN_MAX, HANDSHAKE_TIMEOUT, IDLE_TIMEOUT, RUN_SLOT_TIMEOUT, SESSIONS_MAX,
};
use crate::part::Part;

mod runner;

use runner::Runner;

/// How often a session checks whether its run has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// An agent that listens for coordinators and serves one at a time.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    shared: Arc<SharedState>,
}

/// What happens at an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A coordinator's run begins to be prepared.
    Prepares {
        /// The agent's part.
        part: Part,
        /// Connections of the whole run.
        connections: u32,
    },
    /// A run has ended with a summary.
    Done,
    /// A run, or a connection that is no run, has ended otherwise.
    Ended(String),
}

/// What the sessions of an agent share.
#[derive(Debug)]
struct SharedState {
    token: Token,
    cpus: Vec<usize>,
    /// A session has a run, or may have one.
    is_busy: AtomicBool,
    sessions: AtomicUsize,
}

impl Agent {
    /// Listens at `address`. The threads of its runs are pinned to `cpus`, if there are any.
    ///
    /// # Errors
    /// The address cannot be listened at.
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

    /// The address at which it listens.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves coordinators until the process ends. `on_event` is called with the coordinator's
    /// address.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn serve(
        &self,
        on_event: impl Fn(SocketAddr, &AgentEvent) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let on_event = Arc::new(on_event);
        loop {
            let Ok((stream, peer)) = self.listener.accept() else {
                // The connection ended before it was accepted, or no descriptor is left.
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let shared = Arc::clone(&self.shared);
            let Some(slot) = SessionSlot::take(&shared) else {
                continue;
            };
            let on_event = Arc::clone(&on_event);
            thread::Builder::new()
                .name("agent-session".to_owned())
                .spawn(move || {
                    let _slot = slot;
                    let ended = serve_one(&shared, stream, &mut |event| on_event(peer, &event));
                    if let Err(reason) = ended {
                        on_event(peer, &AgentEvent::Ended(reason.to_string()));
                    }
                })?;
        }
    }
}

/// One of the [`SESSIONS_MAX`] sessions.
struct SessionSlot(Arc<SharedState>);

impl SessionSlot {
    fn take(shared: &Arc<SharedState>) -> Option<Self> {
        let before = shared.sessions.fetch_add(1, Ordering::Relaxed);
        let slot = Self(Arc::clone(shared));
        (before < SESSIONS_MAX).then_some(slot)
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right to run, which one session has at a time.
struct RunSlot(Arc<SharedState>);

impl RunSlot {
    /// None: another session has it, and has not ended within [`RUN_SLOT_TIMEOUT`]. A coordinator
    /// whose predecessor has just ended so finds the agent free.
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

/// Why a session has ended without a run, or before its end.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("the coordinator: {0}")]
    Link(#[from] LinkError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a coordinator was refused: {0}")]
    Refused(Refusal),
    #[error("the coordinator sent a message out of place")]
    UnexpectedMessage,
    #[error("the coordinator ended the run before its time")]
    Stopped,
}

/// The sending half of a session, shared with its run.
type SharedSender = Arc<Mutex<Sender>>;

fn locked(sender: &SharedSender) -> MutexGuard<'_, Sender> {
    // A message that a panic cut short is followed by the end of the connection.
    sender.lock().unwrap_or_else(PoisonError::into_inner)
}

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
                // The coordinator may be gone.
                let _ = sender.send(&Message::Refused(refusal.clone()));
                link::end(&mut receiver, &sender);
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
    // A run that goes on is stopped, and the agent is free.
    let sender = Arc::clone(&session.sender);
    drop(session);
    let mut sender = locked(&sender);
    if let Err(SessionError::Link(LinkError::Frame(_) | LinkError::Message(_)))
    | Err(SessionError::UnexpectedMessage) = &ended
    {
        let reason = "a message was malformed or out of place".to_owned();
        let _ = sender.send(&Message::Failed { reason });
        link::end(&mut receiver, &sender);
    }
    sender.close();
    ended
}

/// Exchanges proofs of the token; returns once the coordinator has proved its token and may run.
fn handshake(
    shared: &Arc<SharedState>,
    receiver: &mut Receiver,
    sender: &mut Sender,
) -> Result<RunSlot, SessionError> {
    let own = nonce()?;
    sender.send(&Message::Challenge { nonce: own })?;
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
        agent: own,
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

/// A session with a coordinator that may run.
struct Session<'a> {
    shared: &'a SharedState,
    sender: SharedSender,
    run: Option<Runner>,
    /// Given up after the run has ended: fields are dropped in their order.
    _run_slot: RunSlot,
}

impl Session<'_> {
    /// Acts on the coordinator's messages until it ends the connection.
    fn handle_messages(
        &mut self,
        receiver: &mut Receiver,
        on_event: &mut dyn FnMut(AgentEvent),
    ) -> Result<(), SessionError> {
        let mut last_message_at = Instant::now();
        loop {
            let received = receiver.receive(POLL_INTERVAL);
            if let Some(run) = self.run.take_if(|run| run.has_ended()) {
                on_event(run.join());
                last_message_at = Instant::now();
            }
            let is_running = self.run.is_some();
            let received = match received {
                Err(LinkError::TimedOut(_)) if is_running => continue,
                Err(LinkError::TimedOut(_)) if last_message_at.elapsed() < IDLE_TIMEOUT => continue,
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

    /// The coordinator has ended the session. Only after a run is that its usual end.
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
