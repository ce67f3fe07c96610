//! A server with an admin address, and a client for its pages.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::client::Client;
use crate::peer::Address;
use crate::process::{Server, curtail};

/// A server process with an admin address.
#[derive(Debug)]
pub struct AdminServer {
    /// The server process.
    pub server: Server,
    /// The admin address of the server.
    pub address: SocketAddr,
}

impl AdminServer {
    /// Starts `curtail serve` with these arguments and an admin address on a free port.
    ///
    /// # Errors
    /// The server cannot be started, or does not listen.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let (server, address) = Server::tcp_and(|address| {
            let mut command = curtail();
            command.args(["--admin", &address.to_string()]);
            command.args(arguments);
            command
        })?;
        Ok(Self { server, address })
    }

    /// Connects to the admin address.
    ///
    /// # Errors
    /// The server does not listen there.
    pub fn client(&self) -> Result<Client> {
        Client::connect(&Address::Tcp(self.address))
    }

    /// Connects to the cache.
    ///
    /// # Errors
    /// The server does not listen there.
    pub fn cache(&self) -> Result<Client> {
        Client::connect(&self.server.address)
    }

    /// The URL of a page.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Fetches the page at `path` on a new connection.
    ///
    /// # Errors
    /// There is no response, or it is not valid.
    pub fn page(&self, path: &str) -> Result<Page> {
        get(&mut self.client()?, path, "")
    }

    /// Fetches the content of `/stats.json`.
    ///
    /// # Errors
    /// There is no response, or it is not JSON.
    pub fn stats_json(&self) -> Result<Value> {
        let page = self.page("/stats.json")?;
        ensure!(page.content_type == "application/json", "{page:?}");
        serde_json::from_str(&page.body).context("parse /stats.json")
    }
}

/// A response of the admin address.
#[derive(Debug)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// The media type of the body.
    pub content_type: String,
    /// The body.
    pub body: String,
}

impl Page {
    /// Returns the value of a sample of `/metrics`. `series` is its name with its labels.
    ///
    /// # Errors
    /// There is no such sample, or its value is not an integer.
    pub fn sample(&self, series: &str) -> Result<u64> {
        let mut lines = self.body.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(name, _)| *name == series);
        let (_, value) = found.with_context(|| format!("no {series} in {}", self.body))?;
        value
            .parse()
            .with_context(|| format!("{series} is {value}"))
    }
}

/// Requests a page. `fields` are further header lines, each with its line end.
///
/// # Errors
/// There is no response, or it is not valid.
pub fn get(client: &mut Client, path: &str, fields: &str) -> Result<Page> {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n").as_bytes())?;
    let status = client.line()?;
    let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let (mut len, mut content_type) = (0, String::new());
    loop {
        let line = client.line()?;
        match line.split_once(": ") {
            Some(("Content-Length", value)) => len = value.parse()?,
            Some(("Content-Type", value)) => content_type = value.to_owned(),
            Some(_) => {}
            None => break,
        }
    }
    Ok(Page {
        status: code.with_context(|| format!("'{status}' has no status code"))?,
        content_type,
        body: String::from_utf8(client.take(len)?)?,
    })
}
