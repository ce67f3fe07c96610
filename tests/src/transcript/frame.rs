//! Frames of the binary protocol in a transcript.
//!
//! ```text
//! |> set flags=5 exptime=0 key=k opaque=0x7 value=two words
//! |< set opaque=0x7 cas={new:c}
//! ```
//!
//! The first word is the name of the opcode, or its number (`0x1b`). Fields follow in any order. A
//! field that is left out is zero or empty, and lengths are those of what is there.
//!
//! | field | meaning |
//! |---|---|
//! | `flags=N` `exptime=N` | four bytes of extras each, in the order of the line |
//! | `delta=N` `initial=N` | eight bytes of extras each |
//! | `extras=TEXT` | any extras |
//! | `key=TEXT` | the key; a space in it is `\x20` |
//! | `number=N` | a value of eight bytes |
//! | `value=TEXT` | the value; it is the rest of the line |
//! | `cas=N` | the CAS, or `{cas:name}` or `{new:name}` |
//! | `opaque=N` `status=N` | fields of the header |
//! | `magic=N` `key_len=N` `extras_len=N` `data_type=N` `body_len=N` | the same; may be wrong |
//!
//! Numbers are decimal or, after `0x`, hexadecimal. The reply `{stats}` is any number of
//! statistics.

use anyhow::{Context, Result, bail};
use protocol::binary::{Head, Header, Opcode, REPLY_MAGIC, REQUEST_MAGIC};

use crate::pattern::{Bindings, Pattern};

/// The names of the opcodes.
const OPCODES: [(&str, u8); 38] = [
    ("get", 0x00),
    ("set", 0x01),
    ("add", 0x02),
    ("replace", 0x03),
    ("delete", 0x04),
    ("incr", 0x05),
    ("decr", 0x06),
    ("quit", 0x07),
    ("flush", 0x08),
    ("getq", 0x09),
    ("noop", 0x0a),
    ("version", 0x0b),
    ("getk", 0x0c),
    ("getkq", 0x0d),
    ("append", 0x0e),
    ("prepend", 0x0f),
    ("stat", 0x10),
    ("setq", 0x11),
    ("addq", 0x12),
    ("replaceq", 0x13),
    ("deleteq", 0x14),
    ("incrq", 0x15),
    ("decrq", 0x16),
    ("quitq", 0x17),
    ("flushq", 0x18),
    ("appendq", 0x19),
    ("prependq", 0x1a),
    ("verbosity", 0x1b),
    ("touch", 0x1c),
    ("gat", 0x1d),
    ("gatq", 0x1e),
    ("sasl_list", 0x20),
    ("sasl_auth", 0x21),
    ("sasl_step", 0x22),
    ("gatk", 0x23),
    ("gatkq", 0x24),
    ("rget", 0x30),
    ("rdecrq", 0x3c),
];

/// The request that a line describes.
///
/// # Errors
/// The line has an unknown opcode or field. The error names it.
pub fn request(text: &str) -> Result<Pattern> {
    read(text, REQUEST_MAGIC)
}

/// The reply that a line describes.
///
/// # Errors
/// As [`request`].
pub fn reply(text: &str) -> Result<Pattern> {
    read(text, REPLY_MAGIC)
}

/// The body of a frame, and the CAS of its header, which may be a placeholder.
#[derive(Default)]
struct Body {
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    cas: Pattern,
}

fn read(text: &str, magic: u8) -> Result<Pattern> {
    let (name, mut rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut header = Header {
        magic,
        head: Head {
            opcode: opcode(name)?,
            opaque: 0,
        },
        ..Header::default()
    };
    let mut body = Body {
        cas: Pattern::literal(&[0; 8]),
        ..Body::default()
    };
    let mut lengths = Vec::new();
    while !rest.is_empty() {
        let (field, behind) = rest.split_once('=').with_context(|| format!("'{rest}'"))?;
        let (content, behind) = match field {
            "value" => (behind, ""),
            _ => behind.split_once(' ').unwrap_or((behind, "")),
        };
        match field {
            "key_len" | "extras_len" | "body_len" => lengths.push((field, number(content)?)),
            _ => set(field, content, &mut header, &mut body)
                .with_context(|| format!("'{field}={content}'"))?,
        }
        rest = behind;
    }
    let body_len = body.extras.len() + body.key.len() + body.value.len();
    header.extras_len = u8::try_from(body.extras.len())?;
    header.key_len = u16::try_from(body.key.len())?;
    header.body_len = u32::try_from(body_len)?;
    for (field, len) in lengths {
        match field {
            "key_len" => header.key_len = u16::try_from(len)?,
            "extras_len" => header.extras_len = u8::try_from(len)?,
            _ => header.body_len = u32::try_from(len)?,
        }
    }
    let mut pattern = Pattern::literal(&header.to_bytes()[..16]);
    pattern.append(&body.cas);
    pattern.append(&Pattern::literal(
        &[body.extras, body.key, body.value].concat(),
    ));
    Ok(pattern)
}

/// Sets a field that is not a length.
fn set(field: &str, content: &str, header: &mut Header, body: &mut Body) -> Result<()> {
    match field {
        "flags" | "exptime" => {
            let word = u32::try_from(number(content)?)?;
            body.extras.extend(word.to_be_bytes());
        }
        "delta" | "initial" => body.extras.extend(number(content)?.to_be_bytes()),
        "extras" => body.extras.extend(filled(content)?),
        "key" => body.key = filled(content)?,
        "number" => body.value = number(content)?.to_be_bytes().to_vec(),
        "value" => body.value = filled(content)?,
        "cas" if content.starts_with('{') => {
            let placeholder = content.replacen(':', "8:", 1);
            body.cas = Pattern::read(&placeholder)?;
        }
        "cas" => body.cas = Pattern::literal(&number(content)?.to_be_bytes()),
        "opaque" => header.head.opaque = u32::try_from(number(content)?)?,
        "status" => header.status = u16::try_from(number(content)?)?,
        "magic" => header.magic = u8::try_from(number(content)?)?,
        "data_type" => header.data_type = u8::try_from(number(content)?)?,
        _ => bail!("no such field; the module 'transcript::frame' lists them"),
    }
    Ok(())
}

fn opcode(name: &str) -> Result<Opcode> {
    let known = OPCODES.iter().find(|(known, _)| *known == name);
    match known {
        Some(&(_, opcode)) => Ok(Opcode(opcode)),
        None => Ok(Opcode(u8::try_from(number(name)?)?)),
    }
}

fn number(text: &str) -> Result<u64> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.with_context(|| format!("'{text}' is not a number"))
}

/// The bytes of a text that has no placeholder but repetitions.
fn filled(text: &str) -> Result<Vec<u8>> {
    Pattern::read(text)?.fill(&Bindings::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_is_read_from_its_fields() {
        let text = "set cas=9 flags=0x7 exptime=60 opaque=1 key=a\\x20b value=two words";
        let bytes = request(text).unwrap().fill(&Bindings::new()).unwrap();
        let expected = b"\x80\x01\0\x03\x08\0\0\0\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\x09\
                         \0\0\0\x07\0\0\0\x3ca btwo words";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn lengths_may_be_wrong_and_unknown_fields_are_errors() {
        let bytes = request("0x1b body_len=1 key_len=258").unwrap();
        let bytes = bytes.fill(&Bindings::new()).unwrap();
        assert_eq!(bytes[..12], *b"\x80\x1b\x01\x02\0\0\0\0\0\0\0\x01");
        for wrong in ["what", "get key", "get colour=1", "get opaque=x"] {
            assert!(request(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cas_of_a_reply_is_bound_and_sent_again() {
        let mut bindings = Bindings::new();
        let mut received = reply("set cas=7").unwrap().fill(&bindings).unwrap();
        let pattern = reply("set cas={new:c}").unwrap();
        pattern.matches(&received, &mut bindings);
        assert_eq!(bindings["c"], 7);
        let again = request("set cas={cas:c}").unwrap().fill(&bindings).unwrap();
        received[0] = REQUEST_MAGIC;
        assert_eq!(again, received);
    }
}
