//! Writing an operation in a protocol.

use protocol::SetMode;
use protocol::binary::{Head, Opcode};

use super::operation::{OPAQUE_KEY, OPAQUE_KEY_BASE64, Operation};
use crate::binary_frame::frame_with;

/// A protocol. Text sends what it has no command for as a meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Meta,
    Binary,
}

impl Form {
    pub(super) const ALL: [Self; 3] = [Self::Text, Self::Meta, Self::Binary];

    /// The request. `cas` is the value to compare, if the operation compares one.
    pub(super) fn write(self, operation: &Operation, cas: u64) -> Vec<u8> {
        match self {
            Self::Text if is_text(operation) => text(operation, cas),
            // No meta command deletes all items.
            Self::Meta if matches!(operation, Operation::Flush { .. }) => text(operation, cas),
            Self::Text | Self::Meta => meta(operation, cas),
            Self::Binary => binary(operation, cas),
        }
    }
}

/// Whether the text protocol has the operation.
pub(super) fn is_text(operation: &Operation) -> bool {
    let (key, is_possible) = match *operation {
        Operation::Get { key, .. }
        | Operation::GetAndTouch { key, .. }
        | Operation::Touch { key, .. }
        | Operation::Store { key, .. } => (key, true),
        Operation::Delete { key, compares, .. } => (key, !compares),
        Operation::Arith {
            key,
            vivify,
            compares,
            ..
        } => (key, vivify.is_none() && !compares),
        Operation::Flush { .. } | Operation::Tick { .. } => return true,
    };
    is_possible && key != OPAQUE_KEY
}

/// The key in a line, and the flag that says that it is base64.
pub(super) fn key_in_line(key: &[u8]) -> (&[u8], &[u8]) {
    if key == OPAQUE_KEY {
        (OPAQUE_KEY_BASE64, b" b")
    } else {
        (key, b"")
    }
}

fn text(operation: &Operation, cas: u64) -> Vec<u8> {
    let noreply = if operation.is_quiet() { " noreply" } else { "" };
    let mut out = Vec::new();
    let mut line = |verb: &str, key: &[u8], rest: String| {
        out.extend([verb.as_bytes(), b" ", key, rest.as_bytes(), b"\r\n"].concat());
    };
    match operation {
        Operation::Get { key, learns, .. } => {
            line(if *learns { "gets" } else { "get" }, key, String::new());
        }
        Operation::GetAndTouch { key, exptime, .. } => {
            line(&format!("gat {exptime}"), key, String::new());
        }
        Operation::Touch { key, exptime } => line("touch", key, format!(" {exptime}")),
        Operation::Store {
            key,
            mode,
            flags,
            exptime,
            value,
            compares,
            ..
        } => {
            let verb = match mode {
                SetMode::Set if *compares => "cas",
                SetMode::Set => "set",
                SetMode::Add => "add",
                SetMode::Replace => "replace",
                SetMode::Append => "append",
                SetMode::Prepend => "prepend",
            };
            let cas = if *compares {
                format!(" {cas}")
            } else {
                String::new()
            };
            let len = value.len();
            line(verb, key, format!(" {flags} {exptime} {len}{cas}{noreply}"));
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        // Without the time of 0, the key `noreply` would be read as the option.
        Operation::Delete { key, .. } => line("delete", key, format!(" 0{noreply}")),
        Operation::Arith {
            key,
            increments,
            delta,
            ..
        } => {
            let verb = if *increments { "incr" } else { "decr" };
            line(verb, key, format!(" {delta}{noreply}"));
        }
        Operation::Flush { exptime, .. } => {
            out.extend(format!("flush_all {exptime}{noreply}\r\n").into_bytes());
        }
        Operation::Tick { .. } => {}
    }
    out
}

fn meta(operation: &Operation, cas: u64) -> Vec<u8> {
    let quiet = if operation.is_quiet() { " q" } else { "" };
    let compare = match operation.compared() {
        Some(_) => format!(" C{cas}"),
        None => String::new(),
    };
    let mut out = Vec::new();
    // The length of a value comes before the flags, of which the mark of the key is one.
    let mut line_with_len = |verb: &str, key: &[u8], len: &str, flags: &str| {
        let (key, mark) = key_in_line(key);
        let (verb, len, flags) = (verb.as_bytes(), len.as_bytes(), flags.as_bytes());
        out.extend([verb, b" ", key, len, mark, flags, b"\r\n"].concat());
    };
    let mut line = |verb, key, flags: String| line_with_len(verb, key, "", &flags);
    match operation {
        Operation::Get { key, .. } => line("mg", key, format!(" v f c{quiet}")),
        Operation::GetAndTouch { key, exptime, .. } => {
            line("mg", key, format!(" v f c T{exptime}{quiet}"));
        }
        Operation::Touch { key, exptime } => line("mg", key, format!(" T{exptime}")),
        Operation::Store {
            key,
            mode,
            flags,
            exptime,
            value,
            ..
        } => {
            let mode = match mode {
                SetMode::Set => "MS",
                SetMode::Add => "ME",
                SetMode::Replace => "MR",
                SetMode::Append => "MA",
                SetMode::Prepend => "MP",
            };
            let len = format!(" {}", value.len());
            let flags = format!(" {mode} F{flags} T{exptime}{compare}{quiet}");
            line_with_len("ms", key, &len, &flags);
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        Operation::Delete { key, .. } => line("md", key, format!("{compare}{quiet}")),
        Operation::Arith {
            key,
            increments,
            delta,
            vivify,
            ..
        } => {
            let mode = if *increments { "MI" } else { "MD" };
            let vivify = vivify.map_or_else(String::new, |(initial, exptime)| {
                format!(" N{exptime} J{initial}")
            });
            line(
                "ma",
                key,
                format!(" v {mode} D{delta}{vivify}{compare}{quiet}"),
            );
        }
        Operation::Flush { .. } | Operation::Tick { .. } => {}
    }
    out
}

fn binary(operation: &Operation, cas: u64) -> Vec<u8> {
    let compare = if operation.compared().is_some() {
        cas
    } else {
        0
    };
    let quiet = operation.is_quiet();
    let of = |loud, silent| if quiet { silent } else { loud };
    let frame = |opcode: u8, extras: &[&[u8]], key: &[u8], value: &[u8]| {
        let head = Head {
            opcode: Opcode(opcode),
            opaque: 0x0102_0304,
        };
        frame_with(head, compare, &extras.concat(), key, value)
    };
    match operation {
        Operation::Get { key, .. } => frame(of(0x00, 0x09), &[], key, b""),
        Operation::GetAndTouch { key, exptime, .. } => {
            frame(of(0x1d, 0x1e), &[&exptime.to_be_bytes()], key, b"")
        }
        Operation::Touch { key, exptime } => frame(0x1c, &[&exptime.to_be_bytes()], key, b""),
        Operation::Store {
            key,
            mode,
            flags,
            exptime,
            value,
            ..
        } => {
            let fields = [&flags.to_be_bytes()[..], &exptime.to_be_bytes()];
            let (opcode, extras) = match mode {
                SetMode::Set => (of(0x01, 0x11), &fields[..]),
                SetMode::Add => (of(0x02, 0x12), &fields[..]),
                SetMode::Replace => (of(0x03, 0x13), &fields[..]),
                SetMode::Append => (of(0x0e, 0x19), &[][..]),
                SetMode::Prepend => (of(0x0f, 0x1a), &[][..]),
            };
            frame(opcode, extras, key, value)
        }
        Operation::Delete { key, .. } => frame(of(0x04, 0x14), &[], key, b""),
        Operation::Arith {
            key,
            increments,
            delta,
            vivify,
            ..
        } => {
            let opcode = if *increments {
                of(0x05, 0x15)
            } else {
                of(0x06, 0x16)
            };
            let (initial, exptime) = vivify.unwrap_or((0, u32::MAX));
            let extras: [&[u8]; 3] = [
                &delta.to_be_bytes(),
                &initial.to_be_bytes(),
                &exptime.to_be_bytes(),
            ];
            frame(opcode, &extras, key, b"")
        }
        Operation::Flush { exptime, .. } => {
            frame(of(0x08, 0x18), &[&exptime.to_be_bytes()], b"", b"")
        }
        Operation::Tick { .. } => Vec::new(),
    }
}
