//! Server processes for tests: started on a free port, stopped when dropped.

use std::env;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use sys::child::{Bounds, bind, terminate};
use sys::cost::{Cost, of_process};

use crate::client::Client;
use crate::peer::Address;

/// How long a server may take to listen, and to end when told.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Ports may be taken between being found free and being used; so often it is tried again.
const ATTEMPTS: usize = 3;

/// A server process. It ends with the thread that started it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: Address,
}

impl Server {
    /// Starts `command` with a free port of 127.0.0.1 behind `-l` and `-p`, and waits until it
    /// listens.
    ///
    /// # Errors
    /// It cannot be started, ends at once, or does not listen.
    pub fn tcp(command: impl Fn() -> Command) -> Result<Self> {
        Self::tcp_on(Ipv4Addr::LOCALHOST, &[], command)
    }

    /// As [`Server::tcp`], to be measured: on this address of the machine, with all its threads on
    /// these processors (none named: on any), before whatever else the machine does, where it may.
    ///
    /// # Errors
    /// As [`Server::tcp`], or no such address or processor.
    pub fn tcp_on(ip: Ipv4Addr, cpus: &[usize], command: impl Fn() -> Command) -> Result<Self> {
        let mut last = anyhow!("not tried");
        for _ in 0..ATTEMPTS {
            let port = free_port(ip)?;
            let mut command = command();
            command.args(["-l", &ip.to_string(), "-p", &port.to_string()]);
            let address = SocketAddr::from((ip, port));
            match Self::start(command, Address::Tcp(address), cpus) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Starts `command`, which knows where to listen, and waits until it does.
    ///
    /// # Errors
    /// As [`Server::tcp`].
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
        };
        bind(&mut command, &bounds)?;
        command.stdin(Stdio::null());
        let child = command
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let mut server = Self { child, address };
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if server.address.connect(TIMEOUT).is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("{command:?} ended with {status} before it listened");
            }
            if Instant::now() > deadline {
                bail!("{command:?} does not listen after {TIMEOUT:?}");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// It is gone already.
    pub fn terminate(&self) -> Result<()> {
        terminate(self.pid()).context("send SIGTERM")
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It does not end in time.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        wait(&mut self.child)
    }

    /// Processor time it has used so far, in clock ticks of a hundredth of a second.
    ///
    /// # Errors
    /// It is gone.
    pub fn processor_ticks(&self) -> Result<u64> {
        let path = format!("/proc/{}/stat", self.pid());
        let stat = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        // Behind the name, which may hold anything, user and system time are the twelfth and
        // thirteenth (proc_pid_stat(5)).
        let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
        let times = rest.split_whitespace().skip(11).take(2);
        times
            .map(|ticks| ticks.parse::<u64>().context("no number in stat"))
            .sum()
    }

    /// What it pays in a while in which nobody asks it for anything.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn idle_cost(&self, time: Duration) -> Result<Cost> {
        let before = of_process(self.pid())?;
        thread::sleep(time);
        Ok(of_process(self.pid())?.since(&before))
    }

    /// Bytes of memory resident now.
    ///
    /// # Errors
    /// It is gone.
    pub fn resident_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid());
        let status = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .with_context(|| format!("{path} has no VmRSS"))?;
        Ok(kib.parse::<u64>()? * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then both fail, and that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the end of a process that has been told to end.
///
/// # Errors
/// It does not end in time.
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

/// `curtail serve`, built from this source, without a place to listen yet.
///
/// # Panics
/// It cannot be built.
#[must_use]
pub fn curtail() -> Command {
    let mut command = Command::new(curtail_path());
    command.args(["serve", "--runtime", runtime()]);
    if runtime() == "fibres" && program_name().starts_with("on_fibres_steal") {
        command.args(["--fibre-scheduler", "steal"]);
    }
    command
}

/// [`curtail`] with these arguments, on a free port.
///
/// # Panics
/// It does not start.
#[must_use]
pub fn server(arguments: &[&str]) -> Server {
    Server::tcp(|| {
        let mut command = curtail();
        command.args(arguments);
        command
    })
    .unwrap_or_else(|error| panic!("start curtail {arguments:?}: {error:#}"))
}

/// The same, and a client that has put `key` there.
///
/// # Panics
/// It does not start, or does not answer.
#[must_use]
pub fn server_with_key(arguments: &[&str]) -> (Server, Client) {
    let server = server(arguments);
    let client = Client::connect(&server.address).and_then(|mut client| {
        client.set("key", b"value")?;
        Ok(client)
    });
    let client = client.unwrap_or_else(|error| panic!("ask curtail {arguments:?}: {error:#}"));
    (server, client)
}

/// What the test program is called.
fn program_name() -> String {
    let program = env::current_exe().unwrap_or_default();
    let name = program.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// On what the program under test is to run its conversations: `$CURTAIL_RUNTIME`, or what the
/// name of the test program says (`on_rings`, `on_threads`,
/// `on_fibres`).
#[expect(clippy::print_stderr, reason = "what was skipped is said")]
pub fn runtime() -> &'static str {
    static RUNTIME: OnceLock<String> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let name = program_name();
        let named = ["rings", "threads", "fibres"]
            .into_iter()
            .find(|kind| name.starts_with(&format!("on_{kind}")));
        let asked = env::var("CURTAIL_RUNTIME").ok();
        let wanted = asked.unwrap_or_else(|| named.unwrap_or("events").to_owned());
        if wanted == "rings"
            && let Err(error) = sys::ring::Ring::probe()
        {
            eprintln!("skipped: --runtime rings: {error}; on events instead");
            return "events".to_owned();
        }
        if wanted == "fibres"
            && let Err(error) = runtime::rings_for_fibres()
        {
            eprintln!("skipped: fibres over io_uring: {error}; over epoll instead");
        }
        wanted
    })
}

/// A memcached that is installed (`$MEMCACHED`, else on the PATH).
#[must_use]
pub fn memcached() -> Option<PathBuf> {
    if let Some(path) = env::var_os("MEMCACHED") {
        return Some(PathBuf::from(path));
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join("memcached"))
        .find(|path| path.is_file())
}

/// The command of a memcached, which asks for a user if root starts it.
#[must_use]
pub fn memcached_command(path: &Path) -> Command {
    let mut command = Command::new(path);
    if sys::privileges::is_root() {
        command.args(["-u", "root"]);
    }
    command
}

/// A port nobody listens on just now.
fn free_port(ip: Ipv4Addr) -> Result<u16> {
    let listener = TcpListener::bind((ip, 0)).context("find a free port")?;
    Ok(listener.local_addr()?.port())
}

/// The program under test (`$CURTAIL`, else built here: a binary that happens to lie about may
/// be older than the source).
///
/// # Panics
/// It cannot be built.
pub fn curtail_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("CURTAIL") {
        Some(path) => PathBuf::from(path),
        None => build_curtail().unwrap_or_else(|error| panic!("build curtail: {error:#}")),
    })
}

/// Where cargo builds.
///
/// # Errors
/// The test does not run from there.
pub fn target_folder() -> Result<PathBuf> {
    let profile_folder = profile_folder()?;
    let target_folder = profile_folder.parent().context("no target folder")?;
    Ok(target_folder.to_owned())
}

/// `target/<profile>`, of `target/<profile>/deps/<this test>`.
fn profile_folder() -> Result<PathBuf> {
    let this = env::current_exe()?;
    this.ancestors()
        .find(|folder| folder.ends_with("deps"))
        .and_then(Path::parent)
        .map(Path::to_owned)
        .context("a test runs from target/<profile>/deps")
}

fn build_curtail() -> Result<PathBuf> {
    let profile_folder = profile_folder()?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "curtail", "--target-dir"])
        .arg(target_folder()?)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile_folder.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().context("start cargo")?;
    if !status.success() {
        bail!("cargo ended with {status}");
    }
    Ok(profile_folder.join("curtail"))
}
