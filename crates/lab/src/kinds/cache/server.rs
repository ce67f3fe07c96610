//! The server of one trial: start, first reply, stop.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use units::duration_text;

use super::Cache;
use crate::error::Error;
use hosts::Hosts;
use crate::kind::{Context, TrialError};
use crate::limits;
use crate::port::Ports;
use crate::process::{Process, WaitResult, with_last_lines};


/// Grace time for a server that may be about to exit by itself.
const MOMENT: Duration = Duration::from_millis(250);
/// The signal's number, equal on every architecture of Linux.
const SIGTERM: i32 = 15;

/// A server that has replied.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    pub(super) address: SocketAddr,
    pub(super) version: String,
}

/// How a server ended.
#[derive(Debug)]
pub(super) enum ServerExit {
    /// After SIGTERM, without an error.
    Clean,
    /// After SIGTERM, with an error or only after SIGKILL: the problem as a note.
    Abnormal(String),
    /// Before SIGTERM: its exit status.
    Early(String),
}

/// Starts the server and waits for its first reply. Its output goes to `log`.
pub(super) fn start(
    cache: &Cache,
    context: &Context<'_>,
    hosts: &Hosts,
    command: &[String],
    log: Option<&Path>,
) -> Result<Server, TrialError> {
    let (output, errors) = match log {
        Some(path) => {
            let file = File::create(path).map_err(Error::file("create", path))?;
            let twin = file.try_clone().map_err(Error::file("open", path))?;
            (Stdio::from(file), Stdio::from(twin))
        }
        None => (Stdio::null(), Stdio::null()),
    };
    let port = Ports::new().next(hosts)?;
    let ip = hosts.server_ip();
    let fill = |word: &String| {
        let word = word.replace("{port}", &port.to_string());
        word.replace("{ip}", &ip.to_string())
    };
    let mut words = command.iter().map(fill);
    let program = words.next().unwrap_or_default();
    let mut start = hosts.in_server(Command::new(&program));
    start
        .args(words)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let process = Process::start_guarded(
        &mut start,
        &cache.settings.server_cpus,
        cache.settings.goes_first,
        &format!("`{program}`"),
    )?;
    let address = SocketAddr::from((ip, port));
    let mut server = Server {
        process,
        address,
        version: String::new(),
    };
    server.version = server.first_reply(context, hosts, log)?;
    Ok(server)
}

impl Server {
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the first reply to `version`.
    fn first_reply(
        &mut self,
        context: &Context<'_>,
        hosts: &Hosts,
        log: Option<&Path>,
    ) -> Result<String, TrialError> {
        let quoting = |reason: String| match log {
            Some(log) => TrialError::Failed(with_last_lines(&reason, log)),
            None => TrialError::Failed(reason),
        };
        let deadline = Instant::now() + context.options.timeouts.start;
        loop {
            if let Ok(version) = ask_version(hosts, self.address) {
                return Ok(version);
            }
            match self.process.wait(limits::ATTEMPT_GAP, Some(context.stop_signals))? {
                WaitResult::Exited => {
                    let status = self.process.finish()?;
                    return Err(quoting(format!(
                        "the server exited before its first reply ({status})"
                    )));
                }
                WaitResult::StopRequested => return Err(TrialError::StopRequested),
                WaitResult::TimedOut if Instant::now() >= deadline => {
                    let timeout = duration_text(context.options.timeouts.start);
                    return Err(quoting(format!(
                        "the server did not reply within {timeout}"
                    )));
                }
                WaitResult::TimedOut => {}
            }
        }
    }

    /// Terminates the server, and kills it if it does not exit in time. If the trial was
    /// `abnormal`, the server first has a grace time to exit by itself: a crash closes its
    /// connections, which ends the generator, before the process has exited.
    pub(super) fn stop(
        mut self,
        context: &Context<'_>,
        abnormal: bool,
    ) -> Result<ServerExit, Error> {
        let moment = if abnormal { MOMENT } else { Duration::ZERO };
        if self.process.wait(moment, None)? == WaitResult::Exited {
            return Ok(ServerExit::Early(self.process.finish()?.to_string()));
        }
        self.process.terminate();
        let in_time = self.process.wait(context.options.timeouts.stop, None)? == WaitResult::Exited;
        let status = self.process.finish()?;
        Ok(if !in_time {
            let timeout = duration_text(context.options.timeouts.stop);
            ServerExit::Abnormal(format!(
                "the server did not exit within {timeout} of SIGTERM and was killed"
            ))
        } else if status.success() || status.signal() == Some(SIGTERM) {
            ServerExit::Clean
        } else {
            ServerExit::Abnormal(format!("after SIGTERM, the server exited with {status}"))
        })
    }
}

/// A server's reply to `version`, from starting it once. None: it does not start; its trials record
/// the reason.
pub(crate) fn probe_version(
    cache: &Cache,
    context: &Context<'_>,
    hosts: &Hosts,
    command: &[String],
) -> Result<Option<String>, TrialError> {
    let server = match start(cache, context, hosts, command, None) {
        Ok(server) => server,
        Err(TrialError::Failed(_)) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let version = server.version.clone();
    server.stop(context, false)?;
    Ok(Some(version))
}

fn ask_version(hosts: &Hosts, address: SocketAddr) -> std::io::Result<String> {
    let mut stream = hosts.connect(address, limits::CONNECT_ATTEMPT)?;
    stream.set_read_timeout(Some(limits::CONNECT_ATTEMPT))?;
    stream.set_write_timeout(Some(limits::CONNECT_ATTEMPT))?;
    stream.write_all(b"version\r\n")?;
    let mut line = String::new();
    BufReader::new(stream.take(limits::VERSION_LEN as u64)).read_line(&mut line)?;
    match line.trim_end().strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_owned()),
        None => Err(std::io::ErrorKind::InvalidData.into()),
    }
}
