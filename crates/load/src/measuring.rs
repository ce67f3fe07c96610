//! The measuring client: a small open-loop run of its own beside the load.
//!
//! Under a load that saturates a server, or in a closed loop, the load's own latencies say little
//! of what another client would see. The measuring client is that other client. It has connections,
//! a rate and a depth of its own, a thread of its own in this process, and the load's start,
//! interval and end. Nothing of it is counted with the load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};
use workload::Superposition;

use crate::config::{Config, Rate};
use crate::error::Error;
use crate::limits::PARTS_MAX;
use crate::part::Part;
use crate::run::GeneratorThreads;
use crate::summary::Summary;
use crate::timeline::Timeline;

/// The settings in which a measuring client differs from the load.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuringClient {
    /// Connections.
    pub connections: u32,
    /// Offered rate over its connections.
    pub rate_rps: f64,
    /// Requests one connection may have outstanding.
    pub depth: u32,
    /// The processors that its thread may be pinned to; the first is taken. Empty: it is not
    /// pinned.
    pub cpus: Vec<usize>,
}

/// The result of a measuring client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuringReport {
    /// Connections.
    pub connections: u32,
    /// Requests one connection may have outstanding.
    pub depth: u32,
    /// What it measured.
    pub summary: Summary,
}

impl MeasuringClient {
    /// The settings of its run, of which it makes the returned part.
    ///
    /// It has the load's records, and requests and times of its own: its connections are numbered
    /// after those of the load and the one that numbers the saturating connections' requests. A
    /// connection's rate is its share of that of all connections, so the rate of all is scaled up.
    /// Each connection follows the arrival distribution separately.
    fn settings(&self, config: &Config) -> (Config, Part) {
        let part = Part {
            number: PARTS_MAX - 1,
            first: config.connections.saturating_add(1),
            count: self.connections,
        };
        let connections = part.first.saturating_add(part.count);
        let scale = f64::from(connections) / f64::from(self.connections.max(1));
        let config = Config {
            connections,
            rate: Rate::PerSecond(self.rate_rps * scale),
            depth: self.depth,
            saturating_connections: 0,
            threads: 1,
            cpus: self.cpus.clone(),
            superposition: Superposition::PerConnection,
            watch_pid: None,
            watch_bursts: false,
            stall_detector_cpu: None,
            ..config.clone()
        };
        (config, part)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first setting out of its bounds.
    pub fn validate(&self, config: &Config) -> Result<(), Error> {
        config.validate_without_script("--measure-connections")?;
        let own = Config {
            connections: self.connections,
            targets: config.targets.iter().take(1).cloned().collect(),
            ..self.settings(config).0
        };
        own.validate()?;
        Ok(self.settings(config).0.validate()?)
    }
}

/// A measuring client whose connections are open.
pub(crate) struct MeasuringThreads {
    client: MeasuringClient,
    config: Config,
    part: Part,
    threads: GeneratorThreads,
    stop: Arc<AtomicBool>,
}

impl MeasuringThreads {
    /// Opens the connections of a client beside the load of `config`.
    pub(crate) fn open(config: &Config, client: &MeasuringClient) -> Result<Self, Error> {
        client.validate(config)?;
        let (config, part) = client.settings(config);
        let stop = Arc::default();
        Ok(Self {
            client: client.clone(),
            threads: GeneratorThreads::start(&config, part, 0, &stop)?,
            config,
            part,
            stop,
        })
    }

    /// Begins the run at the beginning of `timeline`.
    pub(crate) fn begin(self, timeline: &Timeline) -> Result<MeasuringRun, Error> {
        let Self {
            client,
            config,
            part,
            threads,
            stop,
        } = self;
        let timeline = timeline.clone();
        threads.begin(&timeline);
        let measure = move || {
            let (summary, _) = threads.finish(&config, part, &timeline, &mut |_, _| ())?;
            Ok(MeasuringReport {
                connections: client.connections,
                depth: client.depth,
                summary: Summary {
                    offered_rps: Some(client.rate_rps),
                    ..summary
                },
            })
        };
        let thread = thread::Builder::new()
            .name("load-measure".to_owned())
            .spawn(measure)
            .map_err(Error::system("start a thread"))?;
        Ok(MeasuringRun {
            thread: Some(thread),
            stop,
        })
    }
}

/// A measuring client that runs. It is stopped when this is dropped before its end.
pub(crate) struct MeasuringRun {
    thread: Option<JoinHandle<Result<MeasuringReport, Error>>>,
    stop: Arc<AtomicBool>,
}

impl MeasuringRun {
    /// Waits for the end of the run.
    pub(crate) fn join(mut self) -> Result<Box<MeasuringReport>, Error> {
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(report)) => report.map(Box::new),
            _ => Err(Error::Panicked),
        }
    }
}

impl Drop for MeasuringRun {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> MeasuringClient {
        MeasuringClient {
            connections: 32,
            rate_rps: 2000.0,
            depth: 1,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn its_rate_is_that_of_its_connections() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        (config.connections, config.depth) = (1280, 4);
        let (own, part) = client().settings(&config);
        assert_eq!((part.first, part.count, own.depth), (1281, 32, 1));
        let Rate::PerSecond(rate_rps) = own.rate else {
            panic!("closed loop")
        };
        let second = |planned: &workload::PlannedRequest| planned.intended_ns < 1_000_000_000;
        let schedule = own.demand().schedule_of(rate_rps, part.range()).unwrap();
        let planned: Vec<_> = schedule.take_while(second).collect();
        assert!((1700..2300).contains(&planned.len()), "{}", planned.len());
        assert!(
            planned
                .iter()
                .all(|planned| part.range().contains(&planned.connection))
        );
    }

    #[test]
    fn its_records_are_those_of_the_load() {
        let config = Config::new("127.0.0.1:1".parse().unwrap());
        let (own, _) = client().settings(&config);
        assert_eq!(own.keyspace().unwrap(), config.keyspace().unwrap());
    }

    #[test]
    fn settings_out_of_bounds_are_named() {
        let config = Config::new("127.0.0.1:1".parse().unwrap());
        assert!(client().validate(&config).is_ok());
        let mut none = client();
        none.connections = 0;
        let error = none.validate(&config).unwrap_err().to_string();
        assert!(
            error.starts_with("connections: 0 is out of bounds"),
            "{error}"
        );
        let mut deep = client();
        deep.depth = 5000;
        let error = deep.validate(&config).unwrap_err().to_string();
        assert!(error.starts_with("depth: 5000 is out of bounds"), "{error}");
    }
}
