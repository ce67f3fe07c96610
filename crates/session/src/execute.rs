//! Execution of one request. This file branches on the request's operation. Most files of the
//! folder `execute/` execute the operations of one kind. No code here depends on a protocol: the
//! encoder of the request ([`Encode`]) writes each reply in the format of the client's protocol.
//!
//! A request may have to wait for memory, or for an item that is only in the tier. It then has no
//! effect, and is executed again later. Several functions of the folder return false in this case,
//! and true if the request was executed. For the session, [`Step::NeedsMemory`] stands for both
//! reasons to wait. A *step* is the effect of one request on its session.

mod change;
mod chosen_rows;
mod hot_keys;
mod observe;
mod read;
mod read_many;
mod server;
mod write;

pub(crate) use read_many::resume as resume_keys;
pub(crate) use server::PrefixList;
pub(crate) use server::{ServerContext, execute as execute_server_command};
pub(crate) use write::{publish_upload, reject_upload};

use protocol::{Crawler, Detail, Stats};

use crate::connections::ConnectionList;
use crate::encode::{Encode, NO_KEY};
use crate::item_walk::ItemWalk;
use crate::login;
use crate::operation::{Operation, ServerCommand};
use crate::outcome::{Outcome, Restricted, ServerOutcome};
use crate::prepare::Prepared;
use crate::protocols::{Encoder, WithEncoder};
use crate::session::{Output, RequestContext, State, Step};
use crate::size_histogram::SizeHistogram;
use crate::watching::WatchRefused;

/// Executes `request`. `input` begins with the command line of the request.
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
        // `len` is the length of the command line.
        let (hash, len) = (request.hash, request.len());
        // Receives the key if it was sent in base64.
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
                // Only a deletion that compares the CAS (the number of the item's version) needs
                // the item in memory. `must_fetch` returns true if the item is only in the tier.
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
                if let Some(step) = begin_long_reply(encoder, *command, request, context, bytes) {
                    return step;
                }
                if !server_command(encoder, *command, context, bytes) {
                    return Step::close(len);
                }
                true
            }
            Operation::Noop => {
                encoder.outcome(NO_KEY, Outcome::Noop, bytes);
                true
            }
            Operation::Quit => {
                encoder.outcome(NO_KEY, Outcome::Quit, bytes);
                return Step::close(len);
            }
            Operation::Login(login) => {
                let outcome = login::execute(*login, context.control, context.counters);
                encoder.outcome(NO_KEY, Outcome::Login(outcome), bytes);
                return Step::Login { len, outcome };
            }
            Operation::ListMechanisms => {
                encoder.outcome(NO_KEY, Outcome::Mechanisms, bytes);
                true
            }
            Operation::RejectAndClose { rejection } => {
                encoder.outcome(NO_KEY, Outcome::Rejected(*rejection), bytes);
                return Step::fail(len);
            }
            Operation::Reject { rejection, swallow } => {
                encoder.outcome(NO_KEY, Outcome::Rejected(*rejection), bytes);
                // The client sends a data block of `swallow` bytes, which the session skips.
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

/// Executes a command to the server, other than those of [`begin_long_reply`], and writes the
/// complete reply. Returns false if the connection is to be closed without a reply.
#[must_use]
fn server_command(
    encoder: &impl Encode,
    command: ServerCommand<'_>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> bool {
    if let ServerCommand::Stats(Stats::HotKeys) = command {
        hot_keys::write(context, &mut encoder.stats(bytes));
        encoder.outcome(NO_KEY, Outcome::Server(ServerOutcome::StatsEnd), bytes);
        return true;
    }
    let mut server = ServerContext {
        now: context.now,
        control: context.control,
    };
    let is_open = server::execute(encoder, command, &mut server, bytes);
    // The command `debugtime` changes the clock.
    context.now = server.now;
    is_open
}

/// Begins a command whose reply takes several turns: a list of items, sizes or connections, or the
/// log lines of `watch`. If such a command is refused, replies with the reason. Returns `None` and
/// does nothing for all other commands, and for a few refused lists: [`server::execute`] replies to
/// these.
#[cold]
fn begin_long_reply(
    encoder: &impl Encode,
    command: ServerCommand<'_>,
    request: &Prepared<'_>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> Option<Step> {
    let (len, permissions) = (request.len(), context.control.permissions());
    let has_socket = context.connection >= 0;
    // The state in which the session writes the reply, or the reason why the command is refused.
    let state = match command {
        // A server without this rate does not have the command.
        ServerCommand::Prefix(_) if context.control.prefix_rate().is_none() => {
            Err(ServerOutcome::Unsupported)
        }
        ServerCommand::Crawler(Crawler::Crawl(_) | Crawler::Dump(..))
        | ServerCommand::Watch(_)
        | ServerCommand::Prefix(_)
        | ServerCommand::Stats(Stats::CacheDump { .. } | Stats::Sizes | Stats::Connections)
            if context.is_datagram =>
        {
            // The reply to a datagram has to be complete before the next datagram is answered.
            Err(ServerOutcome::NotInDatagrams)
        }
        ServerCommand::Crawler(crawler) => {
            // `None`: the command only enables or disables the crawler. Otherwise the first line of
            // the reply has been written to `bytes`, unless the command is refused.
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
            // Only one complete walk may exist at a time, but any number of surveys.
            let survey = context.worker.store().survey();
            let sizes = SizeHistogram::new(survey, request.encoder.to_owned());
            Ok(State::Sizes(Box::new(sizes)))
        }
        ServerCommand::Stats(Stats::Connections) => {
            let list = ConnectionList::new(context.connection, request.encoder.to_owned());
            Ok(State::Connections(Box::new(list)))
        }
        ServerCommand::Stats(Stats::Detail(Detail::Dump))
            if permissions.dump
                && !context.is_datagram
                && matches!(request.encoder, Encoder::Text(_)) =>
        {
            let list = PrefixList::new(request.encoder.to_owned());
            Ok(State::Prefixes(Box::new(list)))
        }
        ServerCommand::Watch(_) if !permissions.watch => {
            Err(ServerOutcome::NotAllowed(Restricted::Watch))
        }
        // Only the socket of a watching client shows that the client has closed the connection.
        ServerCommand::Watch(_) if !has_socket => Err(ServerOutcome::Unsupported),
        ServerCommand::Watch(streams) => match context.control.watch(streams, context.connection) {
            Ok(watching) => {
                encoder.outcome(NO_KEY, Outcome::Server(ServerOutcome::Done), bytes);
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
            encoder.outcome(NO_KEY, Outcome::Server(refusal), bytes);
            Step::Done { len }
        }
    })
}
