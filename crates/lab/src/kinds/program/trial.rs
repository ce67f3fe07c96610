//! One trial: start what runs beside the program, run it, and read its output.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use power::root::Root;
use report::record::Measured;

use super::Program;
use super::beside::Running;
use super::combine;
use super::disk::RunningDisk;
use super::energy::{EnergyUsed, EnergyWindow};
use super::extract::{self, MetricTable};
use super::histogram;
use super::task::{Logs, Task};
use super::words::Words;
use crate::error::Error;
use hosts::RelayRecord;
use crate::relayed;
use crate::kind::{Context, Performed, Trial, TrialError};
use crate::limits;

/// Makes a trial.
pub(super) fn perform(
    program: &Program,
    trial: &Trial<'_>,
    context: &Context<'_>,
) -> Result<Performed, TrialError> {
    let table = program.hosts.at(trial.factors);
    let table = table.map_err(TrialError::Failed)?;
    let hosts = table.open(trial.seed, &program.server_cpus(), &program.program.cpus)?;
    let mut words = Words::of(program, trial, &hosts, context)?;
    // It is dropped after what runs on it.
    let disk = program.disk.as_ref();
    let disk = disk.map(|it| RunningDisk::start(it, &words, context)).transpose()?;
    if let Some(disk) = &disk {
        words = words.on_disk(disk.pid());
    }
    let mut beside = Vec::new();
    for it in &program.beside {
        beside.push(Running::start(it, &words, context)?);
    }
    let clients = usize::from(table.clients);
    let mut notes = Vec::new();
    let result = run_before(program, clients, &words, &beside, context).and_then(|noted| {
        notes.extend(noted);
        hosts.take_relay_record()?;
        if let Some(disk) = &disk {
            disk.begin_delays()?;
        }
        run(program, clients, &words, &beside, context)
    });
    // A process beside the program that has exited explains the program's failure.
    if !matches!(result, Err(TrialError::StopRequested | TrialError::Run(_))) {
        for running in &mut beside {
            running.check()?;
        }
    }
    let (mut performed, energy) = result?;
    if let Some(record) = hosts.take_relay_record()? {
        add_relay(program, &record, &mut performed.measured);
    }
    if let Some(disk) = &disk {
        disk.add_metrics(&mut performed.measured)?;
    }
    performed.notes.splice(0..0, notes);
    for running in beside.into_iter().rev() {
        let (name, log) = (running.name().to_owned(), running.log().to_owned());
        performed.notes.extend(running.stop(context)?);
        add_metrics_of(&name, &log, program, &mut performed)?;
    }
    if let Some(disk) = disk {
        performed.notes.extend(disk.stop(context)?);
    }
    energy.add(program.requests(), &mut performed.measured);
    Ok(performed)
}

/// Adds the metrics that are read from the log of a process beside the program. It was stopped, so
/// the log has what it printed at its end.
fn add_metrics_of(
    name: &str,
    log: &Path,
    program: &Program,
    performed: &mut Performed,
) -> Result<(), TrialError> {
    let tables = metrics_from(program, Some(name));
    if tables.is_empty() {
        return Ok(());
    }
    let of = extract::measured(&tables, &read(log)?, "");
    let of = of.map_err(|reason| TrialError::Failed(format!("{name}: {reason}")))?;
    performed.measured.metrics.extend(of.measured.metrics);
    performed.measured.series.extend(of.measured.series);
    performed.measured.flags.extend(of.measured.flags);
    performed.notes.extend(of.notes);
    Ok(())
}

/// The metrics that are read from the output of a process beside the program. None: of the program.
fn metrics_from(program: &Program, name: Option<&str>) -> Vec<MetricTable> {
    let metrics = program.metric.iter();
    metrics.filter(|it| it.from() == name).cloned().collect()
}

/// Adds the metrics of a relay. If it was the limit, what it may have lengthened does not count.
fn add_relay(program: &Program, record: &RelayRecord, measured: &mut Measured) {
    if !relayed::add(record, measured) {
        return;
    }
    let declared = program.metric.iter().map(MetricTable::name);
    for name in declared.chain(["elapsed_ns"]) {
        if measured.metrics.contains_key(name) {
            let flag = measured.flags.entry(name.to_owned()).or_default();
            let reason = || relayed::RELAY_LIMITED.to_owned();
            flag.invalid.get_or_insert_with(reason);
        }
    }
}

/// Runs the commands before the program, one after another. Returns remarks on them.
fn run_before(
    program: &Program,
    clients: usize,
    words: &Words<'_>,
    beside: &[Running],
    context: &Context<'_>,
) -> Result<Vec<String>, TrialError> {
    let mut notes = Vec::new();
    for (nth, before) in program.before.iter().enumerate() {
        let task = Task {
            prefix: format!("before-{nth}: "),
            log: format!("before-{nth}."),
            command: &before.command,
            input: &before.input,
            environment: &program.program.environment,
            cpus: &program.program.cpus,
            success: &[0],
            timeout: before.timeout,
            stagger: Duration::ZERO,
            clients: if before.each_client { clients } else { 1 },
        };
        notes.extend(task.run(words, beside, context, None)?.1);
    }
    Ok(notes)
}

/// Runs the program on all clients, and reads their output. A process of `beside` that exits ends
/// it. Returns also what the machine has used meanwhile.
fn run(
    program: &Program,
    clients: usize,
    words: &Words<'_>,
    beside: &[Running],
    context: &Context<'_>,
) -> Result<(Performed, EnergyUsed), TrialError> {
    let table = &program.program;
    let task = Task {
        prefix: String::new(),
        log: String::new(),
        command: &table.command,
        input: &table.input,
        environment: &table.environment,
        cpus: &table.cpus,
        success: &table.success,
        timeout: table.timeout,
        stagger: table.stagger(words.factors()).map_err(TrialError::Failed)?,
        clients,
    };
    let mut energy = EnergyWindow::begin(Root::machine());
    let (ended, mut notes) = task.run(words, beside, context, Some(&mut energy))?;
    let used = energy.end();
    let metrics = metrics_from(program, None);
    let mut each = Vec::new();
    for (number, of) in ended.iter().enumerate() {
        let performed = read_metrics(&metrics, &of.logs);
        each.push(performed.map_err(|error| match error {
            TrialError::Failed(reason) if clients > 1 => {
                TrialError::Failed(format!("client {number}: {reason}"))
            }
            error => error,
        })?);
    }
    let performed = combine::declared(&metrics, each);
    notes.extend(performed.notes);
    let mut measured = performed.measured;
    measured.metrics.extend(combine::own(&ended));
    if let (false, [of]) = (program.histogram.is_empty(), &ended[..]) {
        let output = read(&of.logs.stdout)?;
        let tables = &program.histogram;
        let kept = histogram::keep(tables, &output, words.trial_id(), context, &mut measured);
        notes.extend(kept?);
    }
    for of in &ended {
        for path in [&of.logs.stdout, &of.logs.stderr] {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let name = path.extension().unwrap_or_default().to_string_lossy();
            measured.artefacts.insert(name.into_owned(), format!("logs/{file}"));
        }
    }
    Ok((Performed { measured, notes }, used))
}

/// The declared metrics of a client's output.
fn read_metrics(metrics: &[MetricTable], logs: &Logs) -> Result<Performed, TrialError> {
    let [printed, errors] = [&logs.stdout, &logs.stderr].map(|path| match metrics.is_empty() {
        true => Ok(String::new()),
        false => read(path),
    });
    extract::measured(metrics, &printed?, &errors?).map_err(TrialError::Failed)
}

/// The output of a program. A part of a longer one would give wrong metrics.
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

#[cfg(test)]
mod tests {
    use measure::Histogram;

    use super::*;
    use hosts::DirectionCounts;

    #[test]
    fn what_a_late_relay_lengthened_does_not_count() {
        let text = "[program]\ncommand = [\"a\"]\ntimeout = \"1s\"\n[[metric]]\nname = \"p99\"\n\
                    unit = \"s\"\njson = \"p99\"\n";
        let program: Program = toml::from_str(text).unwrap();
        for (late_ns, valid) in [(1, Some(1.0)), (2 * limits::RELAY_LATENESS_NS, None)] {
            let counts = || DirectionCounts {
                forwarded: 1,
                lost: 0,
                dropped: 0,
            };
            let mut lateness = Histogram::new();
            lateness.record_n(late_ns, 100);
            let record = RelayRecord {
                to_server: counts(),
                to_clients: counts(),
                lateness,
            };
            let mut measured = Measured::default();
            for name in ["p99", "elapsed_ns", "user_ns"] {
                measured.metrics.insert(name.to_owned(), 1.0);
            }
            add_relay(&program, &record, &mut measured);
            assert_eq!(measured.valid("p99"), valid);
            assert_eq!(measured.valid("elapsed_ns"), valid);
            assert_eq!(measured.valid("user_ns"), Some(1.0));
        }
    }
}
