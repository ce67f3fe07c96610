//! Whole runs with a fake server and a fake generator: everything between an experiment and its
//! records, including failing, hanging and killed processes, in seconds.
//!
//! Every fake process connects to the test's gate. The connection closes when the process exits, so
//! the tests wait for events and never sleep.

use std::fs;
use std::process::Command;
use std::time::Duration;

use report::record::{FaultClass, Host, Plan, Record, Value};

use crate::limits::CONSECUTIVE_FAILURES;
use crate::tests::assert_has;
use crate::tests::gate::Fixture;
use crate::tests::records::{only_run, trials};
use crate::{Ending, Experiment, LineReporter, Options, RunOutcome};

/// Two servers, two levels, two repeats, two capacity trials: twelve trials.
fn experiment(second: &str) -> Experiment {
    Experiment::parse("pretence", "pretence.toml", &text(second)).unwrap()
}

fn text(second: &str) -> String {
    format!(
        "question = \"Does the lab do what it says?\"
seed = 3
repeats = 2
trial = \"100ms\"
warmup = \"0s\"
figures = [\"tail\"]
[load]
connections = 4
depth = 1
threads = 1
keys = \"fixed:30\"
values = \"fixed:100\"
arrivals = \"exponential:1\"
popularity = \"uniform\"
update = 0.1
records = 100
[[factor]]
name = \"level\"
values = [0.5, 1.0]
[capacity]
trials = 2
[[server]]
name = \"first\"
arguments = [\"well\", \"{{port}}\"]
[[server]]
name = \"second\"
{second}
"
    )
}

fn second(fixture: &Fixture, script: &str, manner: &str) -> Experiment {
    experiment(&program(fixture, script, manner))
}

fn program(fixture: &Fixture, script: &str, manner: &str) -> String {
    let program = fixture.path(script);
    format!(
        "program = \"{}\"\narguments = [\"serve\", \"{manner}\", \"{{port}}\"]",
        program.display()
    )
}

/// The experiment with another well-behaved server, and `to` in place of `from` in its file.
fn changed(fixture: &Fixture, changes: &[(&str, &str)]) -> Experiment {
    let mut text = text(&program(fixture, "fake", "well"));
    for (from, to) in changes {
        assert_has(&text, from);
        text = text.replace(from, to);
    }
    Experiment::parse("pretence", "pretence.toml", &text).unwrap()
}

const LEVELS: &str = "[[factor]]\nname = \"level\"\nvalues = [0.5, 1.0]\n";

fn servers(plan: &Plan) -> &[toml::Value] {
    plan.settings["server"].as_array().unwrap()
}

fn server(trial: &Record) -> String {
    trial.factors["server"].to_string()
}

fn failures<'a>(trials: &'a [Record], of: &str) -> Vec<&'a str> {
    let of_server = trials.iter().filter(|trial| server(trial) == of);
    of_server.filter_map(Record::failure).collect()
}

/// Runs an experiment: the outcome, the records, and what was told.
fn run(options: &Options, experiment: &Experiment) -> (RunOutcome, Vec<Record>, String) {
    let plan = experiment.plan(options).unwrap();
    let mut told = Vec::new();
    let outcome = crate::run(&plan, options, &mut LineReporter::new(&mut told)).unwrap();
    let trials = trials(&outcome.folder);
    (outcome, trials, String::from_utf8(told).unwrap())
}

#[test]
fn a_run_folder_is_self_contained() {
    let fixture = Fixture::new();
    let options = fixture.options();
    let (outcome, trials, told) = run(&options, &second(&fixture, "fake", "well"));
    assert_eq!(
        (outcome.ending, outcome.measured, outcome.failed),
        (Ending::Complete, 12, 0)
    );
    assert_eq!(outcome.exit_code(), 0);

    let folder = &outcome.folder;
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let written: Plan = toml::from_str(&read("plan.toml")).unwrap();
    assert_eq!(
        servers(&written)[1]["version"].as_str(),
        Some(concat!(env!("CARGO_PKG_VERSION"), " (this build)"))
    );
    assert!(
        serde_json::from_str::<Host>(&read("host.json"))
            .unwrap()
            .processors
            > 0
    );

    assert_eq!(trials.len(), 12);
    assert!(trials[..4].iter().all(|trial| trial.stage == "capacity"));
    for trial in &trials {
        let measured = trial.measured().unwrap();
        // The fake generator achieves 1000 /s at infinite demand, and any offered rate.
        let level = trial.factors.get("level").and_then(Value::number);
        let rate_rps = level.map_or(1_000.0, |level| 1_000.0 * level);
        assert_eq!(measured.metric("achieved_rps"), Some(rate_rps));
        assert_eq!(measured.metric("generator_busy"), Some(0.1));
        for name in ["server_stolen_share", "load_stolen_share"] {
            let share = measured.metric(name).unwrap_or(0.0);
            assert!((0.0..=1.0).contains(&share), "{name}: {share}");
        }
        let offered = trial.resolved.get("offered_rps").copied();
        assert_eq!(offered, level.map(|_| rate_rps));
        let name = format!("histograms/{}.hist", trial.id);
        let histograms: serde_json::Value = serde_json::from_str(&read(&name)).unwrap();
        assert_eq!(histograms["service"], "fake");
        assert!(folder.join(format!("logs/{}.server", trial.id)).exists());
        assert!(!folder.join(format!("logs/{}.summary", trial.id)).exists());
    }
    assert_has(&told, "12/12  ");
    let trials: Vec<&str> = told.lines().filter(|it| it.ends_with(" left")).collect();
    let none = format!("· {} left", units::duration_text(Duration::ZERO));
    assert_eq!(trials.len(), 12);
    assert!(
        !trials[0].ends_with(&none) && trials[11].ends_with(&none),
        "{told}"
    );
    assert_has(&told, "all 12 trials recorded, in ");
    fixture.assert_no_processes_left();
}

#[test]
fn a_server_that_exits_at_once_is_abandoned_and_the_other_measured() {
    let fixture = Fixture::new();
    let options = fixture.options();
    let (outcome, trials, told) = run(&options, &second(&fixture, "fake", "dies"));
    assert_eq!(
        (outcome.ending, outcome.measured, outcome.failed),
        (Ending::Complete, 6, 6)
    );
    let reasons = failures(&trials, "second");
    assert_eq!(reasons.len(), 6);
    let at_once = "server exited before it was ready (exit status: 3): fake trouble";
    assert_eq!(reasons[..2], [at_once, at_once]);
    let not_tried = "not tried: the rate is a share of the capacity, and none was measured";
    assert!(
        reasons[2..]
            .iter()
            .all(|reason| reason.starts_with(not_tried)),
        "{reasons:?}"
    );
    assert!(reasons[5].ends_with(at_once), "{reasons:?}");
    assert!(told.contains("second: remaining trials abandoned: not tried: "));
    fixture.assert_no_processes_left();
}

#[test]
fn a_server_that_never_replies_fails_in_bounded_time() {
    let fixture = Fixture::new();
    let mut options = fixture.options();
    options.timeouts.start = Duration::from_millis(1_500);
    let (outcome, trials, _) = run(&options, &second(&fixture, "fake", "silent"));
    assert_eq!((outcome.measured, outcome.failed), (6, 6));
    assert_eq!(
        failures(&trials, "second")[0],
        "server was not ready within 1.5 s (no reply to `version`)"
    );
    fixture.assert_no_processes_left();
}

#[test]
fn a_server_that_ignores_sigterm_is_killed_with_a_note() {
    let fixture = Fixture::new();
    let mut options = fixture.options();
    options.timeouts.stop = Duration::from_millis(50);
    let (outcome, trials, _) = run(&options, &second(&fixture, "deaf", "well"));
    assert_eq!(outcome.measured, 12);
    for trial in trials.iter().filter(|trial| server(trial) == "second") {
        assert_eq!(
            trial.notes,
            ["server did not exit within 50 ms of SIGTERM and was killed"]
        );
    }
    fixture.assert_no_processes_left();
}

#[test]
fn a_server_that_exits_under_load_fails_the_trial() {
    let fixture = Fixture::new();
    let options = fixture.options();
    let (outcome, trials, _) = run(&options, &second(&fixture, "fake", "fragile"));
    assert_eq!((outcome.measured, outcome.failed), (6, 6));
    let reason = failures(&trials, "second")[0];
    assert_eq!(
        reason,
        "server exited during the trial (exit status: 4): fake crash"
    );
    fixture.assert_no_processes_left();
}

#[test]
fn a_server_that_refuses_is_named_first() {
    let fixture = Fixture::new();
    let options = fixture.options();
    let plan = second(&fixture, "fake", "refuses").plan(&options).unwrap();
    let outcome = crate::run(&plan, &options, &mut LineReporter::new(Vec::new())).unwrap();
    assert_eq!(outcome.measured, 12);
    for trial in trials(&outcome.folder) {
        let fault = trial.measured().unwrap().fault.as_ref();
        let class = fault.map(|it| it.class);
        let expected = (server(&trial) == "second").then_some(FaultClass::Failing);
        assert_eq!(class, expected, "{}", trial.id);
    }
    let run = report::Run::open(&outcome.folder).unwrap();
    let complaints = crate::health::complaints(&run, None);
    assert!(
        complaints[0].starts_with("no trial succeeded: second"),
        "{complaints:?}"
    );
    let summary = report::text_summary(&run);
    let first = summary.lines().next().unwrap_or_default();
    assert!(
        first.contains("second") && first.contains("fails"),
        "{summary}"
    );
    fixture.assert_no_processes_left();
}

#[test]
fn a_generator_that_fails_is_quoted_and_ends_the_servers_trials() {
    let fixture = Fixture::new();
    let mut options = fixture.options();
    options.curtail = fixture.path("no-generator");
    let rates = "[[factor]]\nname = \"rate\"\nvalues = [\"1k\", \"2k\", \"3k\"]\n";
    let experiment = changed(&fixture, &[(LEVELS, rates)]);
    let (outcome, trials, _) = run(&options, &experiment);
    assert_eq!(
        (outcome.measured, outcome.failed, outcome.exit_code()),
        (0, 16, 1)
    );
    let reasons = failures(&trials, "first");
    let tried = CONSECUTIVE_FAILURES as usize;
    let quoted = "the generator exited with status 7: fake refusal";
    assert!(
        reasons[..tried].iter().all(|reason| *reason == quoted),
        "{reasons:?}"
    );
    assert_eq!(
        reasons[tried],
        format!("not tried after {tried} consecutive failures; the last trial: {quoted}")
    );
    fixture.assert_no_processes_left();
}

#[test]
fn a_killed_lab_leaves_no_processes_and_the_same_command_resumes() {
    let fixture = Fixture::new();
    let options = fixture.options();
    // The second server is started by a wrapper, whose end alone would not end the server.
    let experiment = second(&fixture, "wrapped", "well");
    fs::write(fixture.path("experiment.toml"), experiment.toml()).unwrap();
    // Once the kill falls into a trial of the wrapped server, once into one of the other.
    let mut kept_before = 0;
    for held in [3, 7] {
        fixture.hold(held);
        fixture.run_lab_and_kill_it();
        let kept = trials(&only_run(&options)).len();
        assert_eq!(kept, kept_before + held - 1);
        kept_before = kept;
    }
    let folder = only_run(&options);
    let before = fs::read_to_string(folder.join("trials.jsonl")).unwrap();
    let experiment = Experiment::load(fixture.path("experiment.toml").to_str().unwrap()).unwrap();
    let (outcome, ..) = run(&options, &experiment);
    assert_eq!((&outcome.folder, outcome.kept), (&folder, kept_before));
    assert_eq!((outcome.ending, outcome.measured), (Ending::Complete, 12));
    let after = fs::read_to_string(folder.join("trials.jsonl")).unwrap();
    assert!(after.starts_with(&before), "finished trials were touched");
    fixture.assert_no_processes_left();
}

#[test]
fn ctrl_c_stops_the_children_keeps_the_trials_and_exits_with_130() {
    let fixture = Fixture::new();
    let options = fixture.options();
    let experiment = second(&fixture, "fake", "well");
    fs::write(fixture.path("experiment.toml"), experiment.toml()).unwrap();
    fixture.hold(4);
    // The test harness has threads that would take the signal: the child inherits it blocked.
    let script = fixture.path("fake");
    let mut lab = std::thread::spawn(move || {
        let _blocked = sys::signals::Signals::block().unwrap();
        Command::new(script).arg("lab").spawn().unwrap()
    })
    .join()
    .unwrap();
    fixture.wait_for_held();
    sys::child::terminate(lab.id()).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(130));
    fixture.assert_no_processes_left();
    assert_eq!(trials(&only_run(&options)).len(), 3);
}

#[test]
fn failures_under_one_setting_do_not_affect_another() {
    let fixture = Fixture::new();
    let options = fixture.options();
    // The fake generator fails at depth 13.
    let depths = format!("[[factor]]\nname = \"depth\"\nvalues = [1, 13]\n{LEVELS}");
    let changes = [
        (LEVELS, depths.as_str()),
        ("repeats = 2", "repeats = 4"),
        ("depth = 1\n", ""),
    ];
    let (outcome, trials, told) = run(&options, &changed(&fixture, &changes));
    // Two servers, under each setting two capacities and four repeats of two levels.
    assert_eq!((outcome.measured, outcome.failed), (20, 20));
    for trial in trials {
        let depth = trial.factors["depth"].number();
        assert_eq!(trial.measured().is_some(), depth == Some(1.0), "{trial:?}");
        // The fake generator reports its depth so.
        let used = trial
            .measured()
            .and_then(|it| it.metric("outstanding_mean"));
        assert_eq!(used, depth.filter(|it| *it == 1.0), "{}", trial.id);
    }
    let abandoned = "first, depth 13: remaining trials abandoned: ";
    assert_has(&told, abandoned);
    assert!(!told.contains("depth 1: remaining"), "{told}");
}
