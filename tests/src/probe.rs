//! Odd and malformed sequences of requests, sent to the server and to an installed memcached, whose
//! answers are compared.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::thread;

use anyhow::{Context, Result};
use rand::{Rng, RngExt};

use crate::client::Client;
use crate::peer::{Address, Peer, SocketPeer};
use crate::process::{Server, curtail, memcached, memcached_command};
use crate::runtimes::{Runtime, runtime};

/// The most sequences that a failure shows.
const SHOWN_MAX: usize = 20;

/// The server and an installed memcached.
#[derive(Debug)]
pub struct Servers {
    ours: Server,
    theirs: Server,
    version: String,
}

impl Servers {
    /// Starts both. `None` if that is not possible here, and a line then says why.
    ///
    /// # Errors
    /// One of them does not start.
    #[expect(clippy::print_stderr, reason = "a test must report what it skips")]
    pub fn start() -> Result<Option<Self>> {
        let Some(path) = memcached() else {
            eprintln!("skipped: memcached not installed");
            return Ok(None);
        };
        if runtime() == Runtime::Bypass {
            eprintln!("skipped: the sequences end by closing one direction, which takes seconds");
            return Ok(None);
        }
        let ours = Server::tcp(curtail)?;
        let theirs = Server::tcp(|| memcached_command(&path))?;
        let peer = SocketPeer::new(theirs.address.clone())?;
        Ok(Some(Self {
            ours,
            theirs,
            version: peer.version().to_owned(),
        }))
    }

    /// The version of memcached.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The answers of the server and of memcached to a sequence, which both receive at the same
    /// time, each in the form that `comparable` gives it.
    ///
    /// # Errors
    /// Those of [`answer`].
    pub fn answers(
        &self,
        sequence: &[u8],
        comparable: impl Fn(&[u8]) -> String + Sync,
    ) -> Result<(String, String)> {
        let of = |server: &Server| anyhow::Ok(comparable(&answer(&server.address, sequence)?));
        thread::scope(|scope| {
            let ours = scope.spawn(|| of(&self.ours));
            let theirs = of(&self.theirs)?;
            Ok((ours.join().ok().context("the thread panicked")??, theirs))
        })
    }
}

/// Sends a sequence and the end of the input on a new connection, and receives to the end.
///
/// # Errors
/// The server does not receive the sequence, or does not close the connection.
pub fn answer(address: &Address, sequence: &[u8]) -> Result<Vec<u8>> {
    let mut client = Client::connect(address)?;
    client.send(sequence)?;
    // The server may have closed the connection already.
    let _ = client.socket.shutdown_send();
    let answer = client.rest();
    answer.with_context(|| format!("after {}", sequence.escape_ascii()))
}

/// What a comparison has found. `D` is why two answers differ on purpose.
#[derive(Debug)]
pub struct Comparison<D> {
    /// The number of sequences with equal answers.
    pub equal: u32,
    /// The number of sequences with answers that differ on purpose, by the reason.
    pub differences: BTreeMap<D, u32>,
    /// Sequences whose answers differ without a reason, with the answers.
    unexplained: Vec<String>,
}

impl<D> Default for Comparison<D> {
    fn default() -> Self {
        Self {
            equal: 0,
            differences: BTreeMap::new(),
            unexplained: Vec::new(),
        }
    }
}

impl<D: Debug + Ord> Comparison<D> {
    /// Counts the answers of the server and of memcached to a sequence, which `shown` displays.
    /// `difference` is why they differ.
    pub fn count(
        &mut self,
        (ours, theirs): (&str, &str),
        shown: impl FnOnce() -> String,
        difference: impl FnOnce() -> Option<D>,
    ) {
        if ours == theirs {
            self.equal += 1;
        } else if let Some(difference) = difference() {
            *self.differences.entry(difference).or_insert(0) += 1;
        } else {
            let shown = shown();
            let both = format!("{shown}\n  ours:   {ours}\n  theirs: {theirs}");
            self.unexplained.push(both);
        }
    }

    /// Prints the counts.
    ///
    /// # Panics
    /// If answers differ without a reason.
    #[expect(clippy::print_stderr, reason = "a test must report what it compared")]
    pub fn assert_explained(&self) {
        let Self {
            equal, differences, ..
        } = self;
        let count = self.unexplained.len();
        let all = *equal as usize + differences.values().sum::<u32>() as usize + count;
        eprintln!("{equal} of {all} sequences answered equally, differences: {differences:?}");
        let first = self.unexplained[..count.min(SHOWN_MAX)].join("\n");
        assert_eq!(count, 0, "differ:\n{first}");
    }
}

/// A value of a list that is not empty.
pub fn one_of<T: Copy>(values: &[T], rng: &mut impl Rng) -> T {
    values[rng.random_range(0..values.len())]
}
