//! Encoding of outcomes as replies of the meta protocol.

use protocol::reply::{self, DebugFields, MetaEcho, MetaFields, MetaStatus};
use service::Output;
use store::{Expiry, SizeClass};

use super::MetaEncoder;
use crate::encode::{Encode, EncodedItem, push_value};
use crate::lines::VALUE_END;
use crate::outcome::{ArithOutcome, DeleteOutcome, FoundItem, Outcome, StoreOutcome, Times};
use crate::prefixes::PrefixSums;
use crate::text::TextStats;

impl Encode for MetaEncoder<'_> {
    const VALUE_END: &'static [u8] = VALUE_END;

    const HAS_READ_OPTIONS: bool = true;

    type Stats<'o> = TextStats<'o>;

    #[inline(always)]
    fn item<I: EncodedItem>(
        &self,
        found: &FoundItem<'_, I>,
        out: &mut Output<I::Pin>,
    ) -> Option<()> {
        let item = found.item;
        if self.traits.is_debug {
            reply::meta_debug(
                out.bytes_mut(),
                found.key,
                &debug_fields(found.key, item, found.times()),
            );
            return Some(());
        }
        let fields = fields(item, found.times());
        let header = |bytes: &mut Vec<u8>| {
            reply::meta_found(bytes, &self.echo(found.key), &fields, found.with_value);
        };
        if found.with_value {
            return push_value(item, header, reply::LINE_END, out);
        }
        header(out.bytes_mut());
        Some(())
    }

    fn delete_name(&self) -> &'static str {
        "md"
    }

    #[inline(always)]
    fn outcome(&self, key: &[u8], outcome: Outcome, out: &mut Vec<u8>) {
        match outcome {
            // The reply is the item, which `item` has written.
            Outcome::Read { found: true } => {}
            Outcome::Read { found: false } if self.traits.is_debug => {
                out.extend_from_slice(reply::EN);
            }
            Outcome::Read { found: false } if self.traits.quiet => {}
            Outcome::Read { found: false } => self.status(MetaStatus::Miss, key, out),
            Outcome::Store(outcome) => self.stored(outcome, key, out),
            Outcome::Delete(outcome) => match outcome {
                DeleteOutcome::Done if self.traits.quiet => {}
                DeleteOutcome::Done => self.status(MetaStatus::Done, key, out),
                DeleteOutcome::NotFound => self.status(MetaStatus::NotFound, key, out),
                DeleteOutcome::Exists => self.status(MetaStatus::Exists, key, out),
                DeleteOutcome::NoMemory => out.extend_from_slice(reply::NO_MEMORY),
            },
            Outcome::Arith(outcome) => self.counted(outcome, key, out),
            Outcome::Noop => out.extend_from_slice(reply::MN),
            Outcome::Rejected(rejection) => out.extend_from_slice(rejection.reply()),
            Outcome::Failed { reply } => out.extend_from_slice(reply),
            // No meta command has these outcomes.
            Outcome::ReadMany
            | Outcome::Touch { .. }
            | Outcome::Server(_)
            | Outcome::Login(_)
            | Outcome::Mechanisms
            | Outcome::Quit => {}
        }
    }

    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> TextStats<'o> {
        TextStats(out)
    }

    /// Does nothing, because no meta command replies with statistics.
    fn prefixes(&self, _: &PrefixSums, _: &mut Vec<u8>) {}
}

impl MetaEncoder<'_> {
    /// Returns the parts of the request that a reply may repeat: the key and the flags.
    fn echo<'a>(&'a self, key: &'a [u8]) -> MetaEcho<'a> {
        MetaEcho {
            key,
            base64: self.traits.base64,
            flags: self.flags,
        }
    }

    /// Writes a reply that consists of a status and the repeated flags.
    fn status(&self, status: MetaStatus, key: &[u8], out: &mut Vec<u8>) {
        reply::meta_echo(out, status, &self.echo(key));
    }

    /// Writes the reply to a storage command.
    #[inline]
    fn stored(&self, outcome: StoreOutcome, key: &[u8], out: &mut Vec<u8>) {
        let (status, cas, value_len) = match outcome {
            StoreOutcome::Stored { .. } if self.traits.quiet => return,
            StoreOutcome::Stored { cas, value_len } => (MetaStatus::Done, cas, value_len),
            StoreOutcome::NotStored { value_len } => (MetaStatus::NotStored, 0, value_len),
            StoreOutcome::Exists { value_len } => (MetaStatus::Exists, 0, value_len),
            StoreOutcome::NotFound { value_len } => (MetaStatus::NotFound, 0, value_len),
            StoreOutcome::BadDataChunk => return out.extend_from_slice(reply::BAD_DATA_CHUNK),
            StoreOutcome::TooLarge => return out.extend_from_slice(reply::TOO_LARGE),
            StoreOutcome::NoMemory => return out.extend_from_slice(reply::NO_MEMORY_TO_STORE),
        };
        reply::meta_stored(out, status, &self.echo(key), cas, value_len);
    }

    /// Writes the reply to `ma`.
    fn counted(&self, outcome: ArithOutcome, key: &[u8], out: &mut Vec<u8>) {
        match outcome {
            ArithOutcome::Counted { .. } if self.traits.quiet => {}
            ArithOutcome::Counted { value, cas, times } => {
                let ttl_s = |expiry: Option<Expiry>| {
                    expiry.map_or(-1, |expiry| seconds_left(expiry, times.now_s))
                };
                let fields = MetaFields {
                    cas,
                    ttl_before_s: seconds_left(times.before, times.now_s),
                    ttl_s: ttl_s(times.touched),
                    ttl_created_s: ttl_s(times.vivified),
                    created: times.vivified.is_some(),
                    ..MetaFields::default()
                };
                let with_number = self.traits.with_number;
                reply::meta_arith(out, &self.echo(key), &fields, value, with_number);
            }
            ArithOutcome::NotFound => self.status(MetaStatus::NotFound, key, out),
            ArithOutcome::Exists => self.status(MetaStatus::Exists, key, out),
            ArithOutcome::NotNumeric => out.extend_from_slice(reply::NON_NUMERIC),
            ArithOutcome::NoMemory => out.extend_from_slice(reply::NO_MEMORY),
        }
    }
}

/// Returns the fields of an item that a read may request with flags.
#[inline]
fn fields(item: &impl EncodedItem, times: Times) -> MetaFields {
    let (now_s, created) = (times.now_s, times.vivified.is_some());
    let history = item.history();
    let present_s = seconds_left(item.expiry(), now_s);
    let ttl_s =
        |expiry: Option<Expiry>| expiry.map_or(present_s, |expiry| seconds_left(expiry, now_s));
    // The claim is memcached's recache token: the client that wins it should recompute the value.
    // If this request has created the item, its client has won the claim. The reply then shows no
    // earlier time to live (-1) and no earlier claim.
    MetaFields {
        cas: item.cas(),
        client_flags: item.flags(),
        value_len: item.value_len() as u32,
        ttl_before_s: if created { -1 } else { present_s },
        ttl_s: ttl_s(times.touched),
        ttl_created_s: ttl_s(times.vivified),
        created,
        idle_s: now_s.saturating_sub(history.last_access_s),
        fetched: history.fetched,
        won: history.won || created,
        stale: history.stale,
        lost: history.claimed && !created,
        base64_key: history.base64_key,
    }
}

/// Returns the fields of an item that `me` shows.
fn debug_fields(key: &[u8], item: &impl EncodedItem, times: Times) -> DebugFields {
    let history = item.history();
    let class = SizeClass::of(key.len(), item.flags(), item.value_len());
    DebugFields {
        ttl_s: seconds_left(item.expiry(), times.now_s),
        idle_s: times.now_s.saturating_sub(history.last_access_s),
        cas: item.cas(),
        fetched: history.fetched,
        class: class.number(),
        memory_len: item.memory_len() as u64,
        base64_key: history.base64_key,
    }
}

/// Returns the number of seconds until the expiry, or -1 if the item never expires.
fn seconds_left(expiry: Expiry, now_s: u32) -> i64 {
    expiry.seconds_left(now_s).map_or(-1, i64::from)
}
