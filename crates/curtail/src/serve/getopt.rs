//! Command lines with the syntax of getopt.
//!
//! memcached parses with `getopt_long` of glibc: short flags cluster (`-vvdm64`), a value follows
//! directly or as the next word even where that begins with a dash (`-p -1`), long flags may be
//! abbreviated and take `=value`, operands may stand anywhere, `--` ends the flags, and memcached
//! skips blanks before a value. Start lines in the field use all of these, so [`canonical`]
//! rewrites a command line into the one unambiguous form that the argument parser gets:
//! `--long=value` or `-X=value`, one word per flag.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Command};

/// A command line, rewritten.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Canonical {
    /// Flags, one word each. An unknown flag stays as typed.
    pub(crate) flags: Vec<OsString>,
    /// Operands: words that are not flags, in order.
    pub(crate) operands: Vec<OsString>,
}

/// Rewrites `words`, which do not include the program's name, for the flags of `command`.
pub(crate) fn canonical(command: &Command, words: impl IntoIterator<Item = OsString>) -> Canonical {
    let mut words = words.into_iter();
    let mut found = Canonical {
        flags: Vec::new(),
        operands: Vec::new(),
    };
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            found.operands.extend(words.by_ref());
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            let flag = long_flag(command, long, &mut words);
            found.flags.push(flag.unwrap_or(word));
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            short_flags(command, &bytes[1..], &mut words, &mut found.flags);
        } else {
            found.operands.push(word);
        }
    }
    found
}

/// Rewrites a long flag. `None` if no flag or more than one flag begins with the name.
fn long_flag(
    command: &Command,
    long: &[u8],
    words: &mut impl Iterator<Item = OsString>,
) -> Option<OsString> {
    let (name, value) = match long.iter().position(|&byte| byte == b'=') {
        Some(at) => (&long[..at], Some(&long[at + 1..])),
        None => (long, None),
    };
    let argument = find_long(command, std::str::from_utf8(name).ok()?)?;
    let name = argument.get_long()?;
    if !takes_value(argument) {
        // memcached's `--verbose` takes an optional value and ignores it.
        let has_no_value = value.is_none() || argument.get_short() == Some('v');
        return has_no_value.then(|| format!("--{name}").into());
    }
    match value.map(<[u8]>::to_vec).or_else(|| next(words)) {
        Some(value) => Some(joined(&format!("--{name}"), &value)),
        None => Some(format!("--{name}").into()),
    }
}

/// Finds a flag by its exact name or by an unambiguous prefix. memcached's flags, which have a
/// letter, come first, so that flags of Curtail alone make no abbreviation ambiguous.
fn find_long<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let exact = |argument: &&Arg| argument.get_long() == Some(name);
    if let Some(argument) = command.get_arguments().find(exact) {
        return Some(argument);
    }
    if name.is_empty() {
        return None;
    }
    let matches = |argument: &&Arg| {
        let long = argument.get_long();
        long.is_some_and(|long| long.starts_with(name))
    };
    let only = |mut matching: Vec<&'a Arg>| matching.pop().filter(|_| matching.is_empty());
    let (memcached, own) = command
        .get_arguments()
        .filter(matches)
        .partition::<Vec<_>, _>(|argument| argument.get_short().is_some());
    if memcached.is_empty() {
        only(own)
    } else {
        only(memcached)
    }
}

/// Rewrites a cluster such as `vvm64`: flags without a value, then at most one with a value.
fn short_flags(
    command: &Command,
    cluster: &[u8],
    words: &mut impl Iterator<Item = OsString>,
    flags: &mut Vec<OsString>,
) {
    for (at, &letter) in cluster.iter().enumerate() {
        let letter = char::from(letter);
        let argument = command
            .get_arguments()
            .find(|argument| argument.get_short() == Some(letter));
        let Some(argument) = argument else {
            // Keep the rest of the cluster: the parser reports the first letter as unknown.
            let mut rest = b"-".to_vec();
            rest.extend_from_slice(&cluster[at..]);
            flags.push(OsString::from_vec(rest));
            return;
        };
        let name = match argument.get_long() {
            Some(long) => format!("--{long}"),
            None => format!("-{letter}"),
        };
        if !takes_value(argument) {
            flags.push(name.into());
            continue;
        }
        let attached = Some(&cluster[at + 1..]).filter(|rest| !rest.is_empty());
        flags.push(match attached.map(<[u8]>::to_vec).or_else(|| next(words)) {
            Some(value) => joined(&name, &value),
            None => name.into(),
        });
        return;
    }
}

fn next(words: &mut impl Iterator<Item = OsString>) -> Option<Vec<u8>> {
    words.next().map(OsStringExt::into_vec)
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

fn joined(name: &str, value: &[u8]) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(OsStr::from_bytes(value.trim_ascii_start()));
    word
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn command() -> Command {
        let flag = |letter, long| Arg::new(long).short(letter).long(long);
        let switch = |letter, long| flag(letter, long).action(ArgAction::Count);
        Command::new("test")
            .arg(switch('v', "verbose"))
            .arg(switch('d', "daemon"))
            .arg(flag('m', "memory-limit"))
            .arg(flag('e', "memory-file"))
            .arg(flag('p', "port"))
            .arg(flag('l', "listen"))
            .arg(flag('b', "listen-backlog"))
            .arg(Arg::new("delimiter").short('D'))
            .arg(Arg::new("port-file").long("port-file"))
    }

    fn flags(line: &str) -> Vec<String> {
        let words = line.split(' ').map(OsString::from);
        let found = canonical(&command(), words);
        assert_eq!(found.operands, [""; 0]);
        let text = found.flags.into_iter().map(OsString::into_string);
        text.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn short_flags_cluster_and_the_last_may_have_a_value() {
        assert_eq!(
            flags("-vv -dm64 -m 128 -vp11211"),
            [
                "--verbose",
                "--verbose",
                "--daemon",
                "--memory-limit=64",
                "--memory-limit=128",
                "--verbose",
                "--port=11211"
            ]
        );
    }

    #[test]
    fn a_value_may_begin_with_a_dash() {
        assert_eq!(flags("-p -1 -v"), ["--port=-1", "--verbose"]);
        assert_eq!(flags("--port -1"), ["--port=-1"]);
        assert_eq!(flags("-D --"), ["-D=--"]);
    }

    #[test]
    fn long_flags_may_be_abbreviated_if_unambiguous() {
        assert_eq!(
            flags("--dae --memory-l=64 --verb=3"),
            ["--daemon", "--memory-limit=64", "--verbose"]
        );
        assert_eq!(
            flags("--listen ::1"),
            ["--listen=::1"],
            "an exact name wins over --listen-backlog"
        );
        assert_eq!(flags("--mem=64"), ["--mem=64"], "ambiguous");
        assert_eq!(
            flags("--por 1 --port-f 2"),
            ["--port=1", "--port-file=2"],
            "memcached's flags come first"
        );
        assert_eq!(flags("--unknown"), ["--unknown"]);
        assert_eq!(flags("--daemon=yes"), ["--daemon=yes"], "takes no value");
    }

    #[test]
    fn blanks_before_a_value_are_skipped() {
        let words = ["-l", "  ::1", "-m 64", "--port= 1"].map(OsString::from);
        assert_eq!(
            canonical(&command(), words).flags,
            ["--listen=::1", "--memory-limit=64", "--port=1"]
        );
    }

    #[test]
    fn operands_may_stand_anywhere() {
        let words = ["one", "-v", "two", "-", "--", "-m"].map(OsString::from);
        let found = canonical(&command(), words);
        assert_eq!(found.flags, ["--verbose"]);
        assert_eq!(found.operands, ["one", "two", "-", "-m"]);
    }

    #[test]
    fn the_parser_reports_missing_values_and_unknown_flags() {
        assert_eq!(flags("-vm"), ["--verbose", "--memory-limit"]);
        assert_eq!(flags("-vxd"), ["--verbose", "-xd"]);
    }
}
