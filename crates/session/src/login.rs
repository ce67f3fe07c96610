//! Logins: the first command of a client, if the server requires a password.
//!
//! A client that sends command lines logs in with a line. Until then, the grammar of its input is
//! [`Protocol::LinesLogin`], which accepts only a login. After the login the session changes its
//! protocol, so decoding later command lines does not test whether the client has logged in. A
//! client that sends binary frames logs in with messages of SASL (Simple Authentication and
//! Security Layer, RFC 4422), and may do so again at any time. So the grammar of its input remains
//! [`Protocol::Sasl`], which first tests each frame for a message of SASL. In the turn of a login,
//! nothing after the login is decoded: the grammar of the following input is known only when the
//! login has been executed.
//!
//! [`Protocol::LinesLogin`]: crate::protocols::Protocol::LinesLogin
//! [`Protocol::Sasl`]: crate::protocols::Protocol::Sasl

use protocol::binary::sasl::{self, ParsedSasl};
use protocol::limits::BINARY_HEADER_LEN;
use protocol::{Credentials, ParsedLogin, Rejection, parse_login};

use crate::binary::decode::{decode, prepare, rejection};
use crate::control::ServerControl;
use crate::counters::{Counter, Counters};
use crate::operation::{Key, Operation};
use crate::prepare::Prepared;
use crate::protocols::{Decoded, Encoder};
use crate::text::TextEncoder;

/// What a client sends to log in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Login<'a> {
    /// A user and a password.
    Credentials(Credentials<'a>),
    /// The first message of SASL, without a user and a password. A second message follows, which
    /// contains them.
    Begin,
    /// A message of SASL that is out of order, names an unknown mechanism, or has malformed
    /// content.
    Malformed,
}

/// The outcome of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginOutcome {
    /// The user has this password. The client may use all commands.
    Accepted,
    /// The client's next message has to contain the user and the password.
    Continues,
    /// The user does not exist, the password is wrong, or the message is malformed.
    Refused,
}

/// The state of the login of a client of the binary protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SaslState {
    /// Whether the client is logged in. As in memcached, a later login that is refused logs the
    /// client out.
    pub(crate) is_logged_in: bool,
    /// Whether the client may send the second message of a login. If not, only a first message is
    /// in order.
    has_begun: bool,
}

impl SaslState {
    /// The state after a login with this outcome.
    pub(crate) fn after(outcome: LoginOutcome) -> Self {
        Self {
            is_logged_in: outcome == LoginOutcome::Accepted,
            has_begun: outcome != LoginOutcome::Refused,
        }
    }
}

/// Checks the password and counts the login. The caller replies.
pub(crate) fn execute(
    login: Login<'_>,
    control: &dyn ServerControl,
    counters: &Counters,
) -> LoginOutcome {
    let outcome = match login {
        Login::Credentials(it) if control.is_password(it.user, it.password) => {
            LoginOutcome::Accepted
        }
        Login::Begin => LoginOutcome::Continues,
        Login::Credentials(_) | Login::Malformed => LoginOutcome::Refused,
    };
    if outcome != LoginOutcome::Continues {
        counters.count(Counter::AuthCmds);
    }
    if outcome == LoginOutcome::Refused {
        counters.count(Counter::AuthErrors);
    }
    outcome
}

/// Decodes the command line at the front of the input of a client that has not logged in.
#[cold]
pub(crate) fn decode_line<'a>(input: &'a [u8], prepared: &mut Prepared<'a>) -> Decoded {
    let encoder = Encoder::Text(TextEncoder::default());
    let mut set = |operation, len| *prepared = Prepared::new(operation, Key::NONE, encoder, len);
    match parse_login(input) {
        ParsedLogin::Incomplete => Decoded::Incomplete {
            scanned: input.len(),
        },
        ParsedLogin::Credentials { credentials, len } => {
            set(Operation::Login(Login::Credentials(credentials)), len);
            Decoded::LastKnown
        }
        ParsedLogin::Rejected { rejection, len } => {
            let swallow = 0;
            set(Operation::Reject { rejection, swallow }, len);
            Decoded::Command { data_len: swallow }
        }
        ParsedLogin::Fatal => {
            let rejection = Rejection::Silent;
            set(Operation::RejectAndClose { rejection }, 0);
            Decoded::LastCommand
        }
    }
}

/// Decodes the frame at the front of the input of a client that has to log in with SASL. The
/// function is not inlined, so that the code of servers without passwords stays short.
#[inline(never)]
pub(crate) fn decode_frame<'a>(
    input: &'a [u8],
    state: SaslState,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    let mut set = |operation, head, len| prepare(operation, b"", head, len, prepared);
    match sasl::parse(input, state.is_logged_in) {
        ParsedSasl::Other => decode(input, prepared),
        ParsedSasl::Incomplete => Decoded::Incomplete {
            scanned: input.len(),
        },
        ParsedSasl::List { head, len } => {
            set(Operation::ListMechanisms, head, len);
            Decoded::Command { data_len: 0 }
        }
        ParsedSasl::Message { head, message, len } => {
            set(Operation::Login(login(message, state)), head, len);
            Decoded::LastKnown
        }
        ParsedSasl::Rejected {
            head,
            status,
            swallow,
        } => {
            let rejection = rejection(status);
            set(
                Operation::Reject { rejection, swallow },
                head,
                BINARY_HEADER_LEN,
            );
            Decoded::Command { data_len: swallow }
        }
        ParsedSasl::Fatal { head, status } => {
            let rejection = rejection(status);
            set(Operation::RejectAndClose { rejection }, head, 0);
            Decoded::LastCommand
        }
    }
}

/// Converts a message of SASL to a login. As in memcached, the name of the mechanism is checked
/// only in the first message.
fn login(message: sasl::Message<'_>, state: SaslState) -> Login<'_> {
    let is_in_order = match message.is_first {
        true => message.mechanism.eq_ignore_ascii_case(sasl::MECHANISMS),
        false => state.has_begun,
    };
    match Credentials::from_plain(message.bytes) {
        _ if !is_in_order => Login::Malformed,
        Some(credentials) => Login::Credentials(credentials),
        None if message.is_first && message.bytes.is_empty() => Login::Begin,
        None => Login::Malformed,
    }
}
