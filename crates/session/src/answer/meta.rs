//! `mg`, `md`, `ma`.

use protocol::limits::KEY_MAX;
use protocol::reply::{self, MetaFacts, MetaStatus, meta_counted, meta_echo, meta_found};
use protocol::{MetaArith, MetaDelete, MetaGet};
use store::{ArithOutcome, Arithmetic, Counted, Deleted, Expiry, Item, KeyHash, Read, Vivify};

use super::classic::{count_arith, direction};
use super::count_either;
use super::get::{add_value, count_get, count_miss, count_touch};
use crate::counters::Counter;
use crate::output::Output;
use crate::prepare::Planned;
use crate::session::{Step, Surroundings};

pub(super) fn get(
    asked: &MetaGet<'_>,
    planned: &Planned<'_>,
    around: &Surroundings<'_>,
    out: &mut Output,
) -> Step {
    let mut buffer = [0; KEY_MAX];
    let key = asked.key.decode(&mut buffer);
    let touch = asked.touch.map(|exptime| around.now.expiry(exptime));
    let how = Read {
        touch,
        claim: true,
        unnoticed: asked.no_bump,
        ..Read::default()
    };
    let now_s = around.now.elapsed_s;
    let shown = around.worker.read(key, planned.hash, now_s, how, |item| {
        let facts = facts(item, touch, now_s);
        let with_value = asked.value && asked.unless != Some(item.cas);
        let line = |bytes: &mut Vec<u8>| {
            meta_found(bytes, &asked.key, asked.flags, &facts, with_value);
        };
        if with_value {
            return add_value(item, line, out);
        }
        line(out.bytes_mut());
        Some(())
    });
    match shown {
        Ok(Some(())) => {}
        Ok(None) => return Step::Memory,
        Err(miss) => {
            count_miss(miss, around);
            if !asked.quiet {
                meta_echo(out.bytes_mut(), MetaStatus::Miss, &asked.key, asked.flags);
            }
        }
    }
    // As memcached counts: a hit with `T` is a touch alone, a miss is a get whatever it asked.
    match (shown, touch) {
        (Ok(_), Some(_)) => count_touch(true, around),
        _ => count_get(shown.is_ok(), around),
    }
    Step::done(planned.line_len)
}

fn facts(item: &Item<'_>, touch: Option<Expiry>, now_s: u32) -> MetaFacts {
    MetaFacts {
        cas: item.cas,
        client_flags: item.flags,
        value_len: item.value_len() as u32,
        ttl_before_s: ttl_s(item.expiry, now_s),
        ttl_s: ttl_s(touch.unwrap_or(item.expiry), now_s),
        created: false,
        idle_s: now_s.saturating_sub(item.last_access_s),
        fetched: item.fetched,
        won: item.won,
        stale: item.stale,
        lost: item.claimed,
    }
}

fn ttl_s(expiry: Expiry, now_s: u32) -> i64 {
    expiry.seconds_left(now_s).map_or(-1, i64::from)
}

pub(super) fn delete(
    asked: &MetaDelete<'_>,
    hash: KeyHash,
    around: &Surroundings<'_>,
    bytes: &mut Vec<u8>,
) {
    let mut buffer = [0; KEY_MAX];
    let key = asked.key.decode(&mut buffer);
    let status = match around
        .worker
        .delete(key, hash, asked.compare, around.now.elapsed_s)
    {
        Deleted::Deleted => MetaStatus::Done,
        Deleted::NotFound => MetaStatus::NotFound,
        Deleted::Exists => MetaStatus::Exists,
    };
    let found = status == MetaStatus::Done;
    count_either(around, found, Counter::DeleteHits, Counter::DeleteMisses);
    if !(asked.quiet && status == MetaStatus::Done) {
        meta_echo(bytes, status, &asked.key, asked.flags);
    }
}

pub(super) fn arith(
    asked: &MetaArith<'_>,
    planned: &Planned<'_>,
    around: &Surroundings<'_>,
    bytes: &mut Vec<u8>,
) -> Step {
    let mut buffer = [0; KEY_MAX];
    let key = asked.key.decode(&mut buffer);
    let expiry = |exptime| around.now.expiry(exptime);
    let touch = asked.touch.map(expiry);
    let arithmetic = Arithmetic {
        delta: asked.delta,
        direction: direction(asked.mode),
        compare: asked.compare,
        explicit_cas: asked.explicit_cas,
        touch,
        vivify: asked.vivify.map(|exptime| Vivify {
            initial: asked.initial,
            expiry: expiry(exptime),
        }),
    };
    let outcome = around
        .worker
        .arith(key, planned.hash, &arithmetic, around.now.elapsed_s);
    match outcome {
        ArithOutcome::Counted(_) if asked.quiet => {}
        ArithOutcome::Counted(counted) => {
            let facts = counted_facts(&counted, around.now.elapsed_s);
            meta_counted(
                bytes,
                &asked.key,
                asked.flags,
                &facts,
                counted.value,
                asked.value,
            );
        }
        ArithOutcome::NotFound => {
            meta_echo(bytes, MetaStatus::NotFound, &asked.key, asked.flags);
        }
        ArithOutcome::Exists => meta_echo(bytes, MetaStatus::Exists, &asked.key, asked.flags),
        ArithOutcome::NotNumeric => bytes.extend_from_slice(reply::NON_NUMERIC),
        ArithOutcome::NoRoom => bytes.extend_from_slice(reply::NO_MEMORY),
        ArithOutcome::NotYet => return Step::Memory,
    }
    count_arith(asked.mode, &outcome, around);
    Step::done(planned.line_len)
}

fn counted_facts(counted: &Counted, now_s: u32) -> MetaFacts {
    MetaFacts {
        cas: counted.cas,
        ttl_before_s: ttl_s(counted.expiry_before, now_s),
        ttl_s: ttl_s(counted.expiry, now_s),
        created: counted.created,
        ..MetaFacts::default()
    }
}
