//! Decoding of an input to operations that every protocol has.

use protocol::SetMode;

/// A key that a line can only have in base64.
pub(super) const OPAQUE_KEY: &[u8] = b"\0 d\r\n\x80";
/// The same in base64.
pub(super) const OPAQUE_KEY_BASE64: &[u8] = b"ACBkDQqA";
/// The keys of all operations.
pub(super) const KEYS: [&[u8]; 6] = [b"a", b"b", b"c", b"noreply", &[b'k'; 250], OPAQUE_KEY];

/// Maximum number of values near the longest of an input. More would evict items.
const LONG_VALUES_MAX: u8 = 6;
/// memcached's default `-I`.
const ITEM_SIZE_MAX: usize = 1 << 20;

/// The rest of an input. After its end, zeros are read.
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    long_values: u8,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self {
            rest: input,
            long_values: 0,
        }
    }

    /// Takes the next byte. `None` at the end.
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn bool(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    fn key(&mut self) -> &'static [u8] {
        KEYS[usize::from(self.byte()) % KEYS.len()]
    }
}

#[derive(Debug, Clone)]
pub(super) enum Operation {
    /// Reads an item. `learns`: remembers its CAS.
    Get {
        key: &'static [u8],
        learns: bool,
        quiet: bool,
    },
    /// Reads an item and gives it a time to live.
    GetAndTouch {
        key: &'static [u8],
        exptime: u32,
        quiet: bool,
    },
    /// Gives an item a time to live.
    Touch {
        key: &'static [u8],
        exptime: u32,
    },
    /// `compares`: only if the item has the CAS that was remembered last, for `SetMode::Set`.
    Store {
        key: &'static [u8],
        mode: SetMode,
        flags: u32,
        exptime: u32,
        value: Vec<u8>,
        compares: bool,
        quiet: bool,
    },
    Delete {
        key: &'static [u8],
        compares: bool,
        quiet: bool,
    },
    /// `vivify`: creates a missing counter with this value and time to live.
    Arith {
        key: &'static [u8],
        increments: bool,
        delta: u64,
        vivify: Option<(u64, u32)>,
        compares: bool,
        quiet: bool,
    },
    Flush {
        exptime: u32,
        quiet: bool,
    },
    /// Time passes.
    Tick {
        seconds: u64,
    },
}

impl Operation {
    /// Decodes the next operation. Returns `None` at the end of the input.
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Option<Self> {
        let kind = bytes.next()?;
        let quiet = kind >= 0xc0;
        Some(match kind % 24 {
            0..4 => Self::Get {
                key: bytes.key(),
                learns: bytes.bool(),
                quiet,
            },
            4 => Self::GetAndTouch {
                key: bytes.key(),
                exptime: exptime(bytes),
                quiet,
            },
            5 => Self::Touch {
                key: bytes.key(),
                exptime: exptime(bytes),
            },
            6..14 => store(bytes, quiet),
            14..16 => Self::Delete {
                key: bytes.key(),
                compares: bytes.bool(),
                quiet,
            },
            16..21 => Self::Arith {
                key: bytes.key(),
                increments: bytes.bool(),
                delta: match bytes.byte() {
                    0 => u64::MAX,
                    delta => u64::from(delta) * 8,
                },
                vivify: bytes.bool().then(|| (bytes.byte().into(), exptime(bytes))),
                compares: bytes.bool(),
                quiet,
            },
            21 => Self::Flush {
                exptime: u32::from(bytes.byte() % 4),
                quiet,
            },
            _ => Self::Tick {
                seconds: u64::from(bytes.byte() % 4),
            },
        })
    }

    /// Whether the request asks for no reply in the common case.
    pub(super) fn is_quiet(&self) -> bool {
        match *self {
            Self::Get { quiet, .. }
            | Self::GetAndTouch { quiet, .. }
            | Self::Store { quiet, .. }
            | Self::Delete { quiet, .. }
            | Self::Arith { quiet, .. }
            | Self::Flush { quiet, .. } => quiet,
            Self::Touch { .. } | Self::Tick { .. } => false,
        }
    }

    /// The same operation with a reply in every case.
    pub(super) fn loud(&self) -> Self {
        let mut loud = self.clone();
        match &mut loud {
            Self::Get { quiet, .. }
            | Self::GetAndTouch { quiet, .. }
            | Self::Store { quiet, .. }
            | Self::Delete { quiet, .. }
            | Self::Arith { quiet, .. }
            | Self::Flush { quiet, .. } => *quiet = false,
            Self::Touch { .. } | Self::Tick { .. } => {}
        }
        loud
    }

    /// The key whose remembered CAS is compared.
    pub(super) fn compared(&self) -> Option<&'static [u8]> {
        match *self {
            Self::Store { key, compares, .. }
            | Self::Delete { key, compares, .. }
            | Self::Arith { key, compares, .. } => compares.then_some(key),
            _ => None,
        }
    }
}

fn store(bytes: &mut Bytes<'_>, quiet: bool) -> Operation {
    let (key, shape) = (bytes.key(), bytes.byte());
    let (mode, compares) = match shape % 8 {
        0 | 1 => (SetMode::Set, false),
        2 => (SetMode::Set, true),
        3 | 4 => (SetMode::Add, false),
        5 => (SetMode::Replace, false),
        6 => (SetMode::Append, false),
        _ => (SetMode::Prepend, false),
    };
    let extends = matches!(mode, SetMode::Append | SetMode::Prepend);
    Operation::Store {
        key,
        mode,
        flags: if extends {
            0
        } else {
            u32::from(shape >> 3) % 3 * 0x4000_0001
        },
        exptime: if extends { 0 } else { exptime(bytes) },
        value: value(bytes, key),
        compares,
        quiet,
    }
}

/// Never, in some seconds, in thirty days, at a Unix time before the start, or in the year 2033.
fn exptime(bytes: &mut Bytes<'_>) -> u32 {
    match bytes.byte() % 12 {
        0..5 => 0,
        seconds @ 5..9 => u32::from(seconds) - 4,
        9 => 60 * 60 * 24 * 30,
        10 => 60 * 60 * 24 * 30 + 1,
        _ => 2_000_000_000,
    }
}

fn value(bytes: &mut Bytes<'_>, key: &[u8]) -> Vec<u8> {
    match bytes.byte() % 8 {
        0 | 1 => bytes.byte().to_string().into_bytes(),
        2 => u64::MAX.to_string().into_bytes(),
        3 => Vec::new(),
        4 => b"END\r\nHD\r\nget a\r\n".to_vec(),
        5 => b"19 ".to_vec(),
        6 if bytes.long_values < LONG_VALUES_MAX => {
            bytes.long_values += 1;
            // Around the longest that is stored.
            let overhead = key.len() + usize::from(bytes.byte() % 80);
            vec![b'v'; ITEM_SIZE_MAX - overhead]
        }
        _ => vec![bytes.byte(); usize::from(bytes.byte()) * 20],
    }
}
