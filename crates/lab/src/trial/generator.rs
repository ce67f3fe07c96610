//! The load generator of one trial: `curtail load`, a process of its own, so that its processor
//! time and its processors are its own too.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process::{Process, Woke};
use super::server::Server;
use super::summary::{self, Measured};
use super::{Bench, Fault, with_last_lines};
use crate::error::Error;
use crate::limits;
use crate::plan::order::Slot;
use crate::plan::text::cpu_list;
use crate::run_folder::RunFolder;
use crate::units::duration_text;

/// Fills and loads `server`, and reads what came of it.
pub(super) fn run(
    bench: &Bench<'_>,
    folder: &RunFolder,
    slot: &Slot,
    server: &Server,
    offered_rps: Option<f64>,
) -> Result<Measured, Fault> {
    let log = folder.log(&slot.id, "load");
    // A file, not a pipe: nobody needs to empty it while the trial runs.
    let summary_path = folder.log(&slot.id, "summary");
    let errors = File::create(&log).map_err(Error::file("create", &log))?;
    let output = File::create(&summary_path).map_err(Error::file("create", &summary_path))?;
    let mut command = Command::new(bench.curtail);
    command
        .args(arguments(bench, slot, server, offered_rps))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let mut generator = Process::start(&mut command, &bench.plan.load_cpus, bench.plan.goes_first)
        .map_err(|error| Fault::Failed(format!("the generator could not be started: {error}")))?;
    let interval = Duration::from_nanos(bench.plan.warmup_ns + bench.plan.trial_ns);
    let patience = interval + bench.patience.generator;
    match generator.wait(patience, Some(bench.watch))? {
        Woke::Ended => {}
        Woke::Stopped => return Err(Fault::Stopped),
        Woke::Late => {
            let reason = format!(
                "the generator did not end within {}",
                duration_text(patience)
            );
            return Err(Fault::Failed(with_last_lines(&reason, &log)));
        }
    }
    let status = generator.finish()?;
    if !status.success() {
        let reason = format!("the generator failed ({status})");
        return Err(Fault::Failed(with_last_lines(&reason, &log)));
    }
    let text = read_summary(&summary_path)?;
    let measured = summary::read(&slot.id, &text).map_err(Fault::Failed)?;
    // Its content is in the record and the histograms now; a refused one stays to be looked at.
    fs::remove_file(&summary_path).map_err(Error::file("remove", &summary_path))?;
    Ok(measured)
}

fn arguments(
    bench: &Bench<'_>,
    slot: &Slot,
    server: &Server,
    offered_rps: Option<f64>,
) -> Vec<String> {
    let plan = bench.plan;
    let load = plan.load_at(slot.setting);
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
    option("seed", &slot.seed);
    if load.greedy > 0 {
        option("greedy", &load.greedy);
        option("greedy-depth", &load.greedy_depth);
    }
    option("watch-pid", &server.id());
    option("json", &"-");
    if !plan.load_cpus.is_empty() {
        option("cpus", &cpu_list(&plan.load_cpus));
    }
    arguments.extend(["--prefill", "--watch-bursts"].map(str::to_owned));
    arguments
}

/// Exactly, in the largest unit without a fraction.
fn duration_argument(duration_ns: u64) -> String {
    for (unit, unit_ns) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if duration_ns.is_multiple_of(unit_ns) {
            return format!("{}{unit}", duration_ns / unit_ns);
        }
    }
    format!("{duration_ns}ns")
}

fn read_summary(path: &Path) -> Result<String, Fault> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    let mut bytes = Vec::new();
    file.take(limits::SUMMARY_LEN)
        .read_to_end(&mut bytes)
        .map_err(Error::file("read", path))?;
    String::from_utf8(bytes)
        .map_err(|_| Fault::Failed("the generator's summary is not text".to_owned()))
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
