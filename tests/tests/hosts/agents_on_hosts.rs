//! Agents on hosts of their own: network namespaces, if this process may create them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use curtail_tests::agents::{Agent, Run, add_words, summary_path};
use curtail_tests::process::curtail_path;
use hosts::{Error, Host, Hosts, Layout};
use sys::child::{Bounds, bind};

/// How long the server may take to listen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A small load by five agents of eight connections each.
const SMALL: [&str; 18] = [
    "--rate",
    "2k",
    "-c",
    "40",
    "-d",
    "4",
    "-w",
    "200ms",
    "-t",
    "1s",
    "--records",
    "100",
    "--no-spin",
    "-u",
    "0.2",
    "--measure-connections",
    "4",
    "--prefill",
];

/// Five hosts with an agent each, and one with the server and the coordinator.
#[test]
fn five_agents_on_five_hosts() {
    let layout = Layout {
        clients: 5,
        link: None,
    };
    let star = match Hosts::open(&layout, &[], &[]) {
        Ok(Hosts::Star(star)) => star,
        Ok(Hosts::One) => panic!("a layout gives namespaces"),
        Err(error @ (Error::NotPermitted(_) | Error::NoIp)) => {
            eprintln!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "a token of five hosts").unwrap();
    let server = start_server(star.server());
    let start = |host: &Host| {
        let ip = host.ip_address();
        let mut command = host.command(curtail_path());
        command
            .args(["agent", &format!("{ip}:7700"), "--token-file"])
            .arg(&token);
        Agent::of(command).unwrap()
    };
    let mut agents: Vec<Agent> = star.clients().iter().map(start).collect();
    let command = |agents: &[Agent], words: &[&str]| {
        let mut command = star.server().command(curtail_path());
        let all: Vec<&Agent> = agents.iter().collect();
        add_words(&mut command, &server.1, &all, words);
        command.arg("--token-file").arg(&token);
        command
    };
    let run = Run::of(command(&agents, &SMALL), folder.path()).unwrap();
    assert_eq!(run.verdict(), (Some(0), String::new()), "{}", run.printed());
    let summary = run.summary.unwrap();
    assert_eq!(summary.intended, summary.answered);
    assert_eq!(summary.service.count, summary.answered);
    assert!(summary.measuring_client.is_some());
    let counts: Vec<u32> = summary.agents.iter().map(|it| it.part.count).collect();
    assert_eq!((counts, summary.hits), (vec![8; 5], summary.gets));
    assert_eq!(summary.errors + summary.censored, 0);
    for agent in &summary.agents {
        // The hosts share one clock.
        let clock = agent.clock.unwrap();
        assert!(
            clock.offset_ns.unsigned_abs() <= clock.error_ns + 1,
            "{clock:?}"
        );
    }

    // A host that is cut off sends no end: its agent lags.
    let mut words = SMALL;
    words[9] = "4s";
    let mut child = command(&agents, &words);
    child.stdout(Stdio::piped()).stderr(Stdio::piped());
    child.arg("--json").arg(summary_path(folder.path()));
    let mut child = child.spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("warm-up") {
        assert!(reader.read_line(&mut printed).unwrap() > 0, "{printed}");
    }
    star.clients()[3].ip("link set server down").unwrap();
    reader.read_to_string(&mut printed).unwrap();
    let output = child.wait_with_output().unwrap();
    let run = Run::ended(output, folder.path()).unwrap();
    let (code, errors) = run.verdict();
    assert_eq!(code, Some(1), "{printed}");
    let named = format!(
        "agent {} and its 8 connections are missing",
        agents[3].address
    );
    assert!(errors.contains(&named), "{errors}");
    assert!(printed.contains(", on 32 of 40 connections\n"), "{printed}");
    agents.clear();
}

/// A server on a host, which ends with this test.
fn start_server(host: &Host) -> (Guard, String) {
    let ip = host.ip_address();
    let address = format!("{ip}:11211");
    let mut command = host.command(curtail_path());
    command.args(["serve", "-m", "64", "-l", &ip.to_string()]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let bounds = Bounds {
        dies_with_parent: true,
        ..Bounds::default()
    };
    bind(&mut command, &bounds).unwrap();
    let guard = Guard(command.spawn().unwrap());
    // A closed loop of a moment succeeds once the server listens.
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut probe = host.command(curtail_path());
        let words = ["-c", "1", "-w", "0", "-t", "1ms", "--rate", "max", "-q"];
        add_words(&mut probe, &address, &[], &words);
        if probe.output().unwrap().status.success() {
            return (guard, address);
        }
        assert!(Instant::now() < deadline, "the server does not listen");
    }
}

struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
