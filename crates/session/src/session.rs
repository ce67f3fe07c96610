//! The state of one client connection, and the second half of a burst: executing its requests.

use store::{Rejected, Worker};

use crate::answer;
use crate::control::ServerControl;
use crate::counters::Counters;
use crate::now::Now;
use crate::output::Output;
use crate::prepare::{Action, Prepared};
use crate::upload::PendingUpload;

/// The state of one client connection.
#[derive(Debug, Default)]
pub struct Session {
    pub(crate) state: State,
    /// Bytes at the front of the input that are known to contain no line end.
    pub(crate) scanned: usize,
}

/// How the bytes at the front of the input are interpreted.
#[derive(Debug, Default)]
pub(crate) enum State {
    /// A command line.
    #[default]
    Command,
    /// The remaining keys of a `get` whose line has been parsed.
    Keys(RemainingKeys),
    /// The rest of a value that is being stored.
    Upload(Box<PendingUpload>),
    /// The data block of a rejected command, which is skipped (memcached's `conn_swallow`).
    Swallow {
        /// Bytes left to skip.
        missing: u64,
    },
    /// Not interpreted: the connection closes.
    Closed,
}

/// The unanswered part of a `get`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemainingKeys {
    /// Bytes of keys at the front of the input.
    pub(crate) keys_len: usize,
    /// Bytes of the line end after them.
    pub(crate) line_end_len: usize,
    pub(crate) with_cas: bool,
    pub(crate) exptime: Option<i32>,
}

/// What a session needs to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Input,
    /// Bytes of a value: as input, or received directly into [`Session::upload_buffer`], which
    /// saves a copy.
    Upload,
    /// Space in the output: send it, then continue with the same input.
    OutputSpace,
    /// Another turn with the same input, after other connections have had theirs.
    Yield,
    /// Memory that slower peers hold or that is about to be reclaimed: another turn with the same
    /// input once some of it is free.
    Memory,
    /// To be closed, after the output has been sent.
    Close,
}

/// The result of [`Session::answer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of input that have been processed.
    pub consumed: usize,
    /// What the session needs to continue.
    pub next: Next,
}

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
    /// the memory it needs. Input that was not consumed must be prepared again.
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
            let rest = &input[consumed..];
            let outcome = match &request.action {
                Action::Request(command) => answer::request(command, request, rest, context, out),
                Action::Rejected { rejection, swallow } => {
                    out.bytes_mut().extend_from_slice(rejection.reply());
                    Outcome::swallow(request.line_len, *swallow)
                }
                Action::Fatal => Outcome::then(0, State::Closed),
            };
            match outcome {
                Outcome::Done { len, then } => {
                    consumed += len;
                    self.state = then;
                }
                Outcome::NeedsMemory => return self.stop(consumed, Next::Memory),
            }
            if let Some(next) = self.resume_pending(input, &mut consumed, context, out) {
                return self.stop(consumed, next);
            }
        }
        // An incomplete line sets `scanned`. Zero means that the rest has not been parsed, because
        // this turn had its share of requests: it needs another turn.
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

    /// Discards the prepared requests that [`Session::answer`] will not receive. The same input is
    /// prepared again later, from its front.
    pub fn discard_prepared(&mut self) {
        self.scanned = 0;
    }

    /// The store memory that the next bytes of input may be received into, after [`Next::Upload`].
    /// Empty when only the line end is missing, or when the store must allocate more first.
    pub fn upload_buffer(&mut self) -> &mut [u8] {
        match &mut self.state {
            State::Upload(pending) => pending.unfilled(),
            _ => &mut [],
        }
    }

    /// Records that the first `len` bytes of [`Session::upload_buffer`] have been received.
    pub fn advance_upload(&mut self, len: usize) {
        if let State::Upload(pending) = &mut self.state {
            pending.advance(len);
        }
    }

    /// Whether the session holds store memory for an unfinished upload.
    #[must_use]
    pub fn holds_memory(&self) -> bool {
        matches!(self.state, State::Upload(_))
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
                let before = pending.missing();
                let taken = pending.receive(&input[*consumed..], worker, now_s);
                // If memory ran out, the bytes that still fitted count as consumed: otherwise part
                // of the value would be parsed as commands.
                *consumed += before - pending.missing();
                match taken {
                    Ok(()) => {}
                    Err(Rejected::Deferred) => return Some(Next::Memory),
                    Err(_) => {
                        let missing = pending.missing() as u64;
                        answer::reject_upload(pending, context, out);
                        self.state = State::Swallow { missing };
                        return self.resume_pending(input, consumed, context, out);
                    }
                }
                if pending.missing() > 0 {
                    return Some(Next::Upload);
                }
                if let State::Upload(pending) = std::mem::take(&mut self.state)
                    && let Some(pending) = answer::publish_upload(*pending, context, out)
                {
                    self.state = State::Upload(pending);
                    return Some(Next::Memory);
                }
                None
            }
            State::Keys(remaining) => {
                let (len, next) = answer::answer_keys(remaining, &input[*consumed..], context, out);
                *consumed += len;
                if next.is_none() {
                    self.state = State::Command;
                }
                next
            }
        }
    }

    /// Ends a call early. The requests after this point are parsed again, so what is known about
    /// line ends is discarded.
    fn stop(&mut self, consumed: usize, next: Next) -> Progress {
        self.scanned = 0;
        Progress { consumed, next }
    }
}

/// The outcome of one request.
pub(crate) enum Outcome {
    /// The request was executed as far as the input allows.
    Done {
        /// Bytes of input it consumed.
        len: usize,
        /// How the input after them is interpreted.
        then: State,
    },
    /// The request needs memory ([`Next::Memory`]) and had no effect.
    NeedsMemory,
}

impl Outcome {
    pub(crate) fn done(len: usize) -> Self {
        Self::then(len, State::Command)
    }

    pub(crate) fn then(len: usize, then: State) -> Self {
        Self::Done { len, then }
    }

    /// Consumes a line and skips the `missing` bytes after it.
    pub(crate) fn swallow(len: usize, missing: u64) -> Self {
        Self::then(
            len,
            if missing == 0 {
                State::Command
            } else {
                State::Swallow { missing }
            },
        )
    }
}
