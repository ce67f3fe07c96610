//! The multithreaded cache of the study as a user runs it: the server, the study's clients, and the
//! pipe between them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use curtail_tests::agents::{Agent, Run, load};
use curtail_tests::process::curtail_path;
use serde_json::Value;
use sys::child::{Bounds, bind, terminate};

/// `curtail rival textile` on free ports.
struct Rival {
    child: Child,
    tcp: String,
    udp: String,
}

impl Rival {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(curtail_path());
        command
            .args(["rival", "textile", "-p", "0", "-U", "0"])
            .args(arguments);
        let bounds = Bounds {
            dies_with_parent: true,
            ..Default::default()
        };
        bind(&mut command, &bounds).unwrap();
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        // "serving … at ADDRESS (TCP) and ADDRESS (UDP)"
        let words: Vec<&str> = line.split(' ').collect();
        let before = |word: &str| {
            let at = words.iter().position(|it| it.trim() == word);
            words[at.unwrap_or_else(|| panic!("{line}")) - 1].to_owned()
        };
        let (tcp, udp) = (before("(TCP)"), before("(UDP)"));
        Self { child, tcp, udp }
    }

    fn ask(&self, request: &str) -> String {
        let server = if request.starts_with("GET ") {
            &self.udp
        } else {
            &self.tcp
        };
        let output = curtail(&["rival", "request", server, request]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs one of the study's command lines, such as `python distribution.py x | ./set_client x`,
    /// with the names of ours.
    fn pipe(&self, requests: u32, client: &str) -> String {
        let port = |address: &str| address.rsplit(':').next().unwrap().to_owned();
        let script = format!(
            "$CURTAIL distribution {requests} | \
             $CURTAIL rival {client} {requests} --port {} --udp-port {}",
            port(&self.tcp),
            port(&self.udp),
        );
        let mut shell = Command::new("sh");
        let output = shell
            .args(["-c", &script])
            .env("CURTAIL", curtail_path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{client}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Stops the server. Returns the counters that it prints.
    fn stop(mut self) -> Value {
        terminate(self.child.id()).unwrap();
        let mut text = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert!(self.child.wait().unwrap().success());
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn curtail(arguments: &[&str]) -> Output {
    Command::new(curtail_path())
        .args(arguments)
        .output()
        .unwrap()
}

/// The number that follows `title` in the output of a client.
fn number(text: &str, title: &str) -> f64 {
    let rest = text
        .split_once(title)
        .unwrap_or_else(|| panic!("{title} in {text}"))
        .1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn the_command_lines_of_the_study_work() {
    let rival = Rival::start(&[]);
    for client in ["set_client", "get_client", "delete_client"] {
        let text = rival.pipe(300, client);
        let (ms, rate) = (
            number(&text, "Time per Get:"),
            number(&text, "Requests per second:"),
        );
        assert!(ms > 0.0 && (ms * rate - 1000.0).abs() < 1.0, "{text}");
        let has_failures = text.contains("Percent of Requests that failed:");
        assert_eq!(has_failures, client == "get_client", "{text}");
    }
    let counters = rival.stop();
    assert_eq!(
        (&counters["sets"], &counters["deletes"]),
        (&300.into(), &300.into())
    );
    // One more is the generator's check that the server answers.
    assert!(counters["gets"].as_u64().unwrap() >= 300, "{counters}");
    assert_eq!(counters["malformed"], 0, "{counters}");
}

/// Values of every length that the law gives come back, also those of several datagrams.
#[test]
fn what_was_set_is_found() {
    for pool in ["one-thread", "queue-poll", "queue-sleep", "rings"] {
        if pool == "rings" && runtime::Kind::Rings.probe().is_err() {
            println!("skipped: rings are not available on this machine");
            continue;
        }
        let rival = Rival::start(&["--pool", pool]);
        let output = curtail(&[
            "load",
            &rival.tcp,
            "--protocol",
            "textile",
            "--udp-port",
            rival.udp.rsplit(':').next().unwrap(),
            "--rate",
            "500",
            "-c",
            "4",
            "--no-spin",
            "-t",
            "500ms",
            "-w",
            "0s",
            "--timeout",
            "2s",
            "--mix",
            "get=8,set=1",
            "--records",
            "200",
            "--prefill",
            "--value-max",
            "5000",
            "--json",
            "-",
        ]);
        assert!(output.status.success(), "{pool}: {output:?}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["resident"], 1.0, "{pool}");
        assert_eq!(summary["hits"], summary["gets"], "{pool}");
        assert!(summary["hits"].as_u64().unwrap() > 100, "{pool}: {summary}");
        assert_eq!(summary["errors"], 0, "{pool}");
        assert_eq!(summary["failures"]["timed_out"], 0, "{pool}");
        assert_eq!(rival.stop()["lost"], 0, "{pool}");
    }
}

#[test]
fn a_load_by_two_agents_adds_up() {
    let rival = Rival::start(&["--cache", "per-entry", "--pool", "queue-sleep"]);
    let agents = [(); 2].map(|()| Agent::start(&[]).unwrap());
    let udp_port = rival.udp.rsplit(':').next().unwrap();
    let words = [
        "--protocol",
        "textile",
        "--udp-port",
        udp_port,
        "--rate",
        "500",
    ];
    let more = [
        "-c",
        "8",
        "-w",
        "200ms",
        "-t",
        "1s",
        "--no-spin",
        "--timeout",
        "1s",
    ];
    let keys = [
        "--keys",
        "fb_key",
        "--records",
        "100",
        "--prefill",
        "--mix",
        "get=60,set=40",
    ];
    let words = [&words[..], &more, &keys].concat();
    let folder = tempfile::tempdir().unwrap();
    let command = load(&rival.tcp, &agents.iter().collect::<Vec<_>>(), &words);
    let run = Run::of(command, folder.path()).unwrap();
    assert_eq!(run.verdict(), (Some(0), String::new()), "{}", run.printed());
    let summary = run.summary.unwrap();
    assert_eq!(summary.intended, summary.answered + summary.censored);
    assert!(summary.answered > 300 && summary.gets > summary.sets && summary.sets > 0);
    assert_eq!((summary.hits, summary.errors), (summary.gets, 0));
    assert_eq!(summary.agents.len(), 2);
}

#[test]
fn requests_by_hand_are_answered() {
    let rival = Rival::start(&["--cache", "unthreaded", "--pool", "one-thread", "-m", "100"]);
    assert_eq!(rival.ask("PUT /colour/blue"), "Value set in cache.\n");
    assert_eq!(
        rival.ask("GET /colour"),
        "{ \"key\" : \"colour\", \"val\" : \"blue\" }\n"
    );
    assert_eq!(
        rival.ask("GET /shape"),
        "{ \"key\" : \"shape\", \"val\" : \"NULL\" }\n"
    );
    assert!(rival.ask("HEAD").ends_with("Space Used: 4\n"));
    assert_eq!(rival.ask("POST /shutdown"), "Shutdown is not enabled.\n");
    rival.stop();
}

#[test]
fn a_wrong_setting_is_named() {
    for (arguments, fault) in [
        (
            &["--cache", "unthreaded"] as &[&str],
            "give --pool one-thread",
        ),
        (&["--workers", "0"], "give 1 to 256"),
        (&["--pool", "busy"], "`busy` is no pool"),
        (&["--cache", "clock"], "unknown design \"clock\""),
        (
            &["-l", "192.0.2.1", "-p", "1"],
            "failed to listen on 192.0.2.1:1",
        ),
    ] {
        let output = curtail(&[&["rival", "textile"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(fault),
            "{arguments:?}: {text}"
        );
    }
}
