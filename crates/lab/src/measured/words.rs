//! The words of the commands of a trial: placeholders, and the host that starts them.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use report::record::names::RATE;

use super::{Setup, Side};
use crate::error::Error;
use crate::kind::{Context, Trial};
use crate::{placeholder, port};
use hosts::Hosts;

pub(super) const CLIENT: &str = "client";

#[derive(Debug, Clone)]
pub(super) struct Words<'a> {
    trial: &'a Trial<'a>,
    hosts: &'a Hosts,
    port: u16,
    /// The client whose host starts what runs on the client's side.
    client: usize,
    /// The process of the disk on which what runs on the server's host is started.
    disk: Option<u32>,
    values: BTreeMap<String, String>,
}

impl<'a> Words<'a> {
    pub(super) fn of(
        setup: &Setup,
        trial: &'a Trial<'a>,
        hosts: &'a Hosts,
        context: &Context<'_>,
    ) -> Result<Self, Error> {
        let factors = trial.factors.iter();
        let mut values: BTreeMap<String, String> = factors
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect();
        if let Some(path) = values.get(super::BUILD).and_then(|it| setup.builds.get(it)) {
            values.insert(super::BUILD.to_owned(), path.to_string_lossy().into_owned());
        }
        let port = port::next(hosts)?;
        let curtail = context.options.curtail.to_string_lossy().into_owned();
        for (name, value) in [
            ("ip", hosts.server_ip().to_string()),
            ("port", port.to_string()),
            ("seed", trial.seed.to_string()),
            ("trial", trial.id.to_owned()),
            (super::BUILD, curtail.clone()),
            ("curtail", curtail),
            (super::disk::FILES, super::disk::folder()),
            (RATE, super::capacity::rate(trial.resolved)),
        ] {
            values.entry(name.to_owned()).or_insert(value);
        }
        Ok(Self {
            trial,
            hosts,
            port,
            client: 0,
            disk: None,
            values,
        })
    }

    /// The words of what runs on the disk of that process, or on none.
    pub(super) fn on_disk(&self, disk: Option<u32>) -> Self {
        Self {
            disk,
            ..self.clone()
        }
    }

    /// The words of client `number`, from 0: `{client}` is its number.
    pub(super) fn of_client(&self, number: usize) -> Self {
        let mut words = self.clone();
        words.client = number;
        if !self.trial.factors.contains_key(CLIENT) {
            words.values.insert(CLIENT.to_owned(), number.to_string());
        }
        words
    }

    pub(super) fn with(&self, name: &str, value: String) -> Self {
        let mut words = self.clone();
        words.values.insert(name.to_owned(), value);
        words
    }

    pub(super) fn connect(
        &self,
        side: Side,
        address: SocketAddr,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        match side {
            Side::Server => self.hosts.connect(address, timeout),
            Side::Client => self
                .hosts
                .connect_from_client(self.client, address, timeout),
        }
    }

    /// Where the server of the trial listens.
    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from((self.hosts.server_ip(), self.port))
    }

    pub(super) fn trial_id(&self) -> &str {
        self.trial.id
    }

    /// `word` with the values in place of the names. Values are not searched for names again. None:
    /// a name has no value in this cell.
    pub(super) fn fill(&self, word: &str) -> Option<String> {
        placeholder::fill(word, |name| self.values.get(name).cloned())
    }

    /// A command with the values in place of the names, which starts its program on that host.
    /// Arguments without a value are left out, and such variables are not set.
    pub(super) fn command(
        &self,
        side: Side,
        words: &[String],
        environment: &BTreeMap<String, String>,
    ) -> Command {
        let mut words: Vec<String> = words.iter().filter_map(|word| self.fill(word)).collect();
        if let (Side::Server, Some(pid)) = (side, self.disk) {
            let program = self.fill("{curtail}").unwrap_or_default();
            let enter = [program.as_str(), "disk", "enter", &pid.to_string(), "--"];
            words.splice(0..0, enter.map(str::to_owned));
        }
        let mut words = words.into_iter();
        let command = Command::new(words.next().unwrap_or_default());
        let mut command = match side {
            Side::Server => self.hosts.in_server(command),
            Side::Client => self.hosts.in_client(self.client, command),
        };
        command.args(words);
        for (name, value) in environment {
            match self.fill(value) {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}
