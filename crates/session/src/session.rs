//! The conversation's state, and its second half: answering a burst.

use store::{Refused, Worker};

use crate::answer;
use crate::control::ServerControl;
use crate::counters::Counters;
use crate::now::Now;
use crate::output::Output;
use crate::prepare::{Action, Prepared};
use crate::upload::PendingUpload;

/// One client's conversation.
#[derive(Debug, Default)]
pub struct Session {
    pub(crate) state: State,
    /// Bytes at the front of the input known to hold no line end.
    pub(crate) scanned: usize,
}

/// What the front of the input is.
#[derive(Debug, Default)]
pub(crate) enum State {
    /// A command line.
    #[default]
    Command,
    /// The rest of a `get`'s keys, of a line already parsed.
    Keys(RemainingKeys),
    /// The rest of a value being stored.
    Upload(Box<PendingUpload>),
    /// Bytes that nobody wants.
    Swallow {
        missing: u64,
    },
    Closed,
}

/// The rest of a `get`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemainingKeys {
    /// Bytes of keys at the front of the input.
    pub(crate) keys_len: usize,
    /// Bytes of the line end behind them.
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

/// How far a session came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of input it is done with.
    pub consumed: usize,
    /// What it needs to go on.
    pub next: Next,
}

/// What surrounds a conversation while it answers.
pub struct RequestContext<'a> {
    /// The time of the burst.
    pub now: Now,
    /// The thread's handle on the store.
    pub worker: &'a mut Worker,
    /// The thread's counters.
    pub counters: &'a Counters,
    /// The process.
    pub control: &'a dyn ServerControl,
}

impl Session {
    /// Executes what [`Session::prepare`] prepared from `input`, in order, adding answers to
    /// `out`. Stops early when the output is full or memory is held by others; what was not
    /// consumed must then be prepared again.
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
            let step = match &request.action {
                Action::Request(command) => answer::request(command, request, rest, context, out),
                Action::Rejected { rejection, swallow } => {
                    out.bytes_mut().extend_from_slice(rejection.reply());
                    Step::swallow(request.line_len, *swallow)
                }
                Action::Fatal => Step::then(0, State::Closed),
            };
            match step {
                Step::Done { len, then } => {
                    consumed += len;
                    self.state = then;
                }
                Step::Memory => return self.stop(consumed, Next::Memory),
            }
            if let Some(next) = self.resume_pending(input, &mut consumed, context, out) {
                return self.stop(consumed, next);
            }
        }
        // A line looked at in vain has left its mark in `scanned`; what has not been looked at is
        // for the next turn.
        let unseen = consumed < input.len() && self.scanned == 0;
        Progress {
            consumed,
            next: if unseen { Next::Yield } else { Next::Input },
        }
    }

    /// Discards the prepared requests that [`Session::answer`] will not receive. The same input is
    /// prepared again later, from its front.
    pub fn discard_prepared(&mut self) {
        self.scanned = 0;
    }

    /// The memory that the next bytes of input may be received into, when [`Next::Upload`] was
    /// needed: empty when only the line end is missing, or when the store has to find more first.
    pub fn upload_buffer(&mut self) -> &mut [u8] {
        match &mut self.state {
            State::Upload(uploading) => uploading.unfilled(),
            _ => &mut [],
        }
    }

    /// Says that the first `len` bytes of [`Session::upload_buffer`] have been received.
    pub fn advance_upload(&mut self, len: usize) {
        if let State::Upload(uploading) = &mut self.state {
            uploading.advance(len);
        }
    }

    /// Whether it holds memory for a value on its way.
    #[must_use]
    pub fn holds_memory(&self) -> bool {
        matches!(self.state, State::Upload(_))
    }

    /// Goes on with what an earlier request began; what is needed if that is not over with this
    /// input.
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
            State::Upload(uploading) => {
                let (worker, now_s) = (&mut *context.worker, context.now.elapsed_s);
                let before = uploading.missing();
                let taken = uploading.take(&input[*consumed..], worker, now_s);
                // Where memory runs out, what fitted is taken all the same: the rest of the value
                // must not be read as commands.
                *consumed += before - uploading.missing();
                match taken {
                    Ok(()) => {}
                    Err(Refused::NotYet) => return Some(Next::Memory),
                    Err(_) => {
                        let missing = uploading.missing() as u64;
                        answer::upload_failed(uploading, context, out);
                        self.state = State::Swallow { missing };
                        return self.resume_pending(input, consumed, context, out);
                    }
                }
                if uploading.missing() > 0 {
                    return Some(Next::Upload);
                }
                if let State::Upload(uploading) = std::mem::take(&mut self.state)
                    && let Some(uploading) = answer::uploaded(*uploading, context, out)
                {
                    self.state = State::Upload(uploading);
                    return Some(Next::Memory);
                }
                None
            }
            State::Keys(remaining) => {
                let (len, next) = answer::keys(remaining, &input[*consumed..], context, out);
                *consumed += len;
                if next.is_none() {
                    self.state = State::Command;
                }
                next
            }
        }
    }

    /// Ends a call early: requests prepared behind this point will be parsed again, so nothing is
    /// known of line ends any more.
    fn stop(&mut self, consumed: usize, next: Next) -> Progress {
        self.scanned = 0;
        Progress { consumed, next }
    }
}

/// What one request comes to.
pub(crate) enum Step {
    /// It is answered as far as it can be.
    Done {
        /// Bytes of input it took.
        len: usize,
        /// What the input behind them is.
        then: State,
    },
    /// It needs memory ([`Next::Memory`]); nothing was done.
    Memory,
}

impl Step {
    pub(crate) fn done(len: usize) -> Self {
        Self::then(len, State::Command)
    }

    pub(crate) fn then(len: usize, then: State) -> Self {
        Self::Done { len, then }
    }

    /// Takes a line and lets `missing` bytes behind it go.
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
