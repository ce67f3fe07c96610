//! Server processes for tests. They are started on a free port and killed when dropped.

use std::env;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{self as unix, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use sys::child::{Bounds, bind, terminate};
use sys::cost::{Cost, of_process};

use crate::client::Client;
use crate::device_pair::DevicePair;
use crate::peer::Address;
use crate::play::REFERENCE_VERSION;
use crate::runtimes::runtime;

/// The longest time that a server may take to listen, or to end after it was told to.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The longest time that a connection to a server that starts may take. A stack of user space does
/// not answer the first packets, which are sent again a second later.
const ATTEMPT: Duration = Duration::from_millis(200);

/// The number of attempts to start a server. Another process may take a port after it was found
/// free and before the server listens on it.
const ATTEMPTS: usize = 3;
/// The number of attempts to find a port that no test has.
const PORT_ATTEMPTS: usize = 1000;
/// Ports that the kernel does not give to outgoing connections. One of those could be taken between
/// the moment it was found free and the server's start, and a client that connects before the
/// server listens could be connected to itself.
const PORTS: Range<u16> = 10_240..32_768;
/// Distance between the first ports that two processes with consecutive numbers try.
const PORTS_OF_PROCESS: u32 = 13;

/// A server process. It ends with the thread that started it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The address at which the server listens.
    pub address: Address,
    /// Its network namespace, if it has one.
    _pair: Option<DevicePair>,
}

impl Server {
    /// Starts `command` with `-l 127.0.0.1` and `-p` with a free port. Waits until it listens.
    ///
    /// # Errors
    /// The process cannot be started, ends, or does not listen within the timeout.
    pub fn tcp(command: impl Fn() -> Command) -> Result<Self> {
        Self::tcp_on(Ipv4Addr::LOCALHOST, &[], command)
    }

    /// Starts a server as [`Server::tcp`] does, at the address `ip` of this machine. If `cpus` is
    /// not empty, the server is to be measured: all its threads run on these processors, with
    /// priority over other processes where that is allowed.
    ///
    /// # Errors
    /// Those of [`Server::tcp`], or there is no such address or processor.
    pub fn tcp_on(ip: Ipv4Addr, cpus: &[usize], command: impl Fn() -> Command) -> Result<Self> {
        if command().get_args().any(|argument| argument == "bypass") {
            return Self::on_device(cpus, command());
        }
        at_free_address(ip, |address| {
            let mut command = command();
            command.args(["-l", &ip.to_string(), "-p", &address.port().to_string()]);
            Self::start(command, Address::Tcp(address), cpus)
        })
    }

    /// Starts a server of the runtime `bypass` in a network namespace of its own. The calling
    /// thread moves to another one, from which it can connect.
    fn on_device(cpus: &[usize], mut command: Command) -> Result<Self> {
        let pair = DevicePair::new()?;
        pair.place(&mut command);
        let mut server = Self::start(command, Address::Tcp(pair.address), cpus)?;
        server._pair = Some(pair);
        Ok(server)
    }

    /// Starts a server as [`Server::tcp`] does, whose arguments also contain the address that
    /// `command` is given, and waits until it listens at both. Returns it with that address.
    ///
    /// # Errors
    /// Those of [`Server::tcp`].
    pub fn tcp_and(command: impl Fn(SocketAddr) -> Command) -> Result<(Self, SocketAddr)> {
        at_free_address(Ipv4Addr::LOCALHOST, |address| {
            let mut server = Self::tcp(|| command(address))?;
            // It listens on its first address a moment earlier than on the other one.
            server.wait_until_connected(&Address::Tcp(address))?;
            Ok((server, address))
        })
    }

    /// Starts `command`, whose arguments contain `address`, and waits until it listens there.
    ///
    /// # Errors
    /// Those of [`Server::tcp`].
    pub fn at(command: Command, address: Address) -> Result<Self> {
        Self::start(command, address, &[])
    }

    fn start(mut command: Command, address: Address, cpus: &[usize]) -> Result<Self> {
        let is_measured = !cpus.is_empty();
        let bounds = Bounds {
            cpus: cpus.to_vec(),
            dies_with_parent: true,
            own_session: is_measured,
            goes_first: is_measured && sys::thread::may_go_first(),
            ..Bounds::default()
        };
        bind(&mut command, &bounds)?;
        command.stdin(Stdio::null());
        let child = command
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let mut server = Self {
            child,
            address,
            _pair: None,
        };
        let address = server.address.clone();
        server
            .wait_until_connected(&address)
            .with_context(|| format!("start {command:?}"))?;
        Ok(server)
    }

    /// Waits until one of the addresses of the server accepts a connection.
    ///
    /// # Errors
    /// The server ends, or does not listen there in time.
    pub fn wait_until_connected(&mut self, address: &Address) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while address.connect(ATTEMPT).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status} before it listened");
            }
            if Instant::now() > deadline {
                bail!("the server does not listen after {TIMEOUT:?}");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The process id of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM to the server.
    ///
    /// # Errors
    /// The process has ended.
    pub fn terminate(&self) -> Result<()> {
        terminate(self.pid()).context("send SIGTERM")
    }

    /// Sends a signal to the server.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).with_context(|| format!("send {signal:?}"))
    }

    /// Waits until the server ends.
    ///
    /// # Errors
    /// It does not end within the timeout.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        wait(&mut self.child)
    }

    /// The processor time that the server has used so far, in nanoseconds.
    ///
    /// # Errors
    /// The process has ended.
    pub fn processor_ns(&self) -> Result<u64> {
        let cost = of_process(self.pid())?;
        Ok(cost.user_ns + cost.system_ns)
    }

    /// The costs of the idle server during `time`: processor time, context switches and the like.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn idle_cost(&self, time: Duration) -> Result<Cost> {
        let before = of_process(self.pid())?;
        thread::sleep(time);
        Ok(of_process(self.pid())?.since(&before))
    }

    /// The resident memory of the server in bytes.
    ///
    /// # Errors
    /// The process has ended.
    pub fn resident_bytes(&self) -> Result<u64> {
        Ok(of_process(self.pid())?.resident_bytes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail if the process has ended, which is not an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the end of a process that has been told to end.
///
/// # Errors
/// It does not end within the timeout.
pub fn wait(child: &mut Child) -> Result<ExitStatus> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            bail!("process {} does not end after {TIMEOUT:?}", child.id());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the command `curtail serve` with the runtime under test, but without an address.
///
/// # Panics
/// The program cannot be built.
#[must_use]
pub fn curtail() -> Command {
    let mut command = Command::new(curtail_path());
    command.arg("serve").args(runtime().flags());
    command
}

/// Starts [`curtail`] with these arguments on a free port.
///
/// # Panics
/// The server does not start.
#[must_use]
pub fn server(arguments: &[&str]) -> Server {
    Server::tcp(|| {
        let mut command = curtail();
        command.args(arguments);
        command
    })
    .unwrap_or_else(|error| panic!("start curtail {arguments:?}: {error:#}"))
}

/// Starts a server as [`server`] does. Returns it with a client that has stored `key`.
///
/// # Panics
/// The server does not start, or does not store the key.
#[must_use]
pub fn server_with_key(arguments: &[&str]) -> (Server, Client) {
    let server = server(arguments);
    let client = Client::connect(&server.address).and_then(|mut client| {
        client.set("key", b"value")?;
        Ok(client)
    });
    let client =
        client.unwrap_or_else(|error| panic!("store a key in curtail {arguments:?}: {error:#}"));
    (server, client)
}

/// The path of an installed memcached: `$MEMCACHED`, or the first on the PATH. `None` if there is
/// none.
#[must_use]
pub fn memcached() -> Option<PathBuf> {
    installed("memcached", "MEMCACHED")
}

/// The path of an installed memcached ([`memcached`]) whose version is [`REFERENCE_VERSION`]. If
/// there is none, prints that a test is skipped.
#[must_use]
#[expect(clippy::print_stderr, reason = "a test must report what it skips")]
pub fn reference_memcached() -> Option<PathBuf> {
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached not installed");
        return None;
    };
    let output = Command::new(&path).arg("-V").output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout);
    if !version.trim_end().ends_with(REFERENCE_VERSION) {
        eprintln!("skipped: not for {version}");
        return None;
    }
    Some(path)
}

/// The path of an installed program: that in the environment variable, or the first on the PATH.
/// `None` if there is none.
#[must_use]
pub fn installed(program: &str, variable: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Some(PathBuf::from(path));
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// The command of a memcached. Started by root, memcached requires a user (`-u`).
#[must_use]
pub fn memcached_command(path: &Path) -> Command {
    let mut command = Command::new(path);
    if sys::privileges::is_root() {
        command.args(["-u", "root"]);
    }
    command
}

/// Calls `start` with an address at which no process listens, and if it fails, again with another
/// one: another process may take a port after it was found free.
///
/// # Errors
/// The last attempt failed, or there is no free port.
pub fn at_free_address<T>(
    ip: Ipv4Addr,
    mut start: impl FnMut(SocketAddr) -> Result<T>,
) -> Result<T> {
    let mut last_error = anyhow!("not tried");
    for _ in 0..ATTEMPTS {
        match start(free_address(ip)?) {
            Ok(started) => return Ok(started),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// Returns an address at which no process listens at present. To start a server there, use
/// [`at_free_address`].
///
/// Every call returns another port, in all test processes of this machine: each holds a lock for
/// its ports until it ends. Otherwise the servers of two tests at the same time could get the same
/// one, and a test would talk to the server of the other test.
///
/// # Errors
/// There is no free port that is not locked.
pub fn free_address(ip: Ipv4Addr) -> Result<SocketAddr> {
    static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(PORTS_OF_PROCESS);
    for _ in 0..PORT_ATTEMPTS {
        let number = first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (number % u32::from(PORTS.end - PORTS.start)) as u16;
        // The kernel removes this name with the process, and has one set of names for each network
        // namespace, as it has of ports.
        let name = unix::SocketAddr::from_abstract_name(format!("curtail-test-port-{port}"))?;
        let Ok(lock) = UnixListener::bind_addr(&name) else {
            continue;
        };
        if TcpListener::bind((ip, port)).is_ok() {
            let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
            held.push(lock);
            return Ok((ip, port).into());
        }
    }
    bail!("every port that was tried is in use")
}

/// The path of the program under test: `$CURTAIL`, or else a program that is built here. An
/// existing binary is not used, because it may be older than the source.
///
/// # Panics
/// The program cannot be built.
pub fn curtail_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("CURTAIL") {
        Some(path) => PathBuf::from(path),
        None => build_curtail().unwrap_or_else(|error| panic!("build curtail: {error:#}")),
    })
}

/// The target folder of cargo, from which the test runs.
///
/// # Errors
/// The test does not run from a target folder.
pub fn target_folder() -> Result<PathBuf> {
    let profile_folder = profile_folder()?;
    let target_folder = profile_folder.parent().context("no target folder")?;
    Ok(target_folder.to_owned())
}

/// The folder `target/<profile>`. The test runs from `target/<profile>/deps`.
fn profile_folder() -> Result<PathBuf> {
    let program = env::current_exe()?;
    program
        .ancestors()
        .find(|folder| folder.ends_with("deps"))
        .and_then(Path::parent)
        .map(Path::to_owned)
        .context("a test runs from target/<profile>/deps")
}

/// Builds `curtail` in the profile of the test, or in `dist` for a benchmark, and returns its path.
fn build_curtail() -> Result<PathBuf> {
    let profile_folder = profile_folder()?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "curtail", "--target-dir"])
        .arg(target_folder()?)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    // Benchmarks, which are built in that folder, measure what is packaged.
    let is_measured = profile_folder.ends_with("release");
    if is_measured {
        build.args(["--profile", "dist"]);
    }
    let status = build.status().context("start cargo")?;
    if !status.success() {
        bail!("cargo ended with {status}");
    }
    Ok(match is_measured {
        true => target_folder()?.join("dist/curtail"),
        false => profile_folder.join("curtail"),
    })
}
