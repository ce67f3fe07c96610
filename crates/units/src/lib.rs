//! Quantities with units: the one grammar in which flags and files state durations, rates, sizes,
//! counts and shares, and the forms in which programs print them.
//!
//! ```text
//! quantity = number [spaces] [unit]
//! number   = digits with `_` anywhere and at most one `.`; no sign, no exponent
//! unit     = duration: ns us µs ms s min h     (none: s)
//!            rate, count: k K M G              (none: 1; rates are per second)
//!            size: B k kB KiB M MB MiB G GB GiB (none: B; k, M and G are powers of 1000)
//!            share: %                          (none: 1)
//! ```
//!
//! Texts that a program passes to another ([`duration_argument`]) parse to the same value. Texts
//! for people are rounded.
//!
//! The flags that memcached defines (`-m 64`, `-I 1m`) keep memcached's own grammar, in which `1m`
//! is 1 MiB; their parsers stand with those flags. The report page joins number and
//! unit by a no-break space ([`Quantity::words`]).
#![forbid(unsafe_code)]

mod parse;
mod quantity;
mod show;

pub use parse::{UnitError, count, duration_ns, rate_rps, share, size_bytes};
pub use quantity::{Quantity, number, plain};
pub use show::{duration_argument, duration_text, show_duration, show_rate, show_share, show_size};
