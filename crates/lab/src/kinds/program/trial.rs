//! One trial: start what runs beside the program, run it, and read its output.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use report::record::Measured;
use sys::child::Usage;

use super::beside::Running;
use super::extract::{self, MetricTable};
use super::words::Words;
use super::{Program, Side};
use crate::error::Error;
use crate::hosts::{RelayRecord, relayed};
use crate::kind::{Context, Performed, Trial, TrialError};
use crate::limits;
use crate::process::{FirstExit, Process, WaitResult, with_last_lines};

/// Makes a trial.
pub(super) fn perform(
    program: &Program,
    trial: &Trial<'_>,
    context: &Context<'_>,
) -> Result<Performed, TrialError> {
    let table = program.hosts.at(trial.factors);
    let table = table.map_err(TrialError::Failed)?;
    let hosts = table.open(trial.seed, &program.server_cpus(), &program.program.cpus)?;
    let words = Words::of(trial, &hosts, context)?;
    let mut beside = Vec::new();
    for it in &program.beside {
        beside.push(Running::start(it, &words, context)?);
    }
    hosts.take_relay_record()?;
    let result = run(program, &words, &beside, context);
    // A process beside the program that has exited explains the program's failure.
    if !matches!(result, Err(TrialError::StopRequested | TrialError::Run(_))) {
        for running in &mut beside {
            running.check()?;
        }
    }
    let mut performed = result?;
    if let Some(record) = hosts.take_relay_record()? {
        add_relay(program, &record, &mut performed.measured);
    }
    for running in beside.into_iter().rev() {
        performed.notes.extend(running.stop(context)?);
    }
    Ok(performed)
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

/// Runs the program. A process of `beside` that exits ends it.
fn run(
    program: &Program,
    words: &Words<'_>,
    beside: &[Running],
    context: &Context<'_>,
) -> Result<Performed, TrialError> {
    let table = &program.program;
    let log = |of: &str| context.log(words.trial_id(), of);
    let [stdout, stderr] = ["stdout", "stderr"].map(log);
    let create = |path: &Path| File::create(path).map_err(Error::file("create", path));
    let mut input = match table.input.as_slice() {
        [] => None,
        input => {
            let path = log("input");
            let mut command = words.command(Side::Client, input, &table.environment);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(create(&path)?);
            Some(start(&mut command, &table.cpus)?)
        }
    };
    let mut command = words.command(Side::Client, &table.command, &table.environment);
    let pipe = input.as_mut().and_then(Process::take_output);
    command
        .stdin(pipe.map_or_else(Stdio::null, Stdio::from))
        .stdout(create(&stdout)?)
        .stderr(create(&stderr)?);
    let mut running = start(&mut command, &table.cpus)?;
    // This process must not hold the reading end of the pipe, or the program of the input would
    // get no SIGPIPE after the end of its reader.
    drop(command);
    let mut awaited = vec![&running];
    awaited.extend(beside.iter().map(Running::process));
    let exit = Process::wait_for_first(&awaited, table.timeout, Some(context.stop_signals))?;
    let elapsed = running.began().elapsed();
    match exit {
        FirstExit::Exited(0) => {}
        FirstExit::Exited(_) => {
            // The caller reports which process it was, and how it ended.
            let reason = "a process beside the program exited during the trial";
            return Err(TrialError::Failed(reason.to_owned()));
        }
        FirstExit::StopRequested => return Err(TrialError::StopRequested),
        FirstExit::TimedOut => {
            let timeout = units::duration_text(table.timeout);
            let reason = format!("the program did not exit within {timeout} and was killed");
            return Err(TrialError::Final(with_last_lines(&reason, &stderr)));
        }
    }
    let (status, usage) = running.finish_with_usage()?;
    check_status(status, &table.success, &stderr)?;
    let mut notes = Vec::new();
    if let Some(mut input) = input {
        notes.extend(end_of_input(&mut input, &log("input"), context)?);
    }
    let [printed, errors] = [&stdout, &stderr].map(|path| match program.metric.is_empty() {
        true => Ok(String::new()),
        false => read(path),
    });
    let performed = extract::measured(&program.metric, &printed?, &errors?);
    let performed = performed.map_err(TrialError::Failed)?;
    notes.extend(performed.notes);
    let mut measured = performed.measured;
    let own = own_metrics(elapsed.as_nanos() as f64, usage, status);
    measured.metrics.extend(own);
    for (name, path) in [("stdout", &stdout), ("stderr", &stderr)] {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let relative = format!("logs/{file}");
        measured.artefacts.insert(name.to_owned(), relative);
    }
    Ok(Performed { measured, notes })
}

fn start(command: &mut Command, cpus: &[usize]) -> Result<Process, TrialError> {
    let name = format!("`{}`", command.get_program().to_string_lossy());
    Process::start_guarded(command, cpus, false, &name)
}

fn check_status(status: ExitStatus, success: &[i32], stderr: &Path) -> Result<(), TrialError> {
    let reason = match (status.code(), status.signal()) {
        (Some(code), _) if success.contains(&code) => return Ok(()),
        (Some(code), _) => format!("the program exited with status {code}"),
        (None, Some(signal)) => format!("the program was ended by signal {signal}"),
        (None, None) => format!("the program ended with {status}"),
    };
    Err(TrialError::Failed(with_last_lines(&reason, stderr)))
}

/// SIGPIPE's number, equal on every architecture of Linux but MIPS.
const SIGPIPE: i32 = 13;

/// What a shell exits with after SIGPIPE ended the last program of its script.
const SIGPIPE_IN_SHELL: i32 = 128 + SIGPIPE;

/// Fails if the program that wrote the input failed: its reader then measured a part of the input.
/// It may have been ended by the pipe, if the program did not read all of it; a remark if the
/// laboratory had to kill it then.
fn end_of_input(
    input: &mut Process,
    log: &Path,
    context: &Context<'_>,
) -> Result<Option<String>, TrialError> {
    let grace = context.options.timeouts.stop;
    if input.wait(grace, None)? != WaitResult::Exited {
        input.finish()?;
        let grace = units::duration_text(grace);
        return Ok(Some(format!(
            "the laboratory killed the program of the input, which did not exit within {grace} of \
             the program's end"
        )));
    }
    let status = input.finish()?;
    let is_of_pipe =
        status.signal() == Some(SIGPIPE) || status.code() == Some(SIGPIPE_IN_SHELL);
    if status.success() || is_of_pipe {
        return Ok(None);
    }
    let reason = format!("the program of the input ended with {status}");
    Err(TrialError::Failed(with_last_lines(&reason, log)))
}

fn own_metrics(elapsed_ns: f64, usage: Usage, status: ExitStatus) -> [(String, f64); 7] {
    [
        ("elapsed_ns", elapsed_ns),
        ("user_ns", usage.user_ns as f64),
        ("system_ns", usage.system_ns as f64),
        ("resident_bytes", usage.resident_bytes as f64),
        ("voluntary_switches", usage.voluntary_switches as f64),
        ("involuntary_switches", usage.involuntary_switches as f64),
        ("exit_status", f64::from(status.code().unwrap_or_default())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
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
    use crate::hosts::DirectionCounts;

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
