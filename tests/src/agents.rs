//! Agents, and coordinators that use them, as processes of tests.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use load::Summary;
use sys::child::{Bounds, bind};

use crate::process::curtail_path;

/// A `curtail agent`. It ends with this, and with the thread that started it.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Agent {
    /// Starts one on a free port of 127.0.0.1, with these flags.
    ///
    /// # Errors
    /// It cannot be started, or does not listen.
    pub fn start(flags: &[&str]) -> Result<Self> {
        let mut command = Command::new(curtail_path());
        command.args(["agent", "127.0.0.1:0"]).args(flags);
        Self::of(command)
    }

    /// Starts one by a command that knows where to listen.
    ///
    /// # Errors
    /// As [`Agent::start`].
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

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a host that loses power does.
    ///
    /// # Errors
    /// It has ended already.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.kill();
    }
}

/// `curtail load` at a server, with agents.
#[must_use]
pub fn load(server: &str, agents: &[&Agent], flags: &[&str]) -> Command {
    let mut command = Command::new(curtail_path());
    add_words(&mut command, server, agents, flags);
    command
}

/// Adds the words of [`load`] to a command.
pub fn add_words(command: &mut Command, server: &str, agents: &[&Agent], flags: &[&str]) {
    command.args(["load", server]).args(flags);
    for agent in agents {
        command.args(["--agent", &agent.address.to_string()]);
    }
    command.stdin(Stdio::null());
}

/// A finished `curtail load --json`.
#[derive(Debug)]
pub struct Run {
    /// Its output and how it ended.
    pub output: Output,
    /// Its summary. None: it wrote none.
    pub summary: Option<Summary>,
}

impl Run {
    /// Runs a command of [`load`] to its end; `folder` is for its summary.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn of(mut command: Command, folder: &Path) -> Result<Self> {
        let path = summary_path(folder);
        let _ = std::fs::remove_file(&path);
        let output = command.arg("--json").arg(&path).output()?;
        Self::ended(output, folder)
    }

    /// A run that has ended, and was to write its summary to [`summary_path`].
    ///
    /// # Errors
    /// What it wrote is no summary.
    pub fn ended(output: Output, folder: &Path) -> Result<Self> {
        let summary = match File::open(summary_path(folder)) {
            Ok(file) => Some(serde_json::from_reader(file).context("the summary")?),
            Err(_) => None,
        };
        Ok(Self { output, summary })
    }

    /// The exit code, and what it printed to standard error.
    #[must_use]
    pub fn verdict(&self) -> (Option<i32>, String) {
        let errors = String::from_utf8_lossy(&self.output.stderr).into_owned();
        (self.output.status.code(), errors)
    }

    /// The table it printed.
    #[must_use]
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
}

/// Where a run writes its summary.
#[must_use]
pub fn summary_path(folder: &Path) -> PathBuf {
    folder.join("summary.json")
}
