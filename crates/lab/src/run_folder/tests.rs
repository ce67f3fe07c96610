//! Beginning, resuming and sharing run folders.

use report::record::Outcome;

use super::*;
use crate::plan::order::{self, PlannedTrial};
use crate::plan::tests::{kind, plan};
use crate::tests::assert_has;
use crate::tests::records::record;

fn host() -> Host {
    crate::host::inventory(Path::new("/bin/sh")).unwrap()
}

fn options(runs: &Path) -> Options {
    Options {
        runs: runs.to_owned(),
        ..Options::new().unwrap()
    }
}

fn planned_trials(plan: &Plan) -> Vec<PlannedTrial> {
    order::trials(plan, &*kind(plan))
}

fn trial(plan: &Plan, planned: &PlannedTrial) -> Record {
    let stage = &plan.stages[planned.stage].name;
    let outcome = Outcome::Failed("not today".to_owned());
    record(plan, stage, planned.cell, planned.repeat, outcome)
}

#[test]
fn an_unfinished_run_of_the_same_plan_resumes_without_its_incomplete_line() {
    let runs = tempfile::tempdir().unwrap();
    let (plan, host, options) = (plan(2), host(), options(runs.path()));
    let planned_trials = planned_trials(&plan);
    let (mut folder, done) = open(&plan, &host, &options).unwrap();
    assert!(done.is_empty());
    let path = folder.path().to_owned();
    folder.append(&trial(&plan, &planned_trials[0])).unwrap();
    folder.append(&trial(&plan, &planned_trials[1])).unwrap();
    drop(folder);
    let trials = path.join(TRIALS);
    let whole = fs::read(&trials).unwrap();
    let torn = serde_json::to_vec(&trial(&plan, &planned_trials[2])).unwrap();
    // Whatever part of the line a kill left, with or without its end.
    for len in [1, torn.len() / 2, torn.len()] {
        fs::write(&trials, [&whole, &torn[..len]].concat()).unwrap();
        let (folder, done) = open(&plan, &host, &options).unwrap();
        assert_eq!(folder.path(), path);
        assert_eq!(
            done,
            [
                trial(&plan, &planned_trials[0]),
                trial(&plan, &planned_trials[1])
            ]
        );
        drop(folder);
        assert_eq!(fs::read(&trials).unwrap(), whole);
    }
}

#[test]
fn records_appended_after_an_incomplete_line_are_intact() {
    let runs = tempfile::tempdir().unwrap();
    let (plan, host, options) = (plan(2), host(), options(runs.path()));
    let planned_trials = planned_trials(&plan);
    let (folder, _) = open(&plan, &host, &options).unwrap();
    fs::write(folder.path().join(TRIALS), "{\"id\":\"c-cur").unwrap();
    drop(folder);
    let (mut folder, _) = open(&plan, &host, &options).unwrap();
    folder.append(&trial(&plan, &planned_trials[0])).unwrap();
    drop(folder);
    let (_folder, done) = open(&plan, &host, &options).unwrap();
    assert_eq!(done, [trial(&plan, &planned_trials[0])]);
}

#[test]
fn another_plan_or_build_or_fresh_begins_a_new_run() {
    let runs = tempfile::tempdir().unwrap();
    let (plan, host, options) = (plan(2), host(), options(runs.path()));
    let path = |plan: &Plan, host: &Host, options: &Options| {
        open(plan, host, options).unwrap().0.path().to_owned()
    };
    let first = path(&plan, &host, &options);
    assert_eq!(path(&plan, &host, &options), first);
    let reseeded = Plan {
        seed: 7,
        ..plan.clone()
    };
    assert_ne!(path(&reseeded, &host, &options), first);
    let rebuilt = Host {
        curtail: "another".to_owned(),
        ..host.clone()
    };
    assert_ne!(path(&plan, &rebuilt, &options), first);
    let fresh = Options {
        fresh: true,
        ..options.clone()
    };
    assert_ne!(path(&plan, &host, &fresh), first);
}

#[test]
fn a_run_that_began_on_another_host_is_refused() {
    let runs = tempfile::tempdir().unwrap();
    let (plan, here, mut options) = (plan(2), host(), options(runs.path()));
    let there = Host {
        processors: here.processors + 6,
        ..here.clone()
    };
    let path = |host: &Host, options: &Options| {
        let opened = open(&plan, host, options);
        opened.map(|(folder, _)| folder.path().to_owned())
    };
    let first = path(&there, &options).unwrap();
    let error = path(&here, &options).unwrap_err().to_string();
    let (was, is) = (there.processors, here.processors);
    let difference = format!("(processors online `{was}` there, `{is}` here)");
    assert_has(&error, &difference);
    assert!(error.starts_with(&first.display().to_string()), "{error}");
    assert_has(&error, "new run with --fresh");
    assert_eq!(path(&there, &options).unwrap(), first);
    // A run of this host is taken up, though one of the other is unfinished too.
    options.fresh = true;
    let second = path(&here, &options).unwrap();
    options.fresh = false;
    assert_ne!(second, first);
    assert_eq!(path(&here, &options).unwrap(), second);
    options.into = Some(first);
    let error = path(&here, &options).unwrap_err().to_string();
    assert_has(&error, &difference);
    assert_has(&error, "name another folder");
}

#[test]
fn a_finished_run_is_not_resumed() {
    let runs = tempfile::tempdir().unwrap();
    let (plan, host, options) = (plan(1), host(), options(runs.path()));
    let planned_trials = planned_trials(&plan);
    let (mut folder, _) = open(&plan, &host, &options).unwrap();
    for planned in &planned_trials {
        folder.append(&trial(&plan, planned)).unwrap();
    }
    folder.finish().unwrap();
    let first = folder.path().to_owned();
    drop(folder);
    // All trials are there, the report is not: the same run.
    assert_eq!(open(&plan, &host, &options).unwrap().0.path(), first);
    fs::write(first.join(REPORT), "").unwrap();
    // A report may be of a run that was stopped: the run has not ended.
    fs::rename(first.join(COMPLETE), first.join("away")).unwrap();
    assert_eq!(open(&plan, &host, &options).unwrap().0.path(), first);
    fs::rename(first.join("away"), first.join(COMPLETE)).unwrap();
    assert_ne!(open(&plan, &host, &options).unwrap().0.path(), first);
}

#[test]
fn two_labs_do_not_share_a_folder() {
    let runs = tempfile::tempdir().unwrap();
    let (plan, host, options) = (plan(1), host(), options(runs.path()));
    let (folder, _) = open(&plan, &host, &options).unwrap();
    let error = open(&plan, &host, &options).unwrap_err().to_string();
    assert_has(&error, format!("(process {})", std::process::id()));
    drop(folder);
    assert!(open(&plan, &host, &options).is_ok());
}

#[test]
fn a_named_folder_holds_one_run() {
    let parent = tempfile::tempdir().unwrap();
    let (plan, host) = (plan(1), host());
    let mut options = options(parent.path());
    options.into = Some(parent.path().join("mine"));
    let path = open(&plan, &host, &options).unwrap().0.path().to_owned();
    assert_eq!(path, parent.path().join("mine"));
    assert!(open(&plan, &host, &options).is_ok());
    let reseeded = Plan {
        seed: 7,
        ..plan.clone()
    };
    let error = open(&reseeded, &host, &options).unwrap_err().to_string();
    assert_has(&error, "another plan");
    options.into = Some(parent.path().to_owned());
    let error = open(&plan, &host, &options).unwrap_err().to_string();
    assert_has(&error, "neither empty nor a run folder");
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error_that_names_it() {
    let runs = tempfile::tempdir().unwrap();
    let (plan, host, options) = (plan(1), host(), options(runs.path()));
    let planned_trials = planned_trials(&plan);
    let (mut folder, _) = open(&plan, &host, &options).unwrap();
    let path = folder.path().join(TRIALS);
    folder.append(&trial(&plan, &planned_trials[0])).unwrap();
    drop(folder);
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("what?\n{whole}")).unwrap();
    let error = open(&plan, &host, &options).unwrap_err().to_string();
    assert_has(&error, "is damaged in line 1");
}

#[test]
fn differences_of_hosts_are_named_and_small_ones_of_memory_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let there = Host {
        memory_bytes: 16 << 30,
        virtualised: None,
        ..host()
    };
    fs::write(
        folder.path().join(HOST),
        serde_json::to_vec(&there).unwrap(),
    )
    .unwrap();
    let mut here = there.clone();
    (here.open_files, here.memory_bytes) = (1 << 20, (16 << 30) - (40 << 20));
    assert_eq!(difference_of_hosts(folder.path(), &here), None);
    here.memory_bytes = 8 << 30;
    here.virtualised = Some("KVM".to_owned());
    let expected = "memory `16.0 GiB` there, `8.0 GiB` here; hypervisor `none` there, `KVM` here";
    assert_eq!(
        difference_of_hosts(folder.path(), &here).as_deref(),
        Some(expected)
    );
}

#[test]
fn a_known_time_has_its_stamp() {
    assert_eq!(stamp(1_795_226_123_000_000_000), "20261121-015523");
}
