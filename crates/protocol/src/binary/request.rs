//! Requests: parsing them, and writing them.

use super::{Command, Head, Header, REQUEST_MAGIC, Status};
use crate::limits::{BINARY_BODY_MAX, BINARY_HEADER_LEN, KEY_MAX};
use crate::{ArithMode, Detail, SetMode, Stats};

/// The time to live with which arithmetic does not create a missing counter.
const NO_VIVIFY: u32 = u32::MAX;

/// The result of parsing the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The header, the extras or the key have not arrived.
    Incomplete,
    /// One command.
    Request {
        /// The parts that the reply repeats.
        head: Head,
        /// The CAS to compare, or 0.
        cas: u64,
        /// The command.
        request: Request<'a>,
        /// Bytes of its header, extras and key.
        len: usize,
    },
    /// An invalid frame, which is answered without the store. The next frame can be found.
    Rejected {
        /// The parts that the reply repeats.
        head: Head,
        /// The error to reply.
        status: Status,
        /// Bytes of its header.
        len: usize,
        /// Bytes of its body, which are to be skipped.
        swallow: u64,
    },
    /// The connection must be closed after the reply, because the lengths of the frame cannot be
    /// trusted.
    Fatal {
        /// The parts that the reply repeats.
        head: Head,
        /// The error to reply. `None`: no reply, because the bytes are no frame.
        status: Option<Status>,
    },
}

/// One command. Times are as the client sent them: 0 means never, up to thirty days is relative,
/// and a larger number is a Unix second. No number means already expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `getk`, `touch`, `gat`, `gatk`
    Get(Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`; the value follows.
    Set(Set<'a>),
    /// `delete`
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// `incr`, `decr`
    Arith(Arith<'a>),
    /// `flush`
    Flush {
        /// When the items are deleted.
        exptime: Option<u32>,
    },
    /// `stat`. [`stats`] says which statistics a name means.
    Stat {
        /// The name of a group of statistics, or empty.
        name: &'a [u8],
    },
    /// `version`
    Version,
    /// `noop`
    Noop,
    /// `quit`
    Quit,
}

/// A read of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new time to live.
    pub exptime: Option<u32>,
    /// Whether the reply contains the key.
    pub with_key: bool,
    /// Whether the reply contains the value (not for `touch`).
    pub with_value: bool,
}

/// A storage command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What is stored.
    pub mode: SetMode,
    /// The client flags. Zero if the value extends another.
    pub flags: u32,
    /// The time to live. Zero if the value extends another.
    pub exptime: u32,
    /// Length of the value in bytes.
    pub value_len: u32,
}

/// A change of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arith<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Whether to add or subtract.
    pub mode: ArithMode,
    /// The number to add or subtract.
    pub delta: u64,
    /// The value of a counter that is created.
    pub initial: u64,
    /// The time to live of a counter that is created. `None`: none is created.
    pub vivify: Option<u32>,
}

/// The lengths that a command allows.
struct Shape {
    extras_len: u8,
    /// Whether the extras may also be absent.
    extras_are_optional: bool,
    key: KeyShape,
    has_value: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyShape {
    None,
    Optional,
    Required,
}

/// Parses the frame at the front of `input`. The split of the input does not change the result.
#[must_use]
pub fn parse(input: &[u8]) -> Parsed<'_> {
    if input.first().is_some_and(|&magic| magic != REQUEST_MAGIC) {
        return Parsed::Fatal {
            head: Head::default(),
            status: None,
        };
    }
    let Some(bytes) = input.first_chunk::<BINARY_HEADER_LEN>() else {
        return Parsed::Incomplete;
    };
    let header = Header::read(bytes);
    let head = header.head;
    let fatal = |status| Parsed::Fatal {
        head,
        status: Some(status),
    };
    let Some(value_len) = header.value_len() else {
        return fatal(Status::Unknown);
    };
    if header.body_len > BINARY_BODY_MAX || usize::from(header.key_len) > KEY_MAX {
        return fatal(Status::Invalid);
    }
    let unknown = Parsed::Rejected {
        head,
        status: Status::Unknown,
        len: BINARY_HEADER_LEN,
        swallow: header.body_len.into(),
    };
    let Some((command, _)) = head.opcode.command() else {
        return unknown;
    };
    if !shape(command).allows(&header, value_len) {
        return fatal(Status::Invalid);
    }
    if matches!(command, Command::SaslList | Command::SaslMessage) {
        return unknown;
    }
    let len = header.value_at();
    let Some(body) = input.get(BINARY_HEADER_LEN..len) else {
        return Parsed::Incomplete;
    };
    let (extras, key) = body.split_at(header.extras_len.into());
    Parsed::Request {
        head,
        cas: header.cas,
        request: request(command, Extras(extras), key, value_len),
        len,
    }
}

impl Shape {
    fn allows(&self, header: &Header, value_len: u32) -> bool {
        let extras = header.extras_len == self.extras_len
            || (self.extras_are_optional && header.extras_len == 0);
        let key = match self.key {
            KeyShape::None => header.key_len == 0,
            KeyShape::Optional => true,
            KeyShape::Required => header.key_len > 0,
        };
        extras && key && (self.has_value || value_len == 0)
    }
}

fn shape(command: Command) -> Shape {
    let (extras_len, key, has_value) = match command {
        Command::Get { .. } | Command::Delete => (0, KeyShape::Required, false),
        Command::GetAndTouch { .. } | Command::Touch => (4, KeyShape::Required, false),
        Command::Set(SetMode::Append | SetMode::Prepend) | Command::SaslMessage => {
            (0, KeyShape::Required, true)
        }
        Command::Set(_) => (8, KeyShape::Required, true),
        Command::Arith(_) => (20, KeyShape::Required, false),
        Command::Flush => (4, KeyShape::None, false),
        Command::Stat => (0, KeyShape::Optional, false),
        Command::Version | Command::Noop | Command::Quit | Command::SaslList => {
            (0, KeyShape::None, false)
        }
    };
    Shape {
        extras_len,
        extras_are_optional: command == Command::Flush,
        key,
        has_value,
    }
}

/// The request of a frame whose lengths are valid.
fn request<'a>(
    command: Command,
    mut extras: Extras<'_>,
    key: &'a [u8],
    value_len: u32,
) -> Request<'a> {
    let get = |exptime, with_key, with_value| {
        Request::Get(Get {
            key,
            exptime,
            with_key,
            with_value,
        })
    };
    match command {
        Command::Get { with_key } => get(None, with_key, true),
        Command::GetAndTouch { with_key } => get(Some(extras.u32()), with_key, true),
        Command::Touch => get(Some(extras.u32()), false, false),
        Command::Set(mode) => Request::Set(Set {
            key,
            mode,
            // These are read in the order of the frame. Commands that extend a value have none.
            flags: extras.u32(),
            exptime: extras.u32(),
            value_len,
        }),
        Command::Delete => Request::Delete { key },
        Command::Arith(mode) => Request::Arith(Arith {
            key,
            mode,
            delta: extras.u64(),
            initial: extras.u64(),
            vivify: Some(extras.u32()).filter(|&exptime| exptime != NO_VIVIFY),
        }),
        Command::Flush => Request::Flush {
            exptime: (!extras.0.is_empty()).then(|| extras.u32()),
        },
        Command::Stat => Request::Stat { name: key },
        Command::Version => Request::Version,
        Command::Quit => Request::Quit,
        // The caller has rejected the commands of SASL.
        Command::Noop | Command::SaslList | Command::SaslMessage => Request::Noop,
    }
}

/// The extras that have not been read. A field that is absent reads as zero.
struct Extras<'a>(&'a [u8]);

impl Extras<'_> {
    fn take<const LEN: usize>(&mut self) -> [u8; LEN] {
        let Some((field, rest)) = self.0.split_first_chunk() else {
            return [0; LEN];
        };
        self.0 = rest;
        *field
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
}

/// The statistics that a `stat` with this name requests. As in memcached, only the beginning of
/// `reset`, `settings` and `detail` counts.
#[must_use]
pub fn stats(name: &[u8]) -> Stats<'_> {
    if let Some(word) = name.strip_prefix(b"detail") {
        return Stats::Detail(match word {
            [b' ', b'd', b'u', b'm', b'p', ..] => Detail::Dump,
            [b' ', b'o', b'n', ..] => Detail::On,
            [b' ', b'o', b'f', b'f', ..] => Detail::Off,
            _ => Detail::Usage,
        });
    }
    match name {
        b"" => Stats::General,
        b"items" => Stats::Items,
        b"slabs" => Stats::Slabs,
        b"sizes" => Stats::Sizes,
        b"conns" => Stats::Connections,
        b"hotkeys" => Stats::HotKeys,
        b"latency" => Stats::Latency,
        b"curtail" => Stats::Curtail,
        name if name.starts_with(b"reset") => Stats::Reset,
        name if name.starts_with(b"settings") => Stats::Settings,
        name => Stats::Other(name),
    }
}

/// Writes a request. The caller must append the value of a storage command. The opcode of `head`
/// must be one of the command.
pub fn write(out: &mut Vec<u8>, head: Head, cas: u64, request: &Request<'_>) {
    let start = out.len();
    // The lengths are known when the extras have been written behind it.
    out.extend_from_slice(&[0; BINARY_HEADER_LEN]);
    let (key, value_len): (&[u8], u32) = match *request {
        Request::Get(get) => {
            out.extend(get.exptime.into_iter().flat_map(u32::to_be_bytes));
            (get.key, 0)
        }
        Request::Set(set) => {
            if !matches!(set.mode, SetMode::Append | SetMode::Prepend) {
                out.extend(set.flags.to_be_bytes());
                out.extend(set.exptime.to_be_bytes());
            }
            (set.key, set.value_len)
        }
        Request::Arith(arith) => {
            out.extend(arith.delta.to_be_bytes());
            out.extend(arith.initial.to_be_bytes());
            out.extend(arith.vivify.unwrap_or(NO_VIVIFY).to_be_bytes());
            (arith.key, 0)
        }
        Request::Flush { exptime } => {
            out.extend(exptime.into_iter().flat_map(u32::to_be_bytes));
            (b"", 0)
        }
        Request::Delete { key } | Request::Stat { name: key } => (key, 0),
        Request::Version | Request::Noop | Request::Quit => (b"", 0),
    };
    let extras_len = out.len() - start - BINARY_HEADER_LEN;
    let body_len = extras_len + key.len() + value_len as usize;
    let header = Header {
        magic: REQUEST_MAGIC,
        head,
        key_len: key.len() as u16,
        extras_len: extras_len as u8,
        body_len: body_len as u32,
        cas,
        ..Header::default()
    };
    out[start..start + BINARY_HEADER_LEN].copy_from_slice(&header.to_bytes());
    out.extend_from_slice(key);
}
