//! A command that one or more clients run at the same time, each with its own input and logs.
//!
//! All processes are started by this thread, one right after another. The task ends when all have
//! exited. If one fails or takes too long, the others are killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sys::child::Usage;

use super::Side;
use super::beside::Running;
use super::words::Words;
use crate::error::Error;
use crate::kind::{Context, TrialError};
use crate::process::{Process, ProcessGuard, WaitResult, with_last_lines};

/// The placeholder of the file into which a client writes its summary.
pub(super) const SUMMARY: &str = "summary";

#[derive(Debug)]
pub(super) struct Task<'a> {
    /// What precedes [`Self::what`] in messages, if anything.
    pub(super) prefix: String,
    /// The words for the command's process, such as `the program`.
    pub(super) what: &'static str,
    /// What precedes `stdout` in the names of its logs, if anything.
    pub(super) log: String,
    pub(super) command: &'a [String],
    pub(super) input: &'a [String],
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) side: Side,
    pub(super) cpus: &'a [usize],
    pub(super) goes_first: bool,
    pub(super) success: &'a [i32],
    /// Of each client, from its own start.
    pub(super) timeout: Duration,
    pub(super) clients: usize,
}

#[derive(Debug)]
pub(super) struct Ended {
    /// From just before it was created to its exit.
    pub(super) elapsed: Duration,
    pub(super) status: ExitStatus,
    pub(super) usage: Usage,
    pub(super) logs: Logs,
}

#[derive(Debug, Clone)]
pub(super) struct Logs {
    pub(super) stdout: PathBuf,
    pub(super) stderr: PathBuf,
    input: PathBuf,
    /// Where `{summary}` of its command leads.
    pub(super) summary: PathBuf,
}

/// A client that has not started, with its logs.
struct Prepared<'a> {
    number: usize,
    words: Words<'a>,
    logs: Logs,
    stdout: File,
    stderr: File,
    /// Of the input's program, if there is one, and of the client's. They are started before the
    /// first client, so that all clients start closely one after another.
    guards: Vec<ProcessGuard>,
}

/// A client that has started. It is dropped only after the last client's exit: reaping its guard
/// takes time.
struct Client {
    number: usize,
    logs: Logs,
    input: Option<Process>,
    process: Process,
}

fn create(path: &Path) -> Result<File, Error> {
    File::create(path).map_err(Error::file("create", path))
}

impl Task<'_> {
    /// Runs the command on all clients. `watch` is called each time that something may have
    /// happened, and says after which time at most to call it again. A process of `beside` that
    /// exits ends it. Returns what each client used, in order, and remarks that do not affect the
    /// trial.
    pub(super) fn run(
        &self,
        words: &Words<'_>,
        beside: &[Running],
        context: &Context<'_>,
        watch: &mut dyn FnMut() -> Result<Duration, TrialError>,
    ) -> Result<(Vec<Ended>, Vec<String>), TrialError> {
        let prepared = (0..self.clients).map(|number| self.prepare(number, words, context));
        let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
        let started = prepared.into_iter().map(|it| self.start(it));
        let mut running = started.collect::<Result<Vec<Client>, _>>()?;
        let mut exited = Vec::new();
        while let Some(began) = running.iter().map(|it| it.process.began()).min() {
            let mut awaited: Vec<&Process> = running.iter().map(|it| &it.process).collect();
            awaited.extend(beside.iter().map(Running::process));
            let left = (began + self.timeout).saturating_duration_since(Instant::now());
            let left = left.min(watch()?);
            let first = Process::wait_for_first(&awaited, left, Some(context.stop_signals))?;
            let now = Instant::now();
            match first {
                WaitResult::Exited(nth) if nth < running.len() => {
                    let mut client = running.remove(nth);
                    let ended = self.reap(&mut client, now)?;
                    exited.push((client, ended));
                }
                WaitResult::Exited(_) => {
                    let reason = "a process beside the program exited during the trial";
                    return Err(TrialError::Failed(reason.to_owned()));
                }
                WaitResult::StopRequested => return Err(TrialError::StopRequested),
                WaitResult::TimedOut => {
                    let checked = running.iter().map(|it| self.check_deadline(it, now));
                    checked.collect::<Result<(), _>>()?;
                }
            }
        }
        exited.sort_by_key(|(client, _)| client.number);
        let mut notes = Vec::new();
        for (client, _) in &mut exited {
            notes.extend(self.end_of_input(client, context)?);
        }
        Ok((exited.into_iter().map(|(_, ended)| ended).collect(), notes))
    }

    fn prepare<'a>(
        &self,
        number: usize,
        words: &Words<'a>,
        context: &Context<'_>,
    ) -> Result<Prepared<'a>, TrialError> {
        let log = |of: &str| {
            let of = match self.clients {
                1 => format!("{}{of}", self.log),
                _ => format!("{}{of}-{number}", self.log),
            };
            context.log(words.trial_id(), &of)
        };
        let logs = Logs {
            stdout: log("stdout"),
            stderr: log("stderr"),
            input: log("input"),
            summary: log("summary"),
        };
        let summary = logs.summary.to_string_lossy().into_owned();
        let processes = 1 + usize::from(!self.input.is_empty());
        let guards = (0..processes).map(|_| ProcessGuard::start());
        Ok(Prepared {
            number,
            words: words.of_client(number).with(SUMMARY, summary),
            stdout: create(&logs.stdout)?,
            stderr: create(&logs.stderr)?,
            logs,
            guards: guards.collect::<Result<_, _>>()?,
        })
    }

    fn start(&self, prepared: Prepared<'_>) -> Result<Client, TrialError> {
        let Prepared {
            number,
            words,
            logs,
            stdout,
            stderr,
            guards,
        } = prepared;
        let mut guards = guards.into_iter();
        let mut start = |command: &mut Command| {
            let program = command.get_program().to_string_lossy();
            let name = self.message(number, &format!("`{program}`"));
            let guard = guards.next().map_or_else(ProcessGuard::start, Ok)?;
            Process::start_under(guard, command, self.cpus, self.goes_first, &name)
        };
        let mut input = None;
        if !self.input.is_empty() {
            let mut command = words.command(self.side, self.input, self.environment);
            let errors = create(&logs.input)?;
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(errors);
            input = Some(start(&mut command)?);
        }
        let mut command = words.command(self.side, self.command, self.environment);
        let pipe = input.as_mut().and_then(Process::take_output);
        let stdin = pipe.map_or_else(Stdio::null, Stdio::from);
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        // The end of this function drops the command, and with it the reading end of the pipe: if
        // this process held it, the program of the input would get no SIGPIPE after the end of its
        // reader.
        let process = start(&mut command)?;
        Ok(Client {
            number,
            logs,
            input,
            process,
        })
    }

    fn message(&self, number: usize, what: &str) -> String {
        match self.clients {
            1 => format!("{}{what}", self.prefix),
            _ => format!("{}client {number}: {what}", self.prefix),
        }
    }

    fn check_deadline(&self, client: &Client, now: Instant) -> Result<(), TrialError> {
        if now < client.process.began() + self.timeout {
            return Ok(());
        }
        let timeout = units::duration_text(self.timeout);
        let what = self.what;
        let reason = format!("{what} did not exit within {timeout} and was killed");
        let reason = self.message(client.number, &reason);
        Err(TrialError::Final(with_last_lines(
            &reason,
            &client.logs.stderr,
        )))
    }

    /// Reaps the client's process, which exited by `now`. Fails if it failed.
    fn reap(&self, client: &mut Client, now: Instant) -> Result<Ended, TrialError> {
        let (status, usage) = client.process.finish_with_usage()?;
        let what = self.what;
        let reason = match (status.code(), status.signal()) {
            (Some(code), _) if self.success.contains(&code) => {
                return Ok(Ended {
                    elapsed: now.saturating_duration_since(client.process.began()),
                    status,
                    usage,
                    logs: client.logs.clone(),
                });
            }
            (Some(code), _) => format!("{what} exited with status {code}"),
            (None, Some(signal)) => format!("{what} was ended by signal {signal}"),
            (None, None) => format!("{what} ended with {status}"),
        };
        let reason = self.message(client.number, &reason);
        Err(TrialError::Failed(with_last_lines(
            &reason,
            &client.logs.stderr,
        )))
    }

    /// Fails if the program that wrote the input failed: its reader then measured a part of the
    /// input. It may have been ended by the pipe, if the program did not read all of it; a remark
    /// if the laboratory had to kill it then.
    fn end_of_input(
        &self,
        client: &mut Client,
        context: &Context<'_>,
    ) -> Result<Option<String>, TrialError> {
        let Some(mut input) = client.input.take() else {
            return Ok(None);
        };
        let grace = context.options.timeouts.stop;
        if !input.wait(grace, None)?.is_exit() {
            input.finish()?;
            let grace = units::duration_text(grace);
            let note = format!(
                "the laboratory killed the program of the input, which did not exit within \
                 {grace} of the program's end"
            );
            return Ok(Some(self.message(client.number, &note)));
        }
        let status = input.finish()?;
        let is_of_pipe =
            status.signal() == Some(SIGPIPE) || status.code() == Some(SIGPIPE_IN_SHELL);
        if status.success() || is_of_pipe {
            return Ok(None);
        }
        let reason = format!("the program of the input ended with {status}");
        let reason = self.message(client.number, &reason);
        Err(TrialError::Failed(with_last_lines(
            &reason,
            &client.logs.input,
        )))
    }
}

/// SIGPIPE's number, equal on every architecture of Linux but MIPS.
const SIGPIPE: i32 = 13;

/// What a shell exits with after SIGPIPE ended the last program of its script.
const SIGPIPE_IN_SHELL: i32 = 128 + SIGPIPE;
