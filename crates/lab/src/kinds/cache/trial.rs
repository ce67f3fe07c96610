//! One trial: start the server, prefill and load it, read its resource usage, stop it.
//!
//! A failure of the server or the generator is the trial's result. Only the user and an unusable
//! run folder or system end the run.

use report::cache::folder::{Load, Stolen};
use report::cache::{SERVER, artefacts, encode};
use report::record::Factors;
use sys::machine::Ticks;

use super::{Cache, energy, generator, server, summary};
use crate::error::Error;
use hosts::Hosts;
use crate::relayed;
use crate::kind::{Context, Performed, Trial, TrialError};
use crate::placeholder;
use crate::process::with_last_lines;

/// Makes a trial. Its offered rate is resolved; none: closed loop at full rate.
pub(super) fn perform(
    cache: &Cache,
    trial: &Trial<'_>,
    context: &Context<'_>,
) -> Result<Performed, TrialError> {
    let failed = |reason: &str| TrialError::Failed(reason.to_owned());
    let server = cache
        .server(trial.factors)
        .ok_or_else(|| failed("the plan has no such server"))?;
    let command = filled(&server.command, trial.factors);
    let log = context.log(trial.id, "server");
    let hosts = cache.hosts.at(trial.factors).map_err(TrialError::Failed)?;
    let [server_cpus, load_cpus] = [&cache.settings.server_cpus, &cache.settings.load_cpus];
    // Each trial has hosts of its own: none inherits connections in TIME_WAIT, and the same frames
    // are lost for the same seed.
    let hosts = hosts.open(trial.seed, server_cpus, load_cpus)?;
    let server = server::start(cache, context, &hosts, &command, Some(&log))?;
    let ticks = || [server_cpus, load_cpus].map(|cpus| Ticks::now(cpus));
    let before = ticks();
    let mut measured = generator::run(cache, trial, context, &server, &hosts);
    if let Ok(generated) = &mut measured {
        generated.measured.measurement.stolen = stolen(before, ticks());
    }
    // The server is stopped in any case; its failure explains that of the generator.
    let abnormal = matches!(measured, Err(TrialError::Failed(_)));
    let mut notes = Vec::new();
    match server.stop(context, abnormal)? {
        server::ServerExit::Clean => {}
        server::ServerExit::Abnormal(note) => notes.push(note),
        server::ServerExit::Early(status) => {
            let is_other = matches!(
                measured,
                Err(TrialError::StopRequested | TrialError::Run(_))
            );
            if !is_other {
                let reason = format!("the server exited during the trial ({status})");
                return Err(TrialError::Failed(with_last_lines(&reason, &log)));
            }
        }
    }
    let generated = measured?;
    notes.extend(generated.notes);
    let summary::Measured {
        measurement,
        histograms,
        stalls,
        answers,
        connection_bytes,
    } = generated.measured;
    let mut encoded = encode(&measurement);
    if let Some(bytes) = connection_bytes {
        let name = summary::CONNECTION_BYTES.to_owned();
        encoded.metrics.insert(name, bytes);
    }
    if let Some(joules) = generated.joules {
        energy::add(joules, answers, &mut encoded);
    }
    if let Some(stalls) = &stalls {
        stalls.add_to(&mut encoded);
    }
    if let Some(record) = &generated.relay
        && relayed::add(record, &mut encoded)
    {
        flag_latencies(&mut encoded);
    }
    let text = serde_json::to_vec(&histograms).map_err(|error| Error::Encode {
        what: "a histogram",
        problem: error.to_string(),
    });
    context.write(&format!("histograms/{}.hist", trial.id), &text?)?;
    encoded.artefacts = artefacts(trial.id, &measurement);
    Ok(Performed {
        measured: encoded,
        notes,
    })
}

/// Latencies that a relay lengthened do not count, nor does the rate of a closed loop, which they
/// limit.
fn flag_latencies(measured: &mut report::record::Measured) {
    let is_latency = |name: &&String| {
        let prefixes = ["response_", "service_", "slip_"];
        prefixes.iter().any(|it| name.starts_with(it)) && name.ends_with("_ns")
    };
    let mut names: Vec<String> = measured.metrics.keys().filter(is_latency).cloned().collect();
    if !measured.metrics.contains_key("response_p99_ns") {
        names.push("achieved_rps".to_owned());
    }
    for name in names {
        let flag = measured.flags.entry(name).or_default();
        let reason = || relayed::RELAY_LIMITED.to_owned();
        flag.invalid.get_or_insert_with(reason);
    }
}

/// A command with the values of the factors in place of their names. Other placeholders stay: the
/// server's start replaces them.
fn filled(command: &[String], factors: &Factors) -> Vec<String> {
    let value = |name: &str| match factors.get(name) {
        Some(value) => Some(value.to_string()),
        None => Some(format!("{{{name}}}")),
    };
    let fill = |word: &String| placeholder::fill(word, value).unwrap_or_default();
    command.iter().map(fill).collect()
}

/// Completes the servers by their versions: a different version makes a different run.
pub(super) fn add_versions(
    cache: &mut Cache,
    cells: &[Factors],
    context: &Context<'_>,
    hosts: &Hosts,
) -> Result<(), Error> {
    let probing = cache.clone();
    let own = context.options.curtail.to_string_lossy().into_owned();
    // The arguments may contain factors: those of the server's first cell.
    let first = |name: &str| {
        let mut cells = cells.iter();
        let is_of = |it: &&Factors| it.get(SERVER).is_some_and(|it| it.to_string() == name);
        cells.find(is_of).cloned().unwrap_or_default()
    };
    let servers = cache.settings.servers.iter_mut();
    for server in servers.filter(|server| server.skipped.is_none()) {
        // It may be run by another program.
        let is_own = server.command.contains(&own);
        let command = filled(&server.command, &first(&server.name));
        server.version = match server::probe_version(&probing, context, hosts, &command) {
            // This build replies to `version` with the memcached version it is compatible with.
            Ok(Some(_)) if is_own => Some(format!("{} (this build)", env!("CARGO_PKG_VERSION"))),
            Ok(version) => version,
            Err(TrialError::Run(error)) => return Err(error),
            Err(TrialError::StopRequested | TrialError::Failed(_) | TrialError::Final(_)) => {
                return Err(Error::StoppedEarly);
            }
        };
    }
    Ok(())
}

/// The settings as lines for a terminal.
pub(super) fn describe(cache: &Cache) -> Vec<String> {
    let settings = &cache.settings;
    let mut lines = Vec::new();
    for server in &settings.servers {
        lines.push(match &server.skipped {
            Some(reason) => format!("skipped  {}: {reason}", server.name),
            None => format!("server   {}: {}", server.name, server.command.join(" ")),
        });
    }
    let load = &settings.load;
    lines.push(format!(
        "load     {} connections of depth {}, {} thread{}; keys {}, values {}, arrivals {}, \
         popularity {}, {}, {} records{}",
        load.connections,
        load.depth,
        load.threads,
        if load.threads == 1 { "" } else { "s" },
        load.keys,
        load.values,
        load.arrivals,
        load.popularity,
        operations(load),
        load.records,
        saturating(load),
    ));
    let list = |cpus: &[usize]| match cpus {
        [] => "not pinned".to_owned(),
        cpus => format!("on {}", cpu_list(cpus)),
    };
    let first = if settings.goes_first {
        ", both at nice -20"
    } else {
        ""
    };
    lines.push(format!(
        "pinned   server {}, generator {}{first}",
        list(&settings.server_cpus),
        list(&settings.load_cpus)
    ));
    if !cache.hosts.is_default() {
        lines.push(format!("hosts    {}", cache.hosts.words([])));
    }
    lines.push(format!("trial    {}", cache.times()));
    lines
}

fn operations(load: &Load) -> String {
    match load.mix.as_str() {
        "" => format!("updates {} %", (load.update * 1e4).round() / 1e2),
        mix if load.multiget.is_empty() => mix.to_owned(),
        mix => format!("{mix}, {} keys of a multiget", load.multiget),
    }
}

fn saturating(load: &Load) -> String {
    match load.saturating {
        0 => String::new(),
        count => format!("; {count} saturating of depth {}", load.saturating_depth),
    }
}

/// Processors as `taskset` writes them.
pub(crate) fn cpu_list(cpus: &[usize]) -> String {
    let words: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    words.join(",")
}

/// Steal time on the server's and the generator's processors.
fn stolen(before: [Option<Ticks>; 2], after: [Option<Ticks>; 2]) -> Option<Stolen> {
    let share = |index: usize| after[index]?.stolen_since(before[index]?);
    Some(Stolen {
        server: share(0)?,
        load: share(1)?,
    })
}
