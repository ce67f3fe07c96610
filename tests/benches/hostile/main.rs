//! The p99 latency of a good client beside hostile clients, compared with that without them.
//!
//! `cargo xtask bench hostile [-- [--quick] [--rounds N] [--runtime NAME] [--kind KIND]]`. The
//! server has one worker, on the first processor. All clients share the others, where the good one
//! has real-time priority if that is allowed. It sends a GET of 32 bytes each millisecond, and a
//! latency counts from the time at which the request was due. Beside clients that hold memory, it
//! also stores and reads values of 20 kB, 100 kB and 900 kB, in trials of their own. Each round has
//! a pair of trials for every [`Kind`] of hostile clients and length, one with them and one
//! without, in random order. A ratio is that of the p99 within a pair, and its interval that of the
//! median of all pairs.
//!
//! The target, [`TARGET_TIMES`], is met by a kind whose whole interval is below it. If the good
//! client receives no reply beside hostile ones, the trial counts with [`TIMEOUT`]. A kind is not
//! judged if its clients took less than [`SHARE_MIN`] of their steps in any trial, or if a trial
//! failed otherwise. Before each trial, the server has closed the connections of the one before,
//! and read its datagrams. Hostile clients send at a fixed rate: one that
//! sends as much as the server takes would measure how the server divides its time between busy
//! connections, which `experiments/fairness.toml` does.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a benchmark")]

mod clients;

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail_path};
use measure::{Estimate, median, paired_ratio};
use tempfile::TempDir;
use workload::{Purpose, RandomStream};

use clients::{HostileClients, Kind, LONG_VALUE_LEN};

/// The interval of the good client's requests, and of the hostile clients' steps.
const STEP: Duration = Duration::from_millis(1);
/// How long a reply to the good client may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The greatest ratio of the p99 beside hostile clients to that without.
const TARGET_TIMES: f64 = 2.0;
/// The least share of their steps that hostile clients have to take.
const SHARE_MIN: f64 = 0.95;
const CONFIDENCE: f64 = 0.95;
const SERVER_CPU: usize = 0;
/// The lengths of the good client's values.
const GOOD_LENS: [usize; 4] = [32, 20_000, 100_000, 900_000];

fn main() -> Result<()> {
    let (rounds, duration) = match env::args().any(|it| it == "--quick") {
        true => (3, Duration::from_millis(400)),
        false => (24, Duration::from_millis(900)),
    };
    let rounds = match option("--rounds") {
        Some(given) => given.parse().context("--rounds needs a number")?,
        None => rounds,
    };
    let cpus = sys::thread::allowed_cpus().context("read the allowed processors")?;
    let others: Vec<usize> = cpus.into_iter().filter(|&it| it != SERVER_CPU).collect();
    if others.is_empty() {
        println!("skipped: there is no processor for the clients");
        return Ok(());
    }
    sys::thread::pin(&others).context("move the clients to their processors")?;
    if let Ok(Err(error)) = thread::spawn(go_first).join() {
        println!(
            "The good client has no real-time priority ({error}), so its latencies contain the \
             time for which hostile clients keep it from its processor."
        );
    }
    let folder = TempDir::new().context("make a folder")?;
    let passwords = folder.path().join("passwords");
    fs::write(&passwords, "good:secret\n").context("write the passwords")?;
    let runtime = option("--runtime");
    let runtime = runtime.as_deref().unwrap_or("events");
    let open = Target::start(runtime, &[])?;
    let guarded = Target::start(runtime, &["-Y", &passwords.to_string_lossy(), "-S"])?;
    println!(
        "p99 of a good client of {runtime} beside hostile clients ÷ without, {rounds} pairs of \
         trials of {duration:?}, median [interval]"
    );
    let lens_of = |kind: Kind| match kind.holds_memory() {
        true => &GOOD_LENS[..],
        false => &GOOD_LENS[..1],
    };
    let kind = option("--kind");
    let is_chosen = |it: &Kind| kind.as_ref().is_none_or(|kind| *kind == format!("{it:?}"));
    let cases = Kind::ALL.into_iter().filter(is_chosen);
    let cases = cases.flat_map(|kind| lens_of(kind).iter().map(move |&len| (kind, len)));
    let mut outcomes: Vec<_> = cases.map(|case| (case, Vec::new())).collect();
    let mut random = RandomStream::new(1, Purpose::Other, 0);
    for _ in 0..rounds {
        shuffle(&mut outcomes, &mut random);
        for ((kind, len), pairs) in &mut outcomes {
            let target = if kind.guesses() { &guarded } else { &open };
            match pair(*kind, *len, target, duration, &mut random) {
                Ok(pair) => pairs.push(pair),
                Err(error) => println!("  {kind:?} {len}: a pair of trials failed: {error:#}"),
            }
        }
    }
    outcomes.sort_by_key(|((kind, len), _)| (Kind::ALL.iter().position(|it| it == kind), *len));
    for ((kind, len), pairs) in &outcomes {
        let name = format!("{kind:?}");
        println!("  {name:<14} {len:>6} B  {}", line(pairs, rounds));
    }
    Ok(())
}

/// What follows this word on the command line.
fn option(name: &str) -> Option<String> {
    env::args().skip_while(|it| it != name).nth(1)
}

/// Two trials, one of them beside hostile clients.
struct Pair {
    beside_ns: f64,
    without_ns: f64,
    /// The share of their steps that the hostile clients took.
    share: f64,
}

/// A pair of trials in random order.
fn pair(
    kind: Kind,
    len: usize,
    target: &Target,
    duration: Duration,
    random: &mut RandomStream,
) -> Result<Pair> {
    let without = || {
        target.settle()?;
        good_p99_ns(target, len, duration)
    };
    let without_first = random.below(2) == 0;
    let before = without_first.then(without);
    let (beside_ns, share) = p99_beside(kind, len, target, duration)?;
    let without_ns = before.unwrap_or_else(without)?;
    Ok(Pair {
        beside_ns,
        without_ns,
        share,
    })
}

/// The result of a kind in words.
fn line(pairs: &[Pair], rounds: usize) -> String {
    let p99s = pairs.iter().map(|it| (it.beside_ns, it.without_ns));
    let ratio = paired_ratio(&p99s.collect::<Vec<_>>(), CONFIDENCE);
    let without: Vec<_> = pairs.iter().map(|it| it.without_ns).collect();
    let (Some(ratio), Some(without_ns)) = (ratio, median(&without)) else {
        return "every trial failed".to_owned();
    };
    let share = pairs.iter().map(|it| it.share).fold(1.0, f64::min);
    let verdict = match rounds - pairs.len() {
        0 => verdict(&ratio, share),
        failed => format!("not judged: {failed} of {rounds} pairs failed"),
    };
    format!(
        "{ratio}  without {:>4.0} µs  at least {:>3.0} % of the steps  ≤ {TARGET_TIMES}: {verdict}",
        without_ns / 1e3,
        share * 100.0,
    )
}

fn verdict(ratio: &Estimate, share: f64) -> String {
    let interval = ratio.interval;
    if share < SHARE_MIN {
        "not judged: the hostile clients were too slow".to_owned()
    } else if interval.confidence < CONFIDENCE {
        let percent = interval.confidence * 100.0;
        format!("not judged: an interval of {percent:.0} %")
    } else if interval.high <= TARGET_TIMES {
        "met".to_owned()
    } else if interval.low > TARGET_TIMES {
        "not met".to_owned()
    } else {
        "not decided here".to_owned()
    }
}

fn shuffle<T>(items: &mut [T], random: &mut RandomStream) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// A server with an item for the good client, and one for clients that do not read.
struct Target {
    _server: Server,
    tcp: SocketAddr,
    /// Where it receives datagrams, if no password is needed.
    udp: SocketAddr,
    needs_login: bool,
}

impl Target {
    /// Starts a server. `login` has the flags of one whose clients have to log in.
    fn start(runtime: &str, login: &[&str]) -> Result<Self> {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let needs_login = !login.is_empty();
        let server = Server::tcp_on(Ipv4Addr::LOCALHOST, &[SERVER_CPU], || {
            let mut command = Command::new(curtail_path());
            command.args(["serve", "--runtime", runtime, "-t", "1"]);
            command.args(["-m", "256", "-c", "8192"]).args(login);
            if !needs_login {
                command.args(["-U", &udp.port().to_string()]);
            }
            if sys::privileges::is_root() {
                command.args(["-u", "root"]);
            }
            command
        })?;
        let Address::Tcp(tcp) = server.address else {
            bail!("the server has no address");
        };
        let target = Self {
            _server: server,
            tcp,
            udp,
            needs_login,
        };
        let mut client = target.good_client()?;
        let goods = GOOD_LENS.map(|len| (format!("good{len}"), len));
        for (key, len) in goods
            .into_iter()
            .chain([("long".to_owned(), LONG_VALUE_LEN)])
        {
            let line = format!("set {key} 0 0 {len}\r\n");
            client.write_all(&[line.as_bytes(), &vec![b'v'; len], b"\r\n"].concat())?;
            expect(&mut client, b"STORED\r\n")?;
        }
        Ok(target)
    }

    /// A connection that has logged in, if the server has passwords.
    fn good_client(&self) -> Result<TcpStream> {
        let mut stream = self.connect()?;
        if self.needs_login {
            stream.write_all(b"set login 0 0 11\r\ngood secret\r\n")?;
            expect(&mut stream, b"STORED\r\n")?;
        }
        Ok(stream)
    }

    /// The number of datagrams that the server has received. 0 if it receives none.
    fn datagrams_received(&self) -> Result<u64> {
        match self.needs_login {
            true => Ok(0),
            false => self.statistic("stats curtail", "udp_datagrams_read"),
        }
    }

    fn statistic(&self, command: &str, name: &str) -> Result<u64> {
        let mut stream = self.good_client()?;
        stream.write_all(format!("{command}\r\nquit\r\n").as_bytes())?;
        let mut statistics = String::new();
        stream.read_to_string(&mut statistics)?;
        let name = format!("STAT {name} ");
        let value = statistics.lines().find_map(|line| line.strip_prefix(&name));
        let value = value.with_context(|| format!("the server has no {name}"))?;
        Ok(value.parse()?)
    }

    /// Waits until the server has closed the connections of an earlier trial and read its
    /// datagrams.
    fn settle(&self) -> Result<()> {
        let began = Instant::now();
        let mut received = self.datagrams_received()?;
        loop {
            thread::sleep(STEP * 5);
            let before = mem::replace(&mut received, self.datagrams_received()?);
            // The connection that asks is one of them.
            let connections = self.statistic("stats", "curr_connections")?;
            if connections <= 1 && received == before {
                return Ok(());
            }
            ensure!(
                began.elapsed() < TIMEOUT,
                "{connections} connections stay open after a trial"
            );
        }
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.tcp)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }
}

/// Receives a reply, which has to be this one.
fn expect(stream: &mut TcpStream, reply: &[u8]) -> Result<()> {
    let mut received = vec![0; reply.len()];
    stream
        .read_exact(&mut received)
        .context("receive a reply")?;
    let text = String::from_utf8_lossy(&received[..received.len().min(80)]);
    ensure!(received == reply, "a reply begins with {text:?}");
    Ok(())
}

/// The p99 of the good client in nanoseconds beside hostile clients, and the share of their steps
/// that these took.
fn p99_beside(kind: Kind, len: usize, target: &Target, duration: Duration) -> Result<(f64, f64)> {
    target.settle()?;
    let must_stop = &AtomicBool::new(false);
    let (opened, has_opened) = mpsc::channel();
    thread::scope(|scope| {
        let hostile = scope.spawn(move || {
            let mut clients = HostileClients::new(kind, target)?;
            // It fails if nothing waits for it any more.
            let _ = opened.send(());
            clients.run(STEP, must_stop)
        });
        // `recv` fails if the hostile clients have failed. Then `join` returns their error.
        let p99_ns = has_opened
            .recv()
            .map(|()| good_p99_ns(target, len, duration));
        must_stop.store(true, Ordering::Relaxed);
        let share = hostile.join();
        let share = share.map_err(|_| anyhow!("the hostile clients panicked"))??;
        let p99_ns = p99_ns?.unwrap_or_else(|error| {
            println!("  {kind:?}: the good client failed: {error:#}");
            TIMEOUT.as_nanos() as f64
        });
        Ok((p99_ns, share))
    })
}

/// Gives this thread, which is that of the good client, priority over the hostile clients.
fn go_first() -> io::Result<()> {
    sys::thread::sleep_precisely();
    sys::thread::go_real_time(1)
}

/// The p99 of the good client in nanoseconds.
fn good_p99_ns(target: &Target, len: usize, duration: Duration) -> Result<f64> {
    let client = || {
        // Whether that is allowed has been printed.
        let _ = go_first();
        send_requests(target, len, duration)
    };
    let outcome = thread::scope(|scope| scope.spawn(client).join());
    let mut latencies_ns = outcome.map_err(|_| anyhow!("the good client panicked"))??;
    latencies_ns.sort_by(f64::total_cmp);
    Ok(latencies_ns[latencies_ns.len() * 99 / 100])
}

/// Sends a request each [`STEP`], or as much less often as its value is longer than 20 kB: a GET,
/// or by turns a SET and a GET if the value is longer than 32 bytes. Returns their latencies in
/// nanoseconds.
fn send_requests(target: &Target, len: usize, duration: Duration) -> Result<Vec<f64>> {
    let mut client = target.good_client()?;
    let value = vec![b'v'; len];
    let end = b"\r\n";
    let set = [
        format!("set good{len} 0 0 {len}\r\n").as_bytes(),
        &value,
        end,
    ]
    .concat();
    let get = format!("get good{len}\r\n").into_bytes();
    let head = format!("VALUE good{len} 0 {len}\r\n");
    let found = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
    let step = STEP * (len / 20_000).max(1) as u32;
    let mut latencies_ns = Vec::new();
    let began = Instant::now();
    let mut due = began;
    for turn in 0.. {
        if due - began >= duration {
            break;
        }
        due += step;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let (request, reply) = match len > 32 && turn % 2 == 0 {
            true => (&set, &b"STORED\r\n"[..]),
            false => (&get, &found[..]),
        };
        client.write_all(request)?;
        expect(&mut client, reply)?;
        latencies_ns.push(due.elapsed().as_nanos() as f64);
    }
    Ok(latencies_ns)
}
