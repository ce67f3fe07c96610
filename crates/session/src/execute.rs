//! Execution of one operation. This file branches on the operation. Each file of the folder
//! `execute/` has the operations of one kind. No code here depends on a protocol, because the
//! encoder writes all replies.
//!
//! Several functions return whether the operation was executed. False means that it had no effect,
//! because it has to wait for memory, or for an item that is only in the tier (the files below the
//! store, which keep evicted items). The step [`Step::NeedsMemory`] stands for both.

mod change;
mod chosen_rows;
mod hot_keys;
mod observe;
mod read;
mod read_many;
mod server;
mod write;

pub(crate) use read_many::resume as resume_keys;
pub(crate) use server::{ServerContext, execute as execute_server_command};
pub(crate) use write::{publish_upload, reject_upload};

use protocol::{Crawler, Stats};

use crate::connections::ConnectionList;
use crate::encode::Encode;
use crate::item_walk::ItemWalk;
use crate::login;
use crate::operation::{Operation, ServerCommand};
use crate::outcome::{Outcome, Restricted, ServerOutcome};
use crate::prepare::Prepared;
use crate::protocols::WithEncoder;
use crate::session::{Output, RequestContext, State, Step};
use crate::size_histogram::SizeHistogram;
use crate::watching::WatchRefused;

/// Executes the request at the front of `input`.
#[inline]
pub(crate) fn request(
    request: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Step {
    request.encoder.dispatch(Execute {
        request,
        input,
        context,
        out,
    })
}

/// The arguments of [`request`], for the code that is compiled for each encoder.
struct Execute<'r, 'i, 'c> {
    request: &'r Prepared<'i>,
    input: &'r [u8],
    context: &'r mut RequestContext<'c>,
    out: &'r mut Output,
}

impl WithEncoder for Execute<'_, '_, '_> {
    type Result = Step;

    #[inline]
    fn run(self, encoder: &impl Encode) -> Step {
        let Self {
            request,
            input,
            context,
            out,
        } = self;
        let (hash, len) = (request.hash, request.len());
        let mut buffer = None;
        let key = request.key().decode(&mut buffer);
        let bytes = out.bytes_mut();
        let is_done = match &request.operation {
            Operation::Read(options) => read::read(encoder, key, options, hash, context, out),
            Operation::Store(options) => {
                return write::store(encoder, key, options, request, input, context, out);
            }
            Operation::ReadMany { keys, touch } => {
                return read_many::begin(*keys, *touch, request, &input[..len]);
            }
            Operation::Delete { compare } => {
                // Only a deletion that compares the CAS needs the item in memory.
                if compare.is_some() && context.must_fetch(key, hash) {
                    return Step::NeedsMemory;
                }
                change::delete(encoder, key, *compare, hash, context, bytes);
                true
            }
            Operation::Mark(options) => change::mark(encoder, key, options, hash, context, bytes),
            Operation::Arith(options) => change::arith(encoder, key, options, hash, context, bytes),
            Operation::Touch { exptime } => {
                change::touch(encoder, key, *exptime, hash, context, bytes)
            }
            Operation::Flush { exptime } => {
                server::flush(encoder, *exptime, context, bytes);
                true
            }
            Operation::Server(command) => {
                if let Some(step) = begin_list(encoder, *command, request, context, bytes) {
                    return step;
                }
                if !server_command(encoder, *command, context, bytes) {
                    return Step::close(len);
                }
                true
            }
            Operation::Noop => {
                encoder.outcome(b"", Outcome::Noop, bytes);
                true
            }
            Operation::Quit => {
                encoder.outcome(b"", Outcome::Quit, bytes);
                return Step::close(len);
            }
            Operation::Abort => return Step::fail(len),
            Operation::Login(login) => {
                let outcome = login::execute(*login, context.control, context.counters);
                encoder.outcome(b"", Outcome::Login(outcome), bytes);
                return Step::Login { len, outcome };
            }
            Operation::ListMechanisms => {
                encoder.outcome(b"", Outcome::Mechanisms, bytes);
                true
            }
            Operation::RejectAndClose { rejection } => {
                encoder.outcome(b"", Outcome::Rejected(*rejection), bytes);
                return Step::fail(len);
            }
            Operation::Reject { rejection, swallow } => {
                encoder.outcome(b"", Outcome::Rejected(*rejection), bytes);
                return Step::swallow(len, *swallow);
            }
        };
        if is_done {
            Step::Done { len }
        } else {
            Step::NeedsMemory
        }
    }
}

/// Executes a command to the server and writes its complete reply. Returns false if the connection
/// is to be closed without a reply.
#[must_use]
fn server_command(
    encoder: &impl Encode,
    command: ServerCommand<'_>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> bool {
    if let ServerCommand::Stats(Stats::HotKeys) = command {
        hot_keys::write(context, &mut encoder.stats(bytes));
        encoder.outcome(b"", Outcome::Server(ServerOutcome::StatsEnd), bytes);
        return true;
    }
    let mut server = ServerContext {
        now: context.now,
        control: context.control,
    };
    let is_open = server::execute(encoder, command, &mut server, bytes);
    context.now = server.now;
    is_open
}

/// Begins a command whose reply takes several turns (calls of the session). Returns `None` if
/// `command` is not of this kind.
#[cold]
fn begin_list(
    encoder: &impl Encode,
    command: ServerCommand<'_>,
    request: &Prepared<'_>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> Option<Step> {
    let (len, permissions) = (request.len(), context.control.permissions());
    let state = match command {
        ServerCommand::Prefix(_) if context.control.prefix_rate().is_none() => {
            Err(ServerOutcome::Unsupported)
        }
        ServerCommand::Crawler(Crawler::Crawl(_) | Crawler::Dump(..))
        | ServerCommand::Watch(_)
        | ServerCommand::Prefix(_)
        | ServerCommand::Stats(Stats::CacheDump { .. } | Stats::Sizes | Stats::Connections)
            if context.is_datagram =>
        {
            Err(ServerOutcome::NotInDatagrams)
        }
        ServerCommand::Crawler(crawler) => {
            let walk = ItemWalk::crawler(crawler, context, bytes)?;
            walk.map(|walk| State::Walk(Box::new(walk)))
        }
        ServerCommand::Prefix(command) => {
            let walk = ItemWalk::prefix(command, context);
            walk.map(|walk| State::Walk(Box::new(walk)))
        }
        ServerCommand::Stats(Stats::CacheDump { class, limit }) if permissions.dump => {
            let walk = ItemWalk::cachedump(class, limit, context);
            Ok(State::Walk(Box::new(walk)))
        }
        ServerCommand::Stats(Stats::Sizes) if context.control.tracks_sizes() => {
            // A survey is a walk that may miss items that move in the index meanwhile. Unlike
            // walks, any number of surveys may exist at a time.
            let survey = context.worker.store().survey();
            let sizes = SizeHistogram::new(survey, request.encoder.to_owned());
            Ok(State::Sizes(Box::new(sizes)))
        }
        ServerCommand::Stats(Stats::Connections) => {
            let list = ConnectionList::new(context.connection, request.encoder.to_owned());
            Ok(State::Connections(Box::new(list)))
        }
        ServerCommand::Watch(_) if !permissions.watch => {
            Err(ServerOutcome::NotAllowed(Restricted::Watch))
        }
        // The session has no socket of its own, on which a closed connection could be found.
        ServerCommand::Watch(_) if context.connection < 0 => Err(ServerOutcome::Unsupported),
        ServerCommand::Watch(streams) => match context.control.watch(streams, context.connection) {
            Ok(watching) => {
                encoder.outcome(b"", Outcome::Server(ServerOutcome::Done), bytes);
                Ok(State::Watch(Box::new(watching)))
            }
            Err(WatchRefused::Unsupported) => Err(ServerOutcome::Unsupported),
            Err(WatchRefused::TooMany) => Err(ServerOutcome::TooManyWatchers),
        },
        _ => return None,
    };
    Some(match state {
        Ok(state) => Step::EnterState { len, state },
        Err(refusal) => {
            encoder.outcome(b"", Outcome::Server(refusal), bytes);
            Step::Done { len }
        }
    })
}
