//! `-o`: memcached's extended options.
//!
//! [`KEYS`] lists every key of memcached 1.6.45, with the form of its value as memcached checks it
//! and its effect here. A key without effect is accepted, so that start lines carry over. A key is
//! rejected if an operator may rely on it for security, or if it selects another kind of server.

use anyhow::{Context, bail};

use super::tier;

/// A key of `-o`.
#[derive(Debug)]
pub(super) struct Key {
    name: &'static str,
    form: Form,
    effect: Effect,
    /// Its row in `stats settings`, and the value shown there if the key has none.
    setting: Option<(&'static str, &'static str)>,
}

/// The form of a key's value, with memcached's bounds.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// No value.
    Bare,
    /// An integer within these bounds.
    Integer(i64, i64),
    /// A number of KiB, which memcached shows in bytes.
    Kilobytes,
    /// An integer within these bounds, or no value.
    OptionalInteger(i64, i64),
    /// A number above zero and at most this.
    Fraction(f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// `FILE:SIZE`.
    FileAndSize,
    /// Any value, or none.
    Anything,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The same as in memcached.
    Same,
    /// None, for this reason.
    None(&'static str),
    /// The server refuses to start, for this reason.
    Refused(&'static str),
}

/// The result of an accepted list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    /// Keys without effect with the reason, one line each.
    pub(super) notes: Vec<String>,
    /// Rows of `stats settings`.
    pub(super) settings: Vec<(&'static str, String)>,
    /// How long a client may be silent, in seconds.
    pub(super) idle_s: Option<u32>,
    /// The keys of the tier and their values, such as `ext_path` and `/mnt/cache:64G`.
    pub(super) tier: Vec<(&'static str, String)>,
}

const COUNT: Form = Form::Integer(0, u32::MAX as i64);
const PERCENT: Form = Form::Integer(1, 79);

const NO_SLABS: Effect = Effect::None("there are no slab classes");
const NO_LRU: Effect = Effect::None("eviction is by segments, not by LRU lists");
const NO_CRAWLER: Effect = Effect::None("expired items are reclaimed by segments");
const GROWS: Effect = Effect::None("the index grows by itself");
const READERS_MAX: i64 = server::tier_limits::READERS_MAX as i64;
const NO_COMPACTION: Effect = Effect::None("the tier is a ring without compaction");
const NO_TLS: Effect = Effect::Refused("TLS is not served, and clients would talk in the clear");
const NO_PROXY: Effect = Effect::Refused("the proxy is not served");

/// What `no_modern` turns off: the crawler, and settings that have no effect.
const NO_MODERN: [(&str, &str); 5] = [
    ("slab_reassign", "no"),
    ("slab_automove", "0"),
    ("lru_segmented", "no"),
    ("lru_crawler", "no"),
    ("lru_maintainer_thread", "no"),
];

const fn key(name: &'static str, form: Form, effect: Effect) -> Key {
    Key {
        name,
        form,
        effect,
        setting: None,
    }
}

const fn shown(mut key: Key, row: &'static str, bare: &'static str) -> Key {
    key.setting = Some((row, bare));
    key
}

/// Every key of memcached 1.6.45, in the order of its `-h`.
pub(super) const KEYS: &[Key] = &[
    key("maxconns_fast", Form::Bare, Effect::Same),
    shown(
        key("hashpower", Form::Integer(12, 32), GROWS),
        "hashpower_init",
        "",
    ),
    key("no_hashexpand", Form::Bare, GROWS),
    shown(
        key(
            "tail_repair_time",
            Form::Integer(10, i32::MAX as i64),
            NO_LRU,
        ),
        "tail_repair_time",
        "",
    ),
    key(
        "hash_algorithm",
        Form::Word(&["jenkins", "murmur3", "xxh3"]),
        Effect::None("keys are hashed with a secret seed"),
    ),
    shown(
        key("lru_crawler", Form::Bare, Effect::Same),
        "lru_crawler",
        "yes",
    ),
    shown(
        key("no_lru_crawler", Form::Bare, Effect::Same),
        "lru_crawler",
        "no",
    ),
    shown(
        key("lru_crawler_sleep", Form::Integer(0, 1_000_000), NO_CRAWLER),
        "lru_crawler_sleep",
        "",
    ),
    shown(
        key("lru_crawler_tocrawl", COUNT, NO_CRAWLER),
        "lru_crawler_tocrawl",
        "",
    ),
    shown(
        key(
            "read_buf_mem_limit",
            COUNT,
            Effect::None("conn_buffer_limit bounds the buffers of all connections"),
        ),
        "read_buf_mem_limit",
        "",
    ),
    key(
        "resp_obj_mem_limit",
        Form::Anything,
        Effect::None("conn_buffer_limit bounds the buffers of all connections"),
    ),
    shown(
        key("lru_maintainer", Form::Bare, NO_LRU),
        "lru_maintainer_thread",
        "yes",
    ),
    shown(
        key("no_lru_maintainer", Form::Bare, NO_LRU),
        "lru_maintainer_thread",
        "no",
    ),
    shown(key("hot_lru_pct", PERCENT, NO_LRU), "hot_lru_pct", ""),
    shown(key("warm_lru_pct", PERCENT, NO_LRU), "warm_lru_pct", ""),
    shown(
        key("hot_max_factor", Form::Fraction(f64::MAX), NO_LRU),
        "hot_max_factor",
        "",
    ),
    shown(
        key("warm_max_factor", Form::Fraction(f64::MAX), NO_LRU),
        "warm_max_factor",
        "",
    ),
    shown(key("temporary_ttl", COUNT, NO_LRU), "temporary_ttl", ""),
    shown(
        key(
            "idle_timeout",
            Form::Integer(0, i32::MAX as i64),
            Effect::Same,
        ),
        "idle_timeout",
        "",
    ),
    key("slab_sizes", Form::Anything, NO_SLABS),
    shown(
        key("slab_chunk_max", Form::Integer(1, 1024), NO_SLABS),
        "slab_chunk_max",
        "",
    ),
    shown(
        key("slab_reassign", Form::Bare, NO_SLABS),
        "slab_reassign",
        "yes",
    ),
    shown(
        key("no_slab_reassign", Form::Bare, NO_SLABS),
        "slab_reassign",
        "no",
    ),
    shown(
        key("slab_automove", Form::OptionalInteger(0, 2), NO_SLABS),
        "slab_automove",
        "1",
    ),
    shown(
        key("no_slab_automove", Form::Bare, NO_SLABS),
        "slab_automove",
        "0",
    ),
    shown(
        key("slab_automove_ratio", Form::Fraction(1.0), NO_SLABS),
        "slab_automove_ratio",
        "",
    ),
    shown(
        key("slab_automove_window", Form::Integer(3, 1800), NO_SLABS),
        "slab_automove_window",
        "",
    ),
    shown(
        key("slab_automove_freeratio", Form::Fraction(1.0), NO_SLABS),
        "slab_automove_freeratio",
        "",
    ),
    shown(
        key("watcher_logbuf_size", Form::Kilobytes, Effect::Same),
        "watcher_logbuf_size",
        "",
    ),
    shown(
        key("worker_logbuf_size", Form::Kilobytes, Effect::Same),
        "worker_logbuf_size",
        "",
    ),
    shown(
        key("track_sizes", Form::Bare, Effect::Same),
        "track_sizes",
        "yes",
    ),
    key(
        "inline_ascii_resp",
        Form::Bare,
        Effect::None("memcached ignores it too"),
    ),
    key(
        "no_inline_ascii_resp",
        Form::Bare,
        Effect::None("memcached ignores it too"),
    ),
    key("no_chunked_items", Form::Bare, NO_SLABS),
    key("modern", Form::Bare, Effect::Same),
    key(
        "no_modern",
        Form::Bare,
        Effect::None("it only disables lru_crawler: there is one way to evict"),
    ),
    key(
        "no_maxconns_fast",
        Form::Bare,
        Effect::None("a connection above -c is always closed at once"),
    ),
    key(
        "drop_privileges",
        Form::Bare,
        Effect::Refused(
            "system calls are not filtered; confine the server by its unit (SystemCallFilter=)",
        ),
    ),
    shown(
        key("no_drop_privileges", Form::Bare, Effect::Same),
        "drop_privileges",
        "no",
    ),
    key(
        "relaxed_privileges",
        Form::Bare,
        Effect::None("system calls are not filtered"),
    ),
    key(
        "sock_cookie_id",
        COUNT,
        Effect::None("Linux has no such socket option"),
    ),
    key("ext_path", Form::FileAndSize, Effect::Same),
    key("ext_page_size", Form::Integer(1, 64), Effect::Same),
    shown(
        key(
            "ext_wbuf_size",
            COUNT,
            Effect::None("a write buffer has the size of a page"),
        ),
        "ext_wbuf_size",
        "",
    ),
    key("ext_threads", Form::Integer(1, READERS_MAX), Effect::Same),
    key(
        "ext_io_depth",
        COUNT,
        Effect::None("all threads take reads from one queue"),
    ),
    shown(
        key("ext_item_size", COUNT, Effect::Same),
        "ext_item_size",
        "",
    ),
    shown(
        key(
            "ext_item_age",
            COUNT,
            Effect::None("items go to the tier when they are evicted"),
        ),
        "ext_item_age",
        "",
    ),
    shown(key("ext_low_ttl", COUNT, Effect::Same), "ext_low_ttl", ""),
    shown(
        key(
            "ext_drop_unread",
            Form::Bare,
            Effect::None("an unread item is never written twice"),
        ),
        "ext_drop_unread",
        "yes",
    ),
    shown(
        key(
            "ext_recache_rate",
            COUNT,
            Effect::None("an item of the tier stays in memory from its second request on"),
        ),
        "ext_recache_rate",
        "",
    ),
    shown(
        key("ext_compact_under", COUNT, NO_COMPACTION),
        "ext_compact_under",
        "",
    ),
    shown(
        key("ext_drop_under", COUNT, NO_COMPACTION),
        "ext_drop_under",
        "",
    ),
    shown(
        key("ext_max_frag", Form::Fraction(1.0), NO_COMPACTION),
        "ext_max_frag",
        "",
    ),
    shown(
        key("ext_max_sleep", COUNT, NO_COMPACTION),
        "ext_max_sleep",
        "",
    ),
    key("ssl_chain_cert", Form::Anything, NO_TLS),
    key("ssl_key", Form::Anything, NO_TLS),
    key("ssl_verify_mode", Form::Anything, NO_TLS),
    key("ssl_keyformat", Form::Anything, NO_TLS),
    key("ssl_ciphers", Form::Anything, NO_TLS),
    key("ssl_ca_cert", Form::Anything, NO_TLS),
    key("ssl_wbuf_size", Form::Anything, NO_TLS),
    key("ssl_session_cache", Form::Anything, NO_TLS),
    key("ssl_kernel_tls", Form::Anything, NO_TLS),
    key("ssl_min_version", Form::Anything, NO_TLS),
    key("proxy_config", Form::Anything, NO_PROXY),
    key("proxy_arg", Form::Anything, NO_PROXY),
    key("proxy_uring", Form::Anything, NO_PROXY),
    key("proxy_memprofile", Form::Anything, NO_PROXY),
];

/// Checks lists such as `modern,hashpower=20`.
///
/// # Errors
/// A key is unknown or refused, or its value not of its form.
pub(super) fn accept(lists: &[String]) -> anyhow::Result<Accepted> {
    let mut accepted = Accepted::default();
    for pair in lists.iter().flat_map(|list| list.split(',')) {
        if !pair.is_empty() {
            accept_one(pair, &mut accepted).with_context(|| format!("-o {pair}"))?;
        }
    }
    Ok(accepted)
}

fn accept_one(pair: &str, accepted: &mut Accepted) -> anyhow::Result<()> {
    let (name, value) = match pair.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (pair, None),
    };
    let Some(key) = KEYS.iter().find(|key| key.name == name) else {
        bail!("no such key{}", suggestion(name));
    };
    if let Effect::Refused(why) = key.effect {
        bail!("{why}; leave it out");
    }
    key.form.check(value)?;
    if let Effect::None(why) = key.effect {
        accepted.notes.push(format!("-o {pair} ({why})"));
    }
    if name == "idle_timeout" {
        accepted.idle_s = value.and_then(|text| text.parse().ok()).filter(|&s| s > 0);
    }
    if key.name.starts_with("ext_")
        && key.effect == Effect::Same
        && let Some(value) = value
    {
        accepted.tier.push((key.name, value.to_owned()));
    }
    let mut show = |row, text| {
        accepted.settings.retain(|(other, _)| *other != row);
        accepted.settings.push((row, text));
    };
    if let Some((row, bare)) = key.setting {
        show(row, key.form.shown(value.unwrap_or(bare)));
    }
    if key.name == "no_modern" {
        for (row, text) in NO_MODERN {
            show(row, text.to_owned());
        }
    }
    Ok(())
}

/// Whether scripts search the help text for this key, and then expect all of memcached's feature.
fn is_searched_for(key: &Key) -> bool {
    key.name.starts_with("ext_") || key.name.contains("privileges")
}

/// The keys that work as in memcached, then those without effect, for the help text. Keys of
/// features that are not served, or not as in memcached, are left out.
pub(super) fn for_help() -> (Vec<&'static str>, Vec<&'static str>) {
    let names = |has: fn(&Key) -> bool| {
        let keys = KEYS.iter().filter(move |&key| has(key));
        keys.map(|key| key.name).collect()
    };
    (
        names(|key| key.effect == Effect::Same && !is_searched_for(key)),
        names(|key| matches!(key.effect, Effect::None(_)) && !is_searched_for(key)),
    )
}

/// The known key with the smallest edit distance, if that is small.
fn suggestion(name: &str) -> String {
    let alike = |known: &&Key| strsim::damerau_levenshtein(known.name, name);
    match KEYS.iter().min_by_key(alike) {
        Some(known) if alike(&known) <= 2 => format!("; did you mean {}?", known.name),
        _ => String::new(),
    }
}

#[cfg(test)]
impl Key {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

impl Form {
    fn check(self, value: Option<&str>) -> anyhow::Result<()> {
        let in_bounds = |text: &str, low, high| {
            let number = text.parse::<i64>();
            number.is_ok_and(|number| (low..=high).contains(&number))
        };
        match (self, value) {
            (Self::Bare | Self::OptionalInteger(..), None) | (Self::Anything, _) => Ok(()),
            (Self::Bare, Some(_)) => bail!("it takes no value"),
            (Self::Integer(low, high) | Self::OptionalInteger(low, high), Some(text))
                if in_bounds(text, low, high) =>
            {
                Ok(())
            }
            (Self::Integer(low, high) | Self::OptionalInteger(low, high), _) => {
                bail!("a number from {low} to {high} is needed")
            }
            (Self::Kilobytes, value) => COUNT.check(value),
            (Self::Fraction(most), Some(text))
                if text
                    .parse()
                    .is_ok_and(|number: f64| number > 0.0 && number <= most) =>
            {
                Ok(())
            }
            (Self::Fraction(most), _) if most <= 1.0 => {
                bail!("a number above 0 and at most {most} is needed")
            }
            (Self::Fraction(_), _) => bail!("a number above 0 is needed"),
            (Self::Word(words), Some(text)) if words.contains(&text) => Ok(()),
            (Self::Word(words), _) => bail!("one of {} is needed", words.join(", ")),
            (Self::FileAndSize, Some(text)) => tier::file(text).map(drop),
            (Self::FileAndSize, None) => bail!("{}", tier::FILE_NEEDED),
        }
    }

    /// A valid value as `stats settings` shows it.
    fn shown(self, value: &str) -> String {
        match (self, value.parse::<u64>()) {
            (Self::Kilobytes, Ok(kilobytes)) => (kilobytes * 1024).to_string(),
            _ => value.to_owned(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
