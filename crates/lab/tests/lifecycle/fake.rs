//! The fake processes: this test program, started again by the scripts of the gate.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use lab::{Experiment, LineReporter, Options};
use load::summary::{LatencyDistribution, Loop, SCHEMA, Summary};

/// Not a test but the processes the tests start; among the tests it does nothing.
#[test]
fn process() {
    let Ok(words) = std::env::var("FAKE") else {
        return;
    };
    let words: Vec<&str> = words.split(' ').collect();
    let code = match words[..] {
        ["serve", manner, port] => serve(manner, port),
        ["load", address, ..] => load(address, &words),
        ["lab"] => lab(),
        _ => panic!("unknown words {words:?}"),
    };
    std::process::exit(code);
}

/// Reports to the gate; the connection ends with the process.
fn register(name: &str) -> UnixStream {
    let mut stream = UnixStream::connect(folder().join("gate")).unwrap();
    writeln!(stream, "{name} {}", std::process::id()).unwrap();
    stream
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os("FAKE_FOLDER").unwrap())
}

fn serve(manner: &str, port: &str) -> i32 {
    let _registered = register(manner);
    match manner {
        "dies" => {
            eprintln!("fake trouble");
            return 3;
        }
        "silent" => loop {
            std::thread::park();
        },
        _ => {}
    }
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    for (count, stream) in listener.incoming().enumerate() {
        let stream = stream.unwrap();
        if manner == "fragile" && count == 1 {
            eprintln!("fake crash");
            return 4;
        }
        answer(stream);
    }
    0
}

fn answer(mut stream: TcpStream) {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    if line == "version\r\n" {
        // It fails only where the client has gone.
        let _ = stream.write_all(b"VERSION 9.9-fake\r\n");
    }
}

fn load(address: &str, words: &[&str]) -> i32 {
    let gate = register("generator");
    let mut word = String::new();
    BufReader::new(&gate).read_line(&mut word).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"version\r\n").unwrap();
    let mut version = String::new();
    let answered = BufReader::new(stream).read_line(&mut version).unwrap_or(0) > 0;
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name).expect(name);
        words[at + 1]
    };
    assert_eq!(value("--json"), "-");
    assert_eq!(value("--duration"), "100ms");
    assert!(words.contains(&"--prefill") && words.contains(&"--watch-bursts"));
    if value("--depth") == "13" {
        return 5;
    }
    let offered_rps = value("--rate").parse().ok();
    let mut summary = summary(offered_rps, u64::from(answered) * 100);
    summary.saturating_rps = words.contains(&"--saturating").then(|| {
        assert_eq!(value("--saturating-depth"), "512");
        value("--saturating").parse().unwrap()
    });
    // The scripts keep the true standard output at descriptor 3; 1 is the test harness's.
    let mut output = File::options().write(true).open("/dev/fd/3").unwrap();
    serde_json::to_writer(&mut output, &summary).unwrap();
    0
}

fn summary(offered_rps: Option<f64>, answered: u64) -> Summary {
    let distribution = LatencyDistribution {
        count: answered,
        mean: 20.0,
        min: 10,
        max: 30,
        percentiles: [50.0, 90.0, 95.0, 99.0, 99.9].map(|p| (p, 20)).to_vec(),
        hdr: "fake".to_owned(),
        censored: None,
    };
    let open = offered_rps.map(|_| distribution.clone());
    Summary {
        schema: SCHEMA.to_owned(),
        demand: if offered_rps.is_some() {
            Loop::Open
        } else {
            Loop::Closed
        },
        offered_rps,
        duration_ns: 100_000_000,
        intended: 100,
        sent: 100,
        answered,
        censored: 0,
        failures: load::summary::Failures::default(),
        follow_ups: 0,
        errors: 0,
        achieved_rps: offered_rps.unwrap_or(1_000.0),
        gets: 90,
        hits: 90,
        sets: 10,
        lost_connections: 0,
        resident: Some(1.0),
        response: open.clone(),
        service: distribution,
        slip: open.clone(),
        lateness: open,
        generator_limited: false,
        generator_cpu: 0.1,
        generator_busy: 0.1,
        outstanding_mean: 1.0,
        outstanding_unread: 0.0,
        outstanding_expected: 1.0,
        bytes_sent: 1,
        bytes_received: 1,
        unstamped: 0,
        saturating_rps: None,
        stalls: None,
        watched: None,
        bursts: None,
        operations: Vec::new(),
        carrier: None,
        script: None,
        agents: Vec::new(),
        measuring_client: None,
    }
}

/// A lab in a process of its own, to be killed.
fn lab() -> i32 {
    let _registered = register("lab");
    let folder = folder();
    let experiment = Experiment::load(folder.join("experiment.toml").to_str().unwrap()).unwrap();
    let options = Options {
        runs: folder.join("runs"),
        curtail: folder.join("fake"),
        ..Options::new().unwrap()
    };
    let plan = experiment.plan(&options).unwrap();
    let outcome = lab::run(&plan, &options, &mut LineReporter::new(std::io::sink())).unwrap();
    i32::from(outcome.exit_code())
}
