//! Network namespaces as hosts of one machine.
//!
//! A namespace is held open by a process that ends with the one that made it, so nothing is left
//! behind, and nothing of it is to be seen outside. Namespaces need root, `unshare` and `nsenter`
//! (util-linux), and `ip` (iproute2).

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// The address of the middle of a [`Star`] (RFC 5737: for documentation).
pub const MIDDLE_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// A network namespace. It ends with this, and with the processes in it.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// A new one, without any device that is up.
    ///
    /// # Errors
    /// This process may not make one, or `unshare` is missing.
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
        // It is in its namespace when it prints, and holds it until its input ends.
        let mut line = String::new();
        if BufReader::new(output).read_line(&mut line)? == 0 {
            bail!("unshare --net ended before it was told to");
        }
        Ok(namespace)
    }

    /// The process that holds it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// A command that starts a program in it.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid().to_string(), "--net", "--"]);
        command.arg(program.as_ref());
        command
    }

    /// Runs `ip` in it.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub fn ip(&self, words: &[&str]) -> Result<()> {
        let mut command = self.command("ip");
        command.args(words);
        run(command)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A host in the middle, and others that are each connected to it by a pair of virtual devices.
#[derive(Debug)]
pub struct Star {
    /// The host in the middle, at [`MIDDLE_IP`] for all.
    pub middle: Namespace,
    /// The others, with their addresses.
    pub others: Vec<(Namespace, Ipv4Addr)>,
}

impl Star {
    /// As many others as wanted, at most 60.
    ///
    /// # Errors
    /// This process may not make them, or a program is missing.
    pub fn open(others: u8) -> Result<Self> {
        let middle = Namespace::open()?;
        middle.ip(&["link", "set", "lo", "up"])?;
        middle.ip(&["address", "add", &format!("{MIDDLE_IP}/32"), "dev", "lo"])?;
        let connect = |number| Self::connect(&middle, number);
        let others = (0..others).map(connect).collect::<Result<_>>()?;
        Ok(Self { middle, others })
    }

    fn connect(middle: &Namespace, number: u8) -> Result<(Namespace, Ipv4Addr)> {
        let host = Namespace::open()?;
        let base = number
            .checked_mul(4)
            .filter(|base| *base < 240)
            .context("too many hosts")?;
        // Documentation addresses too.
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

/// Runs a command to its end.
///
/// # Errors
/// It cannot be started, or fails.
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
