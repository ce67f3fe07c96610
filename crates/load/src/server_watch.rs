//! Measures two things of the server during the measured interval: the resources that its process
//! uses, such as processor time, and how many connections are ready per wake-up of its workers (its
//! *bursts*).
//!
//! The kernel counts the resources of the process. The server counts its bursts and reports them in
//! its answer to `stats curtail`. These counters are read at the start and at the end of the
//! interval, and the differences are the result. A separate thread reads the counters, so that
//! reading them and printing the run's output do not delay each other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sys::clock::monotonic_ns;
use sys::cost::{self, Cost};

use crate::config::{Config, Target};
use crate::error::Error;
use crate::limits::{STATS_LEN_MAX, STATS_LINE_LEN_MAX, STATS_TIMEOUT};
use crate::summary::{Bursts, Watched};
use crate::timeline::Timeline;

/// The observations of the server during the measured interval.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) watched: Option<Watched>,
    pub(crate) bursts: Option<Bursts>,
}

/// The thread that reads the counters. None: the settings request neither the resources of a
/// process nor bursts.
pub(crate) struct ServerWatch(Option<JoinHandle<Result<Observed, Error>>>);

impl ServerWatch {
    /// Starts the thread. It reads the counters at the start and at the end of the measured
    /// interval.
    pub(crate) fn start(config: &Config, timeline: &Timeline) -> Result<Self, Error> {
        if config.watch_pid.is_none() && !config.watch_bursts {
            return Ok(Self(None));
        }
        let (measure_ns, end_ns) = (timeline.measure_ns, timeline.end_ns);
        let pid = config.watch_pid;
        let target = config.targets.first().filter(|_| config.watch_bursts);
        let target = target.cloned();
        let sample = move || {
            // The thread connects before the interval, so that the server's work of accepting the
            // connection is not measured.
            let timeout = Duration::from_nanos((end_ns - measure_ns) / 2).min(STATS_TIMEOUT);
            let mut client = target
                .as_ref()
                .and_then(|it| StatsClient::connect(it, timeout));
            sys::thread::sleep_precisely();
            let before = Snapshot::at(measure_ns, pid, client.as_mut())?;
            let after = Snapshot::at(end_ns, pid, client.as_mut())?;
            Ok(after.since(&before))
        };
        let builder = thread::Builder::new().name("load-watch".to_owned());
        let thread = builder
            .spawn(sample)
            .map_err(Error::system("start a thread"))?;
        Ok(Self(Some(thread)))
    }

    /// Waits for the end of the interval and returns the observations.
    pub(crate) fn join(self) -> Result<Observed, Error> {
        match self.0 {
            Some(thread) => thread.join().map_err(|_| Error::Panicked)?,
            None => Ok(Observed::default()),
        }
    }
}

/// The server's counters at one moment. They count from the start of the server.
struct Snapshot {
    cost: Option<Cost>,
    bursts: Option<Bursts>,
}

impl Snapshot {
    /// Sleeps until `at_ns` on the monotonic clock, then reads the counters.
    fn at(at_ns: u64, pid: Option<u32>, client: Option<&mut StatsClient>) -> Result<Self, Error> {
        thread::sleep(Duration::from_nanos(at_ns.saturating_sub(monotonic_ns())));
        let cost =
            pid.map(|pid| cost::of_process(pid).map_err(|source| Error::Watch { pid, source }));
        Ok(Self {
            cost: cost.transpose()?,
            bursts: client.and_then(StatsClient::bursts),
        })
    }

    /// Returns the differences from an earlier snapshot.
    fn since(self, before: &Self) -> Observed {
        let watched = self.cost.zip(before.cost.as_ref()).map(|(after, before)| {
            let cost = after.since(before);
            Watched {
                user_ns: cost.user_ns,
                system_ns: cost.system_ns,
                resident_bytes: cost.resident_bytes,
                // The caller read the memory before the connections were opened, and sets this
                // field.
                resident_before_bytes: None,
                voluntary_switches: cost.voluntary_switches,
                involuntary_switches: cost.involuntary_switches,
            }
        });
        let bursts = self.bursts.zip(before.bursts.as_ref());
        Observed {
            watched,
            bursts: bursts.and_then(|(after, before)| after.since(before)),
        }
    }
}

/// A stream whose reads and writes can have a timeout.
trait Stream: Read + Write + Send {
    fn set_timeouts(&self, timeout: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(timeout))?;
        self.set_read_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(timeout))?;
        self.set_read_timeout(Some(timeout))
    }
}

/// A connection that requests a server's `stats curtail`.
struct StatsClient {
    stream: BufReader<Box<dyn Stream>>,
    /// The longest time from a request to its complete answer. It is at most half of the interval,
    /// so that the first snapshot is complete before the second is due.
    timeout: Duration,
}

impl StatsClient {
    /// Connects to a server. Returns None if the server cannot be reached. The connections of the
    /// load report the error, because they cannot reach the server either.
    fn connect(target: &Target, timeout: Duration) -> Option<Self> {
        let stream: Box<dyn Stream> = match target {
            Target::Tcp(address) => Box::new(TcpStream::connect_timeout(address, timeout).ok()?),
            Target::Unix(path) => Box::new(UnixStream::connect(path).ok()?),
        };
        let stream = BufReader::new(stream);
        Some(Self { stream, timeout })
    }

    /// Requests `stats curtail` and returns the bursts in the answer. None: the server does not
    /// answer in time, or does not count bursts.
    fn bursts(&mut self) -> Option<Bursts> {
        let deadline = Instant::now() + self.timeout;
        self.stream.get_ref().set_timeouts(self.timeout).ok()?;
        self.stream.get_mut().write_all(b"stats curtail\r\n").ok()?;
        let mut text = String::new();
        while (text.len() as u64) < STATS_LEN_MAX {
            let time_left = deadline.checked_duration_since(Instant::now())?;
            self.stream.get_ref().set_timeouts(time_left).ok()?;
            let start = text.len();
            let mut line = (&mut self.stream).take(STATS_LINE_LEN_MAX);
            let len = line.read_line(&mut text).ok()?;
            match text[start..].trim_end() {
                "END" => return bursts_of(&text),
                line if len == 0 || !line.starts_with("STAT ") => return None,
                _ => {}
            }
        }
        None
    }
}

/// Parses the bursts in an answer to `stats curtail`. The rows `bursts_of_1`, `bursts_to_2`,
/// `bursts_to_4` and so on have the numbers of wake-ups with 1, 2, 3 to 4, … ready connections. The
/// row `bursts_connections` has the sum of the ready connections of all wake-ups. None: the server
/// does not count bursts.
fn bursts_of(stats: &str) -> Option<Bursts> {
    let mut counts = Vec::new();
    let mut connections = None;
    for line in stats.lines() {
        let Some((name, value)) = line
            .strip_prefix("STAT bursts_")
            .and_then(|it| it.split_once(' '))
        else {
            continue;
        };
        let value = value.trim().parse().ok()?;
        match name {
            "connections" => connections = Some(value),
            _ => counts.push(value),
        }
    }
    let connections = connections?;
    (!counts.is_empty()).then_some(Bursts {
        counts,
        connections,
    })
}

impl Bursts {
    /// Returns the bursts since an earlier snapshot, `before`. None: there were no bursts, or the
    /// server was restarted in between, which shows in a counter that has decreased.
    fn since(self, before: &Self) -> Option<Self> {
        let has_same_rows = self.counts.len() == before.counts.len();
        let counts: Option<Vec<u64>> = self
            .counts
            .iter()
            .zip(&before.counts)
            .map(|(after, before)| after.checked_sub(*before))
            .collect();
        let counts =
            counts.filter(|counts| has_same_rows && counts.iter().any(|&count| count > 0))?;
        Some(Self {
            counts,
            connections: self.connections.checked_sub(before.connections)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "STAT pid 7\r\nSTAT bursts_of_1 3\r\nSTAT bursts_to_2 4\r\n\
                         STAT bursts_of_more 1\r\nSTAT bursts_connections 30\r\nEND\r\n";

    fn bursts(counts: [u64; 3], connections: u64) -> Bursts {
        Bursts {
            counts: counts.to_vec(),
            connections,
        }
    }

    #[test]
    fn bursts_are_parsed_from_stats_in_order() {
        assert_eq!(bursts_of(STATS), Some(bursts([3, 4, 1], 30)));
        assert_eq!(bursts_of("STAT pid 7\r\nEND\r\n"), None);
        assert_eq!(bursts_of(&STATS.replace("to_2 4", "to_2 four")), None);
        assert_eq!(bursts_of(&STATS.replace("connections", "else")), None);
    }

    #[test]
    fn bursts_of_the_interval_are_the_difference_of_two_snapshots() {
        let after = || bursts([3, 4, 1], 30);
        let difference = after().since(&bursts([1, 4, 0], 20));
        assert_eq!(difference, Some(bursts([2, 0, 1], 10)));
        // A counter has decreased, so the server was restarted.
        assert_eq!(after().since(&bursts([4, 0, 0], 20)), None);
        // No counter has changed.
        assert_eq!(after().since(&after()), None);
    }
}
