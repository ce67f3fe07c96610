//! One load offered by several agents: `curtail agent` and `curtail load --agent`, from outside.

mod missing;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::agents::{Agent, Run, load};
use curtail_tests::peer::Address;
use curtail_tests::process::{self, Server, curtail_path, free_address};
use load::agents::frame;
use load::{Config, Summary};

/// How long anything may take that is no run.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A small load: 1000 requests a second over eight connections.
const SMALL: [&str; 13] = [
    "--rate",
    "1k",
    "-c",
    "8",
    "-w",
    "200ms",
    "-t",
    "1s",
    "--records",
    "100",
    "--no-spin",
    "-u",
    "0.2",
];

fn server() -> (Server, String) {
    let server = process::server(&["-m", "64"]);
    let Address::Tcp(address) = server.address else {
        panic!("{:?}", server.address)
    };
    (server, address.to_string())
}

fn agents(count: usize) -> Vec<Agent> {
    (0..count).map(|_| Agent::start(&[]).unwrap()).collect()
}

fn run(command: Command) -> Run {
    let folder = tempfile::tempdir().unwrap();
    Run::of(command, folder.path()).unwrap()
}

fn adds_up(summary: &Summary) {
    assert_eq!(summary.intended, summary.answered + summary.censored);
    assert_eq!(summary.answered, summary.gets + summary.sets);
    assert_eq!(summary.service.count, summary.answered);
    let response = summary.response.as_ref().unwrap();
    assert_eq!(response.count, summary.intended);
}

/// The requests of the run's schedule that are due in its measured interval.
fn planned(change: impl Fn(&mut Config), rate_rps: f64) -> u64 {
    let mut config = Config::new("127.0.0.1:1".parse().unwrap());
    change(&mut config);
    let schedule = config.demand().schedule(rate_rps).unwrap();
    let end_ns = config.warmup_ns + config.duration_ns;
    let due = schedule.take_while(|planned| planned.intended_ns < end_ns);
    due.filter(|planned| planned.intended_ns >= config.warmup_ns)
        .count() as u64
}

#[test]
fn two_agents_offer_one_load() {
    let (_server, address) = server();
    let agents = agents(2);
    let both: Vec<&Agent> = agents.iter().collect();
    let mut words = SMALL.to_vec();
    words.push("--prefill");
    // Agents serve one run after another.
    for _ in 0..2 {
        let run = run(load(&address, &both, &words));
        assert_eq!(run.verdict(), (Some(0), String::new()), "{}", run.printed());
        let summary = run.summary.unwrap();
        adds_up(&summary);
        let expected = planned(
            |config| {
                (config.connections, config.update) = (8, 0.2);
                (config.warmup_ns, config.duration_ns) = (200_000_000, 1_000_000_000);
                config.records = 100;
            },
            1000.0,
        );
        assert_eq!(summary.intended, expected);
        assert_eq!(summary.answered, expected);
        assert_eq!(summary.hits, summary.gets);
        assert_eq!(summary.offered_rps, Some(1000.0));
        let parts: Vec<_> = summary.agents.iter().map(|it| it.part.range()).collect();
        assert_eq!(parts, [0..4, 4..8]);
        let rates = summary
            .agents
            .iter()
            .map(|it| it.limits.unwrap().achieved_rps);
        assert_eq!(rates.sum::<f64>(), summary.achieved_rps);
        for agent in &summary.agents {
            // Both ends read one clock here.
            let clock = agent.clock.unwrap();
            assert!(
                clock.offset_ns.unsigned_abs() <= clock.error_ns + 1,
                "{clock:?}"
            );
            assert_eq!(agent.missing, None);
            assert!(agent.clock_moved.is_some());
        }
    }
}

/// A server that answers every request and keeps the bytes of each connection.
fn recording_server() -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&recorded);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let all = Arc::clone(&all);
            thread::spawn(move || {
                let bytes = answer_all(stream.unwrap());
                all.lock().unwrap().push(bytes);
            });
        }
    });
    (address, recorded)
}

fn answer_all(stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut input = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if !matches!(input.read_until(b'\n', &mut line), Ok(1..)) {
            return bytes;
        }
        bytes.extend_from_slice(&line);
        let line = String::from_utf8(line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[0] {
            "version" => "VERSION 1\r\n",
            "get" => "END\r\n",
            _ => {
                let len: usize = words[4].parse().unwrap();
                let mut value = vec![0; len + 2];
                input.read_exact(&mut value).unwrap();
                bytes.extend_from_slice(&value);
                "STORED\r\n"
            }
        };
        // A load that has what it needs closes first.
        let _ = input.get_mut().write_all(answer.as_bytes());
    }
}

/// The bytes of each connection of a run, and how many had them.
fn bytes_of(by: &[&Agent]) -> BTreeMap<Vec<u8>, usize> {
    let (address, recorded) = recording_server();
    let run = run(load(&address.to_string(), by, &SMALL));
    assert_eq!(run.verdict(), (Some(0), String::new()), "{}", run.printed());
    let deadline = Instant::now() + TIMEOUT;
    // The ends of the connections are noticed one by one.
    while recorded.lock().unwrap().len() < 8 {
        assert!(Instant::now() < deadline, "connections stay open");
        thread::sleep(Duration::from_millis(5));
    }
    let mut counts = BTreeMap::new();
    for bytes in recorded.lock().unwrap().drain(..) {
        *counts.entry(bytes).or_default() += 1;
    }
    counts
}

#[test]
fn agents_send_the_bytes_that_one_generator_sends() {
    let agents = agents(3);
    let alone = bytes_of(&[]);
    assert_eq!(alone.len(), 8);
    let together = bytes_of(&agents.iter().collect::<Vec<_>>());
    assert!(alone == together, "the bytes of some connection differ");
}

#[test]
fn a_token_is_needed_on_both_ends_and_beyond_loopback() {
    let (_server, address) = server();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, token: &str| {
        let path = folder.path().join(name);
        fs::write(&path, token).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (
        file("right", "0123456789abcdef\n"),
        file("wrong", "0123456789abcdeX"),
    );
    let agent = Agent::start(&["--token-file", &right]).unwrap();
    let with = |words: &[&str]| {
        let words: Vec<&str> = SMALL.iter().chain(words).copied().collect();
        run(load(&address, &[&agent], &words))
    };
    for words in [&["--token-file", &wrong][..], &[]] {
        let (code, errors) = with(words).verdict();
        assert_eq!(code, Some(1));
        let expected = format!(
            "run agent {}: it has another token; give both ends the same file with --token-file",
            agent.address
        );
        assert!(errors.contains(&expected), "{errors}");
    }
    let right = with(&["--token-file", &right]);
    assert_eq!(right.verdict(), (Some(0), String::new()));

    let mut open = Command::new(curtail_path());
    let output = open.args(["agent", "0.0.0.0:0"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("give --token-file FILE"), "{errors}");
}

fn framed(body: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frame::emit(body.as_bytes(), &mut out).unwrap();
    out
}

fn of_version(mut frame: Vec<u8>, version: u8) -> Vec<u8> {
    (frame[4], frame[5]) = (0, version);
    frame
}

#[test]
fn another_version_is_refused_with_both_named() {
    let agent = Agent::start(&[]).unwrap();
    let mut stream = TcpStream::connect(agent.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
        .write_all(&of_version(framed("\"Stop\""), 9))
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let refusal = format!(
        r#"{{"Refused":{{"Version":{{"agent":{},"coordinator":9}}}}}}"#,
        frame::VERSION
    );
    assert!(answer.contains(&refusal), "{answer}");

    // The reverse: an agent of another version.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .write_all(&of_version(framed("\"Ready\""), 7))
            .unwrap();
        let _ = stream.read(&mut [0]);
    });
    let mut command = Command::new(curtail_path());
    command.args(["load", "127.0.0.1:1", "--agent", &address.to_string()]);
    let (code, errors) = run(command).verdict();
    other.join().unwrap();
    assert_eq!(code, Some(1));
    let expected = format!(
        "it speaks version 7 of the agents' protocol, and this program version {}",
        frame::VERSION
    );
    assert!(errors.contains(&expected), "{errors}");
}

/// A run of a minute whose first second has begun.
fn begin_long_run(server: &str, agents: &[&Agent]) -> Child {
    let mut words = SMALL.to_vec();
    words[7] = "60s";
    let mut command = load(server, agents, &words);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.as_mut().unwrap();
    let mut lines = BufReader::new(output).lines();
    let warm = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("warm-up")));
    assert!(warm.is_some(), "the run does not begin");
    child
}

#[test]
fn a_second_coordinator_is_told_that_the_agent_is_busy_until_the_first_is_gone() {
    let (_server, address) = server();
    let agent = Agent::start(&[]).unwrap();
    let mut first = begin_long_run(&address, &[&agent]);
    let (code, errors) = run(load(&address, &[&agent], &SMALL)).verdict();
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("it is busy with the run of another coordinator"),
        "{errors}"
    );
    first.kill().unwrap();
    first.wait().unwrap();
    // The agent ends its part at once, not in a minute.
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let (code, errors) = run(load(&address, &[&agent], &SMALL)).verdict();
        if code == Some(0) {
            return;
        }
        assert!(errors.contains("it is busy"), "{errors}");
        assert!(Instant::now() < deadline, "the agent stays busy");
    }
}

#[test]
fn an_agent_that_cannot_reach_the_server_ends_the_run_before_it_starts() {
    let agents = agents(2);
    let nobody = free_address(Ipv4Addr::LOCALHOST).unwrap().to_string();
    let both: Vec<&Agent> = agents.iter().collect();
    let (code, errors) = run(load(&nobody, &both, &SMALL)).verdict();
    assert_eq!(code, Some(1));
    let expected = format!(
        "run agent {}: failed to connect to {nobody}",
        agents[0].address
    );
    assert!(errors.contains(&expected), "{errors}");
}

#[test]
fn an_agent_survives_what_is_not_its_protocol() {
    let agent = Agent::start(&[]).unwrap();
    let long = [&framed("")[..6], &[255; 4], &[0; 4096]].concat();
    let many = vec![0_u8; 1 << 16];
    let inputs: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\xff\xff",
        &framed("{\"Hello\":"),
        &framed("\"Stop\""),
        &framed(r#"{"Start":{"at_ns":1}}"#),
        &long,
        &many,
    ];
    for input in inputs {
        let mut stream = TcpStream::connect(agent.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        // It may have ended the connection before all is sent.
        let _ = stream.write_all(input);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 1024, "{}", answer.len());
    }
    // Connections that say nothing do not keep it from its work.
    let silent: Vec<TcpStream> = (0..10)
        .map(|_| TcpStream::connect(agent.address).unwrap())
        .collect();
    let (_server, address) = server();
    let run = run(load(&address, &[&agent], &SMALL));
    assert_eq!(run.verdict(), (Some(0), String::new()));
    drop(silent);
}

#[test]
fn settings_that_do_not_fit_are_refused_before_anything_starts() {
    let agent = Agent::start(&[]).unwrap();
    let refused = |words: &[&str], agents: &[&Agent], expected: &str| {
        let (code, errors) = run(load("127.0.0.1:1", agents, words)).verdict();
        assert_eq!(code, Some(1));
        assert!(errors.contains(expected), "{errors}");
    };
    refused(
        &["-c", "3", "-T", "2"],
        &[&agent, &Agent::start(&[]).unwrap()],
        "connections: 3 are too few for 2 agents of 2 threads; give 4 or more",
    );
    refused(&[], &[&agent, &agent], "is given twice");
    refused(
        &["--cpus", "0"],
        &[&agent],
        "give the flag to `curtail agent`",
    );
    refused(
        &["--measure-connections", "0"],
        &[],
        "connections: 0 is out of bounds",
    );
}

#[test]
fn a_measuring_client_is_reported_beside_the_load() {
    let (_server, address) = server();
    let mut words = SMALL.to_vec();
    words.extend([
        "--prefill",
        "--measure-connections",
        "2",
        "--measure-rate",
        "300",
    ]);
    let agents = agents(2);
    // Beside threads of this process, and beside agents.
    for by in [&[][..], &agents.iter().collect::<Vec<_>>()] {
        let run = run(load(&address, by, &words));
        assert_eq!(run.verdict(), (Some(0), String::new()), "{}", run.printed());
        let printed = run.printed();
        let title = "\nmeasuring client: 2 connections, depth 1, beside a load of ";
        let (load, client) = printed.split_once(title).unwrap();
        assert!(load.contains(" of offered 1.00 k/s"), "{printed}");
        assert!(client.contains(" of offered 300/s\n"), "{printed}");
        let summary = run.summary.unwrap();
        adds_up(&summary);
        assert!(
            (800..1200).contains(&summary.intended),
            "{}",
            summary.intended
        );
        let client = summary.measuring_client.unwrap().summary;
        adds_up(&client);
        assert!((220..380).contains(&client.intended), "{}", client.intended);
        // The records are the load's.
        assert_eq!((client.hits, client.errors), (client.gets, 0));
    }
}

#[test]
fn a_closed_loop_by_agents_adds_up() {
    let (_server, address) = server();
    let agents = agents(2);
    let mut words = SMALL.to_vec();
    words[1] = "max";
    words.extend(["--saturating", "1", "--saturating-depth", "4"]);
    let run = run(load(&address, &agents.iter().collect::<Vec<_>>(), &words));
    assert_eq!(run.verdict(), (Some(0), String::new()), "{}", run.printed());
    let summary = run.summary.unwrap();
    assert_eq!((summary.offered_rps, summary.response), (None, None));
    assert_eq!(summary.service.count, summary.answered);
    assert!(summary.answered > 100 && summary.saturating_rps.unwrap() > 0.0);
}

#[test]
fn operations_and_a_carrier_by_agents_add_up() {
    let (_server, address) = server();
    let agents = agents(2);
    let both: Vec<&Agent> = agents.iter().collect();
    let mut words = SMALL[..SMALL.len() - 2].to_vec();
    words.extend(["--carrier", "one-shot", "--prefill"]);
    words.extend(["--mix", "get=60,cas=20,delete=5,read-through=15"]);
    let run = run(load(&address, &both, &words));
    assert_eq!(run.verdict(), (Some(0), String::new()), "{}", run.printed());
    let summary = run.summary.unwrap();
    assert_eq!(summary.intended, summary.answered);
    let counts = summary.operations.iter().map(|it| it.count);
    assert_eq!(counts.sum::<u64>(), summary.answered);
    let services = summary.operations.iter().map(|it| it.service.count);
    assert_eq!(services.sum::<u64>(), summary.answered);
    let follows = |name: &str| name == "cas" || name == "fill";
    let follow_ups = summary
        .operations
        .iter()
        .filter(|it| follows(&it.operation));
    let follow_ups: u64 = follow_ups.map(|it| it.count).sum();
    assert!(follow_ups > 0 && follow_ups == summary.follow_ups);
    let carrier = summary.carrier.unwrap();
    assert!(carrier.name == "one-shot" && carrier.opened >= summary.answered);
}

#[test]
fn a_script_is_refused_with_agents() {
    let agents = agents(1);
    let command = load("127.0.0.1:1", &[&agents[0]], &["--script", "-"]);
    let (code, errors) = run(command).verdict();
    assert_eq!(code, Some(2));
    assert!(
        errors.contains("--script") && errors.contains("--agent"),
        "{errors}"
    );
}
