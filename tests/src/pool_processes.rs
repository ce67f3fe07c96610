//! The processes of a memory pool (`curtail pool …`), for tests.

use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sys::child::{Bounds, bind, terminate};

use crate::process::{curtail_path, wait};

/// Networks that a test process may use.
const NETWORKS: u32 = 32;

/// A process that ends with this value, or with the thread that started it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a program and waits until it prints a line that begins with `ready`.
    ///
    /// # Errors
    /// It cannot be started, or ends before it prints the line; with what it has printed instead.
    pub fn start(mut command: Command, ready: &str) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let bounds = Bounds {
            dies_with_parent: true,
            ..Bounds::default()
        };
        bind(&mut command, &bounds)?;
        let mut child = command
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let output = child.stdout.take().context("it has no output")?;
        let mut process = Self {
            child,
            output: BufReader::new(output),
        };
        let mut printed = String::new();
        loop {
            let start = printed.len();
            if process.output.read_line(&mut printed)? == 0 {
                bail!("{command:?} ended: {printed}");
            }
            if printed[start..].starts_with(ready) {
                return Ok(process);
            }
        }
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// The kernel reports an error.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Ends it at once, as `kill -9` does.
    ///
    /// # Errors
    /// It has ended by itself.
    pub fn kill(mut self) -> Result<()> {
        if !self.is_running()? {
            bail!("it has ended before");
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Tells it to stop (SIGTERM), and returns what it has printed since it was ready. It must end
    /// with success.
    ///
    /// # Errors
    /// It fails, or does not end in time.
    pub fn stop(mut self) -> Result<String> {
        terminate(self.child.id())?;
        let status = wait(&mut self.child)?;
        self.finish(status)
    }

    /// Waits until it ends by itself, and returns what it has printed since it was ready. It must
    /// end with success.
    ///
    /// # Errors
    /// It fails.
    pub fn join(mut self) -> Result<String> {
        let status = self.child.wait()?;
        self.finish(status)
    }

    fn finish(&mut self, status: ExitStatus) -> Result<String> {
        let mut printed = String::new();
        self.output.read_to_string(&mut printed)?;
        if !status.success() {
            bail!("{status}: {printed}");
        }
        Ok(printed)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail if it has ended, which is not an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Addresses of this machine that no other test uses at the same time, as far as process numbers
/// tell: the last byte is free.
#[derive(Debug, Clone, Copy)]
pub struct Network(u32);

impl Network {
    /// Another network of this process.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % NETWORKS;
        Self((std::process::id() * NETWORKS + number) % (1 << 15))
    }

    /// An address: that of the memory node is 2, of the metadata service 3, of the middlebox 4, of
    /// clients 10 and following, of their aliases 100 and following.
    #[must_use]
    pub fn ip(self, last: u8) -> Ipv4Addr {
        // 127.128.0.0/9
        let [_, _, high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(127, 128 | high, low, last)
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

/// The command `curtail pool` with these words.
#[must_use]
pub fn pool(words: &str) -> Command {
    let mut command = Command::new(curtail_path());
    command.arg("pool").args(words.split_whitespace());
    command
}

/// Starts a memory node with 64 MiB in a file.
///
/// # Errors
/// It does not start.
pub fn start_node(network: Network, file: &Path) -> Result<Process> {
    let mut command = pool(&format!("node --listen {} --memory 64MiB", network.ip(2)));
    command.arg("--file").arg(file);
    Process::start(command, "serving")
}

/// Starts a metadata service that reaches the memory node at this address.
///
/// # Errors
/// It does not start.
pub fn start_metadata(network: Network, node: Ipv4Addr) -> Result<Process> {
    let command = pool(&format!("meta --listen {} --node {node}", network.ip(3)));
    Process::start(command, "serving")
}

/// A number that is greater at each start of a middlebox. By default this is the time in seconds,
/// for whose end a middlebox waits.
pub(crate) fn next_instance() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Starts a middlebox. Its counters go to a file at the end.
///
/// # Errors
/// It does not start.
pub fn start_middlebox(network: Network, step: &str, json: &Path) -> Result<Process> {
    let mut command = pool(&format!(
        "middlebox --listen {} --node {} --aliases {} --step {step} --instance {}",
        network.ip(4),
        network.ip(2),
        network.ip(100),
        next_instance()
    ));
    command.arg("--json").arg(json);
    Process::start(command, "steering")
}

/// Clients that read and write, and check what they were answered.
#[derive(Debug)]
pub struct Bench {
    process: Process,
    json: PathBuf,
}

impl Bench {
    /// Starts four clients with further words of `curtail pool bench`, and waits until they
    /// measure.
    ///
    /// # Errors
    /// They do not start, or cannot store the keys.
    pub fn start(network: Network, words: &str, json: &Path) -> Result<Self> {
        let mut command = pool(&format!(
            "bench --meta {} --from {} --threads 4 --check {words}",
            network.ip(3),
            network.ip(10)
        ));
        command.arg("--json").arg(json);
        let process = Process::start(command, "measuring")?;
        let json = json.to_owned();
        Ok(Self { process, json })
    }

    /// Whether they still measure.
    ///
    /// # Errors
    /// The kernel reports an error.
    pub fn is_running(&mut self) -> Result<bool> {
        self.process.is_running()
    }

    /// Waits for the end. Returns the results.
    ///
    /// # Errors
    /// The clients fail, for example because no order of their calls explains the answers.
    pub fn join(self) -> Result<Value> {
        self.process.join()?;
        read_json(&self.json)
    }
}

/// A number in JSON.
///
/// # Panics
/// There is none at this path.
#[must_use]
pub fn count(json: &Value, path: &str) -> u64 {
    let count = json.pointer(path).and_then(Value::as_u64);
    count.unwrap_or_else(|| panic!("no {path} in {json}"))
}

/// Reads a file that a process has written.
///
/// # Errors
/// It cannot be read.
pub fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}
