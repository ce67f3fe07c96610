//! The load generator of one trial: `curtail load` in a process of its own, so that its processor
//! time and its processors are separate from the lab's.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process::{Process, WaitResult};
use super::server::Server;
use super::summary::{self, Measured};
use super::{TrialContext, TrialError, with_last_lines};
use crate::error::Error;
use crate::limits;
use crate::plan::order::PlannedTrial;
use crate::plan::text::cpu_list;
use crate::run_folder::RunFolder;
use crate::units::duration_text;

/// Prefills and loads `server`, and reads the summary.
pub(super) fn run(
    context: &TrialContext<'_>,
    folder: &RunFolder,
    planned: &PlannedTrial,
    server: &Server,
    offered_rps: Option<f64>,
) -> Result<Measured, TrialError> {
    let log = folder.log(&planned.id, "load");
    // A file, not a pipe: the lab does not have to drain it during the trial.
    let summary_path = folder.log(&planned.id, "summary");
    let errors = File::create(&log).map_err(Error::file("create", &log))?;
    let output = File::create(&summary_path).map_err(Error::file("create", &summary_path))?;
    let mut command = Command::new(context.curtail);
    command
        .args(arguments(context, planned, server, offered_rps))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let mut generator = Process::start(
        &mut command,
        &context.plan.load_cpus,
        context.plan.goes_first,
    )
    .map_err(|error| TrialError::Failed(format!("the generator could not be started: {error}")))?;
    let interval = Duration::from_nanos(context.plan.warmup_ns + context.plan.trial_ns);
    let timeout = interval + context.timeouts.generator;
    match generator.wait(timeout, Some(context.stop_signals))? {
        WaitResult::Exited => {}
        WaitResult::StopRequested => return Err(TrialError::StopRequested),
        WaitResult::TimedOut => {
            let reason = format!(
                "the generator did not exit within {}",
                duration_text(timeout)
            );
            return Err(TrialError::Failed(with_last_lines(&reason, &log)));
        }
    }
    let status = generator.finish()?;
    if !status.success() {
        let reason = format!("the generator failed ({status})");
        return Err(TrialError::Failed(with_last_lines(&reason, &log)));
    }
    let text = read_summary(&summary_path)?;
    let measured = summary::read(&planned.id, &text).map_err(TrialError::Failed)?;
    // Record and histograms contain the summary now. A rejected summary remains for inspection.
    fs::remove_file(&summary_path).map_err(Error::file("remove", &summary_path))?;
    Ok(measured)
}

fn arguments(
    context: &TrialContext<'_>,
    planned: &PlannedTrial,
    server: &Server,
    offered_rps: Option<f64>,
) -> Vec<String> {
    let plan = context.plan;
    let load = plan.load_at(planned.setting);
    let rate = offered_rps.map_or_else(|| "max".to_owned(), |rate| rate.to_string());
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
    option("update", &load.update);
    option("records", &load.records);
    option("warmup", &duration_argument(plan.warmup_ns));
    option("duration", &duration_argument(plan.trial_ns));
    option("seed", &planned.seed);
    if load.saturating > 0 {
        option("saturating", &load.saturating);
        option("saturating-depth", &load.saturating_depth);
    }
    option("watch-pid", &server.id());
    option("json", &"-");
    if !plan.load_cpus.is_empty() {
        option("cpus", &cpu_list(&plan.load_cpus));
    }
    arguments.extend(["--prefill", "--watch-bursts"].map(str::to_owned));
    arguments
}

/// A duration in the largest unit without a fraction.
fn duration_argument(duration_ns: u64) -> String {
    for (unit, unit_ns) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if duration_ns.is_multiple_of(unit_ns) {
            return format!("{}{unit}", duration_ns / unit_ns);
        }
    }
    format!("{duration_ns}ns")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_passed_exactly() {
        for (ns, text) in [
            (5_000_000_000, "5s"),
            (300_000_000, "300ms"),
            (1_500, "1500ns"),
            (0, "0s"),
        ] {
            assert_eq!(duration_argument(ns), text);
        }
    }
}
