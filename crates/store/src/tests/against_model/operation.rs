//! Decoding of an input to operations.

use protocol::SetMode;

use super::SCARCE_MEMORY_MIB;

/// The rest of an input. After its end, zeros are read.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl Bytes<'_> {
    /// Takes the next byte. `None` at the end.
    pub(super) fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn bool(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    fn below(&mut self, bound: u16) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()]) % bound
    }
}

/// The CAS that an operation compares. The store and the model assign different numbers, so this
/// names the item's present CAS, another number, or zero.
#[derive(Debug, Clone, Copy)]
pub(super) enum Compare {
    None,
    Present,
    Wrong,
    Zero,
}

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Get {
        key: u16,
        touch: Option<i32>,
        claim: bool,
    },
    Set {
        key: u16,
        mode: SetMode,
        value: Vec<u8>,
        flags: u32,
        exptime: i32,
        compare: Compare,
        invalidate: bool,
    },
    /// Stores the same value under many keys.
    Fill {
        from: u16,
        value: Vec<u8>,
    },
    Delete {
        key: u16,
        compare: Compare,
    },
    Arith {
        key: u16,
        up: bool,
        delta: u64,
        vivify: Option<(u64, i32)>,
        compare: Compare,
    },
    Touch {
        key: u16,
        exptime: i32,
    },
    Flush {
        exptime: i32,
    },
    Tick {
        seconds: u32,
    },
    Maintain,
    Limit {
        mib: u64,
    },
}

impl Operation {
    /// Decodes the next operation, on one of `keys` keys. Returns `None` at the end of the input.
    pub(super) fn read(bytes: &mut Bytes<'_>, keys: u16) -> Option<Self> {
        let kind = bytes.next()?;
        Some(match kind % 24 {
            0..5 => Self::Get {
                key: bytes.below(keys),
                touch: bytes.bool().then(|| exptime(bytes)),
                claim: bytes.bool(),
            },
            5..11 => Self::Set {
                key: bytes.below(keys),
                mode: mode(bytes),
                value: value(bytes),
                flags: u32::from(bytes.byte() % 3),
                exptime: exptime(bytes),
                compare: compare(bytes),
                invalidate: bytes.bool(),
            },
            11..13 => Self::Delete {
                key: bytes.below(keys),
                compare: compare(bytes),
            },
            13..16 => Self::Arith {
                key: bytes.below(keys),
                up: bytes.bool(),
                delta: match bytes.byte() {
                    0 => u64::MAX,
                    delta => u64::from(delta) * 8,
                },
                vivify: bytes.bool().then(|| (bytes.byte().into(), exptime(bytes))),
                compare: compare(bytes),
            },
            16 => Self::Touch {
                key: bytes.below(keys),
                exptime: exptime(bytes),
            },
            17 => Self::Flush {
                exptime: i32::from(bytes.byte() % 5) - 1,
            },
            18 | 19 => Self::Tick {
                seconds: u32::from(bytes.byte() % 3) + 1,
            },
            20 => Self::Maintain,
            21 | 22 => Self::Fill {
                from: bytes.below(keys),
                value: value(bytes),
            },
            _ => Self::Limit {
                mib: SCARCE_MEMORY_MIB.start() + u64::from(bytes.byte()) % SCARCE_MEMORY_MIB.end(),
            },
        })
    }
}

fn exptime(bytes: &mut Bytes<'_>) -> i32 {
    match bytes.byte() % 9 {
        0..4 => 0,
        4 => -1,
        seconds => i32::from(seconds) - 4,
    }
}

fn compare(bytes: &mut Bytes<'_>) -> Compare {
    match bytes.byte() % 7 {
        0..3 => Compare::None,
        3 | 4 => Compare::Present,
        5 => Compare::Wrong,
        _ => Compare::Zero,
    }
}

fn mode(bytes: &mut Bytes<'_>) -> SetMode {
    match bytes.byte() % 8 {
        0..4 => SetMode::Set,
        4 => SetMode::Add,
        5 => SetMode::Replace,
        6 => SetMode::Append,
        _ => SetMode::Prepend,
    }
}

fn value(bytes: &mut Bytes<'_>) -> Vec<u8> {
    match bytes.byte() % 6 {
        0 => bytes.below(2_000).to_string().into_bytes(),
        1 => u64::MAX.to_string().into_bytes(),
        2 => Vec::new(),
        3 => b"9 lives".to_vec(),
        // Lengths around the longest that the store accepts.
        4 => vec![b'v'; 1990 + usize::from(bytes.byte() % 20)],
        _ => vec![bytes.byte(); usize::from(bytes.below(2_000))],
    }
}
