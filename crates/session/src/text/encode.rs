//! Encoding of outcomes as replies of the text protocol.

use protocol::reply;
use service::Output;

use super::TextEncoder;
use crate::control::StatWriter;
use crate::encode::{Encode, EncodedItem, push_value};
use crate::lines::VALUE_END;
use crate::login::LoginOutcome;
use crate::outcome::{
    ArithOutcome, DeleteOutcome, FoundItem, Outcome, Restricted, ServerOutcome, StoreOutcome,
};
use crate::prefixes::{PrefixCount, PrefixSums};

impl Encode for TextEncoder {
    const VALUE_END: &'static [u8] = VALUE_END;

    const HAS_READ_OPTIONS: bool = false;

    type Stats<'o> = TextStats<'o>;

    #[inline(always)]
    fn item<I: EncodedItem>(
        &self,
        found: &FoundItem<'_, I>,
        out: &mut Output<I::Pin>,
    ) -> Option<()> {
        let item = found.item;
        let header = |bytes: &mut Vec<u8>| {
            let cas = self.with_cas.then(|| item.cas());
            let len = item.value_len() as u32;
            reply::value_header(bytes, found.key, item.flags(), len, cas);
        };
        push_value(item, header, reply::LINE_END, out)
    }

    #[inline(always)]
    fn outcome(&self, _: &[u8], outcome: Outcome, out: &mut Vec<u8>) {
        if self.noreply {
            return;
        }
        let line = match outcome {
            Outcome::Read { .. } | Outcome::ReadMany => reply::END,
            Outcome::Store(outcome) => stored(outcome),
            Outcome::Delete(outcome) => match outcome {
                DeleteOutcome::Done => reply::DELETED,
                DeleteOutcome::NotFound => reply::NOT_FOUND,
                DeleteOutcome::Exists => reply::EXISTS,
                DeleteOutcome::NoMemory => reply::NO_MEMORY,
            },
            Outcome::Arith(outcome) => match outcome {
                ArithOutcome::Counted { value, .. } => return reply::number(out, value),
                ArithOutcome::NotFound => reply::NOT_FOUND,
                ArithOutcome::NotNumeric => reply::NON_NUMERIC,
                ArithOutcome::Exists => reply::EXISTS,
                ArithOutcome::NoMemory => reply::NO_MEMORY,
            },
            Outcome::Touch { found: true } => reply::TOUCHED,
            Outcome::Touch { found: false } => reply::NOT_FOUND,
            Outcome::Server(ServerOutcome::Version(version)) => {
                return reply::version(out, version);
            }
            Outcome::Server(outcome) => server(outcome),
            Outcome::Rejected(rejection) => rejection.reply(),
            Outcome::Failed { reply } => reply,
            Outcome::Login(LoginOutcome::Accepted) => reply::STORED,
            Outcome::Login(_) => reply::LOGIN_FAILED,
            // `quit` has no reply, and the other two are outcomes of other protocols.
            Outcome::Noop | Outcome::Quit | Outcome::Mechanisms => b"",
        };
        out.extend_from_slice(line);
    }

    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> TextStats<'o> {
        TextStats(out)
    }

    fn prefixes(&self, sums: &PrefixSums, out: &mut Vec<u8>) {
        for (prefix, count) in sums {
            let PrefixCount {
                gets,
                hits,
                sets,
                deletes,
            } = count;
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(prefix);
            let counts = format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
            out.extend_from_slice(counts.as_bytes());
        }
    }
}

/// Returns the reply to a storage command.
#[inline]
fn stored(outcome: StoreOutcome) -> &'static [u8] {
    match outcome {
        StoreOutcome::Stored { .. } => reply::STORED,
        // One of the cases is an append whose result would exceed the maximum item size. memcached
        // also replies `NOT_STORED` to it.
        StoreOutcome::NotStored { .. } => reply::NOT_STORED,
        StoreOutcome::Exists { .. } => reply::EXISTS,
        StoreOutcome::NotFound { .. } => reply::NOT_FOUND,
        StoreOutcome::BadDataChunk => reply::BAD_DATA_CHUNK,
        StoreOutcome::TooLarge => reply::TOO_LARGE,
        StoreOutcome::NoMemory => reply::NO_MEMORY_TO_STORE,
    }
}

/// Returns the reply to a command to the server.
fn server(outcome: ServerOutcome) -> &'static [u8] {
    match outcome {
        ServerOutcome::Done => reply::OK,
        ServerOutcome::Version(version) => version,
        ServerOutcome::StatsEnd => reply::END,
        ServerOutcome::StatsReset => reply::RESET,
        ServerOutcome::BadDetail => reply::DETAIL_USAGE,
        ServerOutcome::BadShutdownMode => reply::BAD_SHUTDOWN_MODE,
        ServerOutcome::MemoryLimitTooSmall => reply::MEMLIMIT_TOO_SMALL,
        ServerOutcome::MemoryLimitInBytes => reply::MEMLIMIT_IN_BYTES,
        ServerOutcome::MemoryLimitRejected => reply::MEMLIMIT_FAILED,
        ServerOutcome::NotAllowed(command) => match command {
            Restricted::Flush => reply::FLUSH_NOT_ALLOWED,
            Restricted::Watch => reply::WATCH_NOT_ALLOWED,
            Restricted::CacheDump => reply::CACHE_DUMP_NOT_ALLOWED,
            Restricted::Metadump => reply::METADUMP_NOT_ALLOWED,
            Restricted::Mgdump => reply::MGDUMP_NOT_ALLOWED,
            Restricted::Detail => reply::DETAIL_NOT_ALLOWED,
            Restricted::Shutdown => reply::SHUTDOWN_NOT_ENABLED,
            Restricted::PrefixList => reply::PREFIX_LIST_NOT_ALLOWED,
            Restricted::PrefixDelete => reply::PREFIX_DELETE_NOT_ALLOWED,
        },
        ServerOutcome::NotInDatagrams => reply::NOT_IN_DATAGRAMS,
        ServerOutcome::TooManyWatchers => reply::TOO_MANY_WATCHERS,
        ServerOutcome::CrawlerDisabled => reply::CRAWLER_DISABLED,
        ServerOutcome::CrawlerBusy => reply::CRAWLER_BUSY,
        ServerOutcome::CrawlerNotStarted => reply::CRAWLER_NOT_STARTED,
        ServerOutcome::ClockOnlyForward => reply::CLOCK_ONLY_FORWARD,
        ServerOutcome::Unsupported => reply::ERROR,
    }
}

/// A writer of statistics, which appends them to the contained buffer as `STAT` lines.
#[derive(Debug)]
pub struct TextStats<'a>(pub &'a mut Vec<u8>);

impl StatWriter for TextStats<'_> {
    fn number(&mut self, name: &[u8], value: u64) {
        reply::stat_number(self.0, name, value);
    }

    fn text(&mut self, name: &[u8], value: &[u8]) {
        reply::stat(self.0, name, value);
    }
}
