//! The load generator of one trial: `curtail load` in a process of its own, so that its processor
//! time and its processors are separate from the lab's.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use report::cache::OFFERED_RPS;
use report::cache::folder::Load;
use units::{duration_argument, duration_text};

use super::agents::Agents;
use super::energy::EnergyWindow;
use super::server::Server;
use super::summary::{self, Measured};
use super::{Cache, cpu_list};
use crate::error::Error;
use crate::relayed::RelayWindow;
use hosts::{Hosts, RelayRecord};
use crate::interval::Interval;
use crate::kind::{Context, Trial, TrialError};
use crate::limits;
use crate::process::{Process, WaitResult, with_last_lines};

/// What the generator measured, and what happened on the way to the server meanwhile.
#[derive(Debug)]
pub(super) struct Generated {
    pub(super) measured: Measured,
    /// What the relay did in the measured interval. None: there is no relay.
    pub(super) relay: Option<RelayRecord>,
    /// Joules of packages and memory in the measured interval. None: they were not measured.
    pub(super) joules: Option<f64>,
    /// Remarks for the record.
    pub(super) notes: Vec<String>,
}

/// Prefills and loads `server`, and reads the summary.
pub(super) fn run(
    cache: &Cache,
    trial: &Trial<'_>,
    context: &Context<'_>,
    server: &Server,
    hosts: &Hosts,
) -> Result<Generated, TrialError> {
    let load = cache.load_at(trial.factors).map_err(TrialError::Failed)?;
    let agents = Agents::start(cache, trial, context, hosts, load.threads as usize)?;
    let energy = EnergyWindow::find(power::root::Root::machine());
    let files = Files::of(trial, context, hosts.has_relay() || energy.is_some());
    let create = |path: &Path| File::create(path).map_err(Error::file("create", path));
    let mut notes = Vec::new();
    let command = Command::new(&context.options.curtail);
    let mut command = match &agents {
        None => hosts.in_client(0, command),
        Some(_) => hosts.in_server(command),
    };
    command.args(arguments(cache, trial, &load, server, agents.as_ref()));
    command.arg("--json").arg(files.json());
    if must_sleep(cache, &load, hosts)? {
        command.arg("--no-spin");
        notes.push(SLEEPS.to_owned());
    }
    command
        .stdin(Stdio::null())
        .stdout(create(files.output())?)
        .stderr(create(&files.log)?);
    let settings = &cache.settings;
    let [warmup, interval] = [settings.warmup_ns, settings.trial_ns].map(Duration::from_nanos);
    let mut windows = Windows {
        interval: files
            .seconds
            .as_deref()
            .map(|seconds| Interval::new(seconds, warmup, interval)),
        relay: RelayWindow::begin(hosts)?,
        energy,
    };
    let mut generator = Process::start(&mut command, &settings.load_cpus, settings.goes_first)
        .map_err(|error| {
            TrialError::Failed(format!("the generator could not be started: {error}"))
        })?;
    let timeout = cache.interval() + context.options.timeouts.generator;
    wait(context, &mut windows, &generator, timeout, &files.log)?;
    let joules = windows.energy.as_ref().and_then(EnergyWindow::joules);
    let relay = windows.relay.end()?;
    let status = generator.finish()?;
    if !status.success() {
        let reason = format!("the generator failed ({status})");
        return Err(TrialError::Failed(with_last_lines(&reason, &files.log)));
    }
    let text = read_summary(&files.summary)?;
    let measured = summary::read(trial.id, &text, load.connections).map_err(TrialError::Failed)?;
    // Record and histograms contain the summary now. A rejected summary remains for inspection.
    files.remove()?;
    Ok(Generated {
        measured,
        relay,
        joules,
        notes,
    })
}

/// What is read at the ends of the measured interval.
struct Windows<'a> {
    /// None: there is nothing to read, and the generator prints no seconds.
    interval: Option<Interval<'a>>,
    relay: RelayWindow<'a>,
    energy: Option<EnergyWindow>,
}

impl Windows<'_> {
    fn advance(&mut self) -> Result<(), Error> {
        let Some(edge) = self.interval.as_mut().and_then(Interval::advance) else {
            return Ok(());
        };
        // Its counters are as of now, and the relay's wait until they are taken.
        if let Some(energy) = &mut self.energy {
            energy.note(edge);
        }
        Ok(self.relay.note(edge)?)
    }
}

/// The files that the generator writes. They are no pipes: the lab does not have to drain them
/// during the trial.
struct Files {
    log: PathBuf,
    summary: PathBuf,
    /// A line for each second. None: standard output has only the summary.
    seconds: Option<PathBuf>,
}

impl Files {
    /// With `seconds`, the generator tells when the measured interval begins.
    fn of(trial: &Trial<'_>, context: &Context<'_>, seconds: bool) -> Self {
        let log = |of| context.log(trial.id, of);
        Self {
            log: log("load"),
            summary: log("summary"),
            seconds: seconds.then(|| log("seconds")),
        }
    }

    /// Where standard output goes.
    fn output(&self) -> &Path {
        self.seconds.as_ref().unwrap_or(&self.summary)
    }

    /// The value of `--json`.
    fn json(&self) -> &Path {
        match self.seconds {
            Some(_) => &self.summary,
            None => Path::new("-"),
        }
    }

    fn remove(&self) -> Result<(), Error> {
        let mut all = [Some(&self.summary), self.seconds.as_ref()].into_iter().flatten();
        all.try_for_each(|path| fs::remove_file(path).map_err(Error::file("remove", path)))
    }
}

/// Waits until the generator exits.
fn wait(
    context: &Context<'_>,
    windows: &mut Windows<'_>,
    generator: &Process,
    timeout: Duration,
    log: &Path,
) -> Result<(), TrialError> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let pause = windows.interval.as_ref().and_then(Interval::pause);
        let pause = pause.map_or(left, |pause| pause.min(left));
        match generator.wait(pause, Some(context.stop_signals))? {
            WaitResult::Exited => return Ok(()),
            WaitResult::StopRequested => return Err(TrialError::StopRequested),
            WaitResult::TimedOut if Instant::now() < deadline => windows.advance()?,
            WaitResult::TimedOut => {
                let timeout = duration_text(timeout);
                let reason = format!("the generator did not exit within {timeout}");
                return Err(TrialError::Failed(with_last_lines(&reason, log)));
            }
        }
    }
}

const SLEEPS: &str = "the agents have more threads than processors, so they slept between requests \
    instead of polling, which adds their wake-up latency";

/// Whether agents share processors. A thread that polls would then delay the others'.
fn must_sleep(cache: &Cache, load: &Load, hosts: &Hosts) -> Result<bool, TrialError> {
    if hosts.clients() < 2 {
        return Ok(false);
    }
    let processors = match cache.settings.load_cpus.as_slice() {
        [] => sys::thread::allowed_cpus()
            .map_err(Error::system("read the processors this process may use"))?
            .len(),
        cpus => cpus.len(),
    };
    Ok(hosts.clients() * load.threads as usize > processors)
}

fn arguments(
    cache: &Cache,
    trial: &Trial<'_>,
    load: &Load,
    server: &Server,
    agents: Option<&Agents>,
) -> Vec<String> {
    let settings = &cache.settings;
    let offered_rps = trial.resolved.get(OFFERED_RPS);
    let rate = offered_rps.map_or_else(|| "max".to_owned(), ToString::to_string);
    let mut arguments = vec!["load".to_owned(), server.address.to_string()];
    let mut option = |name: &str, value: &dyn ToString| {
        arguments.extend([format!("--{name}"), value.to_string()]);
    };
    option("rate", &rate);
    option("connections", &load.connections);
    option("depth", &load.depth);
    option("threads", &load.threads);
    option("keys", &load.keys);
    option("values", &load.values);
    option("arrivals", &load.arrivals);
    option("popularity", &load.popularity);
    if load.mix.is_empty() {
        option("update", &load.update);
    } else {
        option("mix", &load.mix);
    }
    if !load.multiget.is_empty() {
        option("multiget", &load.multiget);
    }
    option("records", &load.records);
    option("warmup", &duration_argument(settings.warmup_ns));
    option("duration", &duration_argument(settings.trial_ns));
    option("seed", &trial.seed);
    if load.saturating > 0 {
        option("saturating", &load.saturating);
        option("saturating-depth", &load.saturating_depth);
    }
    option("watch-pid", &server.id());
    if let Some(cpu) = settings.server_cpus.first()
        && cache.hosts.detect_stalls
    {
        option("detect-stalls", cpu);
    }
    // Agents have their own.
    if !settings.load_cpus.is_empty() && agents.is_none() {
        option("cpus", &cpu_list(&settings.load_cpus));
    }
    if cache.declares_prefill(trial.factors) {
        arguments.push("--prefill".to_owned());
    }
    arguments.push("--watch-bursts".to_owned());
    arguments.extend(agents.map(Agents::arguments).unwrap_or_default());
    arguments
}

fn read_summary(path: &Path) -> Result<String, TrialError> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    let mut bytes = Vec::new();
    file.take(limits::SUMMARY_LEN)
        .read_to_end(&mut bytes)
        .map_err(Error::file("read", path))?;
    String::from_utf8(bytes)
        .map_err(|_| TrialError::Failed("the generator's summary is not text".to_owned()))
}
