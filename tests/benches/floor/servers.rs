//! The servers: processes of their own, all of their threads on one processor.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use curtail_tests::echo::{self, Exchange, Kind};
use curtail_tests::peer::Address;
use curtail_tests::process::{self, Server};
use sys::poll::Waker;

/// Word before the arguments by which this program tells itself to be a server that only echoes.
pub(crate) const ECHO: &str = "echo-server";
/// Connections the servers let in: those of the largest case, and a few that come and go.
pub(crate) const CONNECTIONS_MAX: u64 = 2048;

/// What a server is compared as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The echo that others are compared with.
    Floor,
    /// Another one.
    Echo,
    /// Ours.
    Curtail,
    /// Ours, with a fibre for each connection: to be compared with our own loops.
    Fibres,
    /// An older build of ours, which the newer is compared with.
    Before,
    /// The original.
    Memcached,
}

/// What ours with fibres are compared with.
pub(crate) const EVENTS: &str = "curtail (events)";

/// Where servers run.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) ip: Ipv4Addr,
    pub(crate) cpu: usize,
}

/// A server to be measured.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) server: Server,
}

impl Subject {
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        match self.server.address {
            Address::Tcp(address) => Ok(address),
            Address::Unix(_) => bail!("{} listens on no TCP port", self.name),
        }
    }
}

/// A cache server that can be started.
pub(crate) struct Cache {
    pub(crate) name: String,
    pub(crate) role: Role,
    program: PathBuf,
    arguments: Vec<String>,
    /// Of ours.
    pub(crate) kind: Option<runtime::Kind>,
}

/// What the older build of a server is called.
pub(crate) fn name_before(name: &str) -> String {
    format!("{name}, before")
}

impl Cache {
    /// Curtail, once for each of its runtimes that this machine has, and a memcached, if there is
    /// one.
    pub(crate) fn all() -> Vec<Self> {
        let curtail = process::curtail_path();
        let mut caches = Vec::new();
        for kind in runtime::Kind::OVER_SOCKETS {
            if let Err(error) = kind.probe() {
                println!("skipped: --runtime {}: {error}", kind.name());
                continue;
            }
            let schedulers: &[&str] = match kind {
                runtime::Kind::Fibres => &["fair", "steal"],
                _ => &[""],
            };
            for &scheduler in schedulers {
                let mut arguments = vec!["serve", "--runtime", kind.name()];
                if !scheduler.is_empty() {
                    arguments.extend(["--fibre-scheduler", scheduler]);
                }
                let name = [kind.name(), scheduler].join(" ");
                caches.push(Self {
                    name: format!("curtail ({})", name.trim_end()),
                    role: match kind {
                        runtime::Kind::Fibres => Role::Fibres,
                        _ => Role::Curtail,
                    },
                    program: curtail.to_owned(),
                    arguments: arguments.into_iter().map(str::to_owned).collect(),
                    kind: Some(kind),
                });
            }
        }
        if let Some(program) = process::memcached() {
            caches.push(Self {
                name: "memcached".to_owned(),
                role: Role::Memcached,
                program,
                arguments: Vec::new(),
                kind: None,
            });
        }
        caches
    }

    /// Curtail on the runtime it takes by itself, with flags of `curtail serve` besides.
    pub(crate) fn with(flags: &str) -> Self {
        let mut arguments = vec!["serve".to_owned()];
        arguments.extend(flags.split_whitespace().map(str::to_owned));
        let mut best_first = runtime::Kind::BEST_FIRST.into_iter();
        Self {
            name: format!("curtail {flags}"),
            role: Role::Curtail,
            program: process::curtail_path().to_owned(),
            arguments,
            kind: best_first.find(|kind| kind.probe().is_ok()),
        }
    }

    /// The same server of ours from another program, an older build; none: it is not ours.
    pub(crate) fn before(&self, program: &Path) -> Option<Self> {
        matches!(self.role, Role::Curtail | Role::Fibres).then(|| Self {
            name: name_before(&self.name),
            role: Role::Before,
            program: program.to_owned(),
            arguments: self.arguments.clone(),
            kind: self.kind,
        })
    }

    /// Starts it with room for `records`.
    pub(crate) fn start(&self, records: u64, place: Place) -> Result<Subject> {
        self.start_under(&[], CONNECTIONS_MAX, records, place)
    }

    /// As [`Cache::start`], under a program and its arguments, if any.
    pub(crate) fn start_under(
        &self,
        under: &[&str],
        connections_max: u64,
        records: u64,
        place: Place,
    ) -> Result<Subject> {
        // Twice what a record takes in either server, and what both take for themselves.
        let memory_mib = 128 + (records * 512) / (1 << 20);
        let command = || {
            let mut command = match under.split_first() {
                Some((program, arguments)) => {
                    let mut command = Command::new(program);
                    command.args(arguments).arg(&self.program);
                    command
                }
                None => Command::new(&self.program),
            };
            command.args(&self.arguments);
            command.args(["-t", "1", "-U", "0", "-m", &memory_mib.to_string()]);
            command.args(["-c", &connections_max.to_string()]);
            if sys::privileges::is_root() {
                // One that becomes another user forgets that it is to die with its parent.
                command.args(["-u", "root"]);
            }
            command
        };
        start(&self.name, self.role, place, command)
    }
}

/// A server that only echoes, in a process of its own.
pub(crate) fn start_echo(kind: Kind, exchange: Exchange, place: Place) -> Result<Subject> {
    let (name, role) = match kind {
        Kind::Events => ("echo (epoll)", Role::Echo),
        Kind::Rings => ("echo (io_uring)", Role::Floor),
    };
    let program = env::current_exe()?;
    let command = || {
        let mut command = Command::new(&program);
        command.args([ECHO, kind.name()]);
        command.args([exchange.request_len, exchange.answer_len].map(|len| len.to_string()));
        command
    };
    start(name, role, place, command)
}

fn start(name: &str, role: Role, place: Place, command: impl Fn() -> Command) -> Result<Subject> {
    let server = Server::tcp_on(place.ip, &[place.cpu], command);
    let server = server.with_context(|| format!("start {name}"))?;
    Ok(Subject {
        name: name.to_owned(),
        role,
        server,
    })
}

/// Echoes until it is killed; `words` are those that [`start_echo`] has given.
pub(crate) fn serve_echo(words: &[&str]) -> Result<()> {
    let [kind, request_len, answer_len, "-l", ip, "-p", port] = words else {
        bail!("{ECHO} wants KIND REQUEST_LEN ANSWER_LEN -l ADDRESS -p PORT");
    };
    let kind = Kind::ALL
        .into_iter()
        .find(|it| it.name() == *kind)
        .with_context(|| format!("no kind of echo is called {kind:?}"))?;
    let exchange = Exchange {
        request_len: request_len.parse().context("REQUEST_LEN")?,
        answer_len: answer_len.parse().context("ANSWER_LEN")?,
    };
    let ip: Ipv4Addr = ip.parse().context("ADDRESS")?;
    let listener = echo::listen(SocketAddr::from((ip, port.parse().context("PORT")?)))?;
    Ok(echo::serve(kind, &listener, exchange, &Waker::new()?)?)
}
