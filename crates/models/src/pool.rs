//! The packets of our memory pool and middlebox, in virtual time, on a network with faults. The
//! model is `sim::world`; here are its settings.

use std::time::Duration;

use lab::model::{Computed, Default, Model, Settings, Simulate};
use report::record::Better;
use sim::world::trial::Trial;
use sim::world::{Faults, NetworkFaults, Step};
use workload::Ycsb;

use crate::steering::computed;

pub(crate) const MODEL: Model = Model {
    name: "pool",
    settings: &SETTINGS,
    metrics: &METRICS,
    factors: &[],
    read: |settings| Ok(Box::new(Packets(read(settings)?))),
};

const SETTINGS: [(&str, Default); 16] = [
    ("workload", Default::Text("ycsb-a")),
    ("step", Default::Text("clover")),
    // What the middlebox does wrong.
    ("errors", Default::Text("none")),
    ("threads", Default::Number(8.0)),
    ("outstanding", Default::Number(2.0)),
    ("theta", Default::Number(0.75)),
    ("keys", Default::Number(64.0)),
    ("value-bytes", Default::Number(1024.0)),
    // Queue pairs of the middlebox at the memory node.
    ("shared", Default::Number(8.0)),
    // What happens to a `rate` of all frames.
    ("fault", Default::Text("loss")),
    ("rate", Default::Number(0.0)),
    // How much later a reordered frame arrives.
    ("reorder-us", Default::Number(10.0)),
    ("hop-us", Default::Number(1.0)),
    // How long the memory node collects acknowledgements.
    ("acknowledge-us", Default::Number(0.0)),
    // What a client does that has lost its connection.
    ("when-lost", Default::Text("reconnect")),
    ("operations", Default::Number(16_000.0)),
];

#[rustfmt::skip]
const METRICS: [(&str, &str, &str, Better); 14] = [
    ("total_rps", "throughput", "/s", Better::Higher),
    ("read_p50_ns", "read, median", "ns", Better::Lower),
    ("read_p99_ns", "read, 99th percentile", "ns", Better::Lower),
    ("write_p50_ns", "write, median", "ns", Better::Lower),
    ("write_p99_ns", "write, 99th percentile", "ns", Better::Lower),
    ("swap_success_share", "compare-and-swaps that succeed", "share", Better::Higher),
    ("bytes_per_operation", "bytes an operation", "B", Better::Lower),
    ("repeats_per_operation", "requests sent again, an operation", "ratio", Better::Lower),
    ("timed_out_share", "operations that wait for a time-out", "share", Better::Lower),
    ("answered_share", "operations with a result, of those to measure", "share", Better::Higher),
    ("connections_lost", "connections that clients lose", "count", Better::Lower),
    ("stopped_share", "clients that stop", "share", Better::Lower),
    ("wrong_keys", "keys that are not linearizable", "count", Better::Lower),
    ("undecided_keys", "keys that are too concurrent to judge", "count", Better::Neither),
];

const STEPS: [(&str, Step); 5] = [
    ("clover", Step::Forward),
    ("write-steering", Step::Write),
    ("read-steering", Step::Read),
    ("mapping", Step::Mapping),
    ("conversion", Step::Conversion),
];

fn read(settings: &Settings<'_>) -> Result<Trial, String> {
    let time_ns = |name| Ok::<u64, String>((settings.number(name)? * 1e3).round() as u64);
    let clients = settings.count("threads")?;
    let workloads = Ycsb::ALL.map(|it| (it.name(), it));
    let trial = Trial {
        step: settings.one_of("step", &STEPS)?,
        errors: settings.one_of("errors", &errors())?,
        shared: settings.count("shared")? as usize,
        clients: u16::try_from(clients)
            .map_err(|_| format!("`threads` is {clients}, which is too many"))?,
        outstanding: settings.count("outstanding")?,
        workload: settings.one_of("workload", &workloads)?,
        theta: settings.number("theta")?,
        keys: settings.count("keys")?,
        value_len: settings.count("value-bytes")?,
        network: network(settings, time_ns("reorder-us")?)?,
        hop_ns: time_ns("hop-us")?,
        acknowledge_ns: time_ns("acknowledge-us")?,
        stops_when_lost: settings.one_of("when-lost", &[("reconnect", false), ("stop", true)])?,
        operations: settings.whole("operations")?,
        seed: 0,
    };
    trial.check().map_err(|error| error.to_string())?;
    Ok(trial)
}

/// The errors of the middlebox by name: those of the published prototype, alone and together.
fn errors() -> [(&'static str, Faults); 5] {
    let mut faults = [Faults::default(); 4];
    let [no_injection, one_owner, succeeded, prototype] = &mut faults;
    (no_injection.injects_no_acks, prototype.injects_no_acks) = (true, true);
    (one_owner.resends_one_owner, prototype.resends_one_owner) = (true, true);
    (succeeded.always_succeeded, prototype.always_succeeded) = (true, true);
    [
        ("none", Faults::default()),
        ("no-injection", *no_injection),
        ("one-owner", *one_owner),
        ("always-succeeded", *succeeded),
        ("prototype", *prototype),
    ]
}

fn network(settings: &Settings<'_>, late_ns: u64) -> Result<NetworkFaults, String> {
    let rate = settings.number("rate")?;
    if rate > 1.0 {
        return Err(format!("`rate` is {rate}, more than 1"));
    }
    let ppm = (rate * 1e6).round() as u32;
    let mut faults = NetworkFaults::default();
    match settings.one_of(
        "fault",
        &[("loss", 0), ("duplication", 1), ("reordering", 2)],
    )? {
        0 => faults.lost_ppm = ppm,
        1 => faults.repeated_ppm = ppm,
        _ => (faults.late_ppm, faults.late_ns) = (ppm, late_ns),
    }
    Ok(faults)
}

struct Packets(Trial);

impl Simulate for Packets {
    fn takes(&self) -> Duration {
        Duration::from_micros(40 * self.0.operations)
    }

    fn simulate(&self, seed: u64) -> Result<Computed, String> {
        let trial = Trial { seed, ..self.0 };
        let found = trial.run().map_err(|error| error.to_string())?;
        let metrics = vec![
            ("total_rps", found.total_rps),
            ("bytes_per_operation", found.bytes),
            ("repeats_per_operation", found.retransmissions),
            ("timed_out_share", found.timed_out),
            ("answered_share", found.answered),
            ("connections_lost", found.lost as f64),
            ("stopped_share", found.stopped),
            ("wrong_keys", found.wrong_keys as f64),
            ("undecided_keys", found.undecided_keys as f64),
        ];
        Ok(computed(
            metrics,
            found.swap_success,
            found.reads,
            &found.writes,
        ))
    }
}
