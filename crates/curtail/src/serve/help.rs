//! The output of `memcached -h`, `-V` and `-i`.
//!
//! Scripts and test suites of client libraries parse it: the first line of `-h` for the version,
//! the rest for names of features (`unix-socket`, `enable-ssl`, `sasl`, `ext_path`). So the first
//! line has memcached's form, and features that are not served are not named.

use std::fmt::Write as _;

use clap::Command;

use super::extended;
use super::flags::VERSION;

/// The column at which descriptions begin.
const COLUMN: usize = 27;

/// Keys of `-o` in one line.
const KEYS_PER_LINE: usize = 4;

const LICENSE: &str = include_str!("../../../../LICENSE-MIT");

/// `-V`.
pub(crate) fn version() -> String {
    format!("memcached {VERSION}\n")
}

/// `-i`.
pub(super) fn license() -> String {
    format!(
        "{}\nCurtail is licensed under MIT (below) or Apache-2.0, at your option.\n\n{LICENSE}",
        version()
    )
}

/// The output of `-h` for a program called `memcached`, from the flags of `serve`.
pub(crate) fn usage(serve: &Command) -> String {
    let mut text = version();
    for argument in serve.get_arguments().filter(|it| !it.is_hide_set()) {
        let value = match argument.get_value_names() {
            Some([name, ..]) if argument.get_action().takes_values() => {
                format!("<{}>", name.to_lowercase())
            }
            _ => String::new(),
        };
        let flag = match (argument.get_short(), argument.get_long()) {
            (Some(letter), Some(long)) if value.is_empty() => format!("-{letter}, --{long}"),
            (Some(letter), Some(long)) => format!("-{letter}, --{long}={value}"),
            (Some(letter), None) => format!("-{letter} {value}"),
            (None, long) if value.is_empty() => format!("--{}", long.unwrap_or_default()),
            (None, long) => format!("--{}={value}", long.unwrap_or_default()),
        };
        let what = argument.get_help().map(ToString::to_string);
        let default = match argument.get_default_values() {
            [value] if argument.get_action().takes_values() => {
                format!(" (default: {})", value.to_string_lossy())
            }
            _ => String::new(),
        };
        let what = what.unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{flag:<COLUMN$} {what}{default}");
    }
    let (same, without_effect) = extended::for_help();
    for (what, keys) in [
        ("as in memcached", same),
        ("accepted without effect", without_effect),
    ] {
        let _ = writeln!(text, "   - {what}:");
        for line in keys.chunks(KEYS_PER_LINE) {
            let _ = writeln!(text, "       {}", line.join(" "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test suite of dalli, among others, depends on it.
    #[test]
    fn the_first_line_names_memcached_and_a_version() {
        let command = <super::super::Flags as clap::Args>::augment_args(Command::new("serve"));
        for text in [version(), license(), usage(&command)] {
            let mut words = text.lines().next().unwrap().split(' ');
            assert_eq!(words.next(), Some("memcached"));
            assert_eq!(words.next(), Some("1.6.45"));
        }
    }

    #[test]
    fn the_help_names_only_features_that_are_served() {
        let command = <super::super::Flags as clap::Args>::augment_args(Command::new("serve"));
        let text = usage(&command).to_lowercase();
        for there in ["unix-socket", "-p, --port=<num>", "max-reqs-per-event"] {
            assert!(text.contains(there), "{there}");
        }
        assert!(
            !text
                .lines()
                .any(|line| line.split(' ').any(|word| word.ends_with('=')))
        );
        for missing in ["enable-ssl", "ext_path", "proxy_config", "drop_privileges"] {
            assert!(!text.contains(missing), "{missing}");
        }
    }
}
