//! The energy of the machine in a trial's interval, and its proxies.
//!
//! RAPL measures packages and memory: everything that runs on the machine is in it, the servers,
//! the generator and the laboratory too. Where there is no such counter, a trial has no energy.
//! Proxies are there on every machine, and are never converted to joules.

use std::time::{Duration, Instant};

use power::meter::{Meters, Proxy};
use power::root::Root;
use report::record::{Better, Measured, Metric, Unit};

const ENERGY_J: &str = "energy_j";
const ENERGY_PER_REQUEST_UJ: &str = "energy_per_request_uj";

/// The proxies: the total and the value for each request, what they are, and the unit.
#[rustfmt::skip]
const PROXIES: [(Proxy, &str, &str, &str, &str); 3] = [
    (Proxy::ProcessorTime, "proxy_processor_time_ns", "proxy_processor_time_per_request_ns", "processor time of the machine", "ns"),
    (Proxy::ContextSwitches, "proxy_context_switches", "proxy_context_switches_per_request", "context switches of the machine", "count"),
    (Proxy::Interrupts, "proxy_interrupts", "proxy_interrupts_per_request", "interrupts of the machine", "count"),
];

/// The metrics of every trial, and with `of_requests` those for each request.
pub(super) fn metrics(of_requests: bool) -> Vec<Metric> {
    let metric = |name, title: &str, unit: &str| {
        Metric::new(name, title, Unit::from(unit.to_owned()), Better::Lower)
    };
    let mut metrics = vec![metric(ENERGY_J, "energy of packages and memory", "J")];
    for (_, name, _, what, unit) in PROXIES {
        metrics.push(metric(name, &format!("proxy of energy: {what}"), unit));
    }
    if of_requests {
        let title = "energy of packages and memory per request";
        metrics.push(metric(ENERGY_PER_REQUEST_UJ, title, "µJ"));
        for (_, _, name, what, unit) in PROXIES {
            metrics.push(metric(
                name,
                &format!("proxy of energy: {what} per request"),
                unit,
            ));
        }
    }
    metrics
}

#[derive(Debug)]
pub(super) struct EnergyWindow {
    root: Root,
    meters: Meters,
    began: Instant,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct EnergyUsed {
    /// None: there is no counter of packages or memory that may be read.
    joules: Option<f64>,
    proxies: Vec<(Proxy, f64)>,
    pub(super) elapsed: Duration,
}

impl EnergyWindow {
    pub(super) fn begin(root: Root) -> Self {
        Self {
            meters: Meters::begin(&root, false, 0.0),
            root,
            began: Instant::now(),
        }
    }

    /// Reads the counters, which may wrap around at most once between two calls.
    pub(super) fn sample(&mut self) {
        self.meters
            .sample(&self.root, self.began.elapsed().as_secs_f64());
    }

    pub(super) fn end(mut self) -> EnergyUsed {
        self.sample();
        EnergyUsed {
            joules: self.meters.processor_joules(),
            proxies: self.meters.proxies(&self.root),
            elapsed: self.began.elapsed(),
        }
    }
}

impl EnergyUsed {
    /// Adds the metrics; with the number of requests, those per request too.
    pub(super) fn add(&self, requests: Option<f64>, measured: &mut Measured) {
        let requests = requests.filter(|&it| it > 0.0);
        let mut put = |total: &str, per_request: &str, value: f64, scale: f64| {
            measured.metrics.insert(total.to_owned(), value);
            if let Some(requests) = requests {
                let each = value * scale / requests;
                measured.metrics.insert(per_request.to_owned(), each);
            }
        };
        if let Some(joules) = self.joules {
            put(ENERGY_J, ENERGY_PER_REQUEST_UJ, joules, 1e6);
        }
        for (proxy, total, per_request, ..) in PROXIES {
            let value = self.proxies.iter().find(|(it, _)| *it == proxy);
            let Some(&(_, value)) = value else { continue };
            let value = match proxy {
                Proxy::ProcessorTime => value * 1e9,
                Proxy::ContextSwitches | Proxy::Interrupts => value,
            };
            put(total, per_request, value, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Sets a fake machine's counters. `busy` is in hundredths of a second.
    fn set(tree: &Path, uj: Option<u64>, busy: u64, switches: u64) {
        let stat = format!("cpu {busy} 0 0 500 0 0 0 0\nintr 40 1\nctxt {switches}\n");
        fs::create_dir_all(tree.join("proc")).unwrap();
        fs::write(tree.join("proc/stat"), stat).unwrap();
        let Some(uj) = uj else { return };
        let package = tree.join("sys/class/powercap/intel-rapl:0");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("name"), "package-0").unwrap();
        fs::write(package.join("max_energy_range_uj"), "1000000").unwrap();
        fs::write(package.join("energy_uj"), uj.to_string()).unwrap();
    }

    #[test]
    fn energy_and_proxies_are_those_between_start_and_end_for_each_request() {
        let tree = tempfile::tempdir().unwrap();
        set(tree.path(), Some(900_000), 100, 7);
        let mut window = EnergyWindow::begin(Root::at(tree.path()));
        // The counter wraps around twice in all, once before each reading.
        set(tree.path(), Some(400_000), 150, 1_000);
        window.sample();
        set(tree.path(), Some(200_000), 400, 2_007);
        let used = window.end();
        let mut measured = Measured::default();
        used.add(Some(1_000.0), &mut measured);
        let close = |name: &str, expected: f64| {
            let value = measured.metric(name).unwrap();
            assert!(
                (value - expected).abs() < 1e-6 * expected,
                "{name}: {value}"
            );
        };
        close(ENERGY_J, 1.3);
        close(ENERGY_PER_REQUEST_UJ, 1_300.0);
        close("proxy_processor_time_ns", 3e9);
        close("proxy_processor_time_per_request_ns", 3e6);
        close("proxy_context_switches", 2_000.0);
        close("proxy_context_switches_per_request", 2.0);
        assert_eq!(measured.metric("proxy_interrupts"), Some(0.0));
        for metric in metrics(true) {
            assert!(measured.metric(&metric.name).is_some(), "{}", metric.name);
        }
    }

    #[test]
    fn without_a_meter_there_are_no_joules_and_without_requests_only_totals() {
        let tree = tempfile::tempdir().unwrap();
        set(tree.path(), None, 100, 0);
        let used = EnergyWindow::begin(Root::at(tree.path())).end();
        for (requests, count) in [(Some(10.0), 6), (Some(0.0), 3), (None, 3)] {
            let mut measured = Measured::default();
            used.add(requests, &mut measured);
            assert_eq!(measured.metric(ENERGY_J), None);
            assert_eq!(measured.metrics.len(), count, "{requests:?}");
        }
    }
}
