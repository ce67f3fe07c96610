//! Misbehaving clients, each with a well-behaved client in the background, whose requests must be
//! answered as usual.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use curtail_tests::background_client::BackgroundClient;
use curtail_tests::client::Client;
use curtail_tests::process::{Server, server};
use curtail_tests::runtimes::{Runtime, runtime};

const MIB: u64 = 1 << 20;

fn client(server: &Server) -> Client {
    Client::connect(&server.address).unwrap()
}

fn a_connection_over_the_limit_is_refused_with_an_error() {
    const MAX: u64 = 8;
    let server = server(&["-c", "8"]);
    let background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    assert_eq!(observer.stat("max_connections").unwrap(), MAX);
    // The connection that checked that the server was ready may not have been closed yet.
    observer
        .stat_until("curr_connections", |count| count == 2)
        .unwrap();

    let mut others: Vec<Client> = (2..MAX).map(|_| client(&server)).collect();
    for other in &mut others {
        assert_eq!(other.request("mn").unwrap(), "MN");
    }
    for rejected in 1..=3 {
        let told = client(&server).rest().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&told),
            "ERROR Too many open connections\r\n"
        );
        assert_eq!(observer.stat("rejected_connections").unwrap(), rejected);
    }
    assert_eq!(observer.stat("curr_connections").unwrap(), MAX);
    // A rejected connection is not a lack of descriptors.
    assert_eq!(observer.stat("listen_disabled_num").unwrap(), 0);

    others.pop();
    observer
        .stat_until("curr_connections", |count| count < MAX)
        .unwrap();
    assert_eq!(client(&server).request("mn").unwrap(), "MN");
    for other in &mut others {
        assert_eq!(other.request("mn").unwrap(), "MN");
    }
    background.stop().unwrap();
}

fn requests_sent_byte_by_byte_are_answered() {
    let server = server(&[]);
    let background = BackgroundClient::start(&server.address).unwrap();
    let mut slow = client(&server);
    let mut expected = Vec::new();
    for round in 0..20 {
        let said = format!("set slow 0 0 5\r\n{round:05}\r\nget slow\r\nbogus\r\n");
        for byte in said.bytes() {
            slow.send(&[byte]).unwrap();
        }
        let answer = format!("STORED\r\nVALUE slow 0 5\r\n{round:05}\r\nEND\r\nERROR\r\n");
        expected.extend(answer.into_bytes());
    }
    assert_eq!(slow.take(expected.len()).unwrap(), expected);
    background.stop().unwrap();
}

fn a_client_that_never_reads_delays_no_other_and_holds_no_memory() {
    const VALUE_LEN: usize = 500_000;
    let server = server(&["-m", "64"]);
    let mut background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    observer.set("big", &vec![b'x'; VALUE_LEN]).unwrap();
    background.wait_rounds(50).unwrap();
    let before = server.resident_bytes().unwrap();

    // Each of eight clients requests two gigabytes of answers and reads none.
    let mut deaf: Vec<Client> = (0..8).map(|_| client(&server)).collect();
    for one in &mut deaf {
        one.send_some(&b"get big\r\n".repeat(4000)).unwrap();
    }
    background.wait_rounds(200).unwrap();
    let grown = server.resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 48 * MIB, "grew by {grown} bytes");

    // The store can still be written to.
    for number in 0..100 {
        observer
            .set(&format!("other{number}"), &[b'y'; 50_000])
            .unwrap();
    }
    drop(deaf);
    observer
        .stat_until("curr_connections", |count| count == 2)
        .unwrap();
    assert_eq!(observer.get("big").unwrap().unwrap().len(), VALUE_LEN);
    background.stop().unwrap();
}

fn a_late_reader_receives_every_byte() {
    const COUNT: usize = 400;
    let server = server(&[]);
    let mut late = client(&server);
    let value: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    late.set("big", &value).unwrap();
    let mut background = BackgroundClient::start(&server.address).unwrap();
    // Forty megabytes are more than the buffers of both sockets hold.
    late.send(&b"get big\r\n".repeat(COUNT)).unwrap();
    background.wait_rounds(100).unwrap();
    let answer = [b"VALUE big 0 100000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    for number in 0..COUNT {
        assert!(
            late.take(answer.len()).unwrap() == answer,
            "answer {number}"
        );
    }
    assert_eq!(late.request("mn").unwrap(), "MN");
    background.stop().unwrap();
}

/// Long values are sent in parts, and those of several clients in turn.
fn several_readers_of_long_values_receive_every_byte_and_short_replies_between() {
    const COUNT: usize = 8;
    let server = server(&[]);
    let mut clients: Vec<Client> = (0..6).map(|_| client(&server)).collect();
    let value: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    clients[0].set("big", &value).unwrap();
    let background = BackgroundClient::start(&server.address).unwrap();
    for one in &mut clients {
        one.send(&b"get big\r\nmn\r\n".repeat(COUNT)).unwrap();
    }
    // It leaves while its values are being sent.
    clients.pop();
    let answer = [b"VALUE big 0 300000\r\n", &value[..], b"\r\nEND\r\nMN\r\n"].concat();
    for number in 0..COUNT {
        for one in &mut clients {
            assert!(one.take(answer.len()).unwrap() == answer, "answer {number}");
        }
    }
    background.stop().unwrap();
}

fn memory_of_an_upload_is_freed_when_its_client_disconnects() {
    let server = server(&["-m", "64"]);
    let background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    observer.set("v", b"old").unwrap();
    // Twice the memory in total, if it were kept. Only a few clients at a time, because the memory
    // that they hold can evict other items.
    // With several stacks, that of the connection which checked that the server was ready may count
    // it later.
    let before = observer
        .stat_until("total_connections", |count| count >= 3)
        .unwrap();
    for turn in 1..=10 {
        for _ in 0..13 {
            let mut gone = client(&server);
            gone.send(b"set v 0 0 1000000\r\n").unwrap();
            gone.send(&[b'n'; 500_000]).unwrap();
        }
        for (stat, wanted) in [
            ("total_connections", before + turn * 13),
            ("curr_connections", 2),
        ] {
            observer.stat_until(stat, |count| count == wanted).unwrap();
        }
    }
    assert_eq!(observer.stat("store_no_memory").unwrap(), 0);
    assert_eq!(observer.stat("bytes_spooled").unwrap(), 0);
    // The item may have been evicted: it was not read, and memory held by uploads cannot be
    // evacuated.
    match observer.get("v").unwrap() {
        Some(value) => assert_eq!(value, b"old"),
        None => assert_ne!(observer.stat("evictions").unwrap(), 0),
    }
    for number in 0..20 {
        let key = format!("after{number}");
        observer.set(&key, &vec![b'a'; 900_000]).unwrap();
        assert_eq!(observer.get(&key).unwrap().unwrap().len(), 900_000);
    }
    background.stop().unwrap();
}

/// Sends the command line of a `set` and no byte of its value, so that the memory of the value is
/// held.
fn begin(client: &mut Client, key: &str, value_len: usize) {
    client
        .send(format!("set {key} 0 0 {value_len}\r\n").as_bytes())
        .unwrap();
}

/// The item that a client stores and reads beside strangers: a value of each length that is treated
/// differently.
fn assert_served(client: &mut Client, turn: usize) {
    for len in [32, 20_000, 100_000, 900_000] {
        let value = vec![b'a' + (turn % 26) as u8; len];
        client.set("good", &value).unwrap();
        assert!(client.get("good").unwrap().unwrap() == value, "{len}");
    }
}

fn begun_uploads_of_strangers_delay_nobody_and_can_be_completed() {
    const LEN: usize = 900_000;
    let server = server(&["-m", "64", "-t", "2"]);
    let mut good = client(&server);
    let value = |number: usize| vec![b'a' + (number % 26) as u8; LEN];
    let mut strangers: Vec<Client> = (0..40).map(|_| client(&server)).collect();
    for (number, stranger) in strangers.iter_mut().enumerate() {
        begin(stranger, &format!("v{number}"), LEN);
        stranger.send(&value(number)[..number * 10_000]).unwrap();
    }
    let mut small: Vec<Client> = (0..300).map(|_| client(&server)).collect();
    for (number, stranger) in small.iter_mut().enumerate() {
        begin(stranger, &format!("s{number}"), 20_000);
        stranger.send(b"s").unwrap();
    }
    (0..4).for_each(|turn| assert_served(&mut good, turn));
    for (number, stranger) in strangers.iter_mut().enumerate() {
        stranger.send(&value(number)[number * 10_000..]).unwrap();
        stranger.send(b"\r\n").unwrap();
        assert_eq!(stranger.line().unwrap(), "STORED", "{number}");
        let stored = good.get(&format!("v{number}")).unwrap().unwrap();
        assert!(stored == value(number), "{number}");
    }
    for stranger in &mut small {
        stranger.send(&[b's'; 19_999]).unwrap();
        stranger.send(b"\r\n").unwrap();
        assert_eq!(stranger.line().unwrap(), "STORED");
    }
    for (stat, wanted) in [
        ("held_waits", 0),
        ("slow_peers_closed", 0),
        ("bytes_held", 0),
        ("bytes_spooled", 0),
    ] {
        assert_eq!(good.stat(stat).unwrap(), wanted, "{stat}");
    }
}

/// The kernel gathers such bytes for tasks, but never more than the value still has.
fn a_value_that_drips_in_is_complete_with_its_last_byte() {
    const LEN: usize = 2000;
    let server = server(&[]);
    let mut client = client(&server);
    client.send(b"set k 0 0 2000\r\n").unwrap();
    let drip = |client: &mut Client, bytes: &[u8]| {
        for byte in bytes {
            client.send(&[*byte]).unwrap();
            // So that each byte arrives alone.
            thread::sleep(Duration::from_millis(1));
        }
    };
    let value: Vec<u8> = (0..LEN).map(|at| b'a' + (at % 26) as u8).collect();
    drip(&mut client, &value[..100]);
    client.send(&value[100..LEN - 40]).unwrap();
    drip(&mut client, &value[LEN - 40..]);
    drip(&mut client, b"\r\nget k\r\n");
    assert_eq!(client.line().unwrap(), "STORED");
    assert_eq!(client.line().unwrap(), "VALUE k 0 2000");
    assert_eq!(client.line().unwrap().into_bytes(), value);
}

fn unread_values_of_strangers_delay_nobody_and_are_received_whole() {
    const LEN: usize = 900_000;
    const READS: usize = 8;
    let server = server(&["-m", "64", "-t", "2"]);
    let mut good = client(&server);
    let mut strangers: Vec<Client> = (0..16).map(|_| client(&server)).collect();
    for number in 0..strangers.len() {
        let value = vec![b'a' + number as u8; LEN];
        good.set(&format!("v{number}"), &value).unwrap();
    }
    for (number, stranger) in strangers.iter_mut().enumerate() {
        let get = format!("get v{number}\r\n");
        stranger.send(get.repeat(READS).as_bytes()).unwrap();
    }
    (0..4).for_each(|turn| assert_served(&mut good, turn));
    for (number, stranger) in strangers.iter_mut().enumerate() {
        let value = vec![b'a' + number as u8; LEN];
        let head = format!("VALUE v{number} 0 {LEN}\r\n");
        let answer = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
        for read in 0..READS {
            let received = stranger.take(answer.len()).unwrap();
            assert!(received == answer, "reader {number}, answer {read}");
        }
    }
    for (stat, wanted) in [("held_waits", 0), ("slow_peers_closed", 0)] {
        assert_eq!(good.stat(stat).unwrap(), wanted, "{stat}");
    }
}

/// Clients that send nearly all of a value and then nothing, until no memory is left for slow
/// clients. `others` connections are opened between each two of them.
fn holders_of_all_memory(server: &Server, others: usize) -> Vec<Client> {
    const LEN: usize = 1_000_000;
    let mut observer = client(server);
    let mut clients = Vec::new();
    for number in 0..35 {
        let mut holder = client(server);
        begin(&mut holder, &format!("held{number}"), LEN);
        holder.send_some(&vec![b'h'; LEN - 10_000]).unwrap();
        clients.push(holder);
        clients.extend((0..others).map(|_| client(server)));
    }
    // A further 64 KiB, the next part of the last value, do not fit.
    observer
        .stat_until("bytes_spooled", |bytes| bytes > (32 << 20) - (64 << 10))
        .unwrap();
    clients
}

/// Sends a value without its line end, and returns when its connection waits for memory.
fn wait_for_memory(waiter: &mut Client, observer: &mut Client) {
    let waits = observer.stat("held_waits").unwrap();
    begin(waiter, "waiter", 100_000);
    waiter.send(&[b'w'; 100_000]).unwrap();
    observer
        .stat_until("held_waits", |count| count > waits)
        .unwrap();
}

fn waiting_for_memory_costs_no_processor_time() {
    let server = server(&["-m", "8", "-t", "1"]);
    let (mut observer, mut waiter) = (client(&server), client(&server));
    let _holders = holders_of_all_memory(&server, 0);
    let (since, before_ns) = (Instant::now(), server.processor_ns().unwrap());
    wait_for_memory(&mut waiter, &mut observer);
    let waits = observer.stat("held_waits").unwrap();
    waiter.send(b"\r\n").unwrap();
    assert_eq!(waiter.line().unwrap(), "STORED");
    let used_ns = server.processor_ns().unwrap() - before_ns;
    let waited_ms = since.elapsed().as_millis();
    assert!(waited_ms > 500, "no wait, after {waited_ms} ms");
    assert!(
        u128::from(used_ns) / 1_000_000 < waited_ms / 5,
        "{used_ns} ns of processor time in {waited_ms} ms"
    );
    // A wait counts once, however often the connection tries again.
    assert_eq!(observer.stat("held_waits").unwrap(), waits);
    assert!(observer.stat("slow_peers_closed").unwrap() > 0);
}

fn connections_that_hold_memory_are_closed_on_every_worker() {
    let server = server(&["-m", "8", "-t", "3"]);
    // Connections go to the workers by turns: those that hold memory to one of them, the next one
    // to the same, and the one that waits to another.
    let _holders = holders_of_all_memory(&server, 2);
    let (mut observer, mut waiter) = (client(&server), client(&server));
    let since = Instant::now();
    wait_for_memory(&mut waiter, &mut observer);
    waiter.send(b"\r\n").unwrap();
    assert_eq!(waiter.line().unwrap(), "STORED");
    let waited = since.elapsed();
    // Several at a time, and not one a second.
    assert!(waited < Duration::from_secs(8), "{waited:?}");
    assert!(waiter.stat("slow_peers_closed").unwrap() > 5);
}

fn a_client_that_disconnects_while_it_waits_for_memory_is_closed_immediately() {
    let server = server(&["-m", "8", "-t", "1"]);
    let (mut observer, mut waiter) = (client(&server), client(&server));
    let _holders = holders_of_all_memory(&server, 0);
    waiter.send(b"mn\r\n").unwrap();
    wait_for_memory(&mut waiter, &mut observer);
    let connections = observer.stat("curr_connections").unwrap();
    // A socket that is closed with unread data is reset.
    drop(waiter);
    observer
        .stat_until("curr_connections", |count| count == connections - 1)
        .unwrap();
    assert_eq!(observer.stat("slow_peers_closed").unwrap(), 0);
}

/// A value that is received outside the store is refused like any other.
fn a_spooled_value_with_a_wrong_end_is_refused_and_its_memory_is_freed() {
    let server = server(&["-m", "8", "-t", "1"]);
    let mut holder = client(&server);
    begin(&mut holder, "held", 1_000_000);
    let mut observer = client(&server);
    observer
        .stat_until("bytes_held", |bytes| bytes > 900_000)
        .unwrap();
    let mut wrong = client(&server);
    for (end, reply) in [("xx", "CLIENT_ERROR bad data chunk"), ("\r\n", "STORED")] {
        begin(&mut wrong, "spooled", 300_000);
        wrong.send(&[b's'; 200_000]).unwrap();
        observer
            .stat_until("bytes_spooled", |bytes| bytes >= 200_000)
            .unwrap();
        wrong.send(&[b's'; 100_000]).unwrap();
        wrong.send(end.as_bytes()).unwrap();
        assert_eq!(wrong.line().unwrap(), reply);
        assert_eq!(observer.stat("bytes_spooled").unwrap(), 0);
    }
    assert_eq!(wrong.get("spooled").unwrap().unwrap().len(), 300_000);
    // One that is never complete.
    begin(&mut wrong, "spooled", 300_000);
    wrong.send(&[b's'; 200_000]).unwrap();
    observer
        .stat_until("bytes_spooled", |bytes| bytes >= 200_000)
        .unwrap();
    drop(wrong);
    observer
        .stat_until("bytes_spooled", |bytes| bytes == 0)
        .unwrap();
}

fn a_value_of_two_gibibytes_is_refused_and_its_bytes_are_discarded() {
    let server = server(&[]);
    let mut background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    let before = server.resident_bytes().unwrap();

    let mut greedy = client(&server);
    let answer = greedy.request("set a 0 0 2147483645").unwrap();
    assert_eq!(answer, "SERVER_ERROR object too large for cache");
    let sent = greedy.send_some(&vec![b'x'; 64 << 20]).unwrap();
    assert_eq!(sent, 64 << 20, "the announced bytes are consumed");
    background.wait_rounds(50).unwrap();
    assert_eq!(observer.stat("store_too_large").unwrap(), 1);
    assert_eq!(observer.get("a").unwrap(), None);

    // Numbers out of range are no lengths.
    let mut liar = client(&server);
    for length in ["2147483646", "2147483648", "4294967296", "-1"] {
        let answer = liar.request(&format!("set a 0 0 {length}")).unwrap();
        assert_eq!(answer, "CLIENT_ERROR bad command line format");
    }
    let grown = server.resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 16 * MIB, "grew by {grown} bytes");
    background.stop().unwrap();
}

fn a_connection_stays_usable_after_a_discarded_value() {
    let server = server(&[]);
    let background = BackgroundClient::start(&server.address).unwrap();
    let mut client = client(&server);
    let said = [
        b"set a 0 0 20000000\r\n",
        &vec![b'x'; 20_000_000][..],
        b"\r\nmn\r\n",
    ];
    client.send(&said.concat()).unwrap();
    assert_eq!(
        client.line().unwrap(),
        "SERVER_ERROR object too large for cache"
    );
    assert_eq!(client.line().unwrap(), "MN");
    assert_eq!(client.stat("store_too_large").unwrap(), 1);
    background.stop().unwrap();
}

fn a_key_of_251_bytes_is_refused_and_the_connection_stays_usable() {
    let server = server(&[]);
    let background = BackgroundClient::start(&server.address).unwrap();
    let mut client = client(&server);
    let key = "k".repeat(251);
    client
        .send(format!("set {key} 0 0 1\r\n1\r\n").as_bytes())
        .unwrap();
    assert_eq!(
        client.line().unwrap(),
        "CLIENT_ERROR bad command line format"
    );
    client.set(&key[1..], b"fits").unwrap();
    assert_eq!(client.get(&key[1..]).unwrap().unwrap(), b"fits");
    background.stop().unwrap();
}

fn a_line_without_an_end_holds_no_memory() {
    let server = server(&[]);
    let mut background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    let before = server.resident_bytes().unwrap();
    let endless = |start: &str| [start.as_bytes(), &vec![b'a'; 32 << 20]].concat();
    for start in ["", "set ", "mg ", " "] {
        let mut client = client(&server);
        // More than the buffers of both sockets hold, so that the server must read.
        let bytes = endless(start);
        let sent = client.send_some(&bytes).unwrap();
        let told = client.rest().unwrap();
        // What is still on its way when a connection is closed may take the reply with it.
        let is_told = told.is_empty() || told.starts_with(b"CLIENT_ERROR line too long");
        assert!(is_told, "'{start}': {told:?}");
        assert!(sent < bytes.len(), "'{start}': all bytes were sent");
    }
    // The rest of a line of keys is skipped after the one that is too long.
    for start in ["get ", "gets key ", "gat 1 "] {
        let mut client = client(&server);
        client.send(&endless(start)).unwrap();
        assert_eq!(
            client.line().unwrap(),
            "CLIENT_ERROR bad command line format"
        );
        assert_eq!(client.line().unwrap(), "");
        assert_eq!(client.request("\r\nmn").unwrap(), "MN");
    }
    background.wait_rounds(20).unwrap();
    observer
        .stat_until("curr_connections", |count| count == 2)
        .unwrap();
    let grown = server.resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 16 * MIB, "grew by {grown} bytes");
    background.stop().unwrap();
}

fn random_bytes_do_no_harm() {
    let server = server(&[]);
    let background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    // Marsaglia's xorshift: the same bytes in every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for start in 0..32_u8 {
        let mut rubbish = vec![if start % 4 == 0 { 0x80 } else { start }];
        while rubbish.len() < 32 * 1024 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            rubbish.extend(state.to_le_bytes());
        }
        let mut noisy = client(&server);
        noisy.send_some(&rubbish).unwrap();
        // The server may have closed the connection; if not, it is closed here.
        let _ = noisy.socket.shutdown_send();
        noisy.rest().unwrap();
    }
    observer
        .stat_until("curr_connections", |count| count == 2)
        .unwrap();
    background.stop().unwrap();
}

fn opened_and_closed_connections_are_counted() {
    let server = server(&[]);
    let background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    let before = observer
        .stat_until("total_connections", |count| count >= 3)
        .unwrap();
    for _ in 0..200 {
        assert_eq!(client(&server).request("mn").unwrap(), "MN");
    }
    let total = observer.stat("total_connections").unwrap();
    assert_eq!(total - before, 200);
    observer
        .stat_until("curr_connections", |count| count == 2)
        .unwrap();
    background.stop().unwrap();
}

fn names_of_hot_keys_are_escaped() {
    let server = server(&["-t", "2"]);
    // One client per worker; the workers' counts are added up.
    for _ in 0..2 {
        let mut client = client(&server);
        client
            .send_some(b"ms aG90IGtleQ== 1 b\r\nx\r\nset cold 0 0 1\r\nx\r\n")
            .unwrap();
        for _ in 0..2 {
            assert!(["HD", "STORED"].contains(&client.line().unwrap().as_str()));
        }
        for _ in 0..2_000 {
            client
                .send(b"mg aG90IGtleQ== b\r\nmg cold\r\nmg aG90IGtleQ== b\r\n")
                .unwrap();
            for _ in 0..3 {
                assert_eq!(client.line().unwrap(), "HD");
            }
        }
    }
    let mut client = client(&server);
    client.send(b"stats hotkeys\r\n").unwrap();
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "END") {
        lines.push(client.line().unwrap());
    }
    assert_eq!(lines[1], "STAT hotkeys:1:key hot%20key", "{lines:?}");
    let number = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let (all, hot) = (number(&lines[0]), number(&lines[2]));
    assert!((all / 12_000.0 - 1.0).abs() < 0.5, "{lines:?}");
    assert!((hot / all - 2.0 / 3.0).abs() < 0.15, "{lines:?}");
    // The test takes less than a minute.
    let rate = number(&lines[4]);
    assert!(
        lines[4].contains("hotkeys:1:gets_per_second") && rate > hot / 60.0,
        "{lines:?}"
    );
    assert!(
        lines[5].starts_with("STAT hotkeys:1:value_bytes "),
        "{lines:?}"
    );
    assert_eq!(lines[6], "STAT hotkeys:2:key cold");
}

fn many_clients_that_do_not_read_leave_receive_buffers_for_others() {
    let server = server(&["-t", "1", "-m", "64"]);
    let mut observer = client(&server);
    observer.set("big", &[b'x'; 10_000]).unwrap();
    // Each client requests more answers than the sockets hold, and continues to send small
    // requests.
    let mut deaf: Vec<Client> = (0..40).map(|_| client(&server)).collect();
    for one in &mut deaf {
        one.send_some(&b"get big\r\n".repeat(1_000)).unwrap();
    }
    for _ in 0..20 {
        for one in &mut deaf {
            one.send_some(b"get big\r\n").unwrap();
        }
        // Other connections receive in between.
        observer.set("other", &[b'y'; 3_000]).unwrap();
    }
    let start = Instant::now();
    for _ in 0..50 {
        assert_eq!(observer.get("other").unwrap().unwrap().len(), 3_000);
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

fn a_line_of_keys_may_have_any_length() {
    let server = server(&[]);
    let mut client = client(&server);
    client.set("last", b"value").unwrap();
    let mut observer = Client::connect(&server.address).unwrap();
    for head in ["get", "gets", "gat 100", "gats 100"] {
        for keys in [100, 4_000, 200_000] {
            let missing: String = (0..keys).map(|key| format!(" missing{key:06}")).collect();
            let before = observer.stat("get_misses").unwrap();
            client.send(format!("{head}{missing} ").as_bytes()).unwrap();
            // A `gat` counts its misses elsewhere.
            if keys == 200_000 && head.starts_with("get") {
                // The keys that have arrived are answered, and not kept.
                let all = |misses| misses == before + keys;
                observer.stat_until("get_misses", all).unwrap();
                let few = |bytes| bytes <= 128 << 10;
                observer.stat_until("conn_buffer_bytes", few).unwrap();
            }
            client.send(b"last\r\n").unwrap();
            assert!(client.line().unwrap().starts_with("VALUE last 0 5"));
            assert_eq!(client.line().unwrap(), "value");
            assert_eq!(client.line().unwrap(), "END");

            let bad = "k".repeat(251);
            let line = format!("{head} last{missing} {bad}{missing}\r\n");
            client.send(line.as_bytes()).unwrap();
            let mut reply = client.line().unwrap();
            if keys > 100 {
                assert!(reply.starts_with("VALUE last 0 5"));
                assert_eq!(client.line().unwrap(), "value");
                reply = client.line().unwrap();
            }
            assert_eq!(reply, "CLIENT_ERROR bad command line format");
            // memcached ends this error with a second line end.
            assert_eq!(client.line().unwrap(), "");
            assert_eq!(client.request("mn").unwrap(), "MN");
        }
    }
}

/// A virtual machine was paused, say. What clients have sent meanwhile was not late.
fn a_server_that_stood_still_closes_no_client_that_was_not_silent() {
    let server = server(&["-o", "idle_timeout=2", "-m", "64"]);
    let mut idle = client(&server);
    idle.set("key", b"value").unwrap();
    let value = vec![b'v'; 900_000];
    let (front, rest) = value.split_at(400_000);
    let mut uploads: Vec<Client> = (0..20).map(|_| client(&server)).collect();
    for upload in &mut uploads {
        upload.send(b"set long 0 0 900000\r\n").unwrap();
        upload.send(front).unwrap();
    }
    let mut asks: Vec<Client> = (0..20).map(|_| client(&server)).collect();
    for ask in &mut asks {
        assert_eq!(ask.request("mn").unwrap(), "MN");
    }
    server.signal(Signal::STOP).unwrap();
    let stopped = Instant::now();
    for ask in &mut asks {
        ask.send(b"get key\r\n").unwrap();
    }
    for upload in &mut uploads {
        // The socket takes a part of it.
        upload.send_some(&rest[..1000]).unwrap();
    }
    thread::sleep(Duration::from_millis(4000).saturating_sub(stopped.elapsed()));
    server.signal(Signal::CONT).unwrap();
    for ask in &mut asks {
        assert_eq!(ask.line().unwrap(), "VALUE key 0 5");
    }
    for upload in &mut uploads {
        upload.send(&rest[1000..]).unwrap();
        upload.send(b"\r\n").unwrap();
    }
    for upload in &mut uploads {
        assert_eq!(upload.line().unwrap(), "STORED");
    }
    let silent = idle.rest().unwrap();
    assert_eq!(silent, b"", "the one that was silent is closed");
}

/// memcached closes the connection without a word.
fn a_line_that_is_too_long_is_answered_before_the_connection_is_closed() {
    let server = server(&[]);
    for line in [
        "a".repeat(3000),
        "x".repeat(20_000) + "\r\n",
        format!("mg a {}", "v".repeat(3000)),
    ] {
        let mut client = client(&server);
        client.send(b"mn\r\n").unwrap();
        client.send(line.as_bytes()).unwrap();
        let told = client.rest().unwrap();
        let told = String::from_utf8_lossy(&told);
        assert_eq!(
            told,
            "MN\r\nCLIENT_ERROR line too long, the limit is 2048 bytes\r\n"
        );
    }
}

/// Of a line 64 KiB are kept, and a client may open any number of connections.
fn incomplete_lines_and_unread_answers_share_one_bound() {
    const LIMIT: u64 = 64 * MIB;
    const CONNECTIONS: u64 = 1200;
    sys::limits::raise_open_files(2 * CONNECTIONS);
    let server = server(&["-m", "64", "-c", "2000"]);
    let mut background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    observer.set("big", &[b'x'; 10_000]).unwrap();
    assert_eq!(observer.stat("conn_buffer_limit").unwrap(), LIMIT);
    assert_eq!(observer.stat("conn_buffer_bytes").unwrap(), 0);
    let before = server.resident_bytes().unwrap();

    let line = [&b"get"[..], &b" key".repeat(15_000)].concat();
    let (mut all, mut most) = (Vec::new(), 0);
    for number in 0..CONNECTIONS {
        let mut one = client(&server);
        // The server may close any of these connections at any time.
        if number % 3 == 2 {
            one.send_some(&b"get big\r\n".repeat(1_000)).unwrap();
        } else {
            one.send_some(&line).unwrap();
        }
        all.push(one);
        let bytes = observer.stat("conn_buffer_bytes").unwrap();
        assert!(
            bytes <= LIMIT,
            "{bytes} bytes, and {number} more connections"
        );
        most = bytes.max(most);
    }
    observer
        .stat_until("conn_buffer_closed", |count| count > 0)
        .unwrap();
    assert!(most > LIMIT / 2, "{most} bytes at most");
    let grown = server.resident_bytes().unwrap().saturating_sub(before);
    // Which memory a connection of `bypass` needs for its packets besides.
    let packets = match runtime() {
        Runtime::Bypass => CONNECTIONS * 128 * 1024,
        _ => 0,
    };
    assert!(grown < LIMIT + packets + 48 * MIB, "grew by {grown} bytes");
    background.wait_rounds(50).unwrap();

    drop(all);
    observer
        .stat_until("conn_buffer_bytes", |bytes| bytes == 0)
        .unwrap();
    observer
        .stat_until("curr_connections", |count| count == 2)
        .unwrap();
    assert_eq!(observer.stat("conn_panics").unwrap(), 0);
    background.stop().unwrap();
}

/// A client that sends requests without pause, and never waits for an answer.
fn an_endless_pipeline_does_not_starve_other_connections() {
    let server = server(&["-t", "1"]);
    let mut background = BackgroundClient::start(&server.address).unwrap();
    let mut greedy = client(&server);
    // Only the last request has an answer.
    let quiet = b"mg no-such-key v q\r\n".repeat(1000);
    let ends = Arc::new(AtomicBool::new(false));
    let asks = thread::spawn({
        let ends = Arc::clone(&ends);
        move || {
            while !ends.load(Ordering::Relaxed) {
                greedy.send(&quiet).unwrap();
            }
            greedy.request("mn").unwrap()
        }
    });
    background.wait_rounds(50).unwrap();
    ends.store(true, Ordering::Relaxed);
    assert_eq!(asks.join().unwrap(), "MN");
    background.stop().unwrap();
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal bypass]
    a_connection_over_the_limit_is_refused_with_an_error,
    requests_sent_byte_by_byte_are_answered,
    a_client_that_never_reads_delays_no_other_and_holds_no_memory,
    a_late_reader_receives_every_byte,
    several_readers_of_long_values_receive_every_byte_and_short_replies_between,
    memory_of_an_upload_is_freed_when_its_client_disconnects,
    begun_uploads_of_strangers_delay_nobody_and_can_be_completed,
    a_value_that_drips_in_is_complete_with_its_last_byte,
    unread_values_of_strangers_delay_nobody_and_are_received_whole,
    waiting_for_memory_costs_no_processor_time,
    connections_that_hold_memory_are_closed_on_every_worker,
    a_client_that_disconnects_while_it_waits_for_memory_is_closed_immediately,
    a_spooled_value_with_a_wrong_end_is_refused_and_its_memory_is_freed,
    a_value_of_two_gibibytes_is_refused_and_its_bytes_are_discarded,
    a_connection_stays_usable_after_a_discarded_value,
    a_key_of_251_bytes_is_refused_and_the_connection_stays_usable,
    a_line_without_an_end_holds_no_memory,
    random_bytes_do_no_harm,
    opened_and_closed_connections_are_counted,
    names_of_hot_keys_are_escaped,
    many_clients_that_do_not_read_leave_receive_buffers_for_others,
    a_line_of_keys_may_have_any_length,
    a_server_that_stood_still_closes_no_client_that_was_not_silent,
    a_line_that_is_too_long_is_answered_before_the_connection_is_closed,
    incomplete_lines_and_unread_answers_share_one_bound,
    an_endless_pipeline_does_not_starve_other_connections,
}
