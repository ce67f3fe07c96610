//! Sessions over a store, without sockets, as a peer.

mod tiered;

use anyhow::{Context, Result, bail};
use service::{Next, OpenTickets, Progress, Session as _};
use session::{
    Counters, Now, Output, Permissions, PrefixSums, Prepared, RequestContext, ServerControl,
    Session, StatWriter, prefetch_items,
};
use store::{Config, Store, Worker};

use self::tiered::Tiered;
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

/// The number of turns without progress after which a session is considered stuck. A list of items
/// visits a part of the index in each turn, where there may be none.
const IDLE_TURNS_MAX: usize = 10_000;

/// A store and the sessions of its clients.
#[derive(Debug)]
pub struct SessionPeer {
    cache: Cache,
    clients: Vec<Connection>,
    /// Whether values are received directly into the store's memory.
    in_place: bool,
    /// The reads of the tier in earlier cases.
    tier_reads: u64,
}

/// What sessions use.
#[derive(Debug)]
struct Cache {
    worker: Worker,
    counters: Counters,
    now: Now,
    tier: Option<Tiered>,
}

/// A session, with its unconsumed input and the replies that the test has not received.
#[derive(Debug, Default)]
struct Connection {
    session: Session,
    open: OpenTickets,
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
            cache: Cache::new(None)?,
            clients: Vec::new(),
            in_place,
            tier_reads: 0,
        })
    }

    /// As [`new`](Self::new), with a tier below the store. Before bytes are sent, all items are
    /// evicted to the tier.
    ///
    /// # Errors
    /// The store rejects its configuration, or a thread cannot be started.
    pub fn tiered(in_place: bool) -> Result<Self> {
        Ok(Self {
            cache: Cache::new(Some(Tiered::new()?))?,
            ..Self::new(in_place)?
        })
    }

    /// The number of reads of the tier so far.
    ///
    /// # Errors
    /// The tier has lost an item.
    pub fn tier_reads(&self) -> Result<u64> {
        let present = self.cache.tier.as_ref().map_or(Ok(0), Tiered::reads)?;
        Ok(self.tier_reads + present)
    }
}

impl Peer for SessionPeer {
    fn version(&self) -> &str {
        REFERENCE_VERSION
    }

    fn evicts_all(&self) -> bool {
        self.cache.tier.is_some()
    }

    fn reset(&mut self) -> Result<()> {
        let tier_reads = self.tier_reads()?;
        let empty = match self.cache.tier {
            Some(_) => Self::tiered(self.in_place)?,
            None => Self::new(self.in_place)?,
        };
        *self = Self {
            tier_reads,
            ..empty
        };
        Ok(())
    }

    fn connect(&mut self) -> Result<ClientId> {
        self.clients.push(Connection::default());
        Ok(ClientId(self.clients.len() - 1))
    }

    fn send(&mut self, client: ClientId, bytes: &[u8]) -> Result<()> {
        let connection = self.clients.get_mut(client.0).context("no such client")?;
        if self.cache.tier.is_some() {
            let now_s = self.cache.now.elapsed_s;
            self.cache.worker.evict_everything(now_s);
        }
        let mut rest = bytes;
        if self.in_place && connection.input.is_empty() {
            let buffer = connection.session.upload_buffer();
            let len = buffer.len().min(rest.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            connection.session.advance_upload(len);
            rest = &rest[len..];
        }
        connection.input.extend_from_slice(rest);
        connection.run(&mut self.cache)
    }

    fn receive(&mut self, client: ClientId) -> Result<Received> {
        let connection = self.clients.get_mut(client.0).context("no such client")?;
        Ok(Received::take(&mut connection.output, connection.is_closed))
    }

    fn has_clock(&self) -> bool {
        true
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        self.cache.now.elapsed_s += u32::try_from(seconds)?;
        Ok(())
    }
}

impl Cache {
    fn new(tier: Option<Tiered>) -> Result<Self> {
        let lower = tier.as_ref().map(Tiered::shared);
        Ok(Self {
            worker: Store::with_tier(CONFIG, lower)?.worker(),
            counters: Counters::default(),
            now: Now {
                elapsed_s: 1,
                // The present time is then the start time of the model.
                epoch_unix_s: 1_699_999_999,
            },
            tier,
        })
    }
}

impl Connection {
    /// Gives the session turns until it needs more input.
    fn run(&mut self, cache: &mut Cache) -> Result<()> {
        let mut out = Output::default();
        let mut idle = 0;
        while !self.is_closed {
            let progress = self.turn(cache, &mut out);
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
                Next::Completion => self.complete(cache)?,
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

    /// One turn of the session.
    fn turn(&mut self, cache: &mut Cache, out: &mut Output) -> Progress {
        let mut prepared: Vec<Prepared<'_>> = Vec::new();
        self.session
            .prepare(&self.input, REQUESTS_PER_TURN, &cache.worker, &mut prepared);
        prefetch_items(&mut prepared, &cache.worker);
        let tier = cache.tier.as_mut();
        let mut context =
            RequestContext::new(cache.now, &mut cache.worker, &cache.counters, &NoControl);
        context.tier = tier.map(|tier| tier.access(&mut self.open));
        self.session
            .answer(&prepared, &self.input, &mut context, out)
    }

    /// Waits for one result and delivers it.
    fn complete(&mut self, cache: &Cache) -> Result<()> {
        let tier = cache.tier.as_ref();
        let tier = tier.context("the session waits for a ticket that was not issued")?;
        let completed = tier.wait()?;
        self.open.record_delivery();
        self.session.complete_read(completed.result);
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

    fn prefixes(&self, _: Option<&[u8]>, _: usize) -> PrefixSums {
        PrefixSums::new()
    }
}
