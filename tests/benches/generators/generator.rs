//! The generators and their command lines.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use curtail_tests::peer::Address;
use curtail_tests::process;

/// Connections of every generator.
const CONNECTIONS: u32 = 16;
/// The names of the project's own, polling and sleeping.
pub(crate) const OURS: [&str; 2] = ["curtail load", "curtail load --no-spin"];
/// Requests of one of memcslap's threads in a second, about: it takes a number, no time.
const MEMCSLAP_RPS: u32 = 3_000;

/// A load generator that is installed.
pub(crate) struct Generator {
    pub(crate) name: String,
    program: PathBuf,
    arguments: fn(&Load) -> String,
    /// Sleeps while no answer has arrived.
    pub(crate) sleeps: bool,
    /// Can have several requests outstanding on a connection.
    pub(crate) pipelines: bool,
    /// Is an older build of the project's own.
    pub(crate) is_before: bool,
}

/// What the command lines depend on.
struct Load {
    server: SocketAddr,
    depth: u32,
    seconds: u32,
}

impl Generator {
    /// The command line of one trial.
    pub(crate) fn command(&self, server: &Address, depth: u32, seconds: u32) -> Result<Command> {
        let Address::Tcp(address) = server else {
            bail!("the server listens on no TCP port");
        };
        let load = Load {
            server: *address,
            depth,
            seconds,
        };
        let mut command = Command::new(&self.program);
        command.args((self.arguments)(&load).split_whitespace());
        Ok(command)
    }
}

/// The generators that are installed, and the names of those that are not. `before` is an older
/// build of `curtail`.
pub(crate) fn all(before: Option<&Path>) -> (Vec<Generator>, Vec<&'static str>) {
    let mut installed = Vec::new();
    let own = [(Some(process::curtail_path()), ""), (before, ", before")];
    for (program, suffix) in own {
        let Some(program) = program else { continue };
        for (name, sleeps) in [(OURS[0], false), (OURS[1], true)] {
            installed.push(Generator {
                name: format!("{name}{suffix}"),
                program: program.to_owned(),
                arguments: if sleeps { curtail_sleeping } else { curtail },
                sleeps,
                pipelines: true,
                is_before: !suffix.is_empty(),
            });
        }
    }
    let mut missing = Vec::new();
    type Arguments = fn(&Load) -> String;
    let others: [(&str, &str, &str, Arguments, bool, bool); 4] = [
        ("mutilate", "mutilate", "MUTILATE", mutilate, false, true),
        (
            "mutilate --blocking",
            "mutilate",
            "MUTILATE",
            mutilate_sleeping,
            true,
            true,
        ),
        (
            "memtier_benchmark",
            "memtier_benchmark",
            "MEMTIER",
            memtier,
            true,
            true,
        ),
        ("memcslap", "memcslap", "MEMCSLAP", memcslap, true, false),
    ];
    for (name, program, variable, arguments, sleeps, pipelines) in others {
        match process::installed(program, variable) {
            None => missing.push(name),
            Some(program) => installed.push(Generator {
                name: name.to_owned(),
                program,
                arguments,
                sleeps,
                pipelines,
                is_before: false,
            }),
        }
    }
    (installed, missing)
}

fn curtail(load: &Load) -> String {
    format!(
        "load {} --rate max --connections {CONNECTIONS} --depth {} --update 0 --keys fixed:30 \
         --warmup 0s --duration {}s --quiet --json -",
        load.server, load.depth, load.seconds
    )
}

fn curtail_sleeping(load: &Load) -> String {
    curtail(load) + " --no-spin"
}

fn mutilate(load: &Load) -> String {
    format!(
        "-s {} --noload -K fixed:30 -u 0 -c {CONNECTIONS} -d {} -t {} -T 1",
        load.server, load.depth, load.seconds
    )
}

fn mutilate_sleeping(load: &Load) -> String {
    mutilate(load) + " --blocking"
}

fn memtier(load: &Load) -> String {
    // The prefix and seven digits make 30 bytes.
    format!(
        "-s {} -p {} -P memcache_text --ratio=0:1 --key-prefix=key-of-thirty-bytes-12- \
         --key-minimum=1000000 --key-maximum=9999999 -t 1 -c {CONNECTIONS} --pipeline={} \
         --test-time={} --hide-histogram",
        load.server.ip(),
        load.server.port(),
        load.depth,
        load.seconds
    )
}

fn memcslap(load: &Load) -> String {
    let requests = MEMCSLAP_RPS * load.seconds;
    format!(
        "--servers={} --concurrency={CONNECTIONS} --execute-number={requests} --test=get \
         --tcp-nodelay",
        load.server
    )
}
