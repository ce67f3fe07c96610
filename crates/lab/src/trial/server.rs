//! The server of one trial: started, answering, stopped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{Process, WaitResult};
use super::process_guard::ProcessGuard;
use super::{Ports, TrialContext, TrialError, with_last_lines};
use crate::error::Error;
use crate::limits;
use crate::units::duration_text;

/// Between two attempts to reach a server that does not answer yet.
const ATTEMPT_GAP: Duration = Duration::from_millis(2);
/// For one attempt: short, so that the user's wish to stop is soon seen.
const ATTEMPT: Duration = Duration::from_millis(250);

/// For a server that may be about to end by itself.
const MOMENT: Duration = Duration::from_millis(250);
/// The number of the signal, the same on every architecture of Linux.
const SIGTERM: i32 = 15;

/// A server that has answered.
#[derive(Debug)]
pub(super) struct Server {
    /// Dropped first: the process is killed before its keeper is dismissed.
    process: Process,
    _guard: ProcessGuard,
    pub(super) address: SocketAddr,
    pub(super) version: String,
}

/// How a server ended.
#[derive(Debug)]
pub(super) enum ServerExit {
    /// When it was asked to.
    Clean,
    /// When it was asked to, but not as it should: a sentence on that.
    Abnormal(String),
    /// Before it was asked: its status.
    Early(String),
}

/// Starts the server and waits until it answers. Its output goes to `log`.
pub(super) fn start(
    context: &TrialContext<'_>,
    command: &[String],
    port: u16,
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
    let mut words = command
        .iter()
        .map(|word| word.replace("{port}", &port.to_string()));
    let program = words.next().unwrap_or_default();
    let mut start = Command::new(&program);
    start
        .args(words)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let process = Process::start(
        &mut start,
        &context.plan.server_cpus,
        context.plan.goes_first,
    )
    .map_err(|error| TrialError::Failed(format!("`{program}` could not be started: {error}")))?;
    let guard = ProcessGuard::over(process.id()).map_err(Error::system("start /bin/sh"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut server = Server {
        process,
        _guard: guard,
        address,
        version: String::new(),
    };
    server.version = server.first_answer(context, log)?;
    Ok(server)
}

impl Server {
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the first answer to `version`.
    fn first_answer(
        &mut self,
        context: &TrialContext<'_>,
        log: Option<&Path>,
    ) -> Result<String, TrialError> {
        let quoting = |reason: String| match log {
            Some(log) => TrialError::Failed(with_last_lines(&reason, log)),
            None => TrialError::Failed(reason),
        };
        let deadline = Instant::now() + context.timeouts.start;
        loop {
            if let Ok(version) = ask_version(self.address) {
                return Ok(version);
            }
            match self.process.wait(ATTEMPT_GAP, Some(context.stop_signals))? {
                WaitResult::Exited => {
                    let status = self.process.finish()?;
                    return Err(quoting(format!(
                        "the server ended before it answered ({status})"
                    )));
                }
                WaitResult::StopRequested => return Err(TrialError::StopRequested),
                WaitResult::TimedOut if Instant::now() >= deadline => {
                    let timeout = duration_text(context.timeouts.start);
                    return Err(quoting(format!(
                        "the server did not answer within {timeout}"
                    )));
                }
                WaitResult::TimedOut => {}
            }
        }
    }

    /// Asks the server to end, and kills it if it does not. Where something is `abnormal`, the
    /// server first has a moment to end by itself: a crash closes its connections, and so ends
    /// the generator, before the process is gone.
    pub(super) fn stop(
        mut self,
        context: &TrialContext<'_>,
        abnormal: bool,
    ) -> Result<ServerExit, Error> {
        let moment = if abnormal { MOMENT } else { Duration::ZERO };
        if self.process.wait(moment, None)? == WaitResult::Exited {
            return Ok(ServerExit::Early(self.process.finish()?.to_string()));
        }
        self.process.terminate();
        let in_time = self.process.wait(context.timeouts.stop, None)? == WaitResult::Exited;
        let status = self.process.finish()?;
        Ok(if !in_time {
            let timeout = duration_text(context.timeouts.stop);
            ServerExit::Abnormal(format!(
                "the server did not end within {timeout} of SIGTERM and was killed"
            ))
        } else if status.success() || status.signal() == Some(SIGTERM) {
            ServerExit::Clean
        } else {
            ServerExit::Abnormal(format!("asked to end, the server ended with {status}"))
        })
    }
}

/// What a server says of its version, by starting it once. None: it does not start; the trials
/// will say why.
pub(crate) fn probe_version(
    context: &TrialContext<'_>,
    ports: &Ports,
    command: &[String],
) -> Result<Option<String>, TrialError> {
    let server = match start(context, command, ports.next()?, None) {
        Ok(server) => server,
        Err(TrialError::Failed(_)) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let version = server.version.clone();
    server.stop(context, false)?;
    Ok(Some(version))
}

fn ask_version(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
    stream.set_read_timeout(Some(ATTEMPT))?;
    stream.set_write_timeout(Some(ATTEMPT))?;
    stream.write_all(b"version\r\n")?;
    let mut line = String::new();
    BufReader::new(stream.take(limits::VERSION_LEN as u64)).read_line(&mut line)?;
    match line.trim_end().strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_owned()),
        None => Err(std::io::ErrorKind::InvalidData.into()),
    }
}
