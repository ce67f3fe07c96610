//! Decoding of the commands of the toy protocol.

use protocol::limits::KEY_MAX;
use store::Mode;

use super::{FIRST_BYTE, ToyEncoder};
use crate::operation::{Key, Operation, ReadOptions, StoreOptions, WriteCas};
use crate::prepare::Prepared;
use crate::protocols::{Decoded, Encoder};

/// The maximum length of a field in bytes. The longest field is a key.
const FIELD_MAX: usize = KEY_MAX;

/// Decodes the command at the front of `input` into `prepared`. If the input does not begin with a
/// valid command, the request closes the connection.
pub(crate) fn decode<'a>(input: &'a [u8], prepared: &mut Prepared<'a>) -> Decoded {
    let mut rest = input;
    match command(&mut rest) {
        Ok((operation, key, data_len)) => {
            let len = input.len() - rest.len();
            *prepared = Prepared::new(operation, Key::plain(key), Encoder::Toy(ToyEncoder), len);
            Decoded::Command { data_len }
        }
        Err(NoCommand::Incomplete) => Decoded::Incomplete {
            scanned: input.len(),
        },
        Err(NoCommand::Invalid) => {
            *prepared = Prepared::new(Operation::Quit, Key::NONE, Encoder::Toy(ToyEncoder), 0);
            Decoded::LastCommand
        }
    }
}

/// Why no command was decoded.
enum NoCommand {
    /// More input is needed.
    Incomplete,
    /// The bytes are not a valid command.
    Invalid,
}

/// Parses the command at the front of `rest`, and advances `rest` past the command's fields.
/// Returns the command's operation and key, and the length of the value that follows.
fn command<'a>(rest: &mut &'a [u8]) -> Result<(Operation<'a>, &'a [u8], u64), NoCommand> {
    let (letter, fields) = match **rest {
        [FIRST_BYTE, letter, ref fields @ ..] => (letter, fields),
        [] | [FIRST_BYTE] => return Err(NoCommand::Incomplete),
        _ => return Err(NoCommand::Invalid),
    };
    *rest = fields;
    let key = field(rest)?;
    if key.is_empty() {
        return Err(NoCommand::Invalid);
    }
    match letter {
        b'G' => Ok((Operation::Read(ReadOptions::plain(None)), key, 0)),
        b'D' => Ok((Operation::Delete { compare: None }, key, 0)),
        b'S' => {
            let len = std::str::from_utf8(field(rest)?).ok();
            let value_len = len.and_then(|len| len.parse().ok());
            let value_len = value_len.ok_or(NoCommand::Invalid)?;
            let options = StoreOptions {
                cas: WriteCas::NEXT,
                flags: 0,
                exptime: 0,
                value_len,
                mode: Mode::Set,
                invalidate: false,
                vivify: false,
                delete_old_if_rejected: true,
            };
            Ok((Operation::Store(options), key, value_len.into()))
        }
        _ => Err(NoCommand::Invalid),
    }
}

/// Returns the bytes of `rest` before the next NUL, and advances `rest` past that NUL.
fn field<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], NoCommand> {
    match rest.iter().position(|&byte| byte == 0) {
        Some(len) if len <= FIELD_MAX => {
            let field = &rest[..len];
            *rest = &rest[len + 1..];
            Ok(field)
        }
        None if rest.len() <= FIELD_MAX => Err(NoCommand::Incomplete),
        _ => Err(NoCommand::Invalid),
    }
}
