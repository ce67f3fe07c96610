//! A bounded channel for any number of senders and receivers.
//!
//! A sender or receiver that must wait appends itself to a [`WaitList`]. It continues when another
//! fibre or thread *grants* its wait, which means: removes it from the list and wakes it. A grant
//! only says that the channel has changed. The woken sender or receiver checks the channel again,
//! because another one may have been faster.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::sync::{Mutex, MutexGuard, lock};
use crate::wait::WaitList;

/// Creates a channel that holds at most `capacity` values; a capacity of 0 counts as 1. Sending to
/// a full channel waits.
#[must_use]
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        capacity: capacity.max(1),
        state: Mutex::new(State {
            values: VecDeque::new(),
            senders: 1,
            receivers: 1,
            waiting_senders: WaitList::new(),
            waiting_receivers: WaitList::new(),
        }),
    });
    (
        Sender {
            shared: Arc::clone(&shared),
        },
        Receiver { shared },
    )
}

/// The state that all senders and receivers of one channel share.
struct Shared<T> {
    capacity: usize,
    state: Mutex<State<T>>,
}

/// The part of the state that the mutex guards.
struct State<T> {
    values: VecDeque<T>,
    /// The number of `Sender`s that exist.
    senders: usize,
    /// The number of `Receiver`s that exist.
    receivers: usize,
    waiting_senders: WaitList,
    waiting_receivers: WaitList,
}

/// The sending end of a channel; all its clones send to the same channel. Receiving fails once all
/// clones are dropped and the channel is empty.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving end of a channel. Each value is received by only one clone of the receiver.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

/// The error of sending to a channel whose receivers are all dropped. Contains the value that was
/// not sent.
#[derive(PartialEq, Eq, Clone, Copy, thiserror::Error)]
#[error("all receivers are dropped")]
pub struct SendError<T>(pub T);

/// The error of receiving from an empty channel whose senders are all dropped.
#[derive(Debug, PartialEq, Eq, Clone, Copy, thiserror::Error)]
#[error("all senders are dropped")]
pub struct ReceiveError;

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T: Send> Sender<T> {
    /// Sends a value, waiting while the channel is full.
    ///
    /// # Errors
    /// All receivers are dropped.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = lock(&self.shared.state);
        loop {
            if state.receivers == 0 {
                return Err(SendError(value));
            }
            if state.values.len() < self.shared.capacity {
                break;
            }
            let waiter = state.waiting_senders.push_current();
            drop(state);
            waiter.wait_for_grant();
            state = lock(&self.shared.state);
        }
        state.values.push_back(value);
        let receiver = state.waiting_receivers.pop();
        drop(state);
        if let Some(receiver) = receiver {
            receiver.grant();
        }
        Ok(())
    }
}

impl<T: Send> Receiver<T> {
    /// Receives a value, waiting until there is one.
    ///
    /// # Errors
    /// All senders are dropped, and the channel is empty.
    pub fn receive(&self) -> Result<T, ReceiveError> {
        let mut state = lock(&self.shared.state);
        loop {
            state = match take(state) {
                Ok(value) => return Ok(value),
                Err(state) => state,
            };
            if state.senders == 0 {
                return Err(ReceiveError);
            }
            let waiter = state.waiting_receivers.push_current();
            drop(state);
            waiter.wait_for_grant();
            state = lock(&self.shared.state);
        }
    }

    /// Receives a value, if there is one.
    #[must_use]
    pub fn try_receive(&self) -> Option<T> {
        take(lock(&self.shared.state)).ok()
    }
}

/// Removes and returns the first value. Unlocks the channel, and wakes the first waiting sender,
/// because the channel has space now. If the channel is empty, returns the guard instead, so that
/// the caller still holds the lock.
fn take<T>(mut state: MutexGuard<'_, State<T>>) -> Result<T, MutexGuard<'_, State<T>>> {
    let Some(value) = state.values.pop_front() else {
        return Err(state);
    };
    let sender = state.waiting_senders.pop();
    drop(state);
    if let Some(sender) = sender {
        sender.grant();
    }
    Ok(value)
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.shared.state).senders += 1;
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        lock(&self.shared.state).receivers += 1;
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.senders -= 1;
        if state.senders == 0 {
            let all = std::mem::take(&mut state.waiting_receivers);
            drop(state);
            all.grant_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.receivers -= 1;
        if state.receivers == 0 {
            let all = std::mem::take(&mut state.waiting_senders);
            let values = std::mem::take(&mut state.values);
            drop(state);
            all.grant_all();
            // The values are dropped after the lock is released. Dropping a value may run any code
            // of its type. If this code used the channel under the lock, it would wait forever.
            drop(values);
        }
    }
}
