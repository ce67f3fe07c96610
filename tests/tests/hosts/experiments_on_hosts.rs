//! Experiments whose servers and generator are on hosts of their own: network namespaces, if this
//! process may create them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use curtail_tests::process::curtail_path;
use hosts::{Error, Hosts, Layout};

/// A tiny experiment, without its hosts and factors.
const LOAD: &str = r#"
question = "Does a link add its delay?"
seed = 1
repeats = 1
trial = "300ms"
warmup = "100ms"

[load]
connections = 8
depth = 4
threads = 1
keys = "fixed:20"
values = "fixed:100"
arrivals = "exponential:1"
popularity = "uniform"
update = 0.1
records = 200

[[factor]]
name = "rate"
values = ["500"]

[[server]]
name = "curtail"
arguments = ["-l", "{ip}", "-p", "{port}", "-m", "64", "-t", "1", "-u", "root"]
"#;

/// The same question to another program.
const PROGRAM: &str = r#"
question = "Does the client reach the server over the link?"
seed = 1
repeats = 1

[hosts]
kind = "namespaces"
[hosts.link]
delay = "2ms"

[program]
command = ["{curtail}", "load", "{ip}:{port}", "--rate", "500", "-c", "4", "-w", "0", "-t", "300ms",
           "--records", "100", "--prefill", "--no-spin", "--json", "-"]
timeout = "30s"

[[beside]]
name = "server"
command = ["{curtail}", "serve", "-l", "{ip}", "-p", "{port}", "-m", "64", "-u", "root"]
ready = { connect = "{ip}:{port}" }

[[beside]]
name = "idle"
host = "client"
command = ["sleep", "60"]

[[metric]]
name = "least_ns"
unit = "ns"
better = "lower"
json = "service.min"
"#;

/// Whether this process may create hosts.
fn may_create_hosts() -> bool {
    let layout = Layout {
        clients: 1,
        link: None,
    };
    match Hosts::open(&layout, &[], &[]) {
        Ok(_) => true,
        Err(error @ (Error::NotPermitted(_) | Error::NoIp)) => {
            eprintln!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn lab(verb: &str, folder: &Path, text: &str) -> Output {
    let file = folder.join("hosts.toml");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(curtail_path());
    command.args(["lab", verb]).arg(&file);
    if verb == "run" {
        command.arg("--into").arg(folder.join("run"));
    }
    command.stdin(Stdio::null()).output().unwrap()
}

/// Runs an experiment, and returns the metrics of its trials, with their factors.
fn trials(text: &str) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let output = lab("run", folder.path(), text);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let records = fs::read_to_string(folder.path().join("run/trials.jsonl")).unwrap();
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    records.collect()
}

fn metric(record: &serde_json::Value, name: &str) -> f64 {
    let value = &record["outcome"]["measured"]["metrics"][name];
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no {name}: {record}"))
}

#[test]
fn a_trial_over_a_link_has_its_delay() {
    if !may_create_hosts() {
        return;
    }
    let hosts = "[hosts]\nkind = \"namespaces\"\n[hosts.link]\ndelay = \"2ms\"\n";
    let records = trials(&format!("{LOAD}{hosts}"));
    assert_eq!(records.len(), 1);
    let p50_ns = metric(&records[0], "response_p50_ns");
    assert!((4e6..1e9).contains(&p50_ns), "{p50_ns}");
    let answered = metric(&records[0], "answered");
    let forwarded = metric(&records[0], "relay_forwarded");
    // Each request is at least one frame, and its answer another; the lab notices the start of the
    // interval a little late. The prefill would be more.
    assert!(
        forwarded >= answered,
        "{forwarded} frames for {answered} requests"
    );
    assert!((metric(&records[0], "relay_lost") - 0.0).abs() < 0.5);
}

#[test]
fn a_trial_on_two_hosts_needs_no_link() {
    if !may_create_hosts() {
        return;
    }
    let records = trials(&format!("{LOAD}[hosts]\nkind = \"namespaces\"\n"));
    let [record] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert!(metric(record, "answered") > 50.0);
    assert!(metric(record, "server_cpu_ns_per_request") > 0.0);
    let metrics = &record["outcome"]["measured"]["metrics"];
    assert!(metrics["relay_forwarded"].is_null(), "{metrics}");
}

#[test]
fn several_clients_share_the_connections() {
    if !may_create_hosts() {
        return;
    }
    let factor = "[[factor]]\nname = \"host.clients\"\nvalues = [1, 2]\n";
    let records = trials(&format!("{LOAD}{factor}[hosts]\nkind = \"namespaces\"\n"));
    assert_eq!(records.len(), 2);
    for record in &records {
        let missing = metric(record, "intended") - metric(record, "answered");
        assert!(missing.abs() < 0.5, "{record}");
        assert!(metric(record, "intended") > 50.0, "{record}");
    }
}

#[test]
fn a_program_runs_on_the_clients_host() {
    if !may_create_hosts() {
        return;
    }
    let records = trials(PROGRAM);
    let [record] = records.as_slice() else {
        panic!("{records:?}")
    };
    let least_ns = metric(record, "least_ns");
    assert!(least_ns >= 4e6, "{least_ns}");
    assert!(metric(record, "relay_forwarded") > 100.0);
}

#[test]
fn a_plan_names_its_hosts_whether_they_can_be_created_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = "[hosts]\nkind = \"namespaces\"\nclients = 3\n";
    let output = lab("plan", folder.path(), &format!("{LOAD}{hosts}"));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let line = "hosts    network namespaces of a server and 3 clients";
    assert!(printed.contains(line), "{printed}");
}
