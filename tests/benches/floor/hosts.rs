//! Two hosts of one machine: the servers in one network namespace, the generator in another, and a
//! pair of virtual devices between them.
//!
//! ```text
//!   processor of the servers            processor of the generator
//!   this program, servers   192.0.2.1 ═══════ 192.0.2.2   generator
//! ```
//!
//! Over loopback whoever sends does the receiver's half of the network's work too, and the timers
//! of a receiver run where its packets came in: the acknowledgements that the generator's thousand
//! connections owe after 40 ms leave from the *server's* processor, a dozen or two in each tick of
//! the timer, and the server waits meanwhile. Here what comes in at a device is handled on the
//! processors of its own host, as between two machines.
//!
//! This program is started anew in the servers' namespace, and holds the generator's open by a
//! process that ends with it: nothing is left behind, and nothing is to be seen outside.

use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use curtail_tests::namespace::{Namespace, run};
use curtail_tests::process;

/// Addresses for documentation (RFC 5737): nobody has them.
const SERVERS_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const GENERATOR_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PREFIX_BITS: u8 = 24;
/// The devices: one's end here, the other's there.
const HERE: &str = "servers";
const THERE: &str = "generator";
/// Says to this program that it is in the servers' namespace, and which one that is not.
const ENTERED: &str = "CURTAIL_FLOOR_NOT_IN";
/// Names the namespace of who reads it.
const OWN: &str = "/proc/self/ns/net";

/// Where servers and generator are.
pub(crate) enum Hosts {
    /// Both here, over loopback.
    One,
    Two(Second),
}

/// The generator's host. It ends with this.
pub(crate) struct Second {
    namespace: Namespace,
}

impl Hosts {
    /// Two of them, of these processors. The first call starts this program anew and does not
    /// return but with an error.
    pub(crate) fn two(words: &[&str], server_cpu: usize, client_cpu: usize) -> Result<Self> {
        const NEEDS: &str = "--two-hosts wants root, and unshare, nsenter and ip (util-linux and \
                             iproute2)";
        let own = fs::read_link(OWN).context(OWN)?;
        let Some(outer) = env::var_os(ENTERED) else {
            if !sys::privileges::is_root() {
                bail!("{NEEDS}");
            }
            // What has to be built wants the network of before.
            process::curtail_path();
            let mut command = Command::new("unshare");
            command.args(["--net", "--mount", "--"]);
            command.arg(env::current_exe()?).args(words);
            return Err(command.env(ENTERED, own).exec()).context(NEEDS);
        };
        if outer == own.as_os_str() {
            bail!("{ENTERED} is set, which is for this program to set: unset it");
        }
        Second::open(server_cpu, client_cpu)
            .map(Self::Two)
            .context(NEEDS)
    }

    /// What a table says of them.
    pub(crate) fn said(&self) -> &'static str {
        match self {
            Self::One => "",
            Self::Two(_) => ", on two hosts",
        }
    }

    /// Where servers listen.
    pub(crate) fn server_ip(&self) -> Ipv4Addr {
        match self {
            Self::One => Ipv4Addr::LOCALHOST,
            Self::Two(_) => SERVERS_IP,
        }
    }

    /// To start the generator where it belongs.
    pub(crate) fn generator(&self, program: &Path) -> Command {
        match self {
            Self::One => Command::new(program),
            Self::Two(second) => second.command(program),
        }
    }
}

impl Second {
    fn open(server_cpu: usize, client_cpu: usize) -> Result<Self> {
        let second = Self {
            namespace: Namespace::open()?,
        };
        let pid = second.namespace.pid().to_string();
        run(ip(&["link", "set", "lo", "up"]))?;
        run(ip(&[
            "link", "add", HERE, "type", "veth", "peer", "name", THERE, "netns", &pid,
        ]))?;
        let (here, there) = (address(SERVERS_IP), address(GENERATOR_IP));
        run(ip(&["address", "add", &here, "dev", HERE]))?;
        run(ip(&["link", "set", HERE, "up"]))?;
        let namespace = &second.namespace;
        namespace.ip(&["address", "add", &there, "dev", THERE])?;
        namespace.ip(&["link", "set", THERE, "up"])?;
        let folder = tempfile::tempdir()?;
        steer(Command::new("sh"), folder.path(), HERE, server_cpu)?;
        steer(
            second.command(Path::new("sh")),
            folder.path(),
            THERE,
            client_cpu,
        )?;
        Ok(second)
    }

    /// To start a program there.
    fn command(&self, program: &Path) -> Command {
        self.namespace.command(program)
    }
}

/// What comes in at `device` is handled on `cpu` (the kernel's receive packet steering,
/// Documentation/networking/scaling.rst). A file system of devices shows those of the namespace it
/// was mounted in; `shell` is there.
fn steer(mut shell: Command, folder: &Path, device: &str, cpu: usize) -> Result<()> {
    const SCRIPT: &str = "mount -t sysfs sysfs \"$1\" && \
                          echo \"$3\" > \"$1/class/net/$2/queues/rx-0/rps_cpus\"; \
                          code=$?; umount \"$1\"; exit $code";
    shell.args(["-c", SCRIPT, "sh"]).arg(folder);
    shell.args([device, &mask(cpu)]);
    run(shell)
}

/// A processor as the kernel's masks have it: hexadecimal, in words of 32 bits, the first of which
/// is the highest.
fn mask(cpu: usize) -> String {
    let mut text = format!("{:x}", 1_u32 << (cpu % 32));
    for _ in 0..cpu / 32 {
        text.push_str(",00000000");
    }
    text
}

fn address(ip: Ipv4Addr) -> String {
    format!("{ip}/{PREFIX_BITS}")
}

fn ip(words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(words);
    command
}
