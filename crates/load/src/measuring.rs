//! The measuring client: a separate, small open-loop run at the same time as the load.
//!
//! If the load saturates a server or is a closed loop, the latencies of the load do not tell which
//! latency a client at a moderate rate would have. The measuring client is such a client. It has
//! its own connections, rate and depth, and its own thread in this process. It starts and ends with
//! the load and measures the same interval. The counts of the load do not include its requests.

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

/// The settings of a measuring client. All its other settings are those of the load.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuringClient {
    /// The number of the client's connections.
    pub connections: u32,
    /// The offered rate, over all these connections.
    pub rate_rps: f64,
    /// The maximum number of outstanding requests of one connection.
    pub depth: u32,
    /// The client's thread is pinned to the first of these processors. Empty: it is not pinned.
    pub cpus: Vec<usize>,
}

/// The result of a measuring client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuringReport {
    /// The number of the client's connections.
    pub connections: u32,
    /// The maximum number of outstanding requests of one connection.
    pub depth: u32,
    /// The client's measurements.
    pub summary: Summary,
}

impl MeasuringClient {
    /// Returns the settings of an imaginary run, and the part of this run (a range of connection
    /// numbers) that the client opens. `config` are the settings of the load.
    ///
    /// The client requests the same records as the load, because the seed is the same. The requests
    /// and their times are drawn from the seed and the connection number. The client must draw
    /// other requests than the load. Therefore the numbers of its connections begin at
    /// `config.connections + 1`. The load's connections have the numbers below
    /// `config.connections`, and its saturating connections draw their requests with the number
    /// `config.connections`.
    ///
    /// No process opens the connections of the imaginary run that are outside the part. A run
    /// divides its rate evenly among all its connections. The rate of the imaginary run is chosen
    /// such that the part has the client's rate. Each connection follows the arrival distribution
    /// separately.
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

    /// Checks the settings of the client together with those of the load, `config`.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn validate(&self, config: &Config) -> Result<(), Error> {
        config.validate_without_script("--measure-connections")?;
        // The client's own settings are checked first, so that an error does not name the number of
        // connections of the imaginary run. This check has a single target, because the client may
        // have fewer connections than the load has targets.
        let own = Config {
            connections: self.connections,
            targets: config.targets.iter().take(1).cloned().collect(),
            ..self.settings(config).0
        };
        own.validate()?;
        Ok(self.settings(config).0.validate()?)
    }
}

/// A measuring client that is ready: its connections are open, and its run has not begun.
pub(crate) struct MeasuringThreads {
    client: MeasuringClient,
    config: Config,
    part: Part,
    threads: GeneratorThreads,
    /// Tells the client's thread to end the run early.
    stop: Arc<AtomicBool>,
}

impl MeasuringThreads {
    /// Opens the connections of a client that measures at the same time as the load of `config`.
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

    /// Starts the client's run, which begins at the beginning of `timeline`.
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
            .inspect_err(|_| stop.store(true, Ordering::Relaxed))
            .map_err(Error::system("start a thread"))?;
        Ok(MeasuringRun {
            thread: Some(thread),
            stop,
        })
    }
}

/// A running measuring client. A drop of the value stops the run early.
pub(crate) struct MeasuringRun {
    /// None: the thread is joined.
    thread: Option<JoinHandle<Result<MeasuringReport, Error>>>,
    stop: Arc<AtomicBool>,
}

impl MeasuringRun {
    /// Waits for the end of the run and returns its result.
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
    fn schedule_of_the_client_part_has_the_client_rate() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        (config.connections, config.depth) = (1280, 4);
        let (own, part) = client().settings(&config);
        assert_eq!((part.first, part.count, own.depth), (1281, 32, 1));
        let Rate::PerSecond(rate_rps) = own.rate else {
            panic!("closed loop")
        };
        let first_second = |planned: &workload::PlannedRequest| planned.intended_ns < 1_000_000_000;
        let schedule = own.demand().schedule_of(rate_rps, part.range()).unwrap();
        let planned: Vec<_> = schedule.take_while(first_second).collect();
        assert!((1700..2300).contains(&planned.len()), "{}", planned.len());
        assert!(
            planned
                .iter()
                .all(|planned| part.range().contains(&planned.connection))
        );
    }

    #[test]
    fn client_requests_the_records_of_the_load() {
        let config = Config::new("127.0.0.1:1".parse().unwrap());
        let (own, _) = client().settings(&config);
        assert_eq!(own.keyspace().unwrap(), config.keyspace().unwrap());
    }

    #[test]
    fn validation_error_names_the_setting_out_of_bounds() {
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
