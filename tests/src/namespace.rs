//! Network namespaces, which stand for several hosts on one machine.
//!
//! A child process keeps each namespace open. The child ends with the process that created it, so
//! no namespace is left behind, and its devices are not visible outside. Namespaces require root,
//! `unshare` and `nsenter` (util-linux), and `ip` (iproute2).

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// The address of the middle host of a [`Star`]. RFC 5737 reserves it for documentation, so no real
/// host has it.
pub const MIDDLE_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// A network namespace. It ends when this value has been dropped and its processes have ended.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Creates a namespace in which no network device is up.
    ///
    /// # Errors
    /// This process has no permission, or `unshare` is missing.
    pub fn open() -> Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start unshare")?;
        let output = holder.stdout.take().context("its output")?;
        let namespace = Self { holder };
        // The shell prints a line when it is in its namespace. `cat` then keeps the namespace open
        // until its input ends.
        let mut line = String::new();
        if BufReader::new(output).read_line(&mut line)? == 0 {
            bail!("unshare --net ended too early");
        }
        Ok(namespace)
    }

    /// The id of the process that keeps the namespace open.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Returns a command that starts a program in the namespace.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid().to_string(), "--net", "--"]);
        command.arg(program.as_ref());
        command
    }

    /// Runs `ip` with the arguments `words` in the namespace.
    ///
    /// # Errors
    /// The command cannot be started, or fails.
    pub fn ip(&self, words: &[&str]) -> Result<()> {
        let mut command = self.command("ip");
        command.args(words);
        run(command)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Both calls fail if the process has ended, which is not an error here.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A host in the middle, and other hosts. A pair of virtual devices connects each of them to the
/// middle.
#[derive(Debug)]
pub struct Star {
    /// The host in the middle. All others reach it at [`MIDDLE_IP`].
    pub middle: Namespace,
    /// The other hosts, with their addresses.
    pub others: Vec<(Namespace, Ipv4Addr)>,
}

impl Star {
    /// Creates a star with `others` other hosts, at most 60.
    ///
    /// # Errors
    /// This process has no permission, or a program is missing.
    pub fn open(others: u8) -> Result<Self> {
        let middle = Namespace::open()?;
        middle.ip(&["link", "set", "lo", "up"])?;
        middle.ip(&["address", "add", &format!("{MIDDLE_IP}/32"), "dev", "lo"])?;
        let connect = |number| Self::connect(&middle, number);
        let others = (0..others).map(connect).collect::<Result<_>>()?;
        Ok(Self { middle, others })
    }

    /// Creates the other host `number`, and connects it to the middle.
    fn connect(middle: &Namespace, number: u8) -> Result<(Namespace, Ipv4Addr)> {
        let host = Namespace::open()?;
        let base = number
            .checked_mul(4)
            .filter(|base| *base < 240)
            .context("too many hosts")?;
        // RFC 5737 reserves these addresses for documentation too.
        let [near, far] = [1, 2].map(|offset| Ipv4Addr::new(198, 51, 100, base + offset));
        let device = format!("other{number}");
        let pid = host.pid().to_string();
        middle.ip(&[
            "link", "add", &device, "type", "veth", "peer", "name", "middle", "netns", &pid,
        ])?;
        middle.ip(&["address", "add", &format!("{near}/30"), "dev", &device])?;
        middle.ip(&["link", "set", &device, "up"])?;
        host.ip(&["link", "set", "lo", "up"])?;
        host.ip(&["address", "add", &format!("{far}/30"), "dev", "middle"])?;
        host.ip(&["link", "set", "middle", "up"])?;
        host.ip(&["route", "add", "default", "via", &near.to_string()])?;
        Ok((host, far))
    }
}

/// Runs a command and waits for its end.
///
/// # Errors
/// The command cannot be started, or fails.
pub fn run(mut command: Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{command:?} ended with {}: {}",
            output.status,
            printed.trim()
        );
    }
    Ok(())
}
