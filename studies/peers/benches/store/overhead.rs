//! What an item costs besides its key and value: resident growth, each cache in a process of its
//! own, beside a memcached filled the same way; and how many items one gibibyte holds.
//!
//! `[--quick]`: a million items only.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark speaks to the terminal"
)]

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use measure::verdict;
use peers::memcached::Memcached;
use peers::ours::set;
use store::{Config, Expiry, Store};
use workload::{Distribution, SizeDistribution};

const GIB: u64 = 1 << 30;
const VALUE_MAX: u32 = 100_000;
/// Counts of items.
const COUNTS: [u64; 5] = [1_000_000, 2_000_000, 3_000_000, 5_000_000, 8_000_000];

/// Lengths of keys and values.
#[derive(Clone, Copy)]
struct Sizes {
    name: &'static str,
    key_len: usize,
    /// None: by the law of ETC.
    value_len: Option<usize>,
    /// Items of the table of what a gibibyte holds: more than fit.
    beyond: u64,
    /// Bytes besides key and value that an item may cost in our store.
    most_bytes: Option<f64>,
    /// Times memcached's items that a gibibyte shall hold.
    least_times: Option<f64>,
}

const SIZES: [Sizes; 4] = [
    Sizes {
        name: "10+10",
        key_len: 10,
        value_len: Some(10),
        beyond: 30_000_000,
        most_bytes: None,
        least_times: Some(2.0),
    },
    Sizes {
        name: "30+100",
        key_len: 30,
        value_len: Some(100),
        beyond: 9_000_000,
        most_bytes: Some(28.0),
        least_times: Some(1.2),
    },
    Sizes {
        name: "30+1000",
        key_len: 30,
        value_len: Some(1000),
        beyond: 2_000_000,
        most_bytes: None,
        least_times: None,
    },
    Sizes {
        name: "ETC",
        key_len: 30,
        value_len: None,
        beyond: 5_000_000,
        most_bytes: None,
        least_times: None,
    },
];

/// Ours is the first.
const KINDS: [&str; 5] = ["curtail", "quick_cache", "foyer", "moka", "memcached"];

fn main() -> ExitCode {
    // `cargo bench` adds a word of its own.
    let words = env::args().skip(1).filter(|word| word != "--bench");
    let words: Vec<String> = words.collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["one", kind, sizes, count] => one(kind, sizes, count),
        _ => all(words.iter().any(|word| word == "--quick")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("store-overhead: {error}");
            ExitCode::FAILURE
        }
    }
}

fn all(quick: bool) -> io::Result<()> {
    let counts = if quick { &COUNTS[..1] } else { &COUNTS[..] };
    println!("bytes an item besides key and value (resident growth)\n");
    println!(
        "{:<9} {:>9}  {}",
        "sizes",
        "items",
        KINDS.map(|kind| format!("{kind:>12}")).concat()
    );
    for sizes in SIZES {
        // Of our store; none where it did not say.
        let mut most_bytes = Some(0.0_f64);
        for &count in counts {
            let said = KINDS.map(|kind| {
                let said = asked(kind, sizes.name, count);
                said.unwrap_or_else(|error| format!("  {error}"))
            });
            let [ours, ..] = &said;
            most_bytes = most_bytes
                .zip(ours.parse().ok())
                .map(|(most, bytes): (f64, f64)| most.max(bytes));
            let cells = said.map(|said| match said.parse::<f64>() {
                Ok(bytes) => format!("{bytes:>12.1}"),
                Err(_) => format!("{said:>12}"),
            });
            println!("{:<9} {count:>9}  {}", sizes.name, cells.concat());
        }
        if let Some(most) = sizes.most_bytes {
            let is_reached = most_bytes.map(|bytes| bytes <= most);
            println!(
                "  {}",
                verdict(&format!("target ≤ {most} bytes"), is_reached)
            );
        }
    }
    println!("\nitems that one gibibyte holds (-m 1024), of more than it can\n");
    for sizes in SIZES {
        let held = |kind: &str| -> io::Result<f64> {
            let said = asked(kind, sizes.name, 0)?;
            said.parse().map_err(|_| io::Error::other(said))
        };
        let ours = held("curtail")?;
        let theirs = held("memcached");
        match &theirs {
            Ok(theirs) => println!(
                "{:<9} curtail {ours:>10}  memcached {theirs:>10}  {:5.2} times",
                sizes.name,
                ours / theirs
            ),
            Err(error) => println!("{:<9} curtail {ours:>10}  memcached: {error}", sizes.name),
        }
        if let Some(least) = sizes.least_times {
            let is_reached = theirs.ok().map(|theirs| ours >= least * theirs);
            println!(
                "  {}",
                verdict(&format!("target ≥ {least} times"), is_reached)
            );
        }
    }
    Ok(())
}

/// Has another process fill a cache, so that what one leaves behind is not the next one's.
fn asked(kind: &str, sizes: &str, count: u64) -> io::Result<String> {
    let output = Command::new(env::current_exe()?)
        .args(["one", kind, sizes, &count.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Fills one cache and prints what an item costs; with a count of 0, how many a gibibyte holds.
fn one(kind: &str, sizes: &str, count: &str) -> io::Result<()> {
    let known = SIZES.into_iter().find(|known| known.name == sizes);
    let sizes = known.ok_or_else(|| io::Error::other(format!("no sizes {sizes}")))?;
    let count: u64 = count.parse().map_err(io::Error::other)?;
    let filling = Filling { sizes, count };
    match kind {
        "curtail" => filling.curtail(),
        "quick_cache" => {
            let cache: quick_cache::sync::Cache<Box<[u8]>, Arc<[u8]>> =
                quick_cache::sync::Cache::new(count as usize + count as usize / 8);
            filling.library(|key, value| cache.insert(key.into(), value.into()))
        }
        "foyer" => {
            let cache: foyer_memory::Cache<Box<[u8]>, Box<[u8]>> =
                foyer_memory::CacheBuilder::new(count as usize + count as usize / 8)
                    .with_eviction_config(foyer_memory::S3FifoConfig::default())
                    .build();
            filling.library(|key, value| {
                cache.insert(key.into(), value.into());
            })
        }
        "moka" => {
            let cache: moka::sync::Cache<Box<[u8]>, Arc<[u8]>> = moka::sync::Cache::new(count);
            filling.library(|key, value| cache.insert(key.into(), value.into()))
        }
        "memcached" => filling.memcached(),
        _ => Err(io::Error::other(format!("no cache {kind}"))),
    }
}

struct Filling {
    sizes: Sizes,
    count: u64,
}

impl Filling {
    fn items(&self) -> u64 {
        match self.count {
            0 => self.sizes.beyond,
            count => count,
        }
    }

    /// Calls `set` with every key and value; returns the bytes of both.
    fn each(&self, mut set: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<u64> {
        let etc = SizeDistribution::new(
            "fb_value".parse().unwrap_or(Distribution::Fixed(329.0)),
            1,
            VALUE_MAX,
        );
        let value = vec![b'v'; VALUE_MAX as usize];
        let mut own_bytes = 0;
        for number in 0..self.items() {
            let key = format!("{number:0width$}", width = self.sizes.key_len);
            let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let len = self.sizes.value_len.unwrap_or(etc.len_of(random) as usize);
            own_bytes += (key.len() + len) as u64;
            set(key.as_bytes(), &value[..len])?;
        }
        Ok(own_bytes)
    }

    /// Bytes to give a cache that shall hold them all.
    fn ample(&self) -> u64 {
        match self.count {
            0 => GIB,
            count => {
                let mean = self.sizes.value_len.unwrap_or(400) + self.sizes.key_len;
                count * (mean as u64 + 200) + GIB / 16
            }
        }
    }

    fn curtail(&self) -> io::Result<()> {
        let config = Config {
            memory_bytes: self.ample(),
            hash_seed: 7,
            ..Config::DEFAULT
        };
        let store = Store::new(config).map_err(io::Error::other)?;
        let mut worker = store.worker();
        let before = resident("self")?;
        let own_bytes = self.each(|key, value| {
            set(&mut worker, key, value, Expiry::NEVER, 1);
            worker.quiescent();
            Ok(())
        })?;
        self.say(
            resident("self")? - before,
            own_bytes,
            store.statistics().items,
        );
        Ok(())
    }

    fn library(&self, mut set: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
        let before = resident("self")?;
        let own_bytes = self.each(|key, value| {
            set(key, value);
            Ok(())
        })?;
        self.say(resident("self")? - before, own_bytes, self.count);
        Ok(())
    }

    fn memcached(&self) -> io::Result<()> {
        let Some(server) = Memcached::start(self.ample() >> 20)? else {
            println!("not installed");
            return Ok(());
        };
        let stream = server.connect()?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let mut out = BufWriter::with_capacity(1 << 20, stream);
        let before = resident(&server.pid().to_string())?;
        let own_bytes = self.each(|key, value| {
            out.write_all(b"set ")?;
            out.write_all(key)?;
            write!(out, " 0 0 {} noreply\r\n", value.len())?;
            out.write_all(value)?;
            out.write_all(b"\r\n")
        })?;
        out.write_all(b"stats\r\n")?;
        out.flush()?;
        let mut items = 0;
        let mut line = String::new();
        while answers.read_line(&mut line)? > 0 && !line.starts_with("END") {
            if let Some(number) = line.strip_prefix("STAT curr_items ") {
                items = number.trim().parse().map_err(io::Error::other)?;
            }
            line.clear();
        }
        let growth = resident(&server.pid().to_string())? - before;
        self.say(growth, own_bytes, items);
        Ok(())
    }

    fn say(&self, growth: u64, own_bytes: u64, items: u64) {
        if self.count == 0 {
            println!("{items}");
        } else if items < self.count * 999 / 1000 {
            println!("kept {items}");
        } else {
            println!("{}", (growth as f64 - own_bytes as f64) / items as f64);
        }
    }
}

/// Resident bytes of a process.
fn resident(pid: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| io::Error::other("no VmRSS"))
}
