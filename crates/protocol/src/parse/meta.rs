//! The meta commands.

use super::ParseError;
use super::classic::{fallback, value_len};
use crate::decimal;
use crate::limits::{KEY_MAX, META_WORDS_MAX, OPAQUE_MAX, WORDS_MAX};
use crate::{
    ArithMode, MetaArith, MetaDelete, MetaFlag, MetaFlags, MetaGet, MetaKey, MetaSet, MetaVivify,
    Rejection, Request, SetMode, base64, words,
};

type Outcome<'a> = Result<Request<'a>, ParseError>;

/// Parses the meta command of `letter`. `rest` is the line after its two letters.
pub(super) fn command<'a>(letter: u8, line: &'a [u8], rest: &'a [u8]) -> Outcome<'a> {
    match letter {
        b'g' => Ok(get(rest)?),
        b's' => set(rest),
        b'd' => Ok(delete(rest)?),
        b'a' => Ok(arith(rest)?),
        b'n' => Ok(Request::MetaNoop),
        b'e' => Ok(debug(rest)?),
        _ => fallback(line),
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
        recache_after_touch: options.recache_after_touch,
        no_bump: options.no_bump,
        known_cas: options.compare,
    }))
}

fn set(mut rest: &[u8]) -> Outcome<'_> {
    let raw = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    let len_word = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    let flags = MetaFlags { rest };
    // Without a length, or if the rest does not consist of flags, the data block is not skipped.
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
    // `N` applies to append and prepend only. Where it applies, it replaces `T`.
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

/// `me`. The flags must have valid letters and are otherwise ignored. The exception is `b`, which
/// counts if it is the first flag and, as in memcached 1.6.45, not the last.
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

/// The number of words of a line with `before` words before its flags. Fails if any of the rest
/// cannot be a flag.
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

/// The parsed flags of a line. As in memcached, every command accepts every flag: a flag that has
/// no effect on the command is checked and ignored.
struct Options {
    base64: bool,
    value: bool,
    quiet: bool,
    no_bump: bool,
    invalidate: bool,
    remove_value: bool,
    opaque_too_long: bool,
    exptime: Option<i32>,
    /// `T` follows `N`.
    exptime_after_vivify: bool,
    vivify: Option<i32>,
    recache: Option<i32>,
    /// `R` follows `T`.
    recache_after_touch: bool,
    client_flags: u32,
    compare: Option<u64>,
    explicit_cas: Option<u64>,
    mode: Option<u8>,
    initial: u64,
    delta: u64,
    /// The error of the last invalid token.
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
            exptime_after_vivify: false,
            vivify: None,
            recache: None,
            recache_after_touch: false,
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
            options.apply(flag, raw)?;
        }
        options.token_error.map_or(Ok(options), Err)
    }

    fn apply(&mut self, flag: MetaFlag<'_>, raw: &[u8]) -> Result<(), Rejection> {
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
                self.exptime = self.parse_token(flag, decimal::signed_32, Rejection::BadToken);
                self.exptime_after_vivify = self.vivify.is_some();
            }
            b'N' => self.vivify = self.parse_token(flag, decimal::signed_32, Rejection::BadToken),
            b'R' => {
                self.recache = self.parse_token(flag, decimal::signed_32, Rejection::BadToken);
                self.recache_after_touch = self.exptime.is_some();
            }
            b'C' => {
                self.compare = self.parse_token(flag, decimal::unsigned_64, Rejection::BadToken);
            }
            b'E' => {
                let cas = self.parse_token(flag, decimal::unsigned_64, Rejection::BadToken);
                // A client that compares with 0 compares nothing, so no item has this CAS.
                self.explicit_cas = cas.filter(|&cas| cas != 0);
            }
            b'J' => {
                let initial =
                    self.parse_token(flag, decimal::unsigned_64, Rejection::BadInitialToken);
                self.initial = initial.unwrap_or(0);
            }
            b'D' => {
                let delta = self.parse_token(flag, decimal::unsigned_64, Rejection::BadDeltaToken);
                self.delta = delta.unwrap_or(1);
            }
            b'F' => {
                // memcached has no error of its own for this token.
                let error = self.token_error.unwrap_or(Rejection::BadFormat);
                self.client_flags = self
                    .parse_token(flag, decimal::unsigned_32, error)
                    .unwrap_or(0);
            }
            // Only the first byte counts. A zero byte means no mode, and an empty token is
            // invalid.
            b'M' => {
                let mode = flag.token.first().copied().unwrap_or(b' ');
                self.mode = (mode != 0).then_some(mode);
            }
            b'c' | b'f' | b'h' | b'k' | b'l' | b's' | b't' | b'L' | b'P' => {}
            _ => return Err(Rejection::InvalidFlag),
        }
        Ok(())
    }

    fn parse_token<T>(
        &mut self,
        flag: MetaFlag<'_>,
        number: fn(&[u8]) -> Option<T>,
        error: Rejection,
    ) -> Option<T> {
        let value = if flag.token.is_empty() {
            None
        } else {
            number(flag.token)
        };
        if value.is_none() {
            self.token_error = Some(error);
        }
        value
    }

    fn vivify(&self) -> Option<MetaVivify> {
        let later = self.exptime.filter(|_| self.exptime_after_vivify);
        self.vivify.map(|exptime| MetaVivify {
            exptime,
            final_exptime: later.unwrap_or(exptime),
        })
    }

    /// Call this last: memcached checks the opaque while it writes the reply.
    fn check_opaque(&self) -> Result<(), Rejection> {
        if self.opaque_too_long {
            Err(Rejection::OpaqueTooLong)
        } else {
            Ok(())
        }
    }
}
