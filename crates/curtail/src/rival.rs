//! `curtail rival`: other designs as servers, for experiments.

mod client;

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::load::Lengths;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use client::Client;
use rivals::documents;
use rivals::documents::limits::PROCESSES_MAX;
use rivals::echo::{self, Exchange};
use rivals::textile::Design;
use rivals::textile::server::limits::{DATAGRAM_LEN_MAX, REQUEST_LEN_MAX};
use rivals::textile::server::{Config, Pool, Server};
use sys::poll::Waker;
use sys::signals::Signals;
use workload::limits::{KEY_LEN_MAX, MULTIGET_KEYS_MAX};

use crate::load::parse;

/// Other designs as servers.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the multithreaded cache of Kosik and Pan (2016) by its own protocol. Prints its
    /// counters as a line of JSON when it is stopped
    Textile(Textile),
    /// Serve the files of a folder over HTTP by processes that block, one for each connection, as
    /// in the study of Ruan and Pai (2006)
    Documents(Documents),
    /// Answer gets without a cache: every request of the given length gets the same bytes. What it
    /// costs, the kernel and the network cost any server
    Echo(Echo),
    /// Send one request of the textile protocol, such as `PUT /k/v` or `GET /k`, and print the
    /// answer
    Request(Request),
    /// Send PUTs as the study's program of this name does, and print what it prints
    #[command(name = "set_client")]
    SetClient(Client),
    /// Send GETs as the study's program of this name does, and print what it prints
    #[command(name = "get_client")]
    GetClient(Client),
    /// Send DELETEs as the study's program of this name does, and print what it prints
    #[command(name = "delete_client")]
    DeleteClient(Client),
}

#[derive(Debug, Args)]
struct Textile {
    /// The cache: per-entry (as published, its races fixed), presized (initialised at maxmem),
    /// striped, global, unthreaded, or store (Curtail's own)
    #[arg(long, value_name = "DESIGN", default_value = "per-entry", value_parser = parse::<Design>)]
    cache: Design,

    /// The threads: one-thread, queue-poll (as published), queue-sleep, or rings (our runtime)
    #[arg(long, value_name = "POOL", default_value = "queue-sleep", value_parser = parse::<Pool>)]
    pool: Pool,

    /// Worker threads of the pool
    #[arg(long, value_name = "N", default_value_t = 4)]
    workers: usize,

    /// Most memory of all values
    #[arg(long, short = 'm', value_name = "SIZE", default_value = "64MiB",
          value_parser = units::size_bytes)]
    maxmem: u64,

    /// Address to listen on
    #[arg(long, short = 'l', value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,

    /// Port for PUT, DELETE, HEAD and POST, over TCP
    #[arg(long, short = 'p', value_name = "PORT", default_value_t = 2001)]
    port: u16,

    /// Port for GET, over UDP
    #[arg(long, short = 'U', value_name = "PORT", default_value_t = 3001)]
    udp_port: u16,

    /// Let `POST /shutdown` stop the server
    #[arg(long)]
    allow_shutdown: bool,
}

#[derive(Debug, Args)]
struct Documents {
    /// Folder whose files are served
    #[arg(long, value_name = "DIR")]
    root: PathBuf,

    /// Address to listen on
    #[arg(long, short = 'l', value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,

    /// Port
    #[arg(long, short = 'p', value_name = "PORT", default_value_t = 8080)]
    port: u16,

    /// Processes that serve connections, and so the most connections at a time
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(1..=PROCESSES_MAX as i64))]
    processes: u16,

    /// Let one more process look names up, and pass the files to the others
    #[arg(long)]
    backend: bool,
}

#[derive(Debug, Args)]
struct Echo {
    /// How it serves its connections: events (epoll) or rings (io_uring)
    #[arg(long, value_name = "NAME", default_value = "rings", value_parser = parse::<echo::Kind>)]
    runtime: echo::Kind,

    /// Keys of each get
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(MULTIGET_KEYS_MAX)))]
    keys: u16,

    /// Length of each key
    #[arg(long, value_name = "BYTES", default_value_t = 30,
          value_parser = clap::value_parser!(u16).range(1..=KEY_LEN_MAX as i64))]
    key_len: u16,

    /// Length of each value in the answer
    #[arg(long, value_name = "BYTES", default_value_t = 139)]
    value_len: u16,

    /// Address to listen on
    #[arg(long, short = 'l', value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,

    /// Port
    #[arg(long, short = 'p', value_name = "PORT", default_value_t = 11211)]
    port: u16,
}

/// Files that an echo server may open, if the limit allows it.
const ECHO_FILES: u64 = 20_000;

#[derive(Debug, Args)]
struct Request {
    /// HOST:PORT; for GET the port for datagrams
    server: String,
    /// The request, without its NUL
    request: String,
}

/// How long `request` waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    match &flags.command {
        Command::Textile(textile) => serve(textile),
        Command::Documents(documents) => serve_documents(documents),
        Command::Echo(flags) => serve_echo(flags),
        Command::Request(request) => send(request),
        Command::SetClient(client) => client.run(Lengths::Set),
        Command::GetClient(client) => client.run(Lengths::Get),
        Command::DeleteClient(client) => client.run(Lengths::Delete),
    }
}

fn serve(flags: &Textile) -> anyhow::Result<ExitCode> {
    // Before the first thread, which inherits the mask.
    let signals = Signals::block().context("block signals")?;
    let server = Server::start(&Config {
        design: flags.cache,
        maxmem: flags.maxmem,
        pool: flags.pool,
        workers: flags.workers,
        tcp: SocketAddr::new(flags.listen, flags.port),
        udp: SocketAddr::new(flags.listen, flags.udp_port),
        allows_shutdown: flags.allow_shutdown,
    })?;
    eprintln!(
        "serving {} by {} at {} (TCP) and {} (UDP)",
        flags.cache.name(),
        flags.pool.name(),
        server.tcp(),
        server.udp(),
    );
    server.wait(&signals).context("wait for a signal")?;
    let counters = server.stop()?;
    let line = serde_json::to_string(&counters).context("print the counters")?;
    writeln!(io::stdout().lock(), "{line}").context("print the counters")?;
    Ok(ExitCode::SUCCESS)
}

fn serve_documents(flags: &Documents) -> anyhow::Result<ExitCode> {
    let signals = Signals::block().context("block signals")?;
    let config = documents::Config {
        address: SocketAddr::new(flags.listen, flags.port),
        root: flags.root.clone(),
        processes: flags.processes.into(),
        has_backend: flags.backend,
    };
    let wanted = config.open_files();
    let limit = sys::limits::raise_open_files(wanted);
    if limit < wanted {
        bail!(
            "--processes {} needs {wanted} open files, and the limit is {limit}; raise it (ulimit -n) \
             or give fewer processes",
            config.processes
        );
    }
    let mut server = documents::Server::start(&config).with_context(|| {
        let root = flags.root.display();
        format!("serve {root} (--root) at {}", config.address)
    })?;
    eprintln!("serving documents at {}", server.address());
    server.wait(&signals).context("wait for a signal")?;
    Ok(ExitCode::SUCCESS)
}

fn serve_echo(flags: &Echo) -> anyhow::Result<ExitCode> {
    let address = SocketAddr::new(flags.listen, flags.port);
    let exchange = Exchange::gets(
        flags.keys.into(),
        flags.key_len.into(),
        flags.value_len.into(),
    );
    // With fewer files, a connection beyond them ends the server with an error that says so.
    sys::limits::raise_open_files(ECHO_FILES);
    let listener = echo::listen(address).with_context(|| format!("listen at {address}"))?;
    // It serves until a signal ends the process.
    let never = Waker::new().context("create an event descriptor")?;
    echo::serve(flags.runtime, &listener, &exchange, &never)
        .with_context(|| format!("serve {address}"))?;
    Ok(ExitCode::SUCCESS)
}

fn send(flags: &Request) -> anyhow::Result<ExitCode> {
    let context = || flags.server.clone();
    let mut addresses = flags.server.to_socket_addrs().with_context(context)?;
    let Some(address) = addresses.next() else {
        bail!("{}: no address has this name", flags.server);
    };
    let mut request = flags.request.clone().into_bytes();
    if request.contains(&0) || request.len() > REQUEST_LEN_MAX {
        bail!("the request has a NUL, or is longer than {REQUEST_LEN_MAX} bytes");
    }
    request.push(0);
    let answer = match flags.request.starts_with("GET ") {
        true => ask_datagram(address, &request),
        false => ask_stream(address, &request),
    };
    let answer = answer.with_context(context)?;
    let text = String::from_utf8_lossy(&answer);
    writeln!(
        io::stdout().lock(),
        "{}",
        text.trim_end_matches(['\0', '\n'])
    )?;
    Ok(ExitCode::SUCCESS)
}

fn ask_stream(address: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream
        .take(REQUEST_LEN_MAX as u64)
        .read_to_end(&mut answer)?;
    Ok(answer)
}

fn ask_datagram(address: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let local = match address {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(local)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.send(request)?;
    let mut answer = Vec::new();
    while answer.last() != Some(&0) && answer.len() <= REQUEST_LEN_MAX {
        let mut datagram = [0; DATAGRAM_LEN_MAX];
        let len = socket.recv(&mut datagram)?;
        answer.extend_from_slice(&datagram[..len]);
    }
    Ok(answer)
}
