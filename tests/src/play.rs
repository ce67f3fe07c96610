//! Plays transcripts to a peer: sends their requests and compares the replies.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use protocol::binary::REQUEST_MAGIC;

use crate::pattern::{Bindings, Match, Pattern, show};
use crate::peer::{ClientId, Peer, Received};
use crate::transcript::{Case, Step, frame, read_folder};

/// The version of memcached whose replies the transcripts contain.
pub const REFERENCE_VERSION: &str = "1.6.45";

/// The versions of memcached to which every transcript has been played.
const KNOWN_VERSIONS: [&str; 2] = ["1.6.18", REFERENCE_VERSION];

/// The result of playing several cases.
#[derive(Debug, Default)]
struct Outcome {
    /// The number of cases whose replies were all as expected.
    passed: usize,
    /// The cases that were not played, each with the reason.
    skipped: Vec<String>,
    /// The cases with an unexpected reply, each with the line and both replies.
    failed: Vec<String>,
}

impl Outcome {
    /// A text for printing: the number of passed cases, and the skipped cases.
    fn summary(&self) -> String {
        let mut text = format!("{} cases passed", self.passed);
        for skipped in &self.skipped {
            text.push_str("\nskipped: ");
            text.push_str(skipped);
        }
        text
    }

    /// Panics unless at least one case was played and all played cases passed.
    fn assert_passed(&self) {
        let failed = self.failed.len();
        assert!(
            failed == 0,
            "{failed} cases failed\n\n{}",
            self.failed.join("\n\n")
        );
        assert!(self.passed > 0, "no case was played");
    }
}

/// The folder that contains the transcripts.
#[must_use]
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

/// Plays all cases of all transcripts. An error means that the transcripts cannot be read.
fn all(peer: &mut dyn Peer) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for case in read_folder(&folder())? {
        if let Some(reason) = reason_to_skip(peer, &case) {
            outcome.skipped.push(format!("{}: {reason}", case.name));
        } else if let Err(error) = one(peer, &case) {
            outcome.failed.push(format!("{}\n{error:#}", case.name));
        } else {
            outcome.passed += 1;
        }
    }
    Ok(outcome)
}

/// Plays all cases of all transcripts, and prints how many passed, with `name` before it.
///
/// # Panics
/// A case failed, none was played, or the transcripts cannot be read.
#[expect(clippy::print_stderr, reason = "a test must report what it skips")]
pub fn check(name: &str, peer: &mut dyn Peer) {
    let outcome = all(peer).unwrap_or_else(|error| panic!("{error:#}"));
    eprintln!("{name}: {}", outcome.summary());
    outcome.assert_passed();
}

/// Returns why `case` cannot be played to `peer`, or `None` if it can.
fn reason_to_skip(peer: &dyn Peer, case: &Case) -> Option<String> {
    let version = peer.version();
    if case.needs_clock() && !peer.has_clock() {
        return Some("time cannot be advanced".to_owned());
    }
    if case.needs_memory && peer.evicts_all() {
        return Some("the items are not in memory".to_owned());
    }
    if case.skipped_by.iter().any(|other| other == version) {
        return Some(format!("not for memcached {version}"));
    }
    (case.differs() && !KNOWN_VERSIONS.contains(&version))
        .then(|| format!("the reply depends on the version, and that of {version} is not known"))
}

/// Plays one case.
///
/// # Errors
/// A reply differs from the expected one.
pub fn one(peer: &mut dyn Peer, case: &Case) -> Result<()> {
    peer.reset()?;
    let mut player = Player {
        version: peer.version().to_owned(),
        peer,
        clients: BTreeMap::new(),
        bindings: Bindings::new(),
    };
    let mut name = "a".to_owned();
    for (number, step) in &case.steps {
        if let Step::Client(next) = step {
            name.clone_from(next);
        } else {
            let played = player.step(&name, step);
            played.with_context(|| format!("line {number}"))?;
        }
    }
    player.end()
}

/// The state of playing one case.
struct Player<'a> {
    peer: &'a mut dyn Peer,
    version: String,
    clients: BTreeMap<String, Client>,
    bindings: Bindings,
}

/// A client of the case, with the bytes that were received and not matched yet.
struct Client {
    id: ClientId,
    received: Vec<u8>,
    is_closed: bool,
    /// Whether the client speaks the binary protocol, which its first byte decides.
    is_binary: Option<bool>,
}

impl Player<'_> {
    /// Executes one step of the case, as the client `name`.
    fn step(&mut self, name: &str, step: &Step) -> Result<()> {
        match step {
            Step::Client(_) => Ok(()),
            Step::Send(text) => {
                let bytes = text.fill(&self.bindings)?;
                let client = self.client(name)?;
                if let Some(&first) = bytes.first() {
                    client.is_binary.get_or_insert(first == REQUEST_MAGIC);
                }
                let id = client.id;
                self.peer.send(id, &bytes)
            }
            Step::Expect { answer, others } => {
                let other = others.iter().find(|(version, _)| *version == self.version);
                self.expect(name, other.map_or(answer, |(_, answer)| answer))
            }
            Step::Closed => self.expect_closed(name),
            Step::Tick(seconds) => self.peer.tick(*seconds),
        }
    }

    /// Returns the client `name`, after connecting it if it is new.
    fn client(&mut self, name: &str) -> Result<&mut Client> {
        if !self.clients.contains_key(name) {
            let client = Client {
                id: self.peer.connect()?,
                received: Vec::new(),
                is_closed: false,
                is_binary: None,
            };
            self.clients.insert(name.to_owned(), client);
        }
        self.clients.get_mut(name).context("no such client")
    }

    /// Receives until the client's bytes match `answer`, and removes these bytes.
    fn expect(&mut self, name: &str, answer: &Pattern) -> Result<()> {
        loop {
            let mut bindings = std::mem::take(&mut self.bindings);
            let client = self.client(name)?;
            let matched = answer.matches(&client.received, &mut bindings);
            if let Match::Complete(len) = matched {
                client.received.drain(..len);
            }
            self.bindings = bindings;
            match matched {
                Match::Complete(_) => return Ok(()),
                Match::NeedsMore if self.receive_more(name)? => {}
                Match::NeedsMore | Match::Wrong => {
                    let client = self.client(name)?;
                    bail!(
                        "expected: {}\nreceived: {}{}",
                        answer.show(),
                        show(&client.received),
                        if client.is_closed { " and the end" } else { "" },
                    );
                }
            }
        }
    }

    /// Receives until the end of the connection. Fails if other bytes come before it.
    fn expect_closed(&mut self, name: &str) -> Result<()> {
        while self.receive_more(name)? {}
        let client = self.client(name)?;
        if !client.is_closed {
            bail!("expected the end of the connection, but received nothing");
        }
        if !client.received.is_empty() {
            bail!(
                "expected the end of the connection alone\nreceived: {}",
                show(&client.received)
            );
        }
        Ok(())
    }

    /// Receives more bytes for the client `name`. Returns false if none come.
    fn receive_more(&mut self, name: &str) -> Result<bool> {
        let id = self.client(name)?.id;
        let received = self.peer.receive(id)?;
        let client = self.client(name)?;
        match received {
            Received::Bytes(bytes) => {
                client.received.extend(bytes);
                return Ok(true);
            }
            Received::End => client.is_closed = true,
            Received::Nothing => {}
        }
        Ok(false)
    }

    /// Ends the case. Each connected client sends `mn`, or a `noop` frame. Its reply must come
    /// next, which shows that the peer has sent no other bytes.
    fn end(mut self) -> Result<()> {
        let names: Vec<String> = self.clients.keys().cloned().collect();
        for name in names {
            if self.client(&name)?.is_closed {
                continue;
            }
            let client = self.client(&name)?;
            let (id, is_binary) = (client.id, client.is_binary == Some(true));
            let (noop, answer) = match is_binary {
                true => (frame::request("noop")?, frame::reply("noop")?),
                false => (Pattern::read(r"mn\r\n")?, Pattern::read(r"MN\r\n")?),
            };
            self.peer.send(id, &noop.fill(&self.bindings)?)?;
            let nothing_left = self.expect(&name, &answer);
            nothing_left.with_context(|| format!("client {name} at the end of the case"))?;
        }
        Ok(())
    }
}
