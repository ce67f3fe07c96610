//! `curtail rival set_client N` and its siblings: the clients of the study, with the arguments, the
//! input and the output of the published programs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use ::load::limits::SCRIPT_DURATION_NS;
use ::load::{CarrierKind, Config, Lengths, Protocol, Rate, Summary, Target};
use anyhow::{Context, bail};
use clap::Args;

/// The flags of a client.
#[derive(Debug, Args)]
pub(crate) struct Client {
    /// Number of requests: as many as the lengths on standard input, as `curtail distribution N`
    /// prints them
    requests: u64,

    /// The server
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,

    /// Its port for PUT and DELETE, over TCP
    #[arg(long, value_name = "PORT", default_value_t = 2001)]
    port: u16,

    /// Its port for GET, over UDP
    #[arg(long, value_name = "PORT", default_value_t = 3001)]
    udp_port: u16,
}

impl Client {
    /// Sends the requests one after another, each on a socket of its own.
    pub(crate) fn run(&self, operation: Lengths) -> anyhow::Result<ExitCode> {
        let server = format!("{}:{}", self.host, self.port);
        let mut config = Config::new(server.parse::<Target>()?);
        config.protocol = Protocol::Textile;
        config.carrier = CarrierKind::PerOperation;
        config.udp_port = Some(self.udp_port);
        config.timeout_ns = config.protocol.default_timeout_ns();
        config.rate = Rate::Max;
        config.connections = 1;
        config.spin = false;
        config.script = Some(PathBuf::from("-"));
        config.lengths = Some(operation);
        config.duration_ns = SCRIPT_DURATION_NS;
        config.warmup_ns = 0;
        config.validate()?;
        let summary = ::load::run(&config, |_| {})?;
        let sent = summary
            .script
            .as_ref()
            .map_or(0, |script| script.operations);
        if sent != self.requests {
            bail!(
                "{} requests were to be sent, and the input has {sent} valid pairs of lengths; \
                 give `curtail distribution {0}` as the input",
                self.requests
            );
        }
        let text = published(&summary, operation);
        io::stdout()
            .lock()
            .write_all(text.as_bytes())
            .context("standard output")?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The lines of the published clients. Their `Time per Get` is the time of the run divided by its
/// requests, whatever the operation, and their `Percent` is a share.
fn published(summary: &Summary, operation: Lengths) -> String {
    let requests = summary.intended.max(1) as f64;
    let per_request_ms = summary.duration_ns as f64 / 1e6 / requests;
    let mut text = format!(
        "Time per Get: {per_request_ms:.6} milliseconds\n\
         Requests per second: {:.6} requests\n",
        1e3 / per_request_ms,
    );
    if operation == Lengths::Get {
        let failed = summary.failures.total() as f64 / requests;
        text.push_str(&format!("Percent of Requests that failed: {failed:.6}\n"));
    }
    text
}
