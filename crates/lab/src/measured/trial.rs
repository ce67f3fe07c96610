//! One trial: start what runs beside the load, load it, read what was measured, stop it all.
//!
//! A failure of a server or the load is the trial's result. Only the user and an unusable run
//! folder or system end the run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use ::load::summary::Summary;
use hosts::{Hosts, RelayRecord};
use power::root::Root;
use report::record::Factors;
use sys::machine::Ticks;
use units::duration_argument;

use super::agents::Agents;
use super::beside::Running;
use super::disk::RunningDisk;
use super::energy::{EnergyUsed, EnergyWindow};
use super::extract::{self, MetricTable};
use super::load::{Load, LoadTable};
use super::pins::cpu_list;
use super::task::{Ended, SUMMARY, Task};
use super::words::Words;
use super::{ProgramTable, Setup, Side, capacity, summary};
use crate::error::Error;
use crate::interval::{Edge, Interval};
use crate::kind::{Context, Performed, Trial, TrialError};
use crate::limits;
use crate::relayed;

pub(super) fn perform(
    setup: &Setup,
    trial: &Trial<'_>,
    context: &Context<'_>,
) -> Result<Performed, TrialError> {
    let table = setup.hosts.at(trial.factors).map_err(TrialError::Failed)?;
    // Each trial has hosts of its own: none inherits connections in TIME_WAIT, and the same frames
    // are lost for the same seed.
    let hosts = table.open(trial.seed, &setup.pins.server, &setup.pins.load)?;
    let mut words = Words::of(setup, trial, &hosts, context)?;
    // It is dropped after what runs on it.
    let disk = setup.disk.as_ref();
    let disk = disk
        .map(|it| RunningDisk::start(it, &words, context))
        .transpose()?;
    if let Some(disk) = &disk {
        words = words.on_disk(Some(disk.pid()));
    }
    let server = setup
        .server(trial.factors)
        .map(super::servers::ServerTable::process);
    let mut running = Vec::new();
    for it in server.iter().chain(&setup.beside) {
        running.push(Running::start_pinned(it, setup, &words, context)?);
    }
    let stage = Staged {
        setup,
        trial,
        context,
        hosts: &hosts,
        words: &words,
        clients: usize::from(table.clients),
    };
    let ticks = || [&setup.pins.server, &setup.pins.load].map(|cpus| Ticks::now(cpus));
    let before = ticks();
    let mut notes = Vec::new();
    let result = stage.run_before(&running).and_then(|noted| {
        notes.extend(noted);
        if let Some(disk) = &disk {
            disk.begin_delays()?;
        }
        stage.run(&running)
    });
    let after = ticks();
    // A process that has exited explains the failure of the load.
    if !matches!(result, Err(TrialError::StopRequested | TrialError::Run(_))) {
        for it in &mut running {
            it.check(result.is_err())?;
        }
    }
    let mut done = result?;
    if let Some(disk) = &disk {
        disk.add_metrics(&mut done.performed.measured)?;
    }
    done.performed.notes.splice(0..0, notes);
    for it in running.into_iter().rev() {
        let (name, log) = (it.name().to_owned(), it.log().to_owned());
        done.performed.notes.extend(it.stop(context)?);
        add_metrics_of(&name, &log, setup, &mut done.performed)?;
    }
    if let Some(disk) = disk {
        done.performed.notes.extend(disk.stop(context)?);
    }
    let measured = &mut done.performed.measured;
    for (at, (name, ..)) in super::AROUND.iter().enumerate() {
        if let (Some(before), Some(after)) = (before[at], after[at])
            && let Some(share) = after.stolen_since(before)
        {
            measured.metrics.insert((*name).to_owned(), share);
        }
    }
    if let Some(record) = &done.relay {
        relayed::add(record, measured);
    }
    if let Some(energy) = &done.energy {
        energy.add(done.requests, measured);
    }
    Ok(done.performed)
}

/// A trial whose processes beside the load are ready.
struct Staged<'a> {
    setup: &'a Setup,
    trial: &'a Trial<'a>,
    context: &'a Context<'a>,
    hosts: &'a Hosts,
    words: &'a Words<'a>,
    clients: usize,
}

struct Done {
    performed: Performed,
    /// Requests that were answered while the energy was measured.
    requests: Option<f64>,
    energy: Option<EnergyUsed>,
    relay: Option<RelayRecord>,
}

const SLEEPS: &str = "the agents have more threads than processors, so they slept between requests \
    instead of polling, which adds their wake-up latency";

impl Staged<'_> {
    /// A command on the first client's host.
    fn task<'b>(
        &'b self,
        what: &'static str,
        command: &'b [String],
        input: &'b [String],
    ) -> Task<'b> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let program = self.setup.program.as_ref();
        Task {
            prefix: String::new(),
            what,
            log: String::new(),
            command,
            input,
            environment: program.map_or(&NONE, |it| &it.environment),
            side: Side::Client,
            cpus: &self.setup.pins.load,
            goes_first: self.setup.pins.go_first,
            success: &[0],
            timeout: limits::PROGRAM_TIMEOUT,
            clients: 1,
        }
    }

    /// Runs the commands before the load, one after another. Returns remarks on them.
    fn run_before(&self, beside: &[Running]) -> Result<Vec<String>, TrialError> {
        let mut notes = Vec::new();
        for (nth, before) in self.setup.before.iter().enumerate() {
            let task = Task {
                prefix: format!("before-{nth}: "),
                log: format!("before-{nth}."),
                timeout: before.timeout,
                ..self.task("the program", &before.command, &before.input)
            };
            let mut watch = || Ok(limits::METER_GAP);
            notes.extend(task.run(self.words, beside, self.context, &mut watch)?.1);
        }
        Ok(notes)
    }

    fn run(&self, beside: &[Running]) -> Result<Done, TrialError> {
        match (&self.setup.load, &self.setup.program) {
            (Some(table), _) => {
                let load = table.at(self.trial.factors).map_err(|problems| {
                    let texts = problems.iter().map(|(key, text)| format!("`{key}` {text}"));
                    TrialError::Failed(texts.collect::<Vec<_>>().join("; "))
                })?;
                self.run_load(table, &load, beside)
            }
            (None, Some(program)) => self.run_program(program, beside),
            (None, None) => Err(TrialError::Failed("the plan has no load".to_owned())),
        }
    }

    fn run_load(
        &self,
        table: &LoadTable,
        load: &Load<'_>,
        beside: &[Running],
    ) -> Result<Done, TrialError> {
        let (setup, trial, context) = (self.setup, self.trial, self.context);
        // Generators with an input of their own are not the agents of one load.
        let agents = match table.has_agents() {
            true => Agents::start(
                setup,
                trial,
                context,
                self.hosts,
                self.words,
                load.config.threads as usize,
            )?,
            false => None,
        };
        let times = setup.times();
        let [warmup, interval] = times.map(Option::unwrap_or_default);
        let mut notes = Vec::new();
        let mut command = self.words_of_load(load, beside, agents.as_ref());
        if agents.is_some() && self.agents_must_sleep(load)? {
            command.push("--no-spin".to_owned());
            notes.push(SLEEPS.to_owned());
        }
        let task = Task {
            // The server's host alone reaches all agents.
            side: if agents.is_some() {
                Side::Server
            } else {
                Side::Client
            },
            timeout: match times[1] {
                Some(_) => warmup + interval + context.options.timeouts.generator,
                None => limits::SCRIPT_TIMEOUT,
            },
            clients: if table.has_agents() { 1 } else { self.clients },
            ..self.task("the generator", &command, &table.input)
        };
        // Of several generators, which start together, the first one's.
        let several = task.clients > 1;
        let output = context.log(trial.id, if several { "stdout-0" } else { "stdout" });
        self.hosts.take_relay_record()?;
        let interval = Interval::new(&output, warmup, interval);
        // Without a warm-up nothing tells when the interval begins: all of the load is it.
        let is_all = interval.pause().is_none();
        let mut windows = Windows {
            interval,
            hosts: self.hosts,
            relay: None,
            energy: is_all.then(|| EnergyWindow::begin(Root::machine())),
            used: None,
        };
        let mut watch = || windows.advance();
        // A generator is not on the server's disk.
        let words = self.words.on_disk(None);
        let (ended, noted) = task.run(&words, beside, context, &mut watch)?;
        notes.extend(noted);
        // A generator may exit before the end of its interval is noticed.
        let energy = windows.energy.map(EnergyWindow::end);
        let energy = windows.used.or(energy);
        let relay = match windows.relay {
            Some(record) => record,
            // Without a warm-up, it is that of all the load.
            None => self.hosts.take_relay_record()?,
        };
        let mut summaries = Vec::new();
        for of in &ended {
            summaries.push(summary::parse(&read(&of.logs.summary)?).map_err(TrialError::Failed)?);
        }
        let is_late = relay.as_ref().is_some_and(relayed::is_limit);
        let connections = Some(load.config.connections);
        let mut done = self.summarised(&summaries, connections, &ended, is_late)?;
        // Record and histograms hold the summary now. A rejected one remains for inspection.
        for of in &ended {
            fs::remove_file(&of.logs.summary).map_err(Error::file("remove", &of.logs.summary))?;
        }
        done.performed.notes.splice(0..0, notes);
        Ok(Done {
            relay,
            energy,
            ..done
        })
    }

    /// The command of a generator, or of the coordinator of `agents`.
    fn words_of_load(
        &self,
        load: &Load<'_>,
        beside: &[Running],
        agents: Option<&Agents>,
    ) -> Vec<String> {
        let (setup, trial) = (self.setup, self.trial);
        let mut words = load.command(&capacity::rate(trial.resolved), trial.seed);
        let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        for (name, time) in ["warmup", "duration"].into_iter().zip(setup.times()) {
            if let Some(time) = time {
                let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                option(name, duration_argument(ns));
            }
        }
        option("json", format!("{{{SUMMARY}}}"));
        let server = setup.server(trial.factors);
        if let (Some(_), Some(process)) = (server, beside.first()) {
            option("watch-pid", process.process().id().to_string());
        }
        if let Some(cpu) = setup.pins.server.first()
            && setup.hosts.detect_stalls
        {
            option("detect-stalls", cpu.to_string());
        }
        // Agents have their own.
        if !setup.pins.load.is_empty() && agents.is_none() {
            option("cpus", cpu_list(&setup.pins.load));
        }
        if let Some(server) = server
            && load.is_memcached()
        {
            words.push("--watch-bursts".to_owned());
            words.extend(server.prefill.then(|| "--prefill".to_owned()));
        }
        if load.is_separate() {
            // The same records as all clients have, and other requests.
            words.extend(["--repeat", "{client}"].map(str::to_owned));
        }
        words.extend(agents.map(Agents::arguments).unwrap_or_default());
        words
    }

    /// Whether agents share processors. A thread that polls would then delay the others'.
    fn agents_must_sleep(&self, load: &Load<'_>) -> Result<bool, TrialError> {
        let processors = match self.setup.pins.load.as_slice() {
            [] => sys::thread::allowed_cpus()
                .map_err(Error::system("read the processors this process may use"))?
                .len(),
            cpus => cpus.len(),
        };
        Ok(self.hosts.clients() * load.config.threads as usize > processors)
    }

    fn run_program(&self, table: &ProgramTable, beside: &[Running]) -> Result<Done, TrialError> {
        let task = Task {
            success: &table.success,
            timeout: table.timeout,
            clients: self.clients,
            ..self.task("the program", &table.command, &table.input)
        };
        self.hosts.take_relay_record()?;
        let mut energy = EnergyWindow::begin(Root::machine());
        let mut watch = || {
            energy.sample();
            Ok(limits::METER_GAP)
        };
        let (ended, notes) = task.run(self.words, beside, self.context, &mut watch)?;
        let energy = energy.end();
        let relay = self.hosts.take_relay_record()?;
        let mut summaries = Vec::new();
        if table.summary {
            for of in &ended {
                let none = || Err("the output has no summary of `curtail load`".to_owned());
                let found = summary::find(&read(&of.logs.stdout)?).unwrap_or_else(none);
                summaries.push(found.map_err(TrialError::Failed)?);
            }
        }
        let is_late = relay.as_ref().is_some_and(relayed::is_limit);
        let mut done = self.summarised(&summaries, None, &ended, is_late)?;
        done.performed.measured.metrics.extend(own(&ended));
        done.performed.notes.splice(0..0, notes);
        let seconds = energy.elapsed.as_secs_f64();
        if let Some(interval_ns) = done.performed.measured.metric("duration_ns") {
            // The energy is that of the whole program: its power, divided by the rate.
            done.requests = done.requests.map(|it| it / interval_ns * 1e9 * seconds);
        }
        if let Some(name) = &table.requests {
            let unit = self.setup.metric.iter().find(|it| it.name == *name);
            let is_rate = unit.is_some_and(|it| it.unit == "/s");
            let value = done.performed.measured.valid(name);
            let of_metric = if is_rate { seconds } else { 1.0 };
            done.requests = value.map(|it| it * of_metric);
        }
        Ok(Done {
            relay,
            energy: Some(energy),
            ..done
        })
    }

    fn summarised(
        &self,
        summaries: &[Summary],
        connections: Option<u32>,
        ended: &[Ended],
        is_relay_limited: bool,
    ) -> Result<Done, TrialError> {
        let setup = self.setup;
        let of = summary::summarise(summaries, connections, setup.failures_max, is_relay_limited);
        let of = of.map_err(TrialError::Failed)?;
        let (mut measured, histograms) = (of.measured, of.histograms);
        let requests = Some(of.answers).filter(|_| !summaries.is_empty());
        let metrics = metrics_from(setup, None);
        let mut each = Vec::new();
        for (number, of) in ended.iter().enumerate() {
            each.push(
                self.read_metrics(&metrics, of)
                    .map_err(|error| match error {
                        TrialError::Failed(reason) if ended.len() > 1 => {
                            TrialError::Failed(format!("client {number}: {reason}"))
                        }
                        error => error,
                    })?,
            );
        }
        let Performed {
            measured: declared,
            notes,
        } = extract::combined(&metrics, each);
        measured.metrics.extend(declared.metrics);
        measured.series.extend(declared.series);
        measured.flags.extend(declared.flags);
        self.context
            .keep_histograms(self.trial.id, histograms, &mut measured)?;
        for of in ended {
            for path in [&of.logs.stdout, &of.logs.stderr] {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                let name = path.extension().unwrap_or_default().to_string_lossy();
                measured
                    .artefacts
                    .insert(name.into_owned(), format!("logs/{file}"));
            }
        }
        Ok(Done {
            performed: Performed { measured, notes },
            requests,
            energy: None,
            relay: None,
        })
    }

    fn read_metrics(&self, metrics: &[MetricTable], of: &Ended) -> Result<Performed, TrialError> {
        if metrics.is_empty() {
            return Ok(Performed::default());
        }
        let (stdout, stderr) = (read(&of.logs.stdout)?, read(&of.logs.stderr)?);
        let file = |path: &str| {
            let path = self.words.fill(path).unwrap_or_default();
            let text = fs::metadata(&path)
                .map_err(|error| error.to_string())
                .and_then(|_| read(Path::new(&path)).map_err(|error| format!("{error:?}")));
            text.map_err(|error| format!("{path}: {error}"))
        };
        extract::measured(metrics, &stdout, &stderr, &file).map_err(TrialError::Failed)
    }
}

struct Windows<'a> {
    interval: Interval<'a>,
    hosts: &'a Hosts,
    /// The relay's record without the frames of the prefill, which come in bursts. None: the
    /// interval is not over, or cannot be noticed.
    relay: Option<Option<RelayRecord>>,
    energy: Option<EnergyWindow>,
    used: Option<EnergyUsed>,
}

impl Windows<'_> {
    fn advance(&mut self) -> Result<Duration, TrialError> {
        if let Some(energy) = &mut self.energy {
            energy.sample();
        }
        if let Some(edge) = self.interval.advance() {
            // Its counters are as of now, and the relay's wait until they are taken.
            match edge {
                Edge::Begin => self.energy = Some(EnergyWindow::begin(Root::machine())),
                Edge::End => self.used = self.energy.take().map(EnergyWindow::end),
            }
            let record = self.hosts.take_relay_record()?;
            self.relay = (edge == Edge::End).then_some(record);
        }
        Ok(self
            .interval
            .pause()
            .unwrap_or(limits::METER_GAP)
            .min(limits::METER_GAP))
    }
}

/// Adds the metrics that are read from the log of a process beside the load. It was stopped, so
/// the log has what it printed at its end.
fn add_metrics_of(
    name: &str,
    log: &Path,
    setup: &Setup,
    performed: &mut Performed,
) -> Result<(), TrialError> {
    let tables = metrics_from(setup, Some(name));
    if tables.is_empty() {
        return Ok(());
    }
    let no_file = |_: &str| Err("is of the load".to_owned());
    let of = extract::measured(&tables, &read(log)?, "", &no_file);
    let of = of.map_err(|reason| TrialError::Failed(format!("{name}: {reason}")))?;
    performed.measured.metrics.extend(of.measured.metrics);
    performed.measured.series.extend(of.measured.series);
    performed.measured.flags.extend(of.measured.flags);
    performed.notes.extend(of.notes);
    Ok(())
}

/// The metrics that are read from the output of a process beside the load. None: of the load.
fn metrics_from(setup: &Setup, name: Option<&str>) -> Vec<MetricTable> {
    let metrics = setup.metric.iter();
    metrics
        .filter(|it| it.from.as_deref() == name)
        .cloned()
        .collect()
}

/// What is measured of every program: of several clients, the longest time, the first exit status
/// that is not 0, and the sums of all else.
fn own(clients: &[Ended]) -> [(String, f64); 7] {
    let sum = |of: fn(&Ended) -> u64| clients.iter().map(of).sum::<u64>() as f64;
    let longest = clients
        .iter()
        .map(|it| it.elapsed)
        .max()
        .unwrap_or_default();
    let mut statuses = clients.iter().filter_map(|it| it.status.code());
    let status = statuses.find(|&it| it != 0).unwrap_or_default();
    [
        ("elapsed_ns", longest.as_nanos() as f64),
        ("user_ns", sum(|it| it.usage.user_ns)),
        ("system_ns", sum(|it| it.usage.system_ns)),
        ("resident_bytes", sum(|it| it.usage.resident_bytes)),
        ("voluntary_switches", sum(|it| it.usage.voluntary_switches)),
        (
            "involuntary_switches",
            sum(|it| it.usage.involuntary_switches),
        ),
        ("exit_status", f64::from(status)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// An output in full: a part of a longer one would give wrong metrics.
fn read(path: &Path) -> Result<String, TrialError> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    let mut bytes = Vec::new();
    file.take(limits::SUMMARY_LEN + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::file("read", path))?;
    if bytes.len() as u64 > limits::SUMMARY_LEN {
        let most = limits::SUMMARY_LEN >> 20;
        let reason = format!("the program printed more than {most} MiB, too much for its metrics");
        return Err(TrialError::Failed(reason));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Completes the servers by their versions: a different version makes a different run.
pub(super) fn add_versions(
    setup: &mut Setup,
    cells: &[Factors],
    context: &Context<'_>,
    hosts: &Hosts,
) -> Result<(), Error> {
    let own = context.options.curtail.to_string_lossy().into_owned();
    for nth in 0..setup.server.len() {
        let server = &setup.server[nth];
        // On a disk, it may not start without its files.
        if server.skipped.is_some() || server.ready.is_some() || setup.disk.is_some() {
            continue;
        }
        // The arguments may contain factors: those of the server's first cell.
        let mut cells = cells.iter().filter(|it| {
            let of = it.get(report::record::names::SERVER);
            of.is_some_and(|it| it.to_string() == server.name)
        });
        let factors = cells.next().cloned().unwrap_or_default();
        let probe = Trial {
            id: "probe",
            factors: &factors,
            resolved: &BTreeMap::new(),
            seed: 0,
        };
        let words = Words::of(setup, &probe, hosts, context)?;
        let started = Running::start_pinned(&server.process(), setup, &words, context);
        let version = match started {
            // Its trials record why it does not start.
            Err(TrialError::Failed(_)) => None,
            Err(TrialError::Run(error)) => return Err(error),
            Err(TrialError::StopRequested | TrialError::Final(_)) => {
                return Err(Error::StoppedEarly);
            }
            // This build replies with the memcached version it is compatible with.
            Ok(running) if server.command.contains(&own) => {
                running.stop(context)?;
                Some(format!("{} (this build)", env!("CARGO_PKG_VERSION")))
            }
            Ok(mut running) => {
                let version = running.version.take();
                running.stop(context)?;
                version
            }
        };
        setup.server[nth].version = version;
    }
    Ok(())
}
