//! A client that knows what a cache may answer: seeded random requests on one connection, each
//! reply compared with the latest value of its key.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use workload::{Purpose, RandomStream};

use crate::client::Client;

/// The number of keys.
pub const KEYS: u64 = 4000;
/// The number of requests that are sent together.
pub const BATCH: usize = 32;

/// A request that was sent.
enum Sent {
    Get(u64),
    Set(u64, Vec<u8>),
    Append(u64),
    Delete(u64),
    Touch(u64),
}

impl Sent {
    fn describe(&self) -> String {
        let (verb, key) = match self {
            Self::Get(key) => ("get", key),
            Self::Set(key, _) => ("set", key),
            Self::Append(key) => ("append", key),
            Self::Delete(key) => ("delete", key),
            Self::Touch(key) => ("touch", key),
        };
        format!("reply to {verb} {key}")
    }
}

/// The latest values, and what was seen of them.
#[derive(Debug)]
pub struct Ledger {
    random: RandomStream,
    latest: HashMap<u64, Vec<u8>>,
    version: u64,
    /// Replies that were compared.
    pub verified: u64,
    /// Values that were returned, all of them the latest ones.
    pub hits: u64,
}

impl Ledger {
    /// A ledger of an empty cache.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: RandomStream::new(seed, Purpose::Other, 0),
            latest: HashMap::new(),
            version: 0,
            verified: 0,
            hits: 0,
        }
    }

    /// A random number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// From now on no key may have an item.
    pub fn clear(&mut self) {
        self.latest.clear();
    }

    /// Sends a batch of random requests and verifies all replies.
    ///
    /// # Errors
    /// A reply is wrong, or none comes.
    pub fn batch(&mut self, client: &mut Client) -> Result<()> {
        self.broken_batch(client, BATCH)
    }

    /// Sends a batch, but takes only `replies` of the replies.
    ///
    /// # Errors
    /// A reply is wrong, or none comes.
    pub fn broken_batch(&mut self, client: &mut Client, replies: usize) -> Result<()> {
        let mut bytes = Vec::new();
        let sent: Vec<Sent> = (0..BATCH).map(|_| self.request(&mut bytes)).collect();
        client.send(&bytes)?;
        for request in sent.into_iter().take(replies) {
            self.verify(client, &request)?;
        }
        Ok(())
    }

    /// Fetches all keys and verifies the values. Returns the number of hits.
    ///
    /// # Errors
    /// A value is wrong.
    pub fn verify_all(&mut self, client: &mut Client) -> Result<u64> {
        let before = self.hits;
        let keys: Vec<u64> = (0..KEYS).collect();
        for keys in keys.chunks(BATCH) {
            let lines: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
            client.send(lines.as_bytes())?;
            for &key in keys {
                self.verify(client, &Sent::Get(key))?;
            }
        }
        Ok(self.hits - before)
    }

    fn request(&mut self, bytes: &mut Vec<u8>) -> Sent {
        let popular = self.below(4) == 0;
        let key = self.below(if popular { KEYS / 50 } else { KEYS });
        match self.below(100) {
            0..50 => {
                bytes.extend(format!("get {key}\r\n").into_bytes());
                Sent::Get(key)
            }
            50..88 => {
                let value = self.value(key);
                bytes.extend(format!("set {key} 0 0 {}\r\n", value.len()).into_bytes());
                bytes.extend_from_slice(&value);
                bytes.extend_from_slice(b"\r\n");
                Sent::Set(key, value)
            }
            88..92 => {
                bytes.extend(format!("append {key} 0 0 5\r\n+more\r\n").into_bytes());
                Sent::Append(key)
            }
            92..97 => {
                bytes.extend(format!("delete {key}\r\n").into_bytes());
                Sent::Delete(key)
            }
            _ => {
                bytes.extend(format!("touch {key} 0\r\n").into_bytes());
                Sent::Touch(key)
            }
        }
    }

    /// A value that no other key and no other version has.
    fn value(&mut self, key: u64) -> Vec<u8> {
        self.version += 1;
        let len = 20 + self.below(2500) as usize;
        let text = format!("{key}:{}/", self.version);
        let mut value = text.repeat(len.div_ceil(text.len())).into_bytes();
        value.truncate(len);
        value
    }

    fn verify(&mut self, client: &mut Client, sent: &Sent) -> Result<()> {
        match sent {
            Sent::Get(key) => {
                let verified = self.verify_get(client, *key);
                verified.with_context(|| sent.describe())?;
            }
            Sent::Set(key, value) => match client.line()?.as_str() {
                "STORED" => drop(self.latest.insert(*key, value.clone())),
                other => bail!("{}: '{other}'", sent.describe()),
            },
            Sent::Append(key) => match client.line()?.as_str() {
                "NOT_STORED" => drop(self.latest.remove(key)),
                "STORED" => {
                    let value = self.latest.get_mut(key);
                    let value = value.with_context(|| sent.describe())?;
                    value.extend_from_slice(b"+more");
                }
                other => bail!("{}: '{other}'", sent.describe()),
            },
            Sent::Delete(key) => match (client.line()?.as_str(), self.latest.remove(key)) {
                ("DELETED", Some(_)) | ("NOT_FOUND", _) => {}
                (other, _) => bail!("{}: '{other}'", sent.describe()),
            },
            Sent::Touch(key) => match (client.line()?.as_str(), self.latest.contains_key(key)) {
                ("TOUCHED", true) | ("NOT_FOUND", _) => {}
                (other, _) => bail!("{}: '{other}'", sent.describe()),
            },
        }
        self.verified += 1;
        Ok(())
    }

    fn verify_get(&mut self, client: &mut Client, key: u64) -> Result<()> {
        let head = client.line()?;
        if head == "END" {
            return Ok(());
        }
        let latest = self.latest.get(&key).context("there is no such item")?;
        let expected = format!("VALUE {key} 0 {}", latest.len());
        if head != expected {
            bail!("'{head}' instead of '{expected}'");
        }
        let value = client.take(latest.len() + 2)?;
        if value.strip_suffix(b"\r\n") != Some(latest) || client.line()? != "END" {
            bail!("other bytes than those of the latest value");
        }
        self.hits += 1;
        Ok(())
    }
}
