//! Waiting for the signal to stop.

use std::io;

use sys::poll::{Events, Interest, Poll, Waker};
use sys::signals::{Signal, Signals};

/// Waits for SIGTERM or SIGINT, or until `ended` is signalled.
pub(crate) fn wait(signals: &Signals, ended: Option<&Waker>) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(signals, 0, Interest::Read)?;
    if let Some(ended) = ended {
        poll.add(ended, 1, Interest::Read)?;
    }
    let mut events = Events::with_capacity(2);
    loop {
        poll.wait(&mut events, None)?;
        if events.iter().any(|ready| ready.token == 1) {
            return Ok(());
        }
        while let Some(signal) = signals.take() {
            if signal == Signal::Stop {
                return Ok(());
            }
        }
    }
}
