//! A client in the background of a test. It checks that the server answers ordinary requests while
//! the test does something else to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::client::Client;
use crate::peer::Address;

/// The longest time that one round may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The pause between two rounds, which keeps the load small.
const PAUSE: Duration = Duration::from_millis(1);

/// A client that repeatedly stores and fetches a value, on its own thread.
#[derive(Debug)]
pub struct BackgroundClient {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl BackgroundClient {
    /// Connects to the server and starts the thread.
    ///
    /// # Errors
    /// The server cannot be reached, or does not store the value.
    pub fn start(address: &Address) -> Result<Self> {
        let mut client = Client::connect(address)?;
        client.set("background", b"0")?;
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

    /// Waits for `count` more rounds.
    ///
    /// # Errors
    /// A round failed.
    pub fn wait_rounds(&mut self, count: u64) -> Result<()> {
        let goal = self.rounds.load(Ordering::Relaxed) + count;
        while self.rounds.load(Ordering::Relaxed) < goal {
            if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                return self.join();
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Stops the client after one more round.
    ///
    /// # Errors
    /// A reply was missing, wrong or late.
    pub fn stop(mut self) -> Result<()> {
        self.wait_rounds(1)?;
        self.join()
    }

    /// Ends the thread and returns its result.
    fn join(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(outcome)) => outcome.context("the background client failed"),
            Some(Err(_)) => bail!("the background client panicked"),
        }
    }
}

impl Drop for BackgroundClient {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Stores and fetches a value, and checks the value and the time.
fn round(client: &mut Client, number: u64) -> Result<()> {
    let value = format!("round {number}");
    let started = Instant::now();
    client.set("background", value.as_bytes())?;
    let found = client.get("background")?;
    if found.as_deref() != Some(value.as_bytes()) {
        bail!("stored '{value}' and found {found:?}");
    }
    let took = started.elapsed();
    if took > ANSWER_MAX {
        bail!("the round took {took:?}");
    }
    Ok(())
}
