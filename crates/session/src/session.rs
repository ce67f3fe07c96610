//! The state of one client connection, and the second half of a burst: executing its requests.

use service::{Next, Progress};
use store::{Rejected, Worker};

use crate::cache::ValuePin;
use crate::control::ServerControl;
use crate::counters::Counters;
use crate::execute;
use crate::now::Now;
use crate::prepare::Prepared;
use crate::protocols::{OwnedEncoder, Protocol};
use crate::upload::PendingUpload;

/// The state of one client connection.
#[derive(Debug, Default)]
pub struct Session {
    pub(crate) state: State,
    /// Bytes at the front of the input that are known to contain no end of a command.
    pub(crate) scanned: u32,
    /// `None` until input has arrived.
    pub(crate) protocol: Option<Protocol>,
}

/// How the bytes at the front of the input are interpreted.
#[derive(Debug, Default)]
pub(crate) enum State {
    /// A command.
    #[default]
    Command,
    /// The remaining keys of a read whose command has been decoded.
    Keys(RemainingKeys),
    /// The remainder of a value that is being stored.
    Upload(Box<PendingUpload>),
    /// The data block of a rejected command, which is skipped (memcached's `conn_swallow`).
    Swallow {
        /// Bytes left to skip.
        missing: u64,
    },
    /// Input is not interpreted any more: the connection closes.
    Closed,
}

/// The unanswered part of a read of several keys.
#[derive(Debug)]
pub(crate) struct RemainingKeys {
    /// Bytes of keys at the front of the input.
    pub(crate) keys_len: u32,
    /// Bytes of the line end after them.
    pub(crate) line_end_len: u8,
    /// The new time to live of the items.
    pub(crate) touch: Option<i32>,
    pub(crate) encoder: OwnedEncoder,
}

/// The output of a session.
pub type Output = service::Output<ValuePin>;

/// The time, the store handle, the counters and the process control that a session uses to execute
/// requests.
pub struct RequestContext<'a> {
    /// The time of the burst.
    pub now: Now,
    /// The thread's handle to the store.
    pub worker: &'a mut Worker,
    /// The thread's counters.
    pub counters: &'a Counters,
    /// Process-wide statistics and settings.
    pub control: &'a dyn ServerControl,
}

impl Session {
    /// Executes in order the requests that [`Session::prepare`] prepared from `input`, and appends
    /// the replies to `out`. Stops early when the output is full or when other connections hold
    /// the memory that a request needs. Input that was not consumed must be prepared again.
    pub fn answer(
        &mut self,
        prepared: &[Prepared<'_>],
        input: &[u8],
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Progress {
        let mut consumed = 0;
        if let Some(next) = self.resume_pending(input, &mut consumed, context, out) {
            return self.stop(consumed, next);
        }
        for request in prepared {
            if out.is_full() {
                return self.stop(consumed, Next::OutputSpace);
            }
            let step = execute::request(request, &input[consumed..], context, out);
            match step {
                Step::Done { len } => consumed += len,
                Step::EnterState { len, state } => {
                    consumed += len;
                    self.state = state;
                    if let Some(next) = self.resume(input, &mut consumed, context, out) {
                        return self.stop(consumed, next);
                    }
                }
                Step::NeedsMemory => return self.stop(consumed, Next::Memory),
            }
        }
        // `prepare` sets `scanned` if it finds an incomplete command line. If `scanned` is zero and
        // input is left, that input was not decoded because this turn had its share of requests:
        // the session needs another turn.
        let has_unparsed = consumed < input.len() && self.scanned == 0;
        Progress {
            consumed,
            next: if has_unparsed {
                Next::Yield
            } else {
                Next::Input
            },
        }
    }

    /// Continues a request that an earlier turn began. Returns what the session needs next if this
    /// input does not complete the request.
    #[inline]
    fn resume_pending(
        &mut self,
        input: &[u8],
        consumed: &mut usize,
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        if matches!(self.state, State::Command) {
            return None;
        }
        self.resume(input, consumed, context, out)
    }

    fn resume(
        &mut self,
        input: &[u8],
        consumed: &mut usize,
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        match &mut self.state {
            State::Command => None,
            State::Closed => Some(Next::Close),
            State::Swallow { missing } => {
                let len = (*missing).min((input.len() - *consumed) as u64);
                *consumed += len as usize;
                *missing -= len;
                if *missing > 0 {
                    return Some(Next::Input);
                }
                self.state = State::Command;
                None
            }
            State::Upload(pending) => {
                let (worker, now_s) = (&mut *context.worker, context.now.elapsed_s);
                let missing_before = pending.missing();
                let received = pending.receive(&input[*consumed..], worker, now_s);
                // Bytes that fitted before memory ran out count as consumed. Otherwise they would
                // be received twice, or, after a rejection, part of the value be parsed as
                // commands.
                *consumed += missing_before - pending.missing();
                match received {
                    Ok(()) => {}
                    Err(Rejected::Deferred) => return Some(Next::Memory),
                    Err(_) => {
                        let missing = pending.missing() as u64;
                        execute::reject_upload(pending, context, out);
                        self.state = State::Swallow { missing };
                        return self.resume_pending(input, consumed, context, out);
                    }
                }
                if pending.missing() > 0 {
                    return Some(Next::Upload);
                }
                if let State::Upload(pending) = std::mem::take(&mut self.state)
                    && let Some(pending) = execute::publish_upload(*pending, context, out)
                {
                    self.state = State::Upload(pending);
                    return Some(Next::Memory);
                }
                None
            }
            State::Keys(remaining) => {
                let (len, next) =
                    execute::resume_keys(remaining, &input[*consumed..], context, out);
                *consumed += len;
                if next.is_none() {
                    self.state = State::Command;
                }
                next
            }
        }
    }

    /// Ends a call of [`answer`](Self::answer) early. The requests after this point are decoded
    /// again, so what `scanned` says about the end of the input is discarded.
    fn stop(&mut self, consumed: usize, next: Next) -> Progress {
        self.scanned = 0;
        Progress { consumed, next }
    }
}

impl service::Session for Session {
    fn discard_prepared(&mut self) {
        self.scanned = 0;
    }

    /// Empty when only the line end is missing, or when the store must allocate more first.
    fn upload_buffer(&mut self) -> &mut [u8] {
        match &mut self.state {
            State::Upload(pending) => pending.unfilled(),
            _ => &mut [],
        }
    }

    fn advance_upload(&mut self, len: usize) {
        if let State::Upload(pending) = &mut self.state {
            pending.advance(len);
        }
    }

    fn holds_memory(&self) -> bool {
        matches!(self.state, State::Upload(_))
    }
}

/// The effect of one request on its session.
pub(crate) enum Step {
    /// The request is answered, and a command follows.
    Done {
        /// Bytes of input that the request consumed.
        len: usize,
    },
    /// The request was executed as far as the input allows.
    EnterState {
        /// Bytes of input that the request consumed.
        len: usize,
        /// How the input after them is interpreted.
        state: State,
    },
    /// The request needs memory ([`Next::Memory`]) and had no effect.
    NeedsMemory,
}

impl Step {
    /// Consumes a command line and skips the `missing` bytes after it.
    pub(crate) fn swallow(len: usize, missing: u64) -> Self {
        match missing {
            0 => Self::Done { len },
            _ => Self::EnterState {
                len,
                state: State::Swallow { missing },
            },
        }
    }
}
