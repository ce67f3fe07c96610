//! Plays transcripts to a peer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::pattern::{Bindings, Match, Pattern, show};
use crate::peer::{ClientId, Peer, Received};
use crate::transcript::{Case, Step, read_folder};

/// The memcached whose answers stand in the transcripts.
pub const REFERENCE_VERSION: &str = "1.6.45";

/// The versions every transcript has been played to.
const KNOWN_VERSIONS: [&str; 2] = ["1.6.18", REFERENCE_VERSION];

/// What came of playing cases.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cases that went as written.
    pub passed: usize,
    /// Cases not played, and why.
    pub skipped: Vec<String>,
    /// Cases that went otherwise, and where.
    pub failed: Vec<String>,
}

impl Outcome {
    /// The counts and what was skipped, to print.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = format!("{} cases passed", self.passed);
        for skipped in &self.skipped {
            text.push_str("\nskipped: ");
            text.push_str(skipped);
        }
        text
    }

    /// Ends the test unless everything played went as written.
    ///
    /// # Panics
    /// A case failed, or none was played.
    pub fn assert_passed(&self) {
        let failed = self.failed.len();
        assert!(
            failed == 0,
            "{failed} cases failed\n\n{}",
            self.failed.join("\n\n")
        );
        assert!(self.passed > 0, "no case was played");
    }
}

/// The folder of the transcripts.
#[must_use]
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

/// Plays every case of every transcript.
///
/// # Errors
/// The transcripts cannot be read.
pub fn all(peer: &mut dyn Peer) -> Result<Outcome> {
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

fn reason_to_skip(peer: &dyn Peer, case: &Case) -> Option<String> {
    let version = peer.version();
    if case.needs_clock() && !peer.has_clock() {
        return Some("its clock cannot be turned".to_owned());
    }
    if case.skipped_by.iter().any(|other| other == version) {
        return Some(format!("not for memcached {version}"));
    }
    (case.differs() && !KNOWN_VERSIONS.contains(&version))
        .then(|| format!("versions differ here, and what {version} says is not known"))
}

/// Plays one case.
///
/// # Errors
/// The peer said something else.
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

struct Player<'a> {
    peer: &'a mut dyn Peer,
    version: String,
    clients: BTreeMap<String, Client>,
    bindings: Bindings,
}

struct Client {
    id: ClientId,
    received: Vec<u8>,
    is_closed: bool,
}

impl Player<'_> {
    fn step(&mut self, name: &str, step: &Step) -> Result<()> {
        match step {
            Step::Client(_) => Ok(()),
            Step::Send(text) => {
                let bytes = text.fill(&self.bindings)?;
                let id = self.client(name)?.id;
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

    fn client(&mut self, name: &str) -> Result<&mut Client> {
        if !self.clients.contains_key(name) {
            let client = Client {
                id: self.peer.connect()?,
                received: Vec::new(),
                is_closed: false,
            };
            self.clients.insert(name.to_owned(), client);
        }
        self.clients.get_mut(name).context("no such client")
    }

    fn expect(&mut self, name: &str, answer: &Pattern) -> Result<()> {
        loop {
            let mut bindings = std::mem::take(&mut self.bindings);
            let client = self.client(name)?;
            let matched = answer.matches(&client.received, &mut bindings);
            if let Match::Whole(len) = matched {
                client.received.drain(..len);
            }
            self.bindings = bindings;
            match matched {
                Match::Whole(_) => return Ok(()),
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

    /// Waits for more; false: none comes.
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

    /// Nothing unexpected may be left to hear.
    fn end(mut self) -> Result<()> {
        let names: Vec<String> = self.clients.keys().cloned().collect();
        for name in names {
            if self.client(&name)?.is_closed {
                continue;
            }
            let id = self.client(&name)?.id;
            self.peer.send(id, b"mn\r\n")?;
            let answer = Pattern::read(r"MN\r\n")?;
            let nothing_left = self.expect(&name, &answer);
            nothing_left.with_context(|| format!("client {name} at the end of the case"))?;
        }
        Ok(())
    }
}
