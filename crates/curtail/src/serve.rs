//! `curtail serve`: memcached's flags and their effect.

mod daemon;
mod extended;
mod flags;
mod getopt;
mod help;
mod listen;
mod passwords;
mod pool;
#[cfg(test)]
mod tests;
mod tier;

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use server::{
    AllowedProtocols, Config, DatagramsConfig, Documents, InterfaceConfig, Misses, Permissions,
    ReplyLimit, Server, StrategyKind, UnixSocket, WaitPolicy,
};
use sys::daemon::Ready;

use daemon::{PidFile, Role};

pub(crate) use flags::Flags;
pub(crate) use getopt::{Canonical, canonical};
pub(crate) use help::usage;

const MIB: u64 = 1 << 20;

/// Environment variable that names the file for the ports, as in memcached. Test suites that use a
/// free port read it.
const PORT_FILE: &str = "MEMCACHED_PORT_FILENAME";

/// Writes a line to standard error. A full or closed standard error does not stop the server.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "curtail: {line}");
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    if flags.version || flags.license {
        let text = match flags.version {
            true => help::version(),
            false => help::license(),
        };
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let (mut config, notes) = flags.config()?;
    if !notes.is_empty() {
        say(&format!("accepted without effect: {}", notes.join("; ")));
    }
    let pid_file = flags.pid_file.as_deref().map(PidFile::new).transpose();
    let pid_file = pid_file.context("-P")?;
    let mut files = Files {
        pid: pid_file,
        ports: flags.port_file(),
    };
    if !flags.daemon {
        return serve(config, &files, None);
    }
    match daemon::start(files.pid.clone()).context("failed to become a daemon (-d)")? {
        Role::Starter(starter) => Ok(ExitCode::from(starter.wait(&mut say)?)),
        Role::Daemon(ready) => {
            // The daemon changes its working directory before it removes these files.
            files.ports = files.ports.map(std::path::absolute).transpose()?;
            if let Some(socket) = &mut config.unix_socket {
                socket.path = std::path::absolute(&socket.path)?;
            }
            if let Some(documents) = &mut config.documents {
                documents.root = std::path::absolute(&documents.root)?;
                let log = documents.log.take();
                documents.log = log.map(std::path::absolute).transpose()?;
            }
            if let Some(file) = &mut config.passwords {
                file.path = std::path::absolute(&file.path)?;
            }
            for file in config.tier.iter_mut().flat_map(|tier| &mut tier.files) {
                file.path = std::path::absolute(&file.path)?;
            }
            serve(config, &files, Some(ready))
        }
    }
}

/// Files that the server writes about itself.
struct Files {
    pid: Option<PidFile>,
    ports: Option<PathBuf>,
}

fn serve(config: Config, files: &Files, daemon: Option<Ready>) -> anyhow::Result<ExitCode> {
    let is_verbose = config.verbosity > 0;
    let keeps_folder = config.core_dumps;
    let server = Server::start(config, &mut say)?;
    if is_verbose {
        for address in server.addresses() {
            say(&format!("listening on {address}"));
        }
        for address in server.datagram_addresses() {
            say(&format!("receiving datagrams at {address}"));
        }
    }
    if let Some(path) = &files.ports
        && let Err(error) =
            daemon::write_ports(path, server.addresses(), server.datagram_addresses())
    {
        say(&format!("{PORT_FILE}: {}: {error}", path.display()));
    }
    match (daemon, &files.pid) {
        // The starter writes a daemon's pid file.
        (Some(ready), _) => ready.report(is_verbose, keeps_folder)?,
        (None, Some(file)) => file.write(std::process::id(), &mut say),
        (None, None) => {}
    }
    let outcome = server.serve(&mut say);
    if let Some(file) = &files.pid {
        file.remove();
    }
    outcome?;
    Ok(ExitCode::SUCCESS)
}

impl Flags {
    /// The server's configuration, and notes on the flags without effect.
    fn config(&self) -> anyhow::Result<(Config, Vec<String>)> {
        self.reject_unserved_security()?;
        let mut notes = self.notes();
        let extended = extended::accept(&self.extended)?;
        notes.extend(extended.notes);
        let settings = self.settings(extended.settings);
        let unix_socket = self.unix_socket.clone().map(|path| UnixSocket {
            path,
            mode: self.unix_mask,
        });
        let port = self.tcp_port();
        // A Unix socket disables the network, as in memcached, unless addresses are named.
        let interface = self.interface()?;
        let has_network = port != 0 && (unix_socket.is_none() || !self.listen.is_empty());
        let has_network = has_network && interface.is_none();
        let (mut listen, mut protocols) = (Vec::new(), self.protocols()?);
        let passwords = self.passwords()?;
        if has_network {
            let found = listen::addresses(&self.listen, port_number(port))?;
            notes.extend(found.notes);
            listen = found.listen;
            if found.is_text_only {
                if protocols == AllowedProtocols::Binary {
                    let flag = if self.protocol.is_some() {
                        "-B binary"
                    } else {
                        "-S"
                    };
                    bail!("-l: proto[ascii] contradicts {flag}; leave one of them out");
                }
                protocols = AllowedProtocols::Text;
            }
        }
        let config = Config {
            listen,
            datagrams: self.datagrams()?,
            unix_socket,
            interface,
            memory_bytes: self.memory_limit * MIB,
            item_size_max: self.max_item_size,
            connections_max: self.conn_limit,
            workers: self.threads,
            requests_per_turn: self.max_reqs_per_event,
            backlog: self.listen_backlog,
            evicts: !self.disable_evictions,
            idle_s: extended.idle_s,
            huge_pages: self.enable_largepages,
            lock_memory: self.lock_memory,
            core_dumps: self.enable_coredumps,
            user: self.user.clone(),
            protocols,
            passwords,
            permissions: Permissions {
                shutdown: self.enable_shutdown,
                flush: !self.disable_flush_all,
                dump: !self.disable_dumping,
                watch: !self.disable_watch,
            },
            debug_time: self.debug_time,
            prefix_rate: self.prefix_commands,
            prefix_delimiter: self.delimiter,
            settings,
            runtime: self.runtime.0,
            fibre_scheduler: self.fibre_scheduler,
            wait_policy: WaitPolicy {
                busy_poll_ns: self.busy_poll,
                min_wait_ns: self.min_wait,
            },
            drain_ns: self.drain,
            admin: self.admin,
            host_names: self.host_name.clone(),
            documents: self.documents()?,
            tier: self.tier(&extended.tier)?,
            pool: self.pool(),
            records_latency: !self.no_latency,
            verbosity: u32::from(self.verbose),
        };
        Ok((config, notes))
    }

    /// Further rows of `stats settings`: those of `-o`, and of other flags without effect.
    fn settings(&self, mut settings: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
        if let Some(factor) = self.slab_growth_factor {
            settings.push(("growth_factor", format!("{factor:.2}")));
        }
        if let Some(bytes) = self.slab_min_size {
            settings.push(("chunk_size", bytes.to_string()));
        }
        if self.disable_cas {
            settings.push(("cas_enabled", "no".to_owned()));
        }
        settings
    }

    /// The datagrams. As in memcached, a Unix socket disables them unless addresses are named.
    fn datagrams(&self) -> anyhow::Result<Option<DatagramsConfig>> {
        if self.udp_port == 0 || (self.unix_socket.is_some() && self.listen.is_empty()) {
            return Ok(None);
        }
        let limit = ReplyLimit {
            stranger_factor: (self.udp_reply_limit > 0).then_some(self.udp_reply_limit),
        };
        Ok(Some(DatagramsConfig {
            addresses: listen::addresses(&self.listen, port_number(self.udp_port))?.listen,
            limit,
        }))
    }

    /// The device and the address of the runtime `bypass`.
    fn interface(&self) -> anyhow::Result<Option<InterfaceConfig>> {
        let (Some(device), Some(network)) = (&self.interface, self.address) else {
            return Ok(None);
        };
        if self.unix_socket.is_some() || !self.listen.is_empty() {
            bail!("--interface: this server has no sockets to listen on; leave -l and -s out");
        }
        let port = port_number(self.tcp_port());
        if port == 0 {
            bail!("--interface: a TCP port is needed; give one with -p, or leave it out for 11211");
        }
        Ok(Some(InterfaceConfig {
            device: device.clone(),
            address: network.address,
            prefix_len: network.prefix_len,
            port,
        }))
    }

    /// The documents over HTTP.
    fn documents(&self) -> anyhow::Result<Option<Documents>> {
        let (Some(address), Some(root)) = (self.http, self.root.clone()) else {
            return Ok(None);
        };
        let strategy = self.file_strategy.unwrap_or(StrategyKind::Nowait);
        let misses = self.file_misses.unwrap_or(Misses::Threads);
        if misses == Misses::Uring && strategy != StrategyKind::Nowait {
            bail!(
                "--file-misses uring: only --file-strategy nowait reads by an io_uring, not {}; \
                 leave one of the two out",
                strategy.name()
            );
        }
        Ok(Some(Documents {
            address,
            root,
            strategy,
            misses,
            idle_s: (self.http_idle > 0).then_some(self.http_idle),
            serves_cache: self.http_cache,
            log: self.http_log.clone(),
            sends_files: !self.http_copy,
        }))
    }

    /// The file for the ports. `None` if the environment names none, or there is only a Unix
    /// socket.
    fn port_file(&self) -> Option<PathBuf> {
        let path = PathBuf::from(env::var_os(PORT_FILE)?);
        (self.unix_socket.is_none() && !path.as_os_str().is_empty()).then_some(path)
    }

    /// Rejects flags that protect the server and are not served: without them it would be open.
    fn reject_unserved_security(&self) -> anyhow::Result<()> {
        if self.enable_ssl {
            bail!(
                "-Z: TLS is not served, and clients would talk in the clear; leave the flag out, or \
                 put a TLS proxy in front and listen on 127.0.0.1 (-l)"
            );
        }
        if let Some(path) = &self.memory_file {
            bail!(
                "-e {}: items are not kept over a restart, and the cache would start empty; leave \
                 the flag out, or use --tier, which keeps the items of its files",
                path.display()
            );
        }
        Ok(())
    }

    /// Flags without effect here, each with the reason.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(factor) = self.slab_growth_factor {
            notes.push(format!("-f {factor} (there are no slab classes)"));
        }
        if let Some(bytes) = self.slab_min_size {
            notes.push(format!("-n {bytes} (there are no slab classes)"));
        }
        if self.disable_cas {
            notes.push("-C (CAS is always there)".to_owned());
        }
        if let Some(ids) = self.napi_ids {
            notes.push(format!(
                "-N {ids} (the kernel chooses a worker's connections)"
            ));
        }
        notes
    }

    /// The TCP port. As in memcached, `-U` without `-p` sets it too.
    fn tcp_port(&self) -> i32 {
        match self.udp_port {
            0 => self.port.unwrap_or(DEFAULT_PORT),
            udp_port => self.port.unwrap_or(udp_port),
        }
    }
}

const DEFAULT_PORT: i32 = 11_211;

/// The kernel's number of the port of a flag: -1 means a free port, whose number is 0.
fn port_number(port: i32) -> u16 {
    u16::try_from(port).unwrap_or(0)
}
