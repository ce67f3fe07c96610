//! Splitting a line into words between spaces, and the two lists of words that requests contain.

use crate::limits::{KEY_MAX, WORDS_MAX};
use crate::{Keys, MetaFlag, MetaFlags, MetaKey, base64, word_end};

/// The next word of `rest`, which is advanced past it.
pub(crate) fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    next_inlined(rest)
}

/// As [`next`], for a loop that takes all words of a line.
#[inline(always)]
fn next_inlined<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let start = rest.iter().position(|&byte| byte != b' ')?;
    let text = &rest[start..];
    let len = word_end::find(text, b' ').unwrap_or(text.len());
    let (word, after) = text.split_at(len);
    *rest = after;
    Some(word)
}

/// The first six words of a line, the last one, and their number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    first: [&'a [u8]; 6],
    /// Number of words, at most [`WORDS_MAX`].
    pub(crate) count: usize,
    last: &'a [u8],
}

impl<'a> Words<'a> {
    pub(crate) fn of(mut line: &'a [u8]) -> Self {
        let mut words = Self {
            first: [b""; 6],
            count: 0,
            last: b"",
        };
        while words.count < WORDS_MAX
            && let Some(word) = next_inlined(&mut line)
        {
            if let Some(slot) = words.first.get_mut(words.count) {
                *slot = word;
            }
            words.last = word;
            words.count += 1;
        }
        words
    }

    /// The word at `index`, which must be below six; empty if the line has fewer words.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.first[index]
    }

    /// Whether the client asked for no reply.
    pub(crate) fn noreply(&self) -> bool {
        self.last == b"noreply"
    }

    /// Whether the line looks like an HTTP request.
    pub(crate) fn is_http(&self) -> bool {
        self.count > 1 && self.last.starts_with(b"HTTP/")
    }
}

impl<'a> Keys<'a> {
    /// The keys in `text`, which must come from [`as_bytes`](Self::as_bytes) of parsed keys. It
    /// lets a caller answer some keys now and the rest later.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        let is_single = false;
        Self {
            rest: text,
            is_single,
        }
    }

    /// The key, if it is the only one.
    #[must_use]
    #[inline]
    pub fn single(mut self) -> Option<&'a [u8]> {
        if self.is_single {
            return Some(self.rest);
        }
        let first = self.next()?;
        self.next().is_none().then_some(first)
    }

    /// The keys that have not been iterated over, as text of the line.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.is_single {
            self.is_single = false;
            return Some(std::mem::take(&mut self.rest));
        }
        next(&mut self.rest)
    }
}

impl PartialEq for Keys<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for Keys<'_> {}

impl<'a> MetaFlags<'a> {
    /// The flags in `text`, which must come from [`as_bytes`](Self::as_bytes) of parsed flags. It
    /// lets a caller keep them while the data block arrives.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    /// The flags as text of the line.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for MetaFlags<'a> {
    type Item = MetaFlag<'a>;

    fn next(&mut self) -> Option<MetaFlag<'a>> {
        let (&letter, token) = next(&mut self.rest)?.split_first()?;
        Some(MetaFlag { letter, token })
    }
}

impl PartialEq for MetaFlags<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for MetaFlags<'_> {}

impl<'a> MetaKey<'a> {
    /// The decoded key. `into` is used only if the key is base64.
    #[must_use]
    pub fn decode<'b>(&self, into: &'b mut [u8; KEY_MAX]) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.base64 {
            base64::decode(self.raw, into).unwrap_or(self.raw)
        } else {
            self.raw
        }
    }
}
