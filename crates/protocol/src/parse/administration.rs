//! The commands of administrators: `lru_crawler`, `lru`, `slabs`, `watch`, `debugtime` and
//! `prefix`.
//!
//! As in memcached, a beginning of most words is enough.

use crate::decimal;
use crate::limits::{
    AUTOMOVE_LEVEL_MAX, AUTOMOVE_WINDOW_S, CRAWLER_SLEEP_MAX_US, KEY_MAX, LRU_SHARES_MAX,
    SLAB_CLASSES,
};
use crate::words::{self, Words};
use crate::{
    Classes, Crawler, DebugTime, DumpForm, PrefixAction, PrefixCommand, Rejection, Request,
    Streams, Tuning,
};

/// Bound of a decimal fraction, in thousandths.
const FRACTION_MAX: f64 = 1e12;

/// Whether `word` is a beginning of `full`. memcached compares as many letters as the client sent.
fn begins(full: &[u8], word: &[u8]) -> bool {
    full.starts_with(word)
}

/// `lru_crawler`
pub(super) fn crawler<'a>(words: &Words<'a>) -> Result<Request<'a>, Rejection> {
    let (word, argument) = (words.at(1), words.at(2));
    let crawler = match words.count {
        3 if begins(b"crawl", word) => Crawler::Crawl(match argument {
            b"hash" => return Err(Rejection::CrawlerFailed),
            classes => crawled(classes)?,
        }),
        3 if begins(b"metadump", word) => Crawler::Dump(DumpForm::Metadump, dumped(argument)?),
        3 if begins(b"mgdump", word) => Crawler::Dump(DumpForm::Mgdump, dumped(argument)?),
        3 if begins(b"tocrawl", word) => {
            let items = decimal::unsigned_32(argument).ok_or(Rejection::BadFormat)?;
            return Ok(Request::Tune(Tuning::CrawlerItems(items)));
        }
        3 if begins(b"sleep", word) => {
            let us = decimal::unsigned_32(argument).ok_or(Rejection::BadFormat)?;
            if us > CRAWLER_SLEEP_MAX_US {
                return Err(Rejection::SleepTooLong);
            }
            return Ok(Request::Tune(Tuning::CrawlerSleep { us }));
        }
        2 if begins(b"enable", word) => Crawler::Enable,
        2 if begins(b"disable", word) => Crawler::Disable,
        _ => return Err(Rejection::Unknown),
    };
    Ok(Request::Crawler(crawler))
}

/// The classes of a dump. `hash` dumps in another order, which is the only one here.
fn dumped(argument: &[u8]) -> Result<Classes, Rejection> {
    match argument {
        b"hash" => Ok(Classes::ALL),
        classes => crawled(classes),
    }
}

fn crawled(argument: &[u8]) -> Result<Classes, Rejection> {
    let classes = parse_classes(argument)?;
    match classes == Classes::NONE {
        true => Err(Rejection::NothingToCrawl),
        false => Ok(classes),
    }
}

/// `all`, or numbers of classes separated by commas.
fn parse_classes(argument: &[u8]) -> Result<Classes, Rejection> {
    if argument == b"all" {
        return Ok(Classes::ALL);
    }
    let mut classes = Classes::NONE;
    for number in argument
        .split(|&byte| byte == b',')
        .filter(|it| !it.is_empty())
    {
        let number = decimal::unsigned_32(number)
            .filter(|number| (1..SLAB_CLASSES).contains(number))
            .ok_or(Rejection::BadClass)?;
        classes.insert(number);
    }
    Ok(classes)
}

/// `lru`
pub(super) fn lru<'a>(words: &Words<'a>) -> Result<Request<'a>, Rejection> {
    let word = words.at(1);
    let tuning = match words.count {
        6.. if begins(b"tune", word) => lru_shares(words)?,
        3.. if begins(b"mode", word) => match words.at(2) {
            b"flat" => Tuning::LruSegmented(false),
            b"segmented" => Tuning::LruSegmented(true),
            _ => return Err(Rejection::Unknown),
        },
        3.. if begins(b"temp_ttl", word) => {
            let ttl_s = decimal::signed_32(words.at(2)).ok_or(Rejection::Unknown)?;
            Tuning::TemporaryTtl(u32::try_from(ttl_s).ok())
        }
        _ => return Err(Rejection::Unknown),
    };
    Ok(Request::Tune(tuning))
}

fn lru_shares(words: &Words<'_>) -> Result<Tuning, Rejection> {
    let percent = |at| decimal::unsigned_32(words.at(at)).ok_or(Rejection::Unknown);
    let factor = |at| thousandths(words.at(at)).ok_or(Rejection::Unknown);
    let (hot_percent, warm_percent) = (percent(2)?, percent(3)?);
    let (hot_factor, warm_factor) = (factor(4)?, factor(5)?);
    if u64::from(hot_percent) + u64::from(warm_percent) > LRU_SHARES_MAX {
        return Err(Rejection::LruSharesTooLarge);
    }
    if hot_factor <= 0 || warm_factor <= 0 {
        return Err(Rejection::LruFactorsTooSmall);
    }
    Ok(Tuning::LruShares {
        hot_percent,
        warm_percent,
        hot_factor,
        warm_factor,
    })
}

/// `slabs`
pub(super) fn slabs<'a>(words: &Words<'a>) -> Result<Request<'a>, Rejection> {
    let word = words.at(1);
    match words.count {
        4 if begins(b"reassign", word) => Err(reassign(words)),
        3.. if begins(b"automove", word) => Ok(Request::Tune(automove(words)?)),
        _ => Err(Rejection::Unknown),
    }
}

/// There are no slab pages to move, so every reassignment fails.
fn reassign(words: &Words<'_>) -> Rejection {
    let class = |at| decimal::signed_32(words.at(at));
    let (Some(source), Some(target)) = (class(2), class(3)) else {
        return Rejection::BadFormat;
    };
    let is_class = |class| (0..SLAB_CLASSES as i32).contains(&class);
    if source == target {
        Rejection::SameClass
    } else if is_class(source) && is_class(target) {
        Rejection::NoSparePage
    } else {
        Rejection::BadClasses
    }
}

fn automove(words: &Words<'_>) -> Result<Tuning, Rejection> {
    let word = words.at(2);
    let argument = Some(words.at(3)).filter(|_| words.count > 3);
    if begins(b"ratio", word) {
        let ratio = argument.and_then(thousandths);
        Ok(Tuning::AutomoveRatio(ratio.ok_or(Rejection::Unknown)?))
    } else if begins(b"freeratio", word) {
        let ratio = argument.and_then(thousandths);
        Ok(Tuning::AutomoveFreeRatio(ratio.ok_or(Rejection::Unknown)?))
    } else if begins(b"window", word) {
        let window_s = argument.and_then(decimal::unsigned_32);
        let window_s = window_s.ok_or(Rejection::BadFormat)?;
        match AUTOMOVE_WINDOW_S.contains(&window_s) {
            true => Ok(Tuning::AutomoveWindow { window_s }),
            false => Err(Rejection::BadAutomoveWindow),
        }
    } else {
        match decimal::unsigned_32(word).ok_or(Rejection::BadFormat)? {
            level @ ..=AUTOMOVE_LEVEL_MAX => Ok(Tuning::AutomoveLevel(level)),
            _ => Err(Rejection::Unknown),
        }
    }
}

/// A decimal fraction in thousandths.
fn thousandths(word: &[u8]) -> Option<i64> {
    let number: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    let thousandths = (number * 1000.0).round();
    // A larger number would not be exact.
    (thousandths.abs() < FRACTION_MAX).then_some(thousandths as i64)
}

/// `watch`. Its line may have more words than [`Words`] holds. Without streams it watches the
/// reads.
pub(super) fn watch<'a>(line: &[u8]) -> Result<Request<'a>, Rejection> {
    let mut rest = line;
    words::next(&mut rest);
    let mut streams = Streams::NONE;
    while let Some(word) = words::next(&mut rest) {
        let stream = Streams::NAMES
            .iter()
            .find(|(name, _)| begins(name.as_bytes(), word));
        streams = streams.with(stream.ok_or(Rejection::Unknown)?.1);
    }
    Ok(Request::Watch(match streams {
        Streams::NONE => Streams::FETCHERS,
        streams => streams,
    }))
}

/// `debugtime`
pub(super) fn debug_time<'a>(words: &Words<'_>) -> Result<Request<'a>, Rejection> {
    Ok(Request::DebugTime(match words.at(1) {
        _ if words.count < 2 => return Err(Rejection::Unknown),
        b"p" => DebugTime::Pause,
        b"r" => DebugTime::Resume,
        seconds => DebugTime::Advance {
            seconds: decimal::signed_64(seconds).ok_or(Rejection::Unknown)?,
        },
    }))
}

/// `prefix`. A server that does not serve it replies to every form of it as to an unknown command.
pub(super) fn prefix<'a>(words: &Words<'a>) -> Result<Request<'a>, Rejection> {
    let named = PrefixAction::ALL
        .into_iter()
        .find(|(name, _)| name.as_bytes() == words.at(1));
    let prefix = words.at(2);
    match named {
        Some((_, action)) if words.count == 3 && prefix.len() <= KEY_MAX => {
            Ok(Request::Prefix(PrefixCommand { action, prefix }))
        }
        _ => Err(Rejection::Unknown),
    }
}
