//! Replies of the binary protocol.

use protocol::SetMode;
use protocol::binary::{Arith, Get, Head, Parsed, Request, Set, Status, parse};

use super::{ModelSession, VERSION};
use crate::cache::{Arithmetic, ArithmeticOutcome, Cache, DeleteOutcome, SetOutcome, Write};

/// A reply without its opcode and opaque: the status, the extras, the key, the value and the CAS.
struct Answer {
    status: u16,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    cas: u64,
    /// Whether a quiet request has no such reply.
    is_common: bool,
}

impl Answer {
    fn done(cas: u64) -> Self {
        Self {
            status: 0,
            extras: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            cas,
            is_common: true,
        }
    }
}

const NOT_FOUND: (u16, &str) = (1, "Not found");
const EXISTS: (u16, &str) = (2, "Data exists for key.");
const TOO_LARGE: (u16, &str) = (3, "Too large.");
const INVALID: (u16, &str) = (4, "Invalid arguments");
const NOT_STORED: (u16, &str) = (5, "Not stored.");
const NOT_NUMERIC: (u16, &str) = (6, "Non-numeric server-side value for incr or decr");
const UNKNOWN: (u16, &str) = (0x81, "Unknown command");

impl ModelSession {
    /// Processes the frame at the front of the input. Returns false if that needs more input.
    pub(super) fn frame(&mut self, cache: &mut Cache, now_s: u64, answer: &mut Vec<u8>) -> bool {
        let input = std::mem::take(&mut self.input);
        let len = self.one_frame(cache, now_s, &input, answer);
        self.input = input;
        self.input.drain(..len);
        len > 0
    }

    /// Executes the frame at the front of `input` and returns its length, or 0 if it is incomplete
    /// or the last one.
    fn one_frame(
        &mut self,
        cache: &mut Cache,
        now_s: u64,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> usize {
        match parse(input) {
            Parsed::Incomplete => 0,
            Parsed::Fatal { head, status } => {
                self.closed = true;
                match status {
                    Some(Status::Unknown) => write(out, head, &error(UNKNOWN)),
                    Some(_) => write(out, head, &error(INVALID)),
                    None => {}
                }
                0
            }
            Parsed::Rejected {
                head, len, swallow, ..
            } => {
                write(out, head, &error(UNKNOWN));
                self.swallow = swallow;
                len
            }
            Parsed::Request {
                head,
                cas,
                request: Request::Set(request),
                len,
            } => {
                if !cache.fits(request.key, request.flags, request.value_len as usize) {
                    if request.mode == SetMode::Set {
                        cache.delete(now_s, request.key, None);
                    }
                    write(out, head, &error(TOO_LARGE));
                    self.swallow = request.value_len.into();
                    return len;
                }
                let Some(value) = input[len..].get(..request.value_len as usize) else {
                    return 0;
                };
                write_unless_quiet(out, head, &set(cache, now_s, request, cas, value));
                len + value.len()
            }
            Parsed::Request {
                head,
                cas,
                request,
                len,
            } => {
                if let Request::Stat { name } = request {
                    stat(cache, now_s, head, name, out);
                } else {
                    let answer = plain(cache, now_s, request, cas);
                    write_unless_quiet(out, head, &answer);
                }
                self.closed = request == Request::Quit;
                len
            }
        }
    }
}

/// Executes a command other than a storage command and `stat`.
fn plain(cache: &mut Cache, now_s: u64, request: Request<'_>, cas: u64) -> Answer {
    let compare = (cas != 0).then_some(cas);
    match request {
        Request::Get(request) => get(cache, now_s, request),
        Request::Delete { key } => match cache.delete(now_s, key, compare) {
            DeleteOutcome::Deleted => Answer::done(0),
            DeleteOutcome::NotFound => error(NOT_FOUND),
            DeleteOutcome::Exists => error(EXISTS),
        },
        Request::Arith(request) => arith(cache, now_s, request, compare),
        Request::Flush { exptime } => {
            cache.flush_all(now_s, time(exptime.unwrap_or(0)));
            Answer::done(0)
        }
        Request::Version => Answer {
            value: VERSION.into(),
            ..Answer::done(0)
        },
        Request::Noop | Request::Quit | Request::Set(_) | Request::Stat { .. } => Answer::done(0),
    }
}

fn get(cache: &mut Cache, now_s: u64, get: Get<'_>) -> Answer {
    let found = match get.exptime {
        None => {
            cache.mark_fetched(now_s, get.key);
            cache.get(now_s, get.key).cloned()
        }
        Some(exptime) => cache.get_and_touch(now_s, get.key, time(exptime)),
    };
    let key = if get.with_key {
        get.key.to_vec()
    } else {
        Vec::new()
    };
    match found {
        Some(item) => Answer {
            extras: item.client_flags.to_be_bytes().to_vec(),
            key,
            value: if get.with_value {
                item.value
            } else {
                Vec::new()
            },
            is_common: false,
            ..Answer::done(item.cas)
        },
        None => Answer {
            status: 1,
            value: if get.with_key { "" } else { "Not found" }.into(),
            key,
            ..Answer::done(0)
        },
    }
}

fn set(cache: &mut Cache, now_s: u64, set: Set<'_>, cas: u64, value: &[u8]) -> Answer {
    let is_extension = matches!(set.mode, SetMode::Append | SetMode::Prepend);
    let mode = if cas != 0 && !is_extension {
        SetMode::Set
    } else {
        set.mode
    };
    let request = Write {
        client_flags: set.flags,
        exptime: time(set.exptime),
        compare: (cas != 0).then_some(cas),
        ..Write::plain(mode, value)
    };
    match cache.set(now_s, set.key, &request) {
        SetOutcome::Stored { cas, .. } => Answer::done(cas),
        SetOutcome::Exists => error(EXISTS),
        SetOutcome::NotFound => error(NOT_FOUND),
        SetOutcome::NotStored => error(match set.mode {
            SetMode::Add => EXISTS,
            SetMode::Replace => NOT_FOUND,
            _ => NOT_STORED,
        }),
    }
}

fn arith(cache: &mut Cache, now_s: u64, arith: Arith<'_>, compare: Option<u64>) -> Answer {
    let change = Arithmetic {
        mode: arith.mode,
        delta: arith.delta,
        vivify: arith.vivify.map(|exptime| (arith.initial, time(exptime))),
        compare,
        explicit_cas: None,
    };
    match cache.arith(now_s, arith.key, &change) {
        ArithmeticOutcome::Done { number, cas, .. } => Answer {
            value: number.to_be_bytes().to_vec(),
            ..Answer::done(cas)
        },
        ArithmeticOutcome::NotFound => error(NOT_FOUND),
        ArithmeticOutcome::Exists => error(EXISTS),
        ArithmeticOutcome::NonNumeric => error(NOT_NUMERIC),
    }
}

/// The statistics of the model, which has no process.
fn stat(cache: &mut Cache, now_s: u64, head: Head, name: &[u8], out: &mut Vec<u8>) {
    let mut line = |name: &str, value: String| {
        let statistic = Answer {
            key: name.into(),
            value: value.into(),
            ..Answer::done(0)
        };
        write(out, head, &statistic);
    };
    match name {
        b"" => {
            line("version", VERSION.to_owned());
            line("curr_items", cache.len(now_s).to_string());
        }
        b"settings" => line("item_size_max", cache.item_size_max().to_string()),
        b"hotkeys" => line("hotkeys:gets", "0".to_owned()),
        // The model does not count by prefix.
        b"detail dump" => line("detailed", "END\r\n".to_owned()),
        b"reset" | b"detail on" | b"detail off" => {}
        _ => return write(out, head, &error(NOT_FOUND)),
    }
    write(out, head, &Answer::done(0));
}

/// A time to live after 2038 becomes the last second before.
fn time(exptime: u32) -> i32 {
    i32::try_from(exptime).unwrap_or(i32::MAX)
}

fn error((status, text): (u16, &str)) -> Answer {
    Answer {
        status,
        value: text.into(),
        is_common: false,
        ..Answer::done(0)
    }
}

fn write_unless_quiet(out: &mut Vec<u8>, head: Head, answer: &Answer) {
    let is_quiet = matches!(head.opcode.0, 0x09 | 0x0d | 0x11..=0x1a | 0x1e | 0x24);
    if !(is_quiet && answer.is_common) {
        write(out, head, answer);
    }
}

fn write(out: &mut Vec<u8>, head: Head, answer: &Answer) {
    let body = [&answer.extras[..], &answer.key, &answer.value].concat();
    out.extend([0x81, head.opcode.0]);
    out.extend((answer.key.len() as u16).to_be_bytes());
    out.extend([answer.extras.len() as u8, 0]);
    out.extend(answer.status.to_be_bytes());
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(head.opaque.to_be_bytes());
    out.extend(answer.cas.to_be_bytes());
    out.extend(body);
}
