//! `curtail distribution`: prints lengths of keys and values, as the `distribution.py` of the
//! multithreaded-cache study does, for `curtail load --script - --lengths`.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use ::load::limits::SCRIPT_LENGTHS_MAX;
use anyhow::Context;
use clap::Args;
use workload::{KeyShape, value_lengths};

/// The flags of the printer of lengths.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of keys, and of values
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(..SCRIPT_LENGTHS_MAX as i64))]
    count: u32,

    /// Seed of the lengths
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Draw key lengths as the study's program does, which has the shape of the distribution with
    /// the opposite sign: no key has more than 134 bytes (default)
    #[arg(long)]
    published: bool,

    /// Draw key lengths as the paper has them from which the study takes the distribution
    #[arg(long, conflicts_with = "published")]
    as_meant: bool,
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let shape = match flags.as_meant {
        true => KeyShape::AsMeant,
        false => KeyShape::Published,
    };
    let out = BufWriter::new(io::stdout().lock());
    match print(out, flags.count as usize, flags.seed, shape) {
        // A reader that has enough is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        outcome => outcome
            .context("standard output")
            .map(|()| ExitCode::SUCCESS),
    }
}

/// Prints a line of `count` lengths of keys, a line of as many lengths of values, and an empty
/// line.
fn print(mut out: impl Write, count: usize, seed: u64, shape: KeyShape) -> io::Result<()> {
    print_line(&mut out, shape.key_lengths(seed).take(count))?;
    print_line(&mut out, value_lengths(seed).take(count))?;
    writeln!(out)?;
    out.flush()
}

fn print_line(out: &mut impl Write, lengths: impl Iterator<Item = i64>) -> io::Result<()> {
    for (number, length) in lengths.enumerate() {
        let space = if number == 0 { "" } else { " " };
        write!(out, "{space}{length}")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(count: usize, seed: u64, shape: KeyShape) -> String {
        let mut out = Vec::new();
        print(&mut out, count, seed, shape).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn output_has_the_form_of_the_studys_program() {
        let text = printed(4, 1, KeyShape::Published);
        assert_eq!(text, "59 38 50 43\n290 837 1246 544\n\n");
        assert_eq!(printed(0, 1, KeyShape::Published), "\n\n\n");
        let other_seed = printed(4, 2, KeyShape::Published);
        assert_ne!(other_seed, text);
        let as_meant = printed(4, 1, KeyShape::AsMeant);
        // The same random numbers, and only the keys have another distribution.
        assert_ne!(as_meant.lines().next(), text.lines().next());
        assert_eq!(as_meant.lines().nth(1), text.lines().nth(1));
    }
}
