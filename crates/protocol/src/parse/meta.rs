//! The meta commands.

use super::ParseError;
use super::classic::{others, value_len};
use crate::decimal;
use crate::limits::{KEY_MAX, META_WORDS_MAX, OPAQUE_MAX, WORDS_MAX};
use crate::{
    ArithMode, MetaArith, MetaDelete, MetaFlag, MetaFlags, MetaGet, MetaKey, MetaSet, MetaVivify,
    Rejection, Request, SetMode, base64, words,
};

type Outcome<'a> = Result<Request<'a>, ParseError>;

/// The meta command of `letter`; `rest` is the line behind its two letters.
pub(super) fn command<'a>(letter: u8, line: &'a [u8], rest: &'a [u8]) -> Outcome<'a> {
    match letter {
        b'g' => Ok(get(rest)?),
        b's' => set(rest),
        b'd' => Ok(delete(rest)?),
        b'a' => Ok(arith(rest)?),
        b'n' => Ok(Request::MetaNoop),
        b'e' => Ok(debug(rest)?),
        _ => others(line),
    }
}

fn get(mut rest: &[u8]) -> Result<Request<'_>, Rejection> {
    let raw = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    let flags = MetaFlags { rest };
    let options = Options::of(raw, flags, 2)?;
    options.check_opaque()?;
    Ok(Request::MetaGet(MetaGet {
        key: MetaKey {
            raw,
            base64: options.base64,
        },
        flags,
        with_value: options.value,
        quiet: options.quiet,
        touch: options.exptime,
        vivify: options.vivify(),
        explicit_cas: options.explicit_cas,
        recache: options.recache,
        recache_after_touch: options.recache_is_later,
        no_bump: options.no_bump,
        known_cas: options.compare,
    }))
}

fn set(mut rest: &[u8]) -> Outcome<'_> {
    let raw = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    let len_word = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    let flags = MetaFlags { rest };
    // Without a length, or with a line that is not made of flags, the stream cannot be kept.
    count_flags(flags, 3)?;
    let value_len = value_len(len_word).ok_or(Rejection::BadFormat)?;
    checked_set(raw, value_len, flags).map_err(|rejection| ParseError {
        rejection: Some(rejection),
        swallow: u64::from(value_len) + 2,
    })
}

fn checked_set<'a>(
    raw: &'a [u8],
    value_len: u32,
    flags: MetaFlags<'a>,
) -> Result<Request<'a>, Rejection> {
    let options = Options::of(raw, flags, 3)?;
    let mode = match options.mode {
        None | Some(b'S') => SetMode::Set,
        Some(b'E') => SetMode::Add,
        Some(b'A') => SetMode::Append,
        Some(b'P') => SetMode::Prepend,
        Some(b'R') => SetMode::Replace,
        Some(_) => return Err(Rejection::BadSetMode),
    };
    // To any other mode `N` means nothing, and where it does `T` means nothing.
    let concatenates = matches!(mode, SetMode::Append | SetMode::Prepend);
    let vivify = options.vivify.filter(|_| concatenates);
    options.check_opaque()?;
    Ok(Request::MetaSet(MetaSet {
        key: MetaKey {
            raw,
            base64: options.base64,
        },
        flags,
        value_len,
        mode,
        client_flags: options.client_flags,
        exptime: vivify.or(options.exptime).unwrap_or(0),
        vivify: vivify.is_some(),
        compare: options.compare,
        explicit_cas: options.explicit_cas,
        invalidate: options.invalidate,
        quiet: options.quiet,
    }))
}

fn delete(mut rest: &[u8]) -> Result<Request<'_>, Rejection> {
    let raw = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    let flags = MetaFlags { rest };
    let options = Options::of(raw, flags, 2)?;
    options.check_opaque()?;
    Ok(Request::MetaDelete(MetaDelete {
        key: MetaKey {
            raw,
            base64: options.base64,
        },
        flags,
        compare: options.compare,
        invalidate: options.invalidate,
        remove_value: options.remove_value,
        touch: options.exptime,
        client_flags: options.client_flags,
        explicit_cas: options.explicit_cas,
        quiet: options.quiet,
    }))
}

/// Flags must be flags and are not looked at further, but for one: `b`, if it stands first and, as
/// memcached 1.6.45 has it, not last.
fn debug(mut rest: &[u8]) -> Result<Request<'_>, Rejection> {
    let raw = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    count_flags(MetaFlags { rest }, 2)?;
    if raw.len() > KEY_MAX {
        return Err(Rejection::BadFormat);
    }
    let is_b = words::next(&mut rest) == Some(b"b");
    let base64 = is_b && words::next(&mut rest).is_some();
    if base64 && base64::decode(raw, &mut [0; KEY_MAX]).is_none() {
        return Err(Rejection::BadFormat);
    }
    Ok(Request::MetaDebug(MetaKey { raw, base64 }))
}

fn arith(mut rest: &[u8]) -> Result<Request<'_>, Rejection> {
    let raw = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    let flags = MetaFlags { rest };
    count_flags(flags, 2)?;
    let options = Options::of(raw, flags, 2).map_err(|_| Rejection::BadArithFlag)?;
    let mode = match options.mode {
        None | Some(b'I' | b'+') => ArithMode::Increment,
        Some(b'D' | b'-') => ArithMode::Decrement,
        Some(_) => return Err(Rejection::BadArithMode),
    };
    options.check_opaque()?;
    Ok(Request::MetaArith(MetaArith {
        key: MetaKey {
            raw,
            base64: options.base64,
        },
        flags,
        delta: options.delta,
        mode,
        initial: options.initial,
        vivify: options.vivify(),
        touch: options.exptime,
        compare: options.compare,
        explicit_cas: options.explicit_cas,
        with_value: options.value,
        quiet: options.quiet,
    }))
}

/// How many words a line has, that has `before` before its flags; an error if it has something
/// that cannot be a flag.
fn count_flags(flags: MetaFlags<'_>, before: usize) -> Result<usize, Rejection> {
    let mut count = before;
    for flag in flags.take(WORDS_MAX - before) {
        if !matches!(flag.letter, b'A'..=b'z' | b'0'..=b'9') {
            return Err(Rejection::BadFormat);
        }
        count += 1;
    }
    Ok(count)
}

/// What the flags of a line say. memcached knows every flag on every command, and so does this:
/// those that mean nothing to a command are checked and passed over.
struct Options {
    base64: bool,
    value: bool,
    quiet: bool,
    no_bump: bool,
    invalidate: bool,
    remove_value: bool,
    opaque_too_long: bool,
    exptime: Option<i32>,
    /// `T` stands behind `N`.
    exptime_is_later: bool,
    vivify: Option<i32>,
    recache: Option<i32>,
    /// `R` stands behind `T`.
    recache_is_later: bool,
    client_flags: u32,
    compare: Option<u64>,
    explicit_cas: Option<u64>,
    mode: Option<u8>,
    initial: u64,
    delta: u64,
    /// The last token_error about a token.
    token_error: Option<Rejection>,
}

impl Options {
    fn of(raw: &[u8], flags: MetaFlags<'_>, before: usize) -> Result<Self, Rejection> {
        let count = count_flags(flags, before)?;
        if raw.len() > KEY_MAX {
            return Err(Rejection::BadFormat);
        }
        if count > META_WORDS_MAX {
            return Err(Rejection::TooManyFlags);
        }
        let mut options = Self {
            base64: false,
            value: false,
            quiet: false,
            no_bump: false,
            invalidate: false,
            remove_value: false,
            opaque_too_long: false,
            exptime: None,
            exptime_is_later: false,
            vivify: None,
            recache: None,
            recache_is_later: false,
            client_flags: 0,
            compare: None,
            explicit_cas: None,
            mode: None,
            initial: 0,
            delta: 1,
            token_error: None,
        };
        let mut seen = 0u128;
        for flag in flags {
            let bit = 1 << (flag.letter & 127);
            if seen & bit != 0 {
                return Err(Rejection::DuplicateFlag);
            }
            seen |= bit;
            options.take(flag, raw)?;
        }
        options.token_error.map_or(Ok(options), Err)
    }

    fn take(&mut self, flag: MetaFlag<'_>, raw: &[u8]) -> Result<(), Rejection> {
        match flag.letter {
            b'b' => {
                self.base64 = true;
                if base64::decode(raw, &mut [0; KEY_MAX]).is_none() {
                    self.token_error = Some(Rejection::BadKeyEncoding);
                }
            }
            b'v' => self.value = true,
            b'q' => self.quiet = true,
            b'u' => self.no_bump = true,
            b'I' => self.invalidate = true,
            b'x' => self.remove_value = true,
            b'O' => self.opaque_too_long = 1 + flag.token.len() > OPAQUE_MAX,
            b'T' => {
                self.exptime = self.token(flag, decimal::signed_32, Rejection::BadToken);
                self.exptime_is_later = self.vivify.is_some();
            }
            b'N' => self.vivify = self.token(flag, decimal::signed_32, Rejection::BadToken),
            b'R' => {
                self.recache = self.token(flag, decimal::signed_32, Rejection::BadToken);
                self.recache_is_later = self.exptime.is_some();
            }
            b'C' => self.compare = self.token(flag, decimal::unsigned_64, Rejection::BadToken),
            b'E' => self.explicit_cas = self.token(flag, decimal::unsigned_64, Rejection::BadToken),
            b'J' => {
                let initial = self.token(flag, decimal::unsigned_64, Rejection::BadInitialToken);
                self.initial = initial.unwrap_or(0);
            }
            b'D' => {
                let delta = self.token(flag, decimal::unsigned_64, Rejection::BadDeltaToken);
                self.delta = delta.unwrap_or(1);
            }
            b'F' => {
                // memcached says nothing of its own about this one.
                let token_error = self.token_error.unwrap_or(Rejection::BadFormat);
                self.client_flags = self
                    .token(flag, decimal::unsigned_32, token_error)
                    .unwrap_or(0);
            }
            // The first byte alone; a zero byte is no mode, none at all is a wrong one.
            b'M' => {
                let mode = flag.token.first().copied().unwrap_or(b' ');
                self.mode = (mode != 0).then_some(mode);
            }
            b'c' | b'f' | b'h' | b'k' | b'l' | b's' | b't' | b'L' | b'P' => {}
            _ => return Err(Rejection::InvalidFlag),
        }
        Ok(())
    }

    fn token<T>(
        &mut self,
        flag: MetaFlag<'_>,
        number: fn(&[u8]) -> Option<T>,
        token_error: Rejection,
    ) -> Option<T> {
        let value = if flag.token.is_empty() {
            None
        } else {
            number(flag.token)
        };
        if value.is_none() {
            self.token_error = Some(token_error);
        }
        value
    }

    fn vivify(&self) -> Option<MetaVivify> {
        let later = self.exptime.filter(|_| self.exptime_is_later);
        self.vivify.map(|exptime| MetaVivify {
            exptime,
            final_exptime: later.unwrap_or(exptime),
        })
    }

    /// Comes last: memcached looks at opaques as it answers.
    fn check_opaque(&self) -> Result<(), Rejection> {
        if self.opaque_too_long {
            Err(Rejection::OpaqueTooLong)
        } else {
            Ok(())
        }
    }
}
