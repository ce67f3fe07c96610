//! `stats latency`: percentiles of the times that requests were in the server, by class of command.

use session::{CommandClass, LatencySnapshot, StatWriter};

/// The percentiles that are shown, in thousandths.
const PERCENTILES: [(&str, u64); 3] = [("p50_ns", 500), ("p99_ns", 990), ("p999_ns", 999)];

/// Writes the classes of which requests were recorded.
pub(crate) fn write(latencies: &LatencySnapshot, out: &mut dyn StatWriter) {
    for class in CommandClass::ALL {
        let latency = latencies.of(class);
        let count = latency.count();
        if count == 0 {
            continue;
        }
        let mut number = |name: &str, value| {
            out.number(format!("latency:{}:{name}", class.name()).as_bytes(), value);
        };
        number("count", count);
        for (name, per_mille) in PERCENTILES {
            number(name, latency.percentile_ns(per_mille));
        }
        number("max_ns", latency.max_ns);
    }
}
