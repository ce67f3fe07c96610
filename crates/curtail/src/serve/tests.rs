//! Whole start lines, and the table of flags in the guide.

use std::collections::BTreeMap;

use clap::FromArgMatches;

use super::*;

const GUIDE: &str = include_str!("../../../../docs/guide/migrate.md");

fn parsed(line: &str) -> Result<Flags, clap::Error> {
    let command = <Flags as clap::Args>::augment_args(clap::Command::new("serve"));
    let words = line.split_whitespace().map(Into::into);
    let canonical = canonical(&command, words).flags;
    let matches = command.try_get_matches_from(["serve".into()].into_iter().chain(canonical))?;
    Flags::from_arg_matches(&matches)
}

fn plan(line: &str) -> anyhow::Result<(Config, Vec<String>)> {
    parsed(line)?.config()
}

fn config(line: &str) -> Config {
    plan(line).unwrap().0
}

fn refused(line: &str) -> String {
    format!("{:#}", plan(line).unwrap_err())
}

#[test]
fn a_stock_start_line_is_accepted() {
    let line = "-d -m 512 -p 11211 -U 11211 -u nobody -P /run/x.pid -c 1024 -o modern";
    let flags = parsed(line).unwrap();
    assert!(flags.daemon && flags.pid_file.is_some());
    let (config, notes) = flags.config().unwrap();
    assert_eq!(config.memory_bytes, 512 << 20);
    assert_eq!(config.listen.len(), 2);
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(config.datagrams.unwrap().addresses.len(), 2);
}

#[test]
fn datagrams_have_the_addresses_of_tcp_and_a_port_of_their_own() {
    let datagrams = |line: &str| config(line).datagrams;
    assert_eq!(
        (
            datagrams(""),
            datagrams("-U 0"),
            datagrams("-U 7 -s /tmp/s")
        ),
        (None, None, None)
    );
    let line = "-p 8 -U 7 -l 127.0.0.1 -l [::1]:9";
    let addresses: Vec<String> = datagrams(line)
        .unwrap()
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(addresses, ["127.0.0.1:7", "[::1]:9"]);
    assert_eq!(
        datagrams("-U -1").unwrap().addresses[0].port(),
        0,
        "the kernel chooses"
    );
    let factor = |line: &str| datagrams(line).unwrap().limit.stranger_factor;
    assert_eq!(factor("-U 7"), Some(3));
    assert_eq!(factor("-U 7 --udp-reply-limit 0"), None);
}

#[test]
fn a_stop_takes_the_time_of_the_limits_unless_a_flag_gives_another() {
    assert_eq!(config("").drain_ns, server::DRAIN_NS);
    assert_eq!(config("--drain 300ms").drain_ns, 300_000_000);
    assert_eq!(config("--drain 2").drain_ns, 2_000_000_000);
    assert!(parsed("--drain soon").is_err());
}

#[test]
fn waits_have_a_unit_and_last_at_most_a_second() {
    let wait = |text: &str| parsed(&format!("--min-wait {text}")).map(|flags| flags.min_wait);
    for (text, ns) in [
        ("0", 0),
        ("20us", 20_000),
        ("1.5ms", 1_500_000),
        ("800ns", 800),
        ("1s", 1_000_000_000),
    ] {
        assert_eq!(wait(text).unwrap(), ns, "{text}");
    }
    for odd in ["1", "20", "2s", "1min", "20 parsecs", "us"] {
        assert!(wait(odd).is_err(), "{odd}");
    }
}

#[test]
fn documents_need_an_address_and_a_folder() {
    let documents = config("--http 127.0.0.1:8080 --root site --file-strategy flash").documents;
    let documents = documents.unwrap();
    assert_eq!(
        (documents.address.port(), documents.strategy),
        (8080, StrategyKind::Flash)
    );
    let default = config("--http [::1]:80 --root /srv").documents.unwrap();
    assert_eq!(
        (default.strategy, default.idle_s),
        (StrategyKind::Nowait, Some(60))
    );
    let cached = config("--http [::1]:80 --root /srv --http-cache").documents;
    assert!(cached.unwrap().serves_cache && !default.serves_cache);
    assert!(parsed("--http-cache").is_err());
    let logged = config("--http [::1]:80 --root /srv --http-log access.log").documents;
    assert_eq!(logged.unwrap().log, Some("access.log".into()));
    let idle_s = |flag: &str| {
        let line = format!("--http [::1]:80 --root /srv --http-idle {flag}");
        parsed(&line).map(|it| it.config().unwrap().0.documents.unwrap().idle_s)
    };
    assert_eq!(idle_s("0").unwrap(), None);
    assert_eq!(idle_s("2min").unwrap(), Some(120));
    assert!(idle_s("500ms").is_err() && idle_s("-1s").is_err());
    assert_eq!(config("-o idle_timeout=5").idle_s, Some(5));
    assert_eq!(config("-o idle_timeout=5,idle_timeout=0").idle_s, None);
    assert_eq!(config("").documents, None);
    let uring = config("--http [::1]:80 --root /srv --file-misses uring").documents;
    assert_eq!(uring.unwrap().misses, Misses::Uring);
    let flash = "--http [::1]:80 --root /srv --file-misses uring --file-strategy flash";
    let error = parsed(flash).unwrap().config().unwrap_err().to_string();
    assert!(error.contains("not flash"), "{error}");
    let sends_files = |flag: &str| {
        let documents = config(&format!("--http [::1]:80 --root /srv {flag}")).documents;
        documents.unwrap().sends_files
    };
    assert!(sends_files("") && !sends_files("--http-copy"));
    for line in [
        "--http 127.0.0.1:8080",
        "--root site",
        "--file-misses uring",
        "--http 127.0.0.1:8080 --root site --file-misses processes",
        "--file-strategy nowait",
        "--http 8080 --root site",
        "--http 127.0.0.1:8080 --root site --file-strategy fast",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn the_last_of_repeated_flags_wins() {
    assert_eq!(config("-m 4g").memory_bytes, 4 << 30);
    assert_eq!(config("-m 512M").memory_bytes, 512 << 20);
    for wrong in ["-m 0", "-m 4k", "-m g", "-m 5t"] {
        assert!(refused(wrong).contains("512, or 4g"), "{wrong}");
    }
    let config = config("-m 64 -m128 --memory-limit=256 -vv -v -t 1 -t 2");
    assert_eq!(config.memory_bytes, 256 << 20);
    assert_eq!((config.verbosity, config.workers), (3, 2));
    let two = plan("-l 127.0.0.1 -l ::1 -o hashpower=20 -o slab_automove=1").unwrap();
    assert_eq!((two.0.listen.len(), two.1.len()), (2, 2));
}

#[test]
fn ports_follow_memcacheds_rules() {
    let port = |line: &str| config(line).listen.first().map(std::net::SocketAddr::port);
    assert_eq!(port(""), Some(11_211));
    assert_eq!(port("-p -1"), Some(0), "the kernel chooses");
    assert_eq!(port("-p 0 -s /tmp/s"), None);
    assert_eq!(port("-U 12000"), Some(12_000), "-U alone sets both");
    assert_eq!(port("-U 12000 -p 13000"), Some(13_000));
    assert_eq!(port("-s /tmp/s"), None);
    assert_eq!(port("-s /tmp/s -l ::1"), Some(11_211));
}

#[test]
fn flag_selects_the_protocols() {
    use server::AllowedProtocols::{Auto, Binary, Text};
    for (line, protocols) in [
        ("", Auto),
        ("-B auto", Auto),
        ("-B ascii", Text),
        ("-B binary", Binary),
        ("-l proto[ascii]:127.0.0.1", Text),
    ] {
        assert_eq!(config(line).protocols, protocols, "{line}");
    }
    let both = parsed("-B binary -l proto[ascii]:127.0.0.1").unwrap();
    let error = both.config().unwrap_err().to_string();
    assert!(error.contains("contradicts"), "{error}");
}

#[test]
fn flags_of_passwords_select_protocols_and_contradict_some() {
    use server::AllowedProtocols::{Auto, Binary, Text};
    for (line, protocols) in [
        ("-Y /etc/auth", Text),
        ("-Y /etc/auth -B ascii -U 0", Text),
        ("-S -Y /etc/auth", Auto),
        ("-S -Y /etc/auth -B binary", Binary),
        ("-S -Y /etc/auth -l proto[ascii]:127.0.0.1", Text),
    ] {
        let config = config(line);
        assert_eq!(config.protocols, protocols, "{line}");
        let file = config.passwords.unwrap();
        assert_eq!(file.format, server::PasswordFormat::Plain);
        assert_eq!(file.path, std::path::Path::new("/etc/auth"));
    }
    for (line, flag) in [
        ("-Y /etc/auth -B auto", "-B"),
        ("-Y /etc/auth -B binary", "-B"),
        ("-S -B ascii", "-B"),
        ("-S", "MEMCACHED_SASL_PWDB"),
        ("-Y /etc/auth -U 11211", "-U"),
        ("-S -Y /etc/auth -U 11211", "-U"),
    ] {
        let error = refused(line);
        assert!(error.contains(flag), "{line}: {error}");
    }
}

#[test]
fn flags_enable_and_disable_commands() {
    assert_eq!(config("").permissions, Permissions::DEFAULT);
    let config = config("-AFXW -D/");
    let all_changed = Permissions {
        shutdown: true,
        flush: false,
        dump: false,
        watch: false,
    };
    assert_eq!(config.permissions, all_changed);
    assert_eq!(config.prefix_delimiter, Some(b'/'));
}

#[test]
fn flags_of_unserved_security_are_rejected() {
    let error = refused("-Z");
    assert!(
        error.starts_with("-Z") && error.contains("leave the flag out"),
        "{error}"
    );
    assert!(refused("-B proxy").contains("auto, ascii or binary"));
    assert!(refused("-o ssl_key=a").contains("TLS"));
    assert!(refused("-e /tmp/file").contains("--tier"));
    assert!(refused("-o drop_privileges").contains("SystemCallFilter"));
}

/// A valid value of each flag.
fn example(argument: &clap::Arg) -> &'static str {
    match argument.get_id().as_str() {
        "slab_growth_factor" => "1.25",
        "threads" => "4",
        "unix_mask" => "0700",
        "listen" => "127.0.0.1",
        "protocol" => "ascii",
        "delimiter" => ":",
        "extended" => "modern",
        "max_item_size" => "1m",
        "user" => "nobody",
        "unix_socket" | "pid_file" | "auth_file" | "memory_file" => "/tmp/file",
        "runtime" => "events",
        "fibre_scheduler" => "fair",
        "busy_poll" | "min_wait" => "20us",
        "admin" => "127.0.0.1:9150",
        _ => "1024",
    }
}

/// The effect of a start line, in the words of the guide.
fn effect(line: &str) -> &'static str {
    match plan(line) {
        Err(_) => "refused",
        Ok((_, notes)) if notes.is_empty() => "works",
        Ok(_) => "no effect",
    }
}

#[test]
fn the_guide_lists_every_flag_and_key() {
    let command = <Flags as clap::Args>::augment_args(clap::Command::new("serve"));
    let mut expected = BTreeMap::new();
    for argument in command.get_arguments() {
        let long = argument.get_long().map(|long| format!("--{long}"));
        let short = argument.get_short().map(|letter| format!("-{letter}"));
        let Some(short) = short else {
            continue; // A flag of Curtail alone.
        };
        let names: Vec<String> = [Some(short.clone()), long].into_iter().flatten().collect();
        let line = match argument.get_action().takes_values() {
            true => format!("{short} {}", example(argument)),
            // Without a file, `-S` needs an environment variable.
            false if short == "-S" => "-S -Y /tmp/file".to_owned(),
            false => short.clone(),
        };
        // The program prints the help before it builds a configuration.
        let effect = if short == "-h" {
            "works"
        } else {
            effect(&line)
        };
        expected.insert(format!("`{}`", names.join("`, `")), effect);
    }
    for key in extended::KEYS {
        let line = format!("-o {}", extended::tests::example(key));
        expected.insert(format!("`-o {}`", key.name()), effect(&line));
    }
    let mut found = BTreeMap::new();
    for line in GUIDE.lines().filter(|line| line.starts_with("| `-")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // A row may list several keys.
        for name in cells[1].split("; ") {
            let before = found.insert(name.to_owned(), cells[2]);
            assert_eq!(before, None, "{name} is listed twice in the guide");
        }
    }
    let missing: Vec<_> = expected
        .iter()
        .filter(|(name, effect)| found.get(*name) != Some(effect))
        .collect();
    assert!(
        missing.is_empty(),
        "not so in docs/guide/migrate.md: {missing:#?}"
    );
    let unknown: Vec<_> = found
        .keys()
        .filter(|name| !expected.contains_key(*name))
        .collect();
    assert!(
        unknown.is_empty(),
        "in docs/guide/migrate.md, and no flag: {unknown:#?}"
    );
}
