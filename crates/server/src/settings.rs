//! The rows of `stats settings`: every name of memcached 1.6.45, and Curtail's own.
//!
//! A row of a flag that has no effect here shows the value that was given, or else memcached's
//! default ([`DEFAULTS`]). Clients may change some of these rows, also without effect.

use std::collections::BTreeMap;

use protocol::Tuning;
use session::{AllowedProtocols, StatWriter};

use crate::config::Config;

/// Rows that clients have changed, and their values.
pub(crate) type TunedSettings = BTreeMap<&'static str, String>;

/// The settings that may change while the server runs.
pub(crate) struct CurrentSettings {
    /// Limit of items and index, in bytes.
    pub(crate) memory_bytes: u64,
    /// The level of detail on standard error.
    pub(crate) verbosity: u32,
    /// Whether counting by key prefix is on, and the delimiter.
    pub(crate) prefix_counting: (bool, u8),
}

/// The rows of memcached 1.6.45 that no flag or state of this server determines, with memcached's
/// defaults. TLS and the proxy are not served.
const DEFAULTS: [(&str, &str); 55] = [
    ("oldest", "0"),
    ("growth_factor", "1.25"),
    ("chunk_size", "48"),
    ("cas_enabled", "yes"),
    ("hashpower_init", "0"),
    ("slab_reassign", "yes"),
    ("slab_automove", "1"),
    ("slab_automove_ratio", "0.80"),
    ("slab_automove_window", "10"),
    ("slab_automove_freeratio", "0.010"),
    ("slab_chunk_max", "524288"),
    ("lru_crawler", "yes"),
    ("lru_crawler_sleep", "100"),
    ("lru_crawler_tocrawl", "0"),
    ("tail_repair_time", "0"),
    ("lru_maintainer_thread", "yes"),
    ("lru_segmented", "yes"),
    ("hot_lru_pct", "20"),
    ("warm_lru_pct", "40"),
    ("hot_max_factor", "0.20"),
    ("warm_max_factor", "2.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "61"),
    ("idle_timeout", "0"),
    ("watcher_logbuf_size", "262144"),
    ("worker_logbuf_size", "65536"),
    ("read_buf_mem_limit", "0"),
    ("track_sizes", "no"),
    ("inline_ascii_response", "no"),
    ("ext_item_size", "512"),
    ("ext_item_age", "4294967295"),
    ("ext_low_ttl", "0"),
    ("ext_recache_rate", "2000"),
    ("ext_wbuf_size", "4194304"),
    ("ext_compact_under", "0"),
    ("ext_drop_under", "0"),
    ("ext_max_sleep", "1000000"),
    ("ext_max_frag", "0.80"),
    ("ext_drop_unread", "no"),
    ("ssl_enabled", "no"),
    ("ssl_chain_cert", "(null)"),
    ("ssl_key", "(null)"),
    ("ssl_verify_mode", "0"),
    ("ssl_keyformat", "1"),
    ("ssl_ciphers", "NULL"),
    ("ssl_ca_cert", "NULL"),
    ("ssl_wbuf_size", "16384"),
    ("ssl_session_cache", "no"),
    ("ssl_kernel_tls", "no"),
    ("ssl_min_version", "tlsv1.2"),
    ("proxy_enabled", "no"),
    ("proxy_uring_enabled", "no"),
    ("num_napi_ids", "0"),
    ("memory_file", "(null)"),
    ("client_flags_size", "4"),
];

/// Writes all rows.
pub(crate) fn write(
    config: &Config,
    current: &CurrentSettings,
    tuned: &TunedSettings,
    out: &mut dyn StatWriter,
) {
    limits(config, current, out);
    listeners(config, out);
    permissions(config, current, out);
    own(config, out);
    for (name, default) in DEFAULTS {
        let value = tuned.get(name).map(String::as_str);
        let value = value.or_else(|| config.setting(name)).unwrap_or(default);
        out.text(name.as_bytes(), value.as_bytes());
    }
    for (name, value) in &config.settings {
        if !DEFAULTS.iter().any(|(row, _)| row == name) {
            out.text(name.as_bytes(), value.as_bytes());
        }
    }
}

/// Records the rows that `tuning` changes.
pub(crate) fn tune(tuning: Tuning, tuned: &mut TunedSettings) {
    let mut set = |name, value: String| {
        tuned.insert(name, value);
    };
    match tuning {
        Tuning::LruSegmented(is_segmented) => set("lru_segmented", yes_or_no(is_segmented)),
        Tuning::LruShares {
            hot_percent,
            warm_percent,
            hot_factor,
            warm_factor,
        } => {
            set("hot_lru_pct", hot_percent.to_string());
            set("warm_lru_pct", warm_percent.to_string());
            set("hot_max_factor", fraction(hot_factor, 2));
            set("warm_max_factor", fraction(warm_factor, 2));
        }
        Tuning::TemporaryTtl(ttl_s) => {
            set("temp_lru", yes_or_no(ttl_s.is_some()));
            if let Some(ttl_s) = ttl_s {
                set("temporary_ttl", ttl_s.to_string());
            }
        }
        Tuning::AutomoveLevel(level) => set("slab_automove", level.to_string()),
        Tuning::AutomoveRatio(ratio) => set("slab_automove_ratio", fraction(ratio, 2)),
        Tuning::AutomoveFreeRatio(ratio) => set("slab_automove_freeratio", fraction(ratio, 3)),
        Tuning::AutomoveWindow { window_s } => set("slab_automove_window", window_s.to_string()),
        Tuning::CrawlerSleep { us } => set("lru_crawler_sleep", us.to_string()),
        Tuning::CrawlerItems(items) => set("lru_crawler_tocrawl", items.to_string()),
    }
}

/// A number of thousandths as a decimal fraction.
fn fraction(thousandths: i64, digits: usize) -> String {
    format!("{:.digits$}", thousandths as f64 / 1000.0)
}

fn limits(config: &Config, current: &CurrentSettings, out: &mut dyn StatWriter) {
    out.number(b"maxbytes", current.memory_bytes);
    out.number(b"maxconns", u64::from(config.connections_max));
    out.number(b"verbosity", u64::from(current.verbosity));
    // A pool whose memory is full refuses new values.
    let evicts = config.evicts && config.pool.is_none();
    out.text(b"evictions", if evicts { b"on" } else { b"off" });
    out.number(b"num_threads", u64::from(config.workers));
    out.number(b"num_threads_per_udp", u64::from(config.workers));
    out.number(b"reqs_per_event", u64::from(config.requests_per_turn));
    out.number(b"tcp_backlog", u64::from(config.backlog));
    out.number(b"item_size_max", u64::from(config.item_size_max));
    out.text(b"maxconns_fast", b"yes");
    out.text(b"hash_algorithm", b"rapidhash");
}

fn listeners(config: &Config, out: &mut dyn StatWriter) {
    let port = config.listen.first().map_or(0, std::net::SocketAddr::port);
    let inter: Vec<String> = config.listen.iter().map(|at| at.ip().to_string()).collect();
    let inter = if inter.is_empty() {
        "NULL".to_owned()
    } else {
        inter.join(",")
    };
    let socket = config.unix_socket.as_ref();
    let path = socket.map_or("NULL".to_owned(), |unix| unix.path.display().to_string());
    let mode = socket.map_or(0o700, |unix| unix.mode);
    out.number(b"tcpport", u64::from(port));
    let datagrams = config.datagrams.as_ref();
    let udp_port = datagrams.and_then(|it| it.addresses.first());
    out.number(
        b"udpport",
        udp_port.map_or(0, |address| address.port().into()),
    );
    out.text(b"inter", inter.as_bytes());
    out.text(b"domain_socket", path.as_bytes());
    out.text(b"umask", format!("{mode:o}").as_bytes());
    let protocol: &[u8] = match config.protocols {
        AllowedProtocols::Auto => b"auto-negotiate",
        AllowedProtocols::Text => b"ascii",
        AllowedProtocols::Binary => b"binary",
    };
    out.text(b"binding_protocol", protocol);
    let passwords = config.passwords.as_ref();
    let has_sasl = passwords.is_some() && config.protocols != AllowedProtocols::Text;
    out.text(b"auth_enabled_sasl", yes_or_no(has_sasl).as_bytes());
    // memcached shows the path of the file.
    let file = passwords.filter(|_| config.protocols != AllowedProtocols::Binary);
    let file = file.map_or("no".to_owned(), |file| file.path.display().to_string());
    out.text(b"auth_enabled_ascii", file.as_bytes());
}

fn permissions(config: &Config, current: &CurrentSettings, out: &mut dyn StatWriter) {
    let (counts_prefixes, delimiter) = current.prefix_counting;
    out.text(b"stat_key_prefix", &[delimiter]);
    out.text(b"detail_enabled", yes_or_no(counts_prefixes).as_bytes());
    out.text(
        b"shutdown_command",
        yes_or_no(config.permissions.shutdown).as_bytes(),
    );
    out.text(
        b"flush_enabled",
        yes_or_no(config.permissions.flush).as_bytes(),
    );
    out.text(
        b"dump_enabled",
        yes_or_no(config.permissions.dump).as_bytes(),
    );
}

/// The rows that memcached does not have.
fn own(config: &Config, out: &mut dyn StatWriter) {
    out.number(b"busy_poll_us", config.wait_policy.busy_poll_ns / 1000);
    out.number(b"min_wait_us", config.wait_policy.min_wait_ns / 1000);
    out.number(b"drain_ms", config.drain_ns / 1_000_000);
    let runtime = config.runtime.map_or("auto", runtime::Kind::name);
    out.text(b"runtime", runtime.as_bytes());
}

pub(crate) fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}
