//! Another client, who must notice nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::client::Client;
use crate::peer::Address;

/// An answer that takes longer has been noticed.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A pause between two rounds, so that the witness is a guest and not a load.
const PAUSE: Duration = Duration::from_millis(1);

/// A client that stores and fetches all the time, on a thread of its own.
#[derive(Debug)]
pub struct Witness {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Witness {
    /// Connects and starts.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn start(address: &Address) -> Result<Self> {
        let mut client = Client::connect(address)?;
        client.set("witness", b"0")?;
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let thread = {
            let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    round(&mut client, rounds.load(Ordering::Relaxed))?;
                    rounds.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(PAUSE);
                }
                Ok(())
            })
        };
        Ok(Self {
            stop,
            rounds,
            thread: Some(thread),
        })
    }

    /// Waits until it has been served `count` more times.
    ///
    /// # Errors
    /// It was not served.
    pub fn rounds(&mut self, count: u64) -> Result<()> {
        let goal = self.rounds.load(Ordering::Relaxed) + count;
        while self.rounds.load(Ordering::Relaxed) < goal {
            if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                return self.join();
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// It was not served once, or wrongly, or late.
    pub fn end(mut self) -> Result<()> {
        self.rounds(1)?;
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(outcome)) => outcome.context("another client noticed"),
            Some(Err(_)) => bail!("the witness panicked"),
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn round(client: &mut Client, number: u64) -> Result<()> {
    let value = format!("round {number}");
    let started = Instant::now();
    client.set("witness", value.as_bytes())?;
    let found = client.get("witness")?;
    if found.as_deref() != Some(value.as_bytes()) {
        bail!("stored '{value}' and found {found:?}");
    }
    let took = started.elapsed();
    if took > ANSWER_MAX {
        bail!("was answered after {took:?}");
    }
    Ok(())
}
