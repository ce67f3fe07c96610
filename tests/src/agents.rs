//! Processes for tests: agents of the load generator, and `curtail load` that uses them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use load::Summary;
use sys::child::{Bounds, bind};

use crate::process::curtail_path;

/// A process `curtail agent`. It ends when this value is dropped, or with the thread that started
/// it.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    /// The address at which the agent listens.
    pub address: SocketAddr,
}

impl Agent {
    /// Starts an agent with these flags on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The agent cannot be started, or does not listen.
    pub fn start(flags: &[&str]) -> Result<Self> {
        let mut command = Command::new(curtail_path());
        command.args(["agent", "127.0.0.1:0"]).args(flags);
        Self::of(command)
    }

    /// Starts an agent by a command whose arguments contain its address.
    ///
    /// # Errors
    /// Those of [`Agent::start`].
    pub fn of(mut command: Command) -> Result<Self> {
        let bounds = Bounds {
            dies_with_parent: true,
            ..Bounds::default()
        };
        bind(&mut command, &bounds)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let output = child.stdout.take().context("its output")?;
        let mut agent = Self {
            child,
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().strip_prefix("agent: listening at ");
        let Some(address) = address else {
            bail!("{command:?} printed `{}`", line.trim());
        };
        agent.address = address.parse().context("its address")?;
        Ok(agent)
    }

    /// The process id of the agent.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the agent, which ends without notice as on a power failure.
    ///
    /// # Errors
    /// The agent has ended already.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // This fails if the agent has ended, which is not an error here.
        let _ = self.kill();
    }
}

/// Returns the command `curtail load`, which offers load to `server` by `agents`.
#[must_use]
pub fn load(server: &str, agents: &[&Agent], flags: &[&str]) -> Command {
    let mut command = Command::new(curtail_path());
    add_words(&mut command, server, agents, flags);
    command
}

/// Adds the arguments of [`load()`] to a command.
pub fn add_words(command: &mut Command, server: &str, agents: &[&Agent], flags: &[&str]) {
    command.args(["load", server]).args(flags);
    for agent in agents {
        command.args(["--agent", &agent.address.to_string()]);
    }
    command.stdin(Stdio::null());
}

/// A process `curtail load --json` that has ended.
#[derive(Debug)]
pub struct Run {
    /// Its output and exit status.
    pub output: Output,
    /// The summary that it wrote. `None` if it wrote none.
    pub summary: Option<Summary>,
}

impl Run {
    /// Runs a command that [`load()`] returned, and waits for its end. Its summary is written into
    /// `folder`.
    ///
    /// # Errors
    /// The command cannot be started, or its summary is not valid.
    pub fn of(mut command: Command, folder: &Path) -> Result<Self> {
        let path = summary_path(folder);
        let _ = std::fs::remove_file(&path);
        let output = command.arg("--json").arg(&path).output()?;
        Self::ended(output, folder)
    }

    /// The run of a process that has ended. The process was told to write its summary to
    /// [`summary_path`].
    ///
    /// # Errors
    /// The summary is not valid.
    pub fn ended(output: Output, folder: &Path) -> Result<Self> {
        let summary = match File::open(summary_path(folder)) {
            Ok(file) => Some(serde_json::from_reader(file).context("the summary")?),
            Err(_) => None,
        };
        Ok(Self { output, summary })
    }

    /// The exit code, and the text on standard error.
    #[must_use]
    pub fn verdict(&self) -> (Option<i32>, String) {
        let errors = String::from_utf8_lossy(&self.output.stderr).into_owned();
        (self.output.status.code(), errors)
    }

    /// The text on standard output: the table of results.
    #[must_use]
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
}

/// The path in `folder` at which a run writes its summary.
#[must_use]
pub fn summary_path(folder: &Path) -> PathBuf {
    folder.join("summary.json")
}
