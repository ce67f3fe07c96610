//! How many items a server loses while its memory has room for them, next to memcached.
//!
//! `cargo xtask bench room [-- [--quick] [--runtime NAME]]`. A server has sixteen threads, on all
//! processors, and `-m 64` unless a row names another size. Keys have 9 bytes, values 50 to 349.
//!
//! - *fits*: the number of items that one connection stores before the server evicts any.
//! - *fill*: sixteen connections store nine tenths of that at the same time.
//! - the other rows: one connection stores 99 % of what fits. Some of these items are deleted,
//!   overwritten by shorter ones, or expire. Then sixteen connections store new items, until the
//!   dead ones have made room for all but a tenth of what fits.
//!
//! Except in the rows *fits*, a figure is the number of keys that should be there and are not, each
//! of which the benchmark looks for, and in brackets the share of those that should. Each row has
//! a server of its own.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a benchmark")]

use std::env;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail_path, memcached, memcached_command};

const WRITERS: u64 = 16;
/// The number of requests of a connection that have no reply yet.
const PIPELINED: usize = 64;
/// The memory of the servers in which items die, in MiB.
const MEMORY_MIB: u64 = 64;
/// How long an item lives that expires. It is stored within this time.
const LIFE: Duration = Duration::from_secs(8);
/// The share of its memory that a value leaves if it is overwritten by one of a quarter of its
/// length: in memcached, whose items have the longer header.
const LEFT_BY_OVERWRITING: f64 = 0.58;

/// What happens to an item, by its key and by the share of all items that were stored before it.
type Chooses = fn(u64, f64) -> bool;

#[derive(Clone, Copy)]
enum Death {
    Deleted(Chooses),
    Overwritten(Chooses),
    Expired(Chooses),
}

const MIXES: [(&str, Death); 8] = [
    (
        "nine of ten deleted",
        Death::Deleted(|key, _| digit(key) < 9),
    ),
    ("half deleted", Death::Deleted(|key, _| digit(key) < 5)),
    ("a fifth deleted", Death::Deleted(|key, _| digit(key) < 2)),
    (
        "the oldest half deleted",
        Death::Deleted(|_, place| place < 0.5),
    ),
    (
        "the newest third deleted",
        Death::Deleted(|_, place| place > 2.0 / 3.0),
    ),
    (
        "every second thousand deleted",
        Death::Deleted(|key, _| key / 1000 % 2 == 0),
    ),
    (
        "the oldest half overwritten, shorter",
        Death::Overwritten(|_, place| place < 0.5),
    ),
    ("half expired", Death::Expired(|key, _| digit(key) < 5)),
];

fn main() -> Result<()> {
    let is_quick = env::args().any(|it| it == "--quick");
    let runtime = env::args().skip_while(|it| it != "--runtime").nth(1);
    let mut subjects = vec![Subject::Curtail(
        runtime.unwrap_or_else(|| "events".to_owned()),
    )];
    match memcached() {
        Some(path) => subjects.push(Subject::Memcached(path)),
        None => println!("skipped: memcached is not installed, so there is no comparison"),
    }
    let memories: &[u64] = match is_quick {
        true => &[8, 64],
        false => &[8, 64, 256, 1024],
    };
    let print_row = |name: &str, of: &dyn Fn(&Subject) -> Result<String>| -> Result<()> {
        let mut line = format!("{name:<38}");
        for subject in &subjects {
            write!(line, "{:>26}", of(subject).context("measure a server")?)?;
        }
        println!("{line}");
        Ok(())
    };
    print_row("", &Subject::version)?;
    for &memory in memories {
        print_row(&format!("fits -m {memory}"), &|it| {
            Ok(it.fits(memory)?.to_string())
        })?;
        print_row(&format!("fill -m {memory}"), &|it| it.fill(memory))?;
    }
    for (name, death) in MIXES {
        print_row(name, &|it| it.refill(death))?;
    }
    Ok(())
}

/// A server to be measured.
enum Subject {
    /// With this runtime.
    Curtail(String),
    Memcached(PathBuf),
}

impl Subject {
    fn start(&self, memory_mib: u64) -> Result<Server> {
        Server::tcp(|| {
            let mut command = match self {
                Self::Curtail(runtime) => {
                    let mut command = Command::new(curtail_path());
                    command.args(["serve", "--runtime", runtime]);
                    command
                }
                Self::Memcached(path) => memcached_command(path),
            };
            command.args(["-t", &WRITERS.to_string(), "-m", &memory_mib.to_string()]);
            command
        })
    }

    fn version(&self) -> Result<String> {
        let server = self.start(MEMORY_MIB)?;
        let version = Client::connect(&server.address)?.request("version")?;
        let version = version.trim_start_matches("VERSION ");
        Ok(match self {
            Self::Curtail(runtime) => format!("curtail, {runtime}"),
            Self::Memcached(_) => format!("memcached {version}"),
        })
    }

    /// The number of items that one connection stores before any is evicted.
    fn fits(&self, memory_mib: u64) -> Result<u64> {
        let server = self.start(memory_mib)?;
        let mut client = Client::connect(&server.address)?;
        // A step is a thousandth of what fits, or less.
        let step = memory_mib * 4;
        let mut keys = 0;
        while client.stat("evictions")? == 0 {
            store(&mut client, keys..keys + step, len_of, |_| 0)?;
            keys += step;
        }
        Ok(keys - step)
    }

    fn fill(&self, memory_mib: u64) -> Result<String> {
        let keys = self.fits(memory_mib)? * 9 / 10;
        let server = self.start(memory_mib)?;
        store_at_once(&server, 0..keys)?;
        lost(&server, &mut (0..keys))
    }

    fn refill(&self, death: Death) -> Result<String> {
        let fits = self.fits(MEMORY_MIB)?;
        let server = self.start(MEMORY_MIB)?;
        let mut client = Client::connect(&server.address)?;
        let old = 0..fits * 99 / 100;
        let (Death::Deleted(chooses) | Death::Overwritten(chooses) | Death::Expired(chooses)) =
            death;
        let is_chosen = |key: &u64| chooses(*key, *key as f64 / old.end as f64);
        let chosen = || old.clone().filter(is_chosen);
        let others = || old.clone().filter(|key| !is_chosen(key));
        let mut left = chosen().count() as f64;
        let mut staying: Vec<u64> = others().collect();
        match death {
            Death::Deleted(_) => {
                store(&mut client, old.clone(), len_of, |_| 0)?;
                let line = |key| format!("delete {key:09}\r\n").into_bytes();
                exchange(&mut client, chosen(), line, ["DELETED"])?;
            }
            Death::Overwritten(_) => {
                store(&mut client, old.clone(), len_of, |_| 0)?;
                store(&mut client, chosen(), |key| len_of(key) / 4, |_| 0)?;
                left *= LEFT_BY_OVERWRITING;
                staying.extend(chosen());
            }
            Death::Expired(_) => {
                let began = Instant::now();
                store(&mut client, old.clone(), len_of, |key| {
                    match is_chosen(&key) {
                        true => LIFE.as_secs(),
                        false => 0,
                    }
                })?;
                ensure!(began.elapsed() < LIFE, "storing took as long as items live");
                thread::sleep(LIFE + Duration::from_secs(2));
            }
        }
        let new = (left - fits as f64 / 10.0) as u64;
        let new = old.end..old.end + new;
        store_at_once(&server, new.clone())?;
        lost(&server, &mut staying.into_iter().chain(new))
    }
}

/// A number from 0 to 9.
fn digit(key: u64) -> u64 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 10
}

/// The length of the value of a new item.
fn len_of(key: u64) -> usize {
    (50 + key.wrapping_mul(0xd1b5_4a32_d192_ed03) % 300) as usize
}

/// Stores items by sixteen connections at the same time.
fn store_at_once(server: &Server, keys: Range<u64>) -> Result<()> {
    let each = (keys.end - keys.start).div_ceil(WRITERS);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let first = keys.start + writer * each;
                let keys = first..(first + each).min(keys.end);
                scope.spawn(|| store(&mut Client::connect(&server.address)?, keys, len_of, |_| 0))
            })
            .collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().map_err(|_| anyhow!("a writer panicked"))?)
    })
}

fn store(
    client: &mut Client,
    keys: impl Iterator<Item = u64>,
    len_of: impl Fn(u64) -> usize,
    expiry_s: impl Fn(u64) -> u64,
) -> Result<()> {
    let request = |key| {
        let len = len_of(key);
        let mut request = format!("set {key:09} 0 {} {len}\r\n", expiry_s(key)).into_bytes();
        request.resize(request.len() + len, b'v');
        request.extend_from_slice(b"\r\n");
        request
    };
    exchange(client, keys, request, ["STORED"])?;
    Ok(())
}

/// The number of keys that are not there, and their share.
fn lost(server: &Server, keys: &mut dyn Iterator<Item = u64>) -> Result<String> {
    let mut client = Client::connect(&server.address)?;
    let line = |key| format!("mg {key:09}\r\n").into_bytes();
    let [found, lost] = exchange(&mut client, keys, line, ["HD", "EN"])?;
    Ok(format!(
        "{lost} ({:.2} %)",
        lost as f64 * 100.0 / (found + lost) as f64
    ))
}

/// Sends a request for each key, each of which has one of these replies. Returns how many had each.
fn exchange<const N: usize>(
    client: &mut Client,
    keys: impl Iterator<Item = u64>,
    request: impl Fn(u64) -> Vec<u8>,
    replies: [&str; N],
) -> Result<[u64; N]> {
    let mut counts = [0; N];
    let mut keys = keys.peekable();
    while keys.peek().is_some() {
        let mut requests = Vec::new();
        let sent = keys
            .by_ref()
            .take(PIPELINED)
            .map(|key| requests.extend(request(key)))
            .count();
        client.send(&requests)?;
        for _ in 0..sent {
            let reply = client.line()?;
            let Some(at) = replies.iter().position(|it| *it == reply) else {
                bail!("a request was answered {reply:?}");
            };
            counts[at] += 1;
        }
    }
    Ok(counts)
}
