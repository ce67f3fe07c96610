//! Standard output and standard error. `println!` of the standard library panics if the reader has
//! closed the pipe or the disk is full; the macros here shadow it in this program.

#![allow(unused_macros, reason = "a build with few commands prints little")]

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU8, Ordering};

macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => {
        $crate::output::write(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// What cannot be told is lost: there is nobody to be told about it.
macro_rules! eprint {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!($($text)*));
    }};
}

macro_rules! eprintln {
    () => { eprint!("\n") };
    ($($text:tt)*) => { eprint!("{}\n", format_args!($($text)*)) };
}

/// The reader wants no more (`| head`).
const CLOSED: u8 = 1;
const FAILED: u8 = 2;

/// 0 while standard output takes what is written. Otherwise what follows is lost.
static STATE: AtomicU8 = AtomicU8::new(0);

/// Writes to standard output, unless an earlier call has failed.
pub(crate) fn write(text: Arguments<'_>) {
    if STATE.load(Ordering::Relaxed) != 0 {
        return;
    }
    let Err(error) = io::stdout().write_fmt(text) else {
        return;
    };
    if error.kind() == ErrorKind::BrokenPipe {
        return STATE.store(CLOSED, Ordering::Relaxed);
    }
    STATE.store(FAILED, Ordering::Relaxed);
    eprintln!("curtail: standard output: {error}");
}

/// Whether some output was lost though there was a reader.
pub(crate) fn has_failed() -> bool {
    STATE.load(Ordering::Relaxed) == FAILED
}
