//! The energy of the measured interval, where the machine has a meter for it.
//!
//! RAPL measures packages and memory: everything that runs on the machine, the generator too. Where
//! there is no such counter, a trial has no energy. Its proxies, processor time and wake-ups of the
//! server for each request, are metrics of every trial, and are never converted to joules.

use power::meter::Meters;
use power::root::Root;
use report::record::Measured;

use crate::interval::Edge;

/// The metric: packages and memory, for each request that the server answered.
const METRIC: &str = "energy_per_request_uj";

/// Meters that are read at both ends of the interval.
#[derive(Debug)]
pub(super) struct EnergyWindow {
    root: Root,
    begun: Option<Meters>,
    joules: Option<f64>,
}

impl EnergyWindow {
    /// None: the machine has no counter of packages or memory that may be read.
    pub(super) fn find(root: Root) -> Option<Self> {
        Meters::begin(&root, false, 0.0).processor_joules()?;
        Some(Self {
            root,
            begun: None,
            joules: None,
        })
    }

    pub(super) fn note(&mut self, edge: Edge) {
        match (edge, self.begun.as_mut()) {
            (Edge::Begin, _) => self.begun = Some(Meters::begin(&self.root, false, 0.0)),
            (Edge::End, Some(meters)) => {
                meters.sample(&self.root, 0.0);
                self.joules = meters.processor_joules();
            }
            (Edge::End, None) => {}
        }
    }

    /// Joules of the interval. None: its ends were not noticed.
    pub(super) fn joules(&self) -> Option<f64> {
        self.joules
    }
}

/// Adds the metric.
pub(super) fn add(joules: f64, answers: f64, measured: &mut Measured) {
    if answers > 0.0 {
        measured.metrics.insert(METRIC.to_owned(), joules / answers * 1e6);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn set(tree: &Path, uj: u64) {
        let package = tree.join("sys/class/powercap/intel-rapl:0");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("name"), "package-0").unwrap();
        fs::write(package.join("max_energy_range_uj"), "1000000000").unwrap();
        fs::write(package.join("energy_uj"), uj.to_string()).unwrap();
    }

    #[test]
    fn the_energy_is_that_between_the_ends_of_the_interval() {
        let tree = tempfile::tempdir().unwrap();
        set(tree.path(), 5_000_000);
        let mut window = EnergyWindow::find(Root::at(tree.path())).unwrap();
        set(tree.path(), 7_000_000);
        window.note(Edge::Begin);
        assert_eq!(window.joules(), None);
        set(tree.path(), 10_000_000);
        window.note(Edge::End);
        let mut measured = Measured::default();
        add(window.joules().unwrap(), 1_000.0, &mut measured);
        assert_eq!(measured.metric(METRIC), Some(3_000.0));
        assert!(report::cache::metrics().iter().any(|it| it.name == METRIC));
    }

    #[test]
    fn a_machine_without_a_meter_has_no_window() {
        let tree = tempfile::tempdir().unwrap();
        assert!(EnergyWindow::find(Root::at(tree.path())).is_none());
    }
}
