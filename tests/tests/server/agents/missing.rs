//! Agents that fail, lag or end early during a run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use curtail_tests::agents::{Agent, Run, load, summary_path};
use load::agents::{Token, frame};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::{SMALL, TIMEOUT, adds_up, agents, framed, run, server};

/// Runs four seconds over three agents; `disturb` is called once the run has begun.
fn disturbed(agents: &mut [Agent], disturb: impl FnOnce(&mut [Agent])) -> Run {
    let server = server();
    disturbed_run_of(&server.1, agents, disturb)
}

/// As [`disturbed`], against a server at `address`.
fn disturbed_run_of(
    address: &str,
    agents: &mut [Agent],
    disturb: impl FnOnce(&mut [Agent]),
) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<&Agent> = agents.iter().collect();
    let mut words = SMALL.to_vec();
    words[7] = "4s";
    let mut command = load(address, &all, &words);
    command.arg("--json").arg(summary_path(folder.path()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("warm-up") {
        assert!(reader.read_line(&mut printed).unwrap() > 0, "{printed}");
    }
    disturb(agents);
    reader.read_to_string(&mut printed).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stdout = printed.into_bytes();
    Run::ended(output, folder.path()).unwrap()
}

fn misses_the_second_of_three(run: &Run, second: SocketAddr, why: &str) {
    let (code, errors) = run.verdict();
    assert_eq!(code, Some(1));
    let named = format!("curtail: agent {second} and its 3 connections are missing: {why}");
    assert!(errors.contains(&named), "{errors}");
    assert!(
        errors.contains("the run covers 5 of 8 connections"),
        "{errors}"
    );
    let printed = run.printed();
    assert!(printed.contains("  without 3 connections\n"), "{printed}");
    assert!(printed.contains(", on 5 of 8 connections\n"), "{printed}");
    let line = format!("agent      {second} MISSING, connections 2 to 4: {why}");
    assert!(printed.contains(&line), "{printed}");
    let summary = run.summary.as_ref().unwrap();
    adds_up(summary);
    // Of the others nothing is missing, and the missing share counts nowhere.
    assert_eq!(summary.censored, 0);
    assert_eq!(summary.offered_rps, Some(625.0));
    let missing: Vec<bool> = summary
        .agents
        .iter()
        .map(|it| it.missing.is_some())
        .collect();
    assert_eq!(missing, [false, true, false]);
    assert_eq!(summary.agents[1].limits, None);
}

#[test]
fn an_agent_that_is_killed_is_named_and_its_share_is_missing() {
    let mut agents = agents(3);
    let second = agents[1].address;
    let run = disturbed(&mut agents, |agents| agents[1].kill().unwrap());
    misses_the_second_of_three(&run, second, "it closed the connection");
}

/// Agents whose connections are all lost end before the seconds of the run have passed. The reason
/// that is shown is that of the agents, not that their seconds come too early.
#[test]
fn a_server_that_is_killed_is_named_as_the_reason() {
    let mut agents = agents(3);
    let (server, address) = server();
    let run = disturbed_run_of(&address, &mut agents, |_| drop(server));
    let (code, errors) = run.verdict();
    assert_eq!(code, Some(1));
    for agent in &agents {
        let why = format!("agent {} and its", agent.address);
        let line = errors.lines().find(|line| line.contains(&why));
        let line = line.unwrap_or_else(|| panic!("{errors}"));
        assert!(line.contains("connections: all were lost"), "{errors}");
    }
}

#[test]
fn an_agent_that_lags_is_named_and_its_share_is_missing() {
    let mut agents = agents(3);
    let (second, pid) = (agents[1].address, agents[1].pid());
    let run = disturbed(&mut agents, |_| {
        let stopped = Command::new("kill")
            .args(["-STOP", &pid.to_string()])
            .status();
        assert!(stopped.unwrap().success());
    });
    misses_the_second_of_three(&run, second, "it lagged by more than 3 s");
}

/// Passes the frames of an agent on to its coordinator, changed, and all bytes of the coordinator
/// to the agent. Returns the address for the coordinator.
fn between(agent: SocketAddr, change: fn(String) -> String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut coordinator, _) = listener.accept().unwrap();
        let mut agent = TcpStream::connect(agent).unwrap();
        let (mut from, mut to) = (coordinator.try_clone().unwrap(), agent.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            // The agent must learn that the coordinator is gone.
            to.shutdown(Shutdown::Both)
        });
        let mut head = [0; frame::HEAD_LEN];
        while agent.read_exact(&mut head).is_ok() {
            let len = u32::from_be_bytes(head[frame::HEAD_LEN - 4..].try_into().unwrap());
            let mut body = vec![0; len as usize];
            agent.read_exact(&mut body).unwrap();
            let body = change(String::from_utf8(body).unwrap());
            // The coordinator closes the connection to an agent that it gives up.
            let _ = coordinator.write_all(&framed(&body));
        }
    });
    address
}

#[test]
fn an_agent_whose_summary_cannot_be_used_is_missing_and_the_others_are_not() {
    let (_server, address) = server();
    let mut agents = agents(2);
    let whole = agents[1].address;
    for (change, why) in [
        (
            (|body| body.replace("curtail.load/", "curtail.lead/")) as fn(String) -> String,
            "it has another schema, interval, percentiles, carrier or kind of load than the run",
        ),
        (
            |body| body.replace(r#""hdr":""#, r#""hdr":"!"#),
            "histogram is not base64",
        ),
    ] {
        agents[1].address = between(whole, change);
        let both: Vec<&Agent> = agents.iter().collect();
        let run = run(load(&address, &both, &SMALL));
        let (code, errors) = run.verdict();
        assert_eq!(code, Some(1));
        let named = format!(
            "curtail: agent {} and its 4 connections are missing: it sent a summary that cannot be \
             used: {why}",
            agents[1].address
        );
        assert!(errors.contains(&named), "{errors}");
        let summary = run.summary.unwrap();
        adds_up(&summary);
        assert_eq!(summary.offered_rps, Some(500.0));
        assert_eq!(summary.agents[0].missing, None);
    }
}

#[test]
fn an_agent_without_memory_for_a_thread_drops_the_connection_and_goes_on() {
    let (_server, address) = server();
    let agent = Agent::start(&[]).unwrap();
    let pid = Pid::from_raw(agent.pid() as i32);
    // The agent has more memory than that already, so the stack of a thread is refused.
    let scarce = Rlimit {
        current: Some(1 << 20),
        maximum: None,
    };
    let before = prlimit(pid, Resource::As, scarce).unwrap();
    let mut stream = TcpStream::connect(agent.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it was served");
    prlimit(pid, Resource::As, before).unwrap();
    let run = run(load(&address, &[&agent], &SMALL));
    assert_eq!(run.verdict(), (Some(0), String::new()));
}

/// A server that answers all gets but those of one connection, which is in the part of the first
/// agent.
fn server_silent_on_one_connection() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in (0..).zip(listener.incoming()) {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(line)) = lines.next() {
                    let answer = match line.starts_with("version") {
                        true => "VERSION 1\r\n",
                        false if number == 0 => continue,
                        false => "END\r\n",
                    };
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    address
}

/// An agent of this process that soon gives up a coordinator that is silent, unless it has a reason
/// to wait. Returns its address.
fn impatient_agent() -> SocketAddr {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let agent = load::agents::Agent::bind(here, Token::default(), Vec::new()).unwrap();
    let agent = agent.with_idle_timeout(Duration::from_millis(500));
    let address = agent.address().unwrap();
    thread::spawn(move || agent.serve(|_, _| {}));
    address
}

#[test]
fn an_agent_that_is_done_early_waits_for_the_others_for_a_long_grace_period() {
    let address = server_silent_on_one_connection();
    let mut words = SMALL.to_vec();
    words[12] = "0";
    words.extend(["--grace", "3s"]);
    let mut command = load(&address.to_string(), &[], &words);
    for _ in 0..2 {
        command.args(["--agent", &impatient_agent().to_string()]);
    }
    let run = run(command);
    let summary = run.summary.unwrap();
    assert!(summary.censored > 0);
    for agent in &summary.agents {
        assert_eq!(agent.missing, None);
        assert!(agent.clock_moved.is_some(), "{} left", agent.agent);
    }
}

#[test]
fn a_run_without_any_agent_left_has_no_summary() {
    let mut agents = agents(3);
    let first = agents[0].address;
    let run = disturbed(&mut agents, |agents| {
        agents.iter_mut().for_each(|agent| agent.kill().unwrap());
    });
    let (code, errors) = run.verdict();
    assert_eq!(code, Some(1));
    let expected = format!("run any of 3 agents: all are missing, the first, {first}, because");
    assert!(errors.contains(&expected), "{errors}");
    assert!(run.summary.is_none());
}
