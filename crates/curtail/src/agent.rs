//! `curtail agent`: offers a part of a load for the coordinator `curtail load --agent`.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use ::load::agents::{Agent, AgentEvent, Token};
use anyhow::{Context, bail};
use clap::Args;

/// The flags of an agent; the guide explains them on the page "measure a server".
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Address to listen at for coordinators: HOST:PORT; port 0 takes a free one
    #[arg(value_name = "LISTEN", value_parser = listen_address)]
    listen: SocketAddr,

    /// File with the token that coordinators must have too: 16 to 1024 bytes on one line. Without
    /// one, LISTEN must be a loopback address
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Processors of this host to pin the threads of a run to, round-robin, such as 1 or 2,3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let fault = |fault: String| format!("{fault}; give HOST:PORT, such as 0.0.0.0:7700");
    let mut addresses = text
        .to_socket_addrs()
        .map_err(|error| fault(error.to_string()))?;
    let address = addresses.next();
    address.ok_or_else(|| fault("the name has no address".to_owned()))
}

/// Reads the token of `--token-file`.
pub(crate) fn token(file: Option<&PathBuf>) -> anyhow::Result<Token> {
    match file {
        Some(path) => Token::read(path).with_context(|| format!("--token-file {}", path.display())),
        None => Ok(Token::default()),
    }
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let token = token(flags.token_file.as_ref())?;
    if token.is_empty() && !flags.listen.ip().is_loopback() {
        bail!(
            "{}: whoever reaches an agent can direct its load at any server; give --token-file FILE, \
             or a loopback address such as 127.0.0.1:{}",
            flags.listen,
            flags.listen.port()
        );
    }
    let agent = Agent::bind(flags.listen, token, flags.cpus.clone())
        .with_context(|| format!("listen at {}", flags.listen))?;
    let address = agent.address().context("listen")?;
    println!("agent: listening at {address}");
    std::io::stdout().flush().context("standard output")?;
    agent.serve(|coordinator, event| match event {
        AgentEvent::Prepares { part, connections } => eprintln!(
            "agent: {coordinator}: connections {} to {} of {connections}",
            part.first,
            part.range().end.saturating_sub(1)
        ),
        AgentEvent::Done => eprintln!("agent: {coordinator}: done"),
        AgentEvent::Ended(reason) => eprintln!("agent: {coordinator}: {reason}"),
    })
}
