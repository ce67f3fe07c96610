//! A server with fixed figures.

use session::{CommandClass, LATENCY_BOUNDS_NS, LatencySnapshot, StatWriter};

use crate::Source;

/// What `stats` of a server shows, in its order.
const STATS: &str = include_str!("stats.txt");

/// A server with the figures of `stats.txt`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Example {
    pub(crate) is_ready: bool,
    pub(crate) is_timed: bool,
    /// Also has figures that no table lists.
    pub(crate) has_unlisted: bool,
    /// Every number has this value.
    pub(crate) number: Option<u64>,
}

impl Example {
    pub(crate) const DEFAULT: Self = Self {
        is_ready: true,
        is_timed: true,
        has_unlisted: false,
        number: None,
    };
}

impl Source for Example {
    fn write_stats(&self, out: &mut dyn StatWriter) {
        for line in STATS.lines() {
            let (name, value) = line.split_once(' ').unwrap();
            match value.parse() {
                Ok(number) => out.number(name.as_bytes(), self.number.unwrap_or(number)),
                Err(_) => out.text(name.as_bytes(), value.as_bytes()),
            }
        }
        if self.has_unlisted {
            out.number(b"new-figure", 7);
            out.number(b"new.figure", 8);
            out.number(b"cmd_get_total", 9);
            out.text(b"new text", b"\"a\\b\"\nc");
            out.text(b"curtail", b"a second one");
        }
    }

    fn write_settings(&self, out: &mut dyn StatWriter) {
        out.number(b"maxbytes", self.number.unwrap_or(67_108_864));
        out.text(b"inter", b"127.0.0.1");
        out.text(b"umask", b"700");
        out.text(b"stat_key_prefix", b"\"");
        out.text(b"domain_socket", b"/run/\xff\x01");
    }

    fn latencies(&self) -> Option<LatencySnapshot> {
        let mut latencies = LatencySnapshot::default();
        let get = &mut latencies.classes[CommandClass::Get as usize];
        get.add(900, LATENCY_BOUNDS_NS[2]);
        get.add(90, LATENCY_BOUNDS_NS[3]);
        get.add(1, u64::MAX);
        get.sum_ns = 900 * 4_000 + 90 * 8_500 + 150_000_001;
        let set = &mut latencies.classes[CommandClass::Set as usize];
        set.add(50, LATENCY_BOUNDS_NS[4]);
        set.sum_ns = 50 * 15_000;
        self.is_timed.then_some(latencies)
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }
}
