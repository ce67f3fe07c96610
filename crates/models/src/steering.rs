//! A chained key-value store in remote memory, and a middlebox that steers its verbs, in virtual
//! time. The model is `sim::steering`; here are its settings.

use std::time::Duration;

use lab::model::{Computed, Default, Model, Settings, Simulate};
use measure::Histogram;
use report::record::Better;
use sim::steering::{Config, Costs, Step, simulate};
use workload::Ycsb;

pub(crate) const MODEL: Model = Model {
    name: "steering",
    settings: &SETTINGS,
    metrics: &METRICS,
    factors: &[],
    read: |settings| Ok(Box::new(Steering(read(settings)?))),
};

const SETTINGS: [(&str, Default); 13] = [
    ("costs", Default::Text("prototype")),
    ("workload", Default::Text("ycsb-a")),
    ("step", Default::Text("clover")),
    ("threads", Default::Number(16.0)),
    ("outstanding", Default::Number(2.0)),
    ("theta", Default::Number(0.75)),
    ("keys", Default::Number(1024.0)),
    ("value-bytes", Default::Number(1024.0)),
    ("cores", Default::Number(1.0)),
    // Only the most popular keys; 0: all.
    ("hottest", Default::Number(0.0)),
    // `look-up`: the middlebox looks targets up and leaves them as they are.
    ("steering", Default::Text("rewrite")),
    // The step whose costs a packet has, whatever the middlebox does; `own`: that of the step.
    ("cost-of", Default::Text("own")),
    ("operations", Default::Number(200_000.0)),
];

#[rustfmt::skip]
const METRICS: [(&str, &str, &str, Better); 11] = [
    ("threads_rps", "throughput, sum of the threads' rates", "/s", Better::Higher),
    ("total_rps", "throughput, operations by time", "/s", Better::Higher),
    ("read_p50_ns", "read, median", "ns", Better::Lower),
    ("read_p99_ns", "read, 99th percentile", "ns", Better::Lower),
    ("write_p50_ns", "write, median", "ns", Better::Lower),
    ("write_p99_ns", "write, 99th percentile", "ns", Better::Lower),
    ("swap_success_share", "compare-and-swaps that succeed", "share", Better::Higher),
    ("verbs_per_operation", "verbs an operation", "ratio", Better::Lower),
    ("bytes_per_operation", "bytes an operation", "B", Better::Lower),
    ("core_busy_share", "busiest core of the middlebox", "share", Better::Neither),
    ("packet_ns", "cost of a packet at the middlebox", "ns", Better::Neither),
];

/// What things cost: at the published prototype, and with our own middlebox.
const COSTS: [(&str, Costs); 2] = [("prototype", Costs::prototype()), ("ours", Costs::ours())];

/// What a simulation of a store computed: `metrics`, and those that both models have, where they
/// were measured.
pub(super) fn computed(
    mut metrics: Vec<(&'static str, f64)>,
    swap_success: Option<f64>,
    reads: Histogram,
    writes: &Histogram,
) -> Computed {
    metrics.extend(swap_success.map(|share| ("swap_success_share", share)));
    metrics.extend(percentiles(&reads, writes));
    let mut response = reads;
    response.merge(writes);
    Computed {
        metrics,
        response,
        ..Computed::default()
    }
}

fn read(settings: &Settings<'_>) -> Result<Config, String> {
    let step = settings.one_of("step", &Step::ALL)?;
    let mut costs = settings.one_of("costs", &COSTS)?;
    if settings.text("cost-of") != "own" {
        let other = settings.one_of("cost-of", &Step::ALL)?;
        costs.packet_ns[step.index()] = costs.packet(other);
    }
    let workloads = Ycsb::ALL.map(|it| (it.name(), it));
    let config = Config {
        threads: settings.count("threads")?,
        outstanding: settings.count("outstanding")?,
        workload: settings.one_of("workload", &workloads)?,
        theta: settings.number("theta")?,
        keys: settings.count("keys")?,
        value_len: settings.count("value-bytes")?,
        step,
        hottest: Some(settings.count("hottest")?).filter(|&hottest| hottest > 0),
        is_steering: settings.one_of("steering", &[("rewrite", true), ("look-up", false)])?,
        cores: settings.count("cores")?,
        costs,
        operations: settings.whole("operations")?,
        seed: 0,
    };
    config.check().map_err(|error| error.to_string())?;
    Ok(config)
}

struct Steering(Config);

impl Simulate for Steering {
    fn takes(&self) -> Duration {
        Duration::from_micros(3 * self.0.operations)
    }

    fn simulate(&self, seed: u64) -> Result<Computed, String> {
        let config = Config { seed, ..self.0 };
        let found = simulate(&config).map_err(|error| error.to_string())?;
        let metrics = vec![
            ("threads_rps", found.threads_rps),
            ("total_rps", found.total_rps),
            ("verbs_per_operation", found.verbs),
            ("bytes_per_operation", found.bytes),
            ("core_busy_share", found.core_busy),
            ("packet_ns", config.costs.packet(config.step)),
        ];
        Ok(computed(
            metrics,
            found.swap_success,
            found.reads,
            &found.writes,
        ))
    }
}

/// Median and 99th percentile of reads and writes, where there are any.
fn percentiles(reads: &Histogram, writes: &Histogram) -> impl Iterator<Item = (&'static str, f64)> {
    let of = |histogram: &Histogram, p50, p99| {
        let found = |name, percentile| (name, histogram.percentile(percentile) as f64);
        let found = [found(p50, 50.0), found(p99, 99.0)];
        (!histogram.is_empty()).then_some(found)
    };
    let all = [
        of(reads, "read_p50_ns", "read_p99_ns"),
        of(writes, "write_p50_ns", "write_p99_ns"),
    ];
    all.into_iter().flatten().flatten()
}
