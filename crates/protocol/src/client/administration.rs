//! The commands of administrators.

use super::{end, signed, unsigned, words};
use crate::limits::SLAB_CLASSES;
use crate::{Classes, Crawler, DebugTime, DumpForm, PrefixAction, PrefixCommand, Streams, Tuning};

/// `watch`
pub fn watch(out: &mut Vec<u8>, streams: Streams) {
    out.extend_from_slice(b"watch");
    for (name, stream) in Streams::NAMES {
        if streams.intersects(stream) {
            words(out, [name.as_bytes()]);
        }
    }
    end(out);
}

/// `debugtime`
pub fn debug_time(out: &mut Vec<u8>, change: DebugTime) {
    out.extend_from_slice(b"debugtime");
    match change {
        DebugTime::Pause => words(out, [b"p".as_slice()]),
        DebugTime::Resume => words(out, [b"r".as_slice()]),
        DebugTime::Advance { seconds } => words(out, [seconds.to_string().as_bytes()]),
    }
    end(out);
}

/// `prefix`
pub fn prefix(out: &mut Vec<u8>, command: PrefixCommand<'_>) {
    out.extend_from_slice(b"prefix");
    let is_named = |(_, action): &(&str, PrefixAction)| *action == command.action;
    if let Some((name, _)) = PrefixAction::ALL.into_iter().find(is_named) {
        words(out, [name.as_bytes(), command.prefix]);
    }
    end(out);
}

/// `lru_crawler`, except `sleep` and `tocrawl`.
pub fn crawler(out: &mut Vec<u8>, crawler: Crawler) {
    out.extend_from_slice(b"lru_crawler");
    match crawler {
        Crawler::Enable => words(out, [b"enable".as_slice()]),
        Crawler::Disable => words(out, [b"disable".as_slice()]),
        Crawler::Crawl(classes) => with_classes(out, b"crawl", classes),
        Crawler::Dump(DumpForm::Metadump, classes) => with_classes(out, b"metadump", classes),
        Crawler::Dump(DumpForm::Mgdump, classes) => with_classes(out, b"mgdump", classes),
    }
    end(out);
}

fn with_classes(out: &mut Vec<u8>, word: &[u8], classes: Classes) {
    words(out, [word]);
    if classes == Classes::ALL {
        return words(out, [b"all".as_slice()]);
    }
    let numbers = (1..SLAB_CLASSES).filter(|&number| classes.contains(number));
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    // A comma alone names no class.
    let text = if numbers.is_empty() {
        ",".to_owned()
    } else {
        numbers.join(",")
    };
    words(out, [text.as_bytes()]);
}

/// `lru`, `slabs`, `lru_crawler sleep` and `lru_crawler tocrawl`.
pub fn tune(out: &mut Vec<u8>, tuning: Tuning) {
    match tuning {
        Tuning::LruSegmented(true) => out.extend_from_slice(b"lru mode segmented"),
        Tuning::LruSegmented(false) => out.extend_from_slice(b"lru mode flat"),
        Tuning::LruShares {
            hot_percent,
            warm_percent,
            hot_factor,
            warm_factor,
        } => {
            out.extend_from_slice(b"lru tune");
            unsigned(out, hot_percent.into());
            unsigned(out, warm_percent.into());
            fraction(out, hot_factor);
            fraction(out, warm_factor);
        }
        Tuning::TemporaryTtl(ttl_s) => {
            out.extend_from_slice(b"lru temp_ttl");
            signed(out, ttl_s.map_or(-1, u32::cast_signed));
        }
        Tuning::AutomoveLevel(level) => {
            out.extend_from_slice(b"slabs automove");
            unsigned(out, level.into());
        }
        Tuning::AutomoveRatio(ratio) => {
            out.extend_from_slice(b"slabs automove ratio");
            fraction(out, ratio);
        }
        Tuning::AutomoveFreeRatio(ratio) => {
            out.extend_from_slice(b"slabs automove freeratio");
            fraction(out, ratio);
        }
        Tuning::AutomoveWindow { window_s } => {
            out.extend_from_slice(b"slabs automove window");
            unsigned(out, window_s.into());
        }
        Tuning::CrawlerSleep { us } => {
            out.extend_from_slice(b"lru_crawler sleep");
            unsigned(out, us.into());
        }
        Tuning::CrawlerItems(items) => {
            out.extend_from_slice(b"lru_crawler tocrawl");
            unsigned(out, items.into());
        }
    }
    end(out);
}

/// Writes a number of thousandths as a decimal fraction.
fn fraction(out: &mut Vec<u8>, thousandths: i64) {
    let sign = if thousandths < 0 { "-" } else { "" };
    let size = thousandths.unsigned_abs();
    let text = format!(" {sign}{}.{:03}", size / 1000, size % 1000);
    out.extend_from_slice(text.as_bytes());
}
