//! A command that one or more clients run at the same time, each with its own input and logs.
//!
//! All processes are started by this thread, one right after another, or `stagger` apart. The task
//! ends when all have exited. If one fails or takes too long, the others are killed.

use std::collections::{BTreeMap, VecDeque};
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
use crate::process::{FirstExit, Process, ProcessGuard, WaitResult, with_last_lines};

/// The placeholder of the file into which a client writes its summary.
pub(super) const SUMMARY: &str = "summary";

/// A command and how it is run.
#[derive(Debug)]
pub(super) struct Task<'a> {
    /// What precedes [`Self::what`] in messages, if anything.
    pub(super) prefix: String,
    /// The words for the command's process, such as `the program`.
    pub(super) what: &'static str,
    /// What precedes `stdout` in the names of its logs, if anything.
    pub(super) log: String,
    pub(super) command: &'a [String],
    /// Empty: there is no input.
    pub(super) input: &'a [String],
    pub(super) environment: &'a BTreeMap<String, String>,
    /// The host that starts the command.
    pub(super) side: Side,
    pub(super) cpus: &'a [usize],
    pub(super) goes_first: bool,
    /// The exit statuses of a success.
    pub(super) success: &'a [i32],
    /// Of each client, from its own start.
    pub(super) timeout: Duration,
    /// From the start of one client to that of the next.
    pub(super) stagger: Duration,
    pub(super) clients: usize,
}

/// A client's process that has succeeded.
#[derive(Debug)]
pub(super) struct Ended {
    /// From just before it was created to its exit.
    pub(super) elapsed: Duration,
    pub(super) status: ExitStatus,
    pub(super) usage: Usage,
    pub(super) logs: Logs,
}

/// The files of a client's output.
#[derive(Debug, Clone)]
pub(super) struct Logs {
    pub(super) stdout: PathBuf,
    pub(super) stderr: PathBuf,
    input: PathBuf,
    /// Where `{summary}` of its command leads.
    pub(super) summary: PathBuf,
}

impl Task<'_> {
    /// Runs the command on all clients. `watch` is called each time that something may have
    /// happened, and says after which time at most to call it again. A process of `beside` that
    /// exits ends it. Returns what each client used, in order, and remarks that do not affect the
    /// trial.
    ///
    /// # Errors
    /// One of the processes could not be started, failed or timed out, or a process of `beside` has
    /// exited, which the caller explains.
    pub(super) fn run(
        &self,
        words: &Words<'_>,
        beside: &[Running],
        context: &Context<'_>,
        watch: &mut dyn FnMut() -> Result<Duration, TrialError>,
    ) -> Result<(Vec<Ended>, Vec<String>), TrialError> {
        let clients = 0..self.clients;
        let clients = clients.map(|number| Client::prepare(self, number, words, context));
        let mut waiting: VecDeque<Client<'_>> = clients.collect::<Result<_, _>>()?;
        let mut running: Vec<Active<'_>> = Vec::new();
        let mut exited: Vec<Exited<'_>> = Vec::new();
        let first_start = Instant::now();
        let start_of = |client: &Client<'_>| first_start + self.stagger * client.number as u32;
        loop {
            while waiting
                .front()
                .is_some_and(|it| start_of(it) <= Instant::now())
            {
                let client = waiting.pop_front();
                running.extend(client.map(Client::start).transpose()?);
            }
            let deadlines = running.iter().map(|it| it.process.began() + self.timeout);
            let Some(until) = waiting
                .front()
                .map(&start_of)
                .into_iter()
                .chain(deadlines)
                .min()
            else {
                break;
            };
            let mut awaited: Vec<&Process> = running.iter().map(|it| &it.process).collect();
            awaited.extend(beside.iter().map(Running::process));
            let left = until.saturating_duration_since(Instant::now());
            let left = left.min(watch()?);
            let first = Process::wait_for_first(&awaited, left, Some(context.stop_signals))?;
            let now = Instant::now();
            match first {
                FirstExit::Exited(nth) if nth < running.len() => {
                    exited.push(running.remove(nth).exit(now)?);
                }
                FirstExit::Exited(_) => {
                    let reason = "a process beside the program exited during the trial";
                    return Err(TrialError::Failed(reason.to_owned()));
                }
                FirstExit::StopRequested => return Err(TrialError::StopRequested),
                FirstExit::TimedOut => {
                    for it in &running {
                        it.check_deadline(now)?;
                    }
                }
            }
        }
        exited.sort_by_key(|it| it.client.number);
        let mut notes = Vec::new();
        let mut all = Vec::new();
        for mut it in exited {
            notes.extend(it.end_of_input(context)?);
            all.push(it.ended);
        }
        Ok((all, notes))
    }
}

/// A client that has not started.
struct Client<'a> {
    task: &'a Task<'a>,
    number: usize,
    words: Words<'a>,
    logs: Logs,
    stdout: File,
    stderr: File,
    /// Of the input's program, if there is one, and of the client's. They are started before the
    /// first client, so that all clients start closely one after another.
    guards: Vec<ProcessGuard>,
}

/// A client whose processes were started.
struct Active<'a> {
    client: Started<'a>,
    process: Process,
}

/// What is left of a client that has started.
struct Started<'a> {
    task: &'a Task<'a>,
    number: usize,
    logs: Logs,
    input: Option<Process>,
}

/// A client that has succeeded, but for its input.
struct Exited<'a> {
    client: Started<'a>,
    ended: Ended,
    /// Dropped only after the last client's exit: reaping its guard takes time.
    _process: Process,
}

fn create(path: &Path) -> Result<File, Error> {
    File::create(path).map_err(Error::file("create", path))
}

impl<'a> Client<'a> {
    fn prepare(
        task: &'a Task<'a>,
        number: usize,
        words: &Words<'a>,
        context: &Context<'_>,
    ) -> Result<Self, TrialError> {
        let log = |of: &str| {
            let of = match task.clients {
                1 => format!("{}{of}", task.log),
                _ => format!("{}{of}-{number}", task.log),
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
        let processes = 1 + usize::from(!task.input.is_empty());
        let guards = (0..processes)
            .map(|_| Process::guard())
            .collect::<Result<_, _>>()?;
        Ok(Self {
            task,
            number,
            words: words.of_client(number).with(SUMMARY, summary),
            stdout: create(&logs.stdout)?,
            stderr: create(&logs.stderr)?,
            logs,
            guards,
        })
    }

    fn start(mut self) -> Result<Active<'a>, TrialError> {
        let task = self.task;
        let mut guards = self.guards.drain(..);
        let mut start = |command: &mut Command| {
            let program = command.get_program().to_string_lossy();
            let name = format!("{}`{program}`", prefix(task, self.number));
            let guard = guards.next().map_or_else(Process::guard, Ok)?;
            Process::start_under(guard, command, task.cpus, task.goes_first, &name)
        };
        let mut input = None;
        if !task.input.is_empty() {
            let mut command = self.words.command(task.side, task.input, task.environment);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(create(&self.logs.input)?);
            input = Some(start(&mut command)?);
        }
        let mut command = self
            .words
            .command(task.side, task.command, task.environment);
        let pipe = input.as_mut().and_then(Process::take_output);
        command
            .stdin(pipe.map_or_else(Stdio::null, Stdio::from))
            .stdout(self.stdout)
            .stderr(self.stderr);
        // The end of this function drops the command, and with it the reading end of the pipe: if
        // this process held it, the program of the input would get no SIGPIPE after the end of its
        // reader.
        let process = start(&mut command)?;
        Ok(Active {
            process,
            client: Started {
                task,
                number: self.number,
                logs: self.logs,
                input,
            },
        })
    }
}

/// What precedes the words for the process in messages on a client.
fn prefix(task: &Task<'_>, number: usize) -> String {
    match task.clients {
        1 => task.prefix.clone(),
        _ => format!("{}client {number}: ", task.prefix),
    }
}

impl<'a> Active<'a> {
    /// Fails if the client has taken too long.
    fn check_deadline(&self, now: Instant) -> Result<(), TrialError> {
        let timeout = self.client.task.timeout;
        if now < self.process.began() + timeout {
            return Ok(());
        }
        let timeout = units::duration_text(timeout);
        let reason = format!(
            "{} did not exit within {timeout} and was killed",
            self.client.task.what
        );
        let reason = self.client.message(&reason);
        Err(TrialError::Final(with_last_lines(
            &reason,
            &self.client.logs.stderr,
        )))
    }

    /// Reaps the client's process, which exited by `now`. Fails if it failed.
    fn exit(mut self, now: Instant) -> Result<Exited<'a>, TrialError> {
        let (status, usage) = self.process.finish_with_usage()?;
        self.client.check_status(status)?;
        let ended = Ended {
            elapsed: now.saturating_duration_since(self.process.began()),
            status,
            usage,
            logs: self.client.logs.clone(),
        };
        Ok(Exited {
            client: self.client,
            ended,
            _process: self.process,
        })
    }
}

impl Started<'_> {
    fn message(&self, what: &str) -> String {
        format!("{}{what}", prefix(self.task, self.number))
    }

    fn check_status(&self, status: ExitStatus) -> Result<(), TrialError> {
        let what = self.task.what;
        let reason = match (status.code(), status.signal()) {
            (Some(code), _) if self.task.success.contains(&code) => return Ok(()),
            (Some(code), _) => format!("{what} exited with status {code}"),
            (None, Some(signal)) => format!("{what} was ended by signal {signal}"),
            (None, None) => format!("{what} ended with {status}"),
        };
        let reason = with_last_lines(&self.message(&reason), &self.logs.stderr);
        Err(TrialError::Failed(reason))
    }
}

/// SIGPIPE's number, equal on every architecture of Linux but MIPS.
const SIGPIPE: i32 = 13;

/// What a shell exits with after SIGPIPE ended the last program of its script.
const SIGPIPE_IN_SHELL: i32 = 128 + SIGPIPE;

impl Exited<'_> {
    /// Fails if the program that wrote the input failed: its reader then measured a part of the
    /// input. It may have been ended by the pipe, if the program did not read all of it; a remark
    /// if the laboratory had to kill it then.
    fn end_of_input(&mut self, context: &Context<'_>) -> Result<Option<String>, TrialError> {
        let Some(mut input) = self.client.input.take() else {
            return Ok(None);
        };
        let grace = context.options.timeouts.stop;
        if input.wait(grace, None)? != WaitResult::Exited {
            input.finish()?;
            let grace = units::duration_text(grace);
            return Ok(Some(self.client.message(&format!(
                "the laboratory killed the program of the input, which did not exit within \
                 {grace} of the program's end"
            ))));
        }
        let status = input.finish()?;
        let is_of_pipe =
            status.signal() == Some(SIGPIPE) || status.code() == Some(SIGPIPE_IN_SHELL);
        if status.success() || is_of_pipe {
            return Ok(None);
        }
        let reason = self
            .client
            .message(&format!("the program of the input ended with {status}"));
        Err(TrialError::Failed(with_last_lines(
            &reason,
            &self.client.logs.input,
        )))
    }
}
