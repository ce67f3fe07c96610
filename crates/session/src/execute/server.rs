//! Commands to the server, and `flush_all`.
//!
//! Two kinds of sessions call [`execute`]: those whose items are in the store, and those whose
//! items are in a memory pool on other machines. A session with a store handles some commands
//! before it would call `execute` (`begin_long_reply` and `server_command` in `execute.rs`). If
//! `execute` receives such a command, the session has a pool. Pools do not have these commands.

use protocol::limits::{MEMLIMIT_MAX_MB, MEMLIMIT_MIN_MB};
use protocol::{Crawler, Detail, ShutdownMode, Stats};
use service::Next;

use super::chosen_rows::ChosenRows;
use crate::control::{ServerControl, StatWriter};
use crate::counters::Counter;
use crate::encode::{Encode, NO_KEY};
use crate::limits::{PREFIXES_AT_ONCE, PREFIXES_PER_TURN};
use crate::now::{ClockRefused, Now};
use crate::operation::ServerCommand;
use crate::outcome::{Outcome, Restricted, ServerOutcome};
use crate::prefixes::PrefixSums;
use crate::protocols::{OwnedEncoder, WithEncoder};
use crate::session::{Output, RequestContext};

/// The version reported to clients: the memcached release whose replies Curtail reproduces.
const VERSION: &[u8] = b"1.6.45";

/// What [`execute`] needs in addition to the command: the time, and the interface of the server
/// process.
pub(crate) struct ServerContext<'a> {
    /// The time of the burst. The command `debugtime` changes it.
    pub(crate) now: Now,
    /// Process-wide statistics and settings.
    pub(crate) control: &'a dyn ServerControl,
}

/// Executes a command to the server and replies. Returns false if the connection is to be closed
/// without a reply.
#[must_use]
pub(crate) fn execute(
    encoder: &impl Encode,
    command: ServerCommand<'_>,
    context: &mut ServerContext<'_>,
    bytes: &mut Vec<u8>,
) -> bool {
    let outcome = match command {
        ServerCommand::Version => ServerOutcome::Version(VERSION),
        ServerCommand::Verbosity(level) => {
            context.control.set_verbosity(level);
            ServerOutcome::Done
        }
        ServerCommand::MemoryLimit { megabytes } => memory_limit(megabytes, context),
        ServerCommand::Stats(which) => stats(encoder, which, context, bytes),
        ServerCommand::Shutdown(mode) => match shutdown(mode, context) {
            Some(outcome) => outcome,
            None => return false,
        },
        ServerCommand::Tune(tuning) => {
            context.control.tune(tuning);
            ServerOutcome::Done
        }
        ServerCommand::DebugTime(change) => match context.control.change_clock(change) {
            Ok(now) => {
                context.now = now;
                ServerOutcome::Done
            }
            Err(ClockRefused::Unsupported) => ServerOutcome::Unsupported,
            Err(ClockRefused::OnlyForward) => ServerOutcome::ClockOnlyForward,
        },
        ServerCommand::Crawler(Crawler::Enable) => {
            // False: the crawler was enabled already.
            match context.control.set_crawler_enabled(true) {
                true => ServerOutcome::Done,
                false => ServerOutcome::CrawlerNotStarted,
            }
        }
        ServerCommand::Crawler(Crawler::Disable) => {
            context.control.set_crawler_enabled(false);
            ServerOutcome::Done
        }
        // The session has a pool.
        ServerCommand::Crawler(Crawler::Crawl(_) | Crawler::Dump(..))
        | ServerCommand::Watch(_)
        | ServerCommand::Prefix(_) => ServerOutcome::Unsupported,
    };
    encoder.outcome(NO_KEY, Outcome::Server(outcome), bytes);
    true
}

/// Flushes (invalidates) all items, now or at the time `exptime`, and replies. If the server's
/// flags do not allow this command, flushes nothing and replies with an error.
pub(super) fn flush(
    encoder: &impl Encode,
    exptime: Option<i32>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) {
    context.counters.count(Counter::CmdFlush);
    let outcome = if context.control.permissions().flush {
        // `None`: the client sent a time before the server's start, and no item is that old.
        if let Some(second) = context.now.flush_second(exptime) {
            context.worker.flush(second, context.now.elapsed_s);
        }
        ServerOutcome::Done
    } else {
        ServerOutcome::NotAllowed(Restricted::Flush)
    };
    encoder.outcome(NO_KEY, Outcome::Server(outcome), bytes);
}

/// Changes the memory limit of items and index.
fn memory_limit(megabytes: u32, context: &ServerContext<'_>) -> ServerOutcome {
    if megabytes < MEMLIMIT_MIN_MB {
        return ServerOutcome::MemoryLimitTooSmall;
    }
    if megabytes > MEMLIMIT_MAX_MB {
        // The client probably gave the limit in bytes.
        return ServerOutcome::MemoryLimitInBytes;
    }
    let bytes = u64::from(megabytes) << 20;
    if context.control.set_memory_limit(bytes) {
        ServerOutcome::Done
    } else {
        ServerOutcome::MemoryLimitRejected
    }
}

/// Executes the command `stats` with the argument `which`: writes statistics, sets the statistics
/// to zero, or turns counting by key prefix on or off. Returns the outcome, which the caller
/// writes. If statistics were written, the outcome is the end of the list.
fn stats(
    encoder: &impl Encode,
    which: Stats<'_>,
    context: &ServerContext<'_>,
    bytes: &mut Vec<u8>,
) -> ServerOutcome {
    let (control, may_dump) = (context.control, context.control.permissions().dump);
    match which {
        Stats::General | Stats::Curtail => {
            // `stats` shows the statistics that memcached has, and `stats curtail` the others.
            let is_general = which == Stats::General;
            let mut out = encoder.stats(bytes);
            let mut rows = ChosenRows::new(is_general, control, &mut out);
            control.write_stats(context.now, &mut rows);
        }
        Stats::Settings => control.write_settings(&mut encoder.stats(bytes)),
        Stats::Items => control.write_items(context.now, &mut encoder.stats(bytes)),
        Stats::Slabs => control.write_slabs(&mut encoder.stats(bytes)),
        // The session has a pool, or the server does not count items by size (`-o track_sizes`).
        Stats::Sizes => {
            let stats = &mut encoder.stats(bytes);
            stats.text(b"sizes_status", b"disabled");
        }
        // The session has a pool.
        Stats::Connections => {}
        Stats::Reset => {
            control.reset_stats();
            return ServerOutcome::StatsReset;
        }
        // The session has a pool.
        Stats::HotKeys => return ServerOutcome::Unsupported,
        Stats::Latency => {
            if !control.write_latencies(&mut encoder.stats(bytes)) {
                return ServerOutcome::Unsupported;
            }
        }
        Stats::Detail(_) if !may_dump => return ServerOutcome::NotAllowed(Restricted::Detail),
        Stats::CacheDump { .. } if !may_dump => {
            return ServerOutcome::NotAllowed(Restricted::CacheDump);
        }
        Stats::Detail(Detail::Dump) => {
            encoder.prefixes(&control.prefixes(None, PREFIXES_AT_ONCE), bytes);
        }
        // The word after `stats detail` is missing or unknown.
        Stats::Detail(Detail::Usage) => return ServerOutcome::BadDetail,
        Stats::Detail(detail @ (Detail::On | Detail::Off)) => {
            control.set_prefix_counting(detail == Detail::On);
            return ServerOutcome::Done;
        }
        // The session has a pool.
        Stats::CacheDump { .. } => {}
        Stats::Other(_) => return ServerOutcome::Unsupported,
    }
    ServerOutcome::StatsEnd
}

/// Makes the server stop, and returns `None`: the connection then closes without a reply. If
/// clients may not stop the server, or if the mode is invalid, only returns the error to reply.
fn shutdown(mode: ShutdownMode, context: &ServerContext<'_>) -> Option<ServerOutcome> {
    if !context.control.permissions().shutdown {
        return Some(ServerOutcome::NotAllowed(Restricted::Shutdown));
    }
    match mode {
        ShutdownMode::Invalid => Some(ServerOutcome::BadShutdownMode),
        ShutdownMode::Plain | ShutdownMode::Graceful => {
            context.control.stop();
            None
        }
    }
}

/// A `stats detail dump` that has not written all prefixes yet. It takes several turns.
#[derive(Debug)]
pub(crate) struct PrefixList {
    /// The last prefix that was written.
    after: Option<Box<[u8]>>,
    encoder: OwnedEncoder,
}

impl PrefixList {
    pub(crate) fn new(encoder: OwnedEncoder) -> Self {
        let after = None;
        Self { after, encoder }
    }

    /// Writes the next [`PREFIXES_PER_TURN`] prefixes, and after the last one the end of the list.
    /// Returns what the session needs before it can write further ones, or `None` at the end.
    pub(crate) fn resume(&mut self, control: &dyn ServerControl, out: &mut Output) -> Option<Next> {
        if out.is_full() {
            return Some(Next::OutputSpace);
        }
        let sums = control.prefixes(self.after.as_deref(), PREFIXES_PER_TURN);
        let is_last = sums.len() < PREFIXES_PER_TURN;
        self.encoder.borrow().dispatch(WritePrefixes {
            sums: &sums,
            is_last,
            bytes: out.bytes_mut(),
        });
        self.after = sums.into_keys().next_back();
        (!is_last).then_some(Next::Yield)
    }
}

/// The arguments of [`PrefixList::resume`], for the code that is compiled for each encoder.
struct WritePrefixes<'a> {
    sums: &'a PrefixSums,
    is_last: bool,
    bytes: &'a mut Vec<u8>,
}

impl WithEncoder for WritePrefixes<'_> {
    type Result = ();

    fn run(self, encoder: &impl Encode) {
        encoder.prefixes(self.sums, self.bytes);
        if self.is_last {
            let outcome = Outcome::Server(ServerOutcome::StatsEnd);
            encoder.outcome(NO_KEY, outcome, self.bytes);
        }
    }
}
