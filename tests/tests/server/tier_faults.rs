//! A server whose tier is hit by faults: kill -9 at seeded moments, torn and damaged files, a full
//! disk, a disk that fails. Afterwards it starts on the same files. A reply is the latest value or
//! a miss; anything else is an error, and so is a server that ends. `SEEDS=N` runs other numbers
//! of histories, and `SEED=N` a single one.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use curtail_tests::client::Client;
use curtail_tests::disk_process::{DiskProcess, can_run};
use curtail_tests::ledger::{BATCH, Ledger};
use curtail_tests::process::{Server, curtail_path};
use runtime::Kind;

/// The size of the tier, in MiB. Less than what a history writes, so that segments are reused.
const TIER_MIB: u64 = 8;
/// Runs of the server in one history.
const ROUNDS: u64 = 5;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn seeds(default: u64) -> Range<u64> {
    match number_of("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_of("SEEDS").unwrap_or(default),
    }
}

/// The runtimes of this machine, of which each seed uses one.
fn runtime(seed: u64) -> Kind {
    let kinds: Vec<Kind> = Kind::OVER_SOCKETS
        .into_iter()
        .filter(|kind| kind.probe().is_ok())
        .collect();
    kinds[seed as usize % kinds.len()]
}

fn start(mut command: impl FnMut() -> Command, kind: Kind, tier: &str) -> (Server, Client) {
    let command = std::cell::RefCell::new(&mut command);
    let server = Server::tcp(|| {
        let mut command = (command.borrow_mut())();
        command.args(["serve", "--runtime", kind.name(), "-m", "2", "-t", "2"]);
        command.args(["-I", "64k", "-u", "root", "--tier", tier]);
        command
    });
    let server = server.unwrap();
    let client = Client::connect(&server.address).unwrap();
    (server, client)
}

/// The end of a run.
#[derive(Debug, Clone, Copy)]
enum End {
    /// SIGKILL while replies are on their way.
    Killed,
    /// SIGTERM, and SIGKILL at a random moment of the stop.
    KilledWhileStopping,
    /// SIGTERM, and the server ends by itself.
    Stopped,
}

/// What happens to the files between two runs.
#[derive(Debug, Clone, Copy)]
enum Damage {
    None,
    /// The end of the file of the tier is missing.
    TornTail,
    /// Some bits of the file are others.
    FlippedBits,
    /// A part of the file has the bytes that it had after an earlier run.
    OldBytes,
    /// The file of the index ends early, or has another bit somewhere.
    TornIndex,
    FlippedIndex,
}

const DAMAGES: [Damage; 6] = [
    Damage::None,
    Damage::TornTail,
    Damage::FlippedBits,
    Damage::OldBytes,
    Damage::TornIndex,
    Damage::FlippedIndex,
];

#[derive(Debug, Default)]
struct Sum {
    runs: u64,
    killed: u64,
    killed_while_stopping: u64,
    stopped: u64,
    damaged_files: u64,
    replies: u64,
    hits: u64,
    hits_after_restart: u64,
    tier_reads: u64,
    damaged_records: u64,
}

struct History<'a> {
    ledger: Ledger,
    tier: PathBuf,
    index: PathBuf,
    /// The file of the tier after an earlier run.
    earlier: Vec<u8>,
    sum: &'a mut Sum,
}

impl<'a> History<'a> {
    fn new(seed: u64, folder: &Path, sum: &'a mut Sum) -> Self {
        Self {
            ledger: Ledger::new(seed),
            tier: folder.join("tier"),
            index: folder.join("tier.index"),
            earlier: Vec::new(),
            sum,
        }
    }

    /// One run of the server, from its start on whatever files there are to its end.
    fn run(&mut self, kind: Kind) {
        let tier = format!("{}:{TIER_MIB}m", self.tier.display());
        let (server, mut client) = start(|| Command::new(curtail_path()), kind, &tier);
        self.sum.hits_after_restart += self.ledger.verify_all(&mut client).unwrap();
        for _ in 0..200 + self.ledger.below(300) {
            self.ledger.batch(&mut client).unwrap();
            if self.ledger.below(60) == 0 {
                flip_bits(&mut self.ledger, &self.tier, 40);
            }
        }
        let stats = client.stats().unwrap();
        let stat = |name: &str| stats[name].parse::<u64>().unwrap();
        self.sum.tier_reads += stat("get_extstore");
        self.sum.damaged_records += stat("badcrc_from_extstore");
        let end = match self.ledger.below(5) {
            0 => End::Killed,
            1 => End::KilledWhileStopping,
            _ => End::Stopped,
        };
        self.end(server, client, end);
        self.sum.runs += 1;
    }

    fn end(&mut self, mut server: Server, mut client: Client, end: End) {
        match end {
            End::Killed => {
                let replies = self.ledger.below(BATCH as u64) as usize;
                self.ledger.broken_batch(&mut client, replies).unwrap();
                drop(server);
                self.ledger.clear();
                self.sum.killed += 1;
            }
            End::KilledWhileStopping => {
                server.terminate().unwrap();
                // A random moment of the stop, which takes some milliseconds.
                let until = Instant::now() + Duration::from_micros(self.ledger.below(12_000));
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                drop(server);
                self.sum.killed_while_stopping += 1;
            }
            End::Stopped => {
                server.terminate().unwrap();
                assert!(server.wait().unwrap().success());
                self.sum.stopped += 1;
            }
        }
    }

    fn damage(&mut self, damage: Damage) {
        self.sum.damaged_files += u64::from(!matches!(damage, Damage::None));
        let path = match damage {
            Damage::TornIndex | Damage::FlippedIndex => &self.index,
            _ => &self.tier,
        };
        let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
            // After a crash there is no index.
            return;
        };
        let len = file.metadata().unwrap().len();
        match damage {
            Damage::None => {}
            Damage::TornTail | Damage::TornIndex => file.set_len(self.ledger.below(len)).unwrap(),
            Damage::FlippedBits => flip_bits(&mut self.ledger, path, 300),
            Damage::FlippedIndex => flip_bits(&mut self.ledger, path, 1),
            Damage::OldBytes if self.earlier.is_empty() => {}
            Damage::OldBytes => {
                let start = self.ledger.below(self.earlier.len() as u64);
                file.write_all_at(&self.earlier[start as usize..], start)
                    .unwrap();
            }
        }
        if self.ledger.below(2) == 0 {
            self.earlier = fs::read(&self.tier).unwrap();
        }
    }
}

fn flip_bits(ledger: &mut Ledger, path: &Path, count: u32) {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file: File = file.unwrap();
    let len = file.metadata().unwrap().len();
    for _ in 0..count {
        let (at, mut byte) = (ledger.below(len.max(1)), [0]);
        if file.read_at(&mut byte, at).unwrap() == 1 {
            byte[0] ^= 1 << ledger.below(8);
            file.write_all_at(&byte, at).unwrap();
        }
    }
}

#[test]
fn nothing_wrong_is_served_after_kills_and_on_damaged_files() {
    let mut sum = Sum::default();
    for seed in seeds(6) {
        eprintln!("SEED={seed}");
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::new(seed, folder.path(), &mut sum);
        for _ in 0..ROUNDS {
            history.run(runtime(seed));
            let damage = DAMAGES[history.ledger.below(DAMAGES.len() as u64) as usize];
            history.damage(damage);
        }
        history.sum.replies += history.ledger.verified;
        history.sum.hits += history.ledger.hits;
    }
    eprintln!("{sum:?}");
    if number_of("SEED").is_none() {
        assert!(sum.killed > 0 && sum.killed_while_stopping > 0 && sum.stopped > 0);
        assert!(sum.hits_after_restart > 100, "nothing outlives a stop");
        assert!(
            sum.tier_reads > 1000 && sum.damaged_records > 10,
            "too few faults are met"
        );
    }
}

/// A disk on which the server runs, with its tier.
fn start_on(disk: &DiskProcess, kind: Kind, tier_mib: u64) -> (Server, Client) {
    let inside = || {
        let mut command = disk.inside();
        command.arg(curtail_path());
        command
    };
    start(inside, kind, &format!("/mnt/files/tier:{tier_mib}m"))
}

/// Without space for its file, the tier loses items, and nothing else.
#[test]
fn a_full_disk_costs_items_only() {
    if !can_run() {
        return;
    }
    let disk = DiskProcess::start(&["--size=16MiB", "--no-delay", "--options=noatime"]).unwrap();
    for seed in seeds(3) {
        let mut ledger = Ledger::new(seed);
        let (server, mut client) = start_on(&disk, runtime(seed), 64);
        while client.stat("tier_segments_failed").unwrap() < 4 {
            for _ in 0..100 {
                ledger.batch(&mut client).unwrap();
            }
        }
        let reads = client.stat("get_extstore").unwrap();
        assert!(reads > 100, "{reads} reads of the part that fits");
        ledger.verify_all(&mut client).unwrap();
        eprintln!("SEED={seed}: {} replies verified", ledger.verified);
        drop(server);
        ledger.clear();
        let (server, mut client) = start_on(&disk, runtime(seed), 64);
        ledger.verify_all(&mut client).unwrap();
        drop(server);
    }
}

/// Drops the file of the tier from the page cache, so that reads need the disk. Only with
/// `count=0` does `dd` drop all of a file.
fn forget_cached(disk: &DiskProcess) {
    let forget = || {
        let mut dd = disk.inside();
        dd.args(["dd", "count=0", "of=/mnt/files/tier", "oflag=nocache"]);
        dd.args(["conv=notrunc,fdatasync", "status=none"]);
        dd.stderr(Stdio::null()).status().unwrap().success()
    };
    // The first one may report that earlier writes have failed.
    assert!(forget() || forget());
}

/// How often the disk fails under one server.
const FAULTS: u32 = 4;

/// While the disk fails, and afterwards, items of the tier are missed, and memory is served.
#[test]
fn a_disk_that_fails_costs_items_only() {
    if !can_run() {
        return;
    }
    // With less memory than the tier has, so that the page cache does not hide the disk.
    let arguments = [
        "--size=96MiB",
        "--no-delay",
        "--options=noatime",
        "--memory=32MiB",
    ];
    let disk = DiskProcess::start(&arguments).unwrap();
    for seed in seeds(3) {
        let mut ledger = Ledger::new(seed);
        let (server, mut client) = start_on(&disk, runtime(seed), 48);
        let mut load = |client: &mut Client, batches: u32| {
            for _ in 0..batches {
                ledger.batch(client).unwrap();
            }
        };
        load(&mut client, 800);
        let mut unreadable = 0;
        for fault in 0..FAULTS {
            forget_cached(&disk);
            disk.tell("errors on").unwrap();
            load(&mut client, 300);
            disk.tell("errors off").unwrap();
            load(&mut client, 300);
            let before = unreadable;
            unreadable = client.stat("badcrc_from_extstore").unwrap();
            assert!(unreadable > before, "no read failed in fault {fault}");
        }
        let lost = client.stat("tier_segments_failed").unwrap();
        ledger.verify_all(&mut client).unwrap();
        eprintln!(
            "SEED={seed}: {} replies verified, {unreadable} records unreadable, {lost} segments lost",
            ledger.verified
        );
        drop(server);
        ledger.clear();
        let (server, mut client) = start_on(&disk, runtime(seed), 48);
        ledger.verify_all(&mut client).unwrap();
        drop(server);
    }
}
