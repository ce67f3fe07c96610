//! Sessions over a store, without sockets, as a peer.

use anyhow::{Context, Result, bail};
use service::{Next, Session as _, recycle};
use session::{
    CacheWorker, Counters, Now, Output, Permissions, PrefixSums, RequestContext, ServerControl,
    Session, StatWriter, prefetch_items,
};
use store::{Config, Store, Worker};

use super::{ClientId, Peer, Received};
use crate::play::REFERENCE_VERSION;

/// The memory limit (`-m`) and the maximum item size (`-I`) that are memcached's defaults.
pub(super) const CONFIG: Config = Config {
    memory_bytes: 64 << 20,
    item_max: 1 << 20,
    hash_seed: 1,
    ..Config::DEFAULT
};

/// The number of requests answered in one turn. It is small, so that turns end within pipelines.
const REQUESTS_PER_TURN: usize = 3;

/// The number of turns without progress after which a session is considered stuck.
const IDLE_TURNS_MAX: usize = 10;

/// A store and the sessions of its clients.
#[derive(Debug)]
pub struct SessionPeer {
    worker: Worker,
    counters: Counters,
    now: Now,
    clients: Vec<Connection>,
    /// Whether values are received directly into the store's memory.
    in_place: bool,
}

/// A session, with its unconsumed input and the replies that the test has not received.
#[derive(Debug, Default)]
struct Connection {
    session: Session,
    input: Vec<u8>,
    output: Vec<u8>,
    is_closed: bool,
}

impl SessionPeer {
    /// Creates an empty store. If `in_place`, values are received directly into the store's memory,
    /// where the session offers it ([`upload_buffer`](service::Session::upload_buffer)).
    ///
    /// # Errors
    /// The store rejects its configuration.
    pub fn new(in_place: bool) -> Result<Self> {
        Ok(Self {
            worker: Store::new(CONFIG)?.worker(),
            counters: Counters::default(),
            now: Now {
                elapsed_s: 1,
                // The present time is then the start time of the model.
                epoch_unix_s: 1_699_999_999,
            },
            clients: Vec::new(),
            in_place,
        })
    }
}

impl Peer for SessionPeer {
    fn version(&self) -> &str {
        REFERENCE_VERSION
    }

    fn reset(&mut self) -> Result<()> {
        *self = Self::new(self.in_place)?;
        Ok(())
    }

    fn connect(&mut self) -> Result<ClientId> {
        self.clients.push(Connection::default());
        Ok(ClientId(self.clients.len() - 1))
    }

    fn send(&mut self, client: ClientId, bytes: &[u8]) -> Result<()> {
        let connection = self.clients.get_mut(client.0).context("no such client")?;
        let mut rest = bytes;
        if self.in_place && connection.input.is_empty() {
            let buffer = connection.session.upload_buffer();
            let len = buffer.len().min(rest.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            connection.session.advance_upload(len);
            rest = &rest[len..];
        }
        connection.input.extend_from_slice(rest);
        let mut context = RequestContext {
            now: self.now,
            worker: &mut self.worker,
            counters: &self.counters,
            control: &NoControl,
            tier: None,
        };
        connection.run(&mut context)
    }

    fn receive(&mut self, client: ClientId) -> Result<Received> {
        let connection = self.clients.get_mut(client.0).context("no such client")?;
        Ok(if !connection.output.is_empty() {
            Received::Bytes(std::mem::take(&mut connection.output))
        } else if connection.is_closed {
            Received::End
        } else {
            Received::Nothing
        })
    }

    fn has_clock(&self) -> bool {
        true
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        self.now.elapsed_s += u32::try_from(seconds)?;
        Ok(())
    }
}

impl Connection {
    /// Gives the session turns until it needs more input.
    fn run(&mut self, context: &mut RequestContext<'_>) -> Result<()> {
        let mut prepared = Vec::new();
        let mut out = Output::default();
        let mut idle = 0;
        while !self.is_closed {
            prepared = recycle::<CacheWorker>(prepared);
            self.session.prepare(
                &self.input,
                REQUESTS_PER_TURN,
                context.worker,
                &mut prepared,
            );
            prefetch_items(&mut prepared, context.worker);
            let progress = self
                .session
                .answer(&prepared, &self.input, context, &mut out);
            prepared = recycle::<CacheWorker>(prepared);
            for piece in out.slices(0) {
                self.output.extend_from_slice(piece);
            }
            idle = if progress.consumed == 0 && out.is_empty() {
                idle + 1
            } else {
                0
            };
            out.clear();
            self.input.drain(..progress.consumed);
            match progress.next {
                Next::Input => break,
                Next::Upload if self.input.is_empty() => break,
                Next::Close => self.is_closed = true,
                Next::Memory => bail!("the session waits for memory that no connection holds"),
                Next::Completion => bail!("the session waits for a ticket that was not issued"),
                Next::Upload | Next::OutputSpace | Next::Yield if idle > IDLE_TURNS_MAX => {
                    bail!(
                        "the session makes no progress, it needs {:?}",
                        progress.next
                    );
                }
                Next::Upload | Next::OutputSpace | Next::Yield => {}
            }
        }
        Ok(())
    }
}

/// A control with fixed statistics, which changes nothing.
#[derive(Debug)]
pub(super) struct NoControl;

impl ServerControl for NoControl {
    fn write_stats(&self, _: Now, out: &mut dyn StatWriter) {
        out.text(b"version", b"1");
        out.number(b"curr_items", 0);
    }

    fn write_settings(&self, out: &mut dyn StatWriter) {
        out.number(b"item_size_max", 1_048_576);
    }

    fn reset_stats(&self) {}

    fn set_memory_limit(&self, _: u64) -> bool {
        true
    }

    fn wake_maintenance(&self) {}

    fn set_verbosity(&self, _: u32) {}

    fn permissions(&self) -> Permissions {
        Permissions::DEFAULT
    }

    fn stop(&self) {}

    fn set_prefix_counting(&self, _: bool) {}

    fn prefixes(&self) -> PrefixSums {
        PrefixSums::new()
    }
}
