//! The admin address: its pages, and that its clients disturb nobody.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::admin::{AdminServer, get};
use curtail_tests::background_client::BackgroundClient;
use curtail_tests::client::Client;
use curtail_tests::process::curtail_path;
use serde_json::Value;

/// How long a figure may take to appear on a page, and a server to do what is due.
const TIMEOUT: Duration = Duration::from_secs(10);
const MIB: u64 = 1 << 20;

/// Repeats `check` until it returns something.
fn wait_for<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The memory of expired items is reclaimed although no request arrives. The pages are served by
/// threads of their own, so that asking for them does not wake a worker.
fn expired_items_of_an_idle_server_are_reclaimed() {
    let admin = AdminServer::start(&["-m", "64"]).unwrap();
    let mut cache = admin.cache().unwrap();
    for number in 0..50 {
        cache
            .send(format!("set expires{number} 0 1 5\r\nvalue\r\n").as_bytes())
            .unwrap();
        assert_eq!(cache.line().unwrap(), "STORED");
    }
    cache.set("stays", b"value").unwrap();
    wait_for("the reclamation", || {
        let items = admin.stats_json().unwrap()["stats"]["curr_items"].as_u64();
        (items == Some(1)).then_some(())
    });
    assert_eq!(cache.stat("reclaimed").unwrap(), 50);
    assert_eq!(cache.get("stays").unwrap().unwrap(), b"value");
}

fn the_pages_show_what_stats_shows() {
    let admin = AdminServer::start(&["-m", "64"]).unwrap();
    let mut cache = admin.cache().unwrap();
    cache.set("key", b"value").unwrap();
    for _ in 0..9 {
        cache.get("key").unwrap();
    }
    cache.get("absent").unwrap();

    let stats = cache.stats().unwrap();
    let json = admin.stats_json().unwrap();
    let names = |object: &Value| -> BTreeSet<String> {
        object.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&json["stats"]), stats.keys().cloned().collect());
    for name in [
        "pid",
        "cmd_get",
        "cmd_set",
        "get_hits",
        "get_misses",
        "curr_items",
        "threads",
    ] {
        assert_eq!(json["stats"][name].to_string(), stats[name], "{name}");
    }
    assert_eq!(json["stats"]["version"], stats["version"].as_str());
    assert!(json["stats"]["rusage_user"].is_number());
    assert_eq!(json["settings"]["maxbytes"], 64 * MIB);

    let metrics = admin.page("/metrics").unwrap();
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(
        (metrics.status, metrics.content_type.as_str()),
        (200, content_type)
    );
    assert_eq!(metrics.sample("curtail_cmd_get_total").unwrap(), 10);
    assert_eq!(metrics.sample("curtail_get_misses_total").unwrap(), 1);
    assert_eq!(metrics.sample("curtail_items").unwrap(), 1);
    assert_eq!(metrics.sample("curtail_limit_bytes").unwrap(), 64 * MIB);
    assert!(metrics.body.ends_with("# EOF\n"));
    // A new statistic needs a row in crates/admin/src/pages/rows.rs.
    let unlisted: Vec<&str> = metrics
        .body
        .lines()
        .filter(|line| line.contains("unlisted"))
        .collect();
    assert_eq!(unlisted, [""; 0]);

    assert_eq!(admin.page("/health").unwrap().body, "ok\n");
    assert_eq!(admin.page("/ready").unwrap().status, 200);
    assert_eq!(
        admin.page("/").unwrap().content_type,
        "text/html; charset=utf-8"
    );
    assert_eq!(admin.page("/nothing").unwrap().status, 404);
}

fn the_figures_of_documents_have_metrics_too() {
    let root = tempfile::tempdir().unwrap();
    let (path, log) = (root.path().to_str().unwrap(), root.path().join("log"));
    let flags = [
        "-u",
        "root",
        "-o",
        "idle_timeout=60",
        "--root",
        path,
        "--http-log",
    ];
    let mut flags = flags.to_vec();
    flags.push(log.to_str().unwrap());
    flags.extend(["--http", "127.0.0.1:0"]);
    let admin = AdminServer::start(&flags).unwrap();
    let metrics = admin.page("/metrics").unwrap();
    assert_eq!(metrics.sample("curtail_http_connections").unwrap(), 0);
    assert_eq!(metrics.sample("curtail_http_log_dropped_total").unwrap(), 0);
    assert!(
        metrics
            .body
            .contains("curtail_http_burst_connections_bucket")
    );
    assert!(!metrics.body.contains("unlisted"), "{}", metrics.body);
}

/// The server answers a head that it rejects before the rest of the request has arrived. It must
/// not reset the connection then, because the reset could overtake the reply.
fn a_client_that_sends_a_rejected_request_to_its_end_reads_the_reply() {
    let admin = AdminServer::start(&[]).unwrap();
    let body = vec![b'x'; 8 << 20];
    let content = "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 8388608\r\n\r\n";
    let cookie = "GET / HTTP/1.1\r\nHost: test\r\nCookie: ";
    for (head, status) in [(content, "HTTP/1.1 413 "), (cookie, "HTTP/1.1 431 ")] {
        let mut client = TcpStream::connect(admin.address).unwrap();
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&body).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with(status), "{reply}");
    }
}

fn every_request_is_in_the_histogram_of_its_class() {
    let admin = AdminServer::start(&[]).unwrap();
    let mut cache = admin.cache().unwrap();
    cache.set("key", b"1").unwrap();
    for _ in 0..20 {
        cache.get("key").unwrap();
    }
    assert_eq!(cache.request("incr key 1").unwrap(), "2");
    assert_eq!(cache.request("touch key 0").unwrap(), "TOUCHED");
    assert_eq!(cache.request("delete key").unwrap(), "DELETED");
    // A burst may be recorded after the client has its replies.
    wait_for("recording", || {
        let page = admin.page("/metrics").unwrap();
        let count = |class: &str| {
            let series = format!("curtail_command_duration_seconds_count{{command=\"{class}\"}}");
            page.sample(&series).unwrap()
        };
        let classes = ["get", "set", "arith", "touch", "delete", "other"];
        (classes.map(count) == [20, 1, 1, 1, 1, 0]).then_some(())
    });
    let latency = &admin.stats_json().unwrap()["latency"]["get"];
    assert_eq!(latency["count"], 20);
    let sum_s = latency["sum_seconds"].as_f64().unwrap();
    assert!(sum_s > 0.0 && sum_s < 20.0, "{sum_s}");
}

fn the_histogram_can_be_turned_off() {
    let admin = AdminServer::start(&["--no-latency"]).unwrap();
    admin.cache().unwrap().get("key").unwrap();
    assert!(
        !admin
            .page("/metrics")
            .unwrap()
            .body
            .contains("command_duration")
    );
    assert_eq!(admin.stats_json().unwrap()["latency"], Value::Null);
}

fn a_taken_address_is_an_error_that_names_it() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(curtail_path())
        .args(["serve", "-l", "127.0.0.1", "-p", "-1", "--admin", &address])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&address) && said.contains("--admin"),
        "{said}"
    );
}

/// Slow, huge, many, and one that reads nothing.
fn hostile_admin_clients_disturb_nobody() {
    let mut admin = AdminServer::start(&["--drain", "500ms"]).unwrap();
    let mut observer = admin.cache().unwrap();
    let mut background = BackgroundClient::start(&admin.server.address).unwrap();
    background.wait_rounds(50).unwrap();
    let resident_before = admin.server.resident_bytes().unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let slow = connect_many(&admin, 200);
    let slow = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || drip(slow, &stop))
    };
    let flood = {
        let (stop, mut client) = (Arc::clone(&stop), admin.client().unwrap());
        thread::spawn(move || {
            // It may be disconnected, as any admin client.
            while !stop.load(Ordering::Relaxed) && get(&mut client, "/metrics", "").is_ok() {}
        })
    };
    // It asks for pages and reads none, until the server reads no more of it either.
    let mut deaf = admin.client().unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n";
    assert!(deaf.send_some(&request.repeat(1 << 20)).unwrap() < request.len() << 20);
    // The server says that a head is too large long before its end, and closes.
    let mut huge = admin.client().unwrap();
    huge.send(b"GET / HTTP/1.1\r\nHost: test\r\nCookie: ")
        .unwrap();
    huge.send_some(&vec![b'c'; 10 << 20]).unwrap();
    let told = huge.rest().unwrap();
    assert!(
        told.is_empty() || told.starts_with(b"HTTP/1.1 431 "),
        "{told:?}"
    );

    // Others are served: those of the cache, and those of the pages.
    background.wait_rounds(200).unwrap();
    assert_eq!(admin.page("/health").unwrap().status, 200);
    let resident = admin.server.resident_bytes().unwrap();
    assert!(
        resident < resident_before + 48 * MIB,
        "{resident_before} then {resident}"
    );

    // There are no more connections than the admin address may have, and one too many is told so.
    let many = connect_many(&admin, 300);
    let refused = wait_for("a rejection", || {
        let mut client = admin.client().unwrap();
        let told = client.line().ok()?;
        told.starts_with("HTTP/1.1 503 ").then_some(told)
    });
    assert!(refused.contains("Unavailable"), "{refused}");
    background.wait_rounds(200).unwrap();
    // None of them is a connection of the cache: there are the background's and the observer's.
    observer
        .stat_until("curr_connections", |count| count == 2)
        .unwrap();
    for figure in [
        "rejected_connections",
        "conn_panics",
        "worker_restarts",
        "conn_buffer_closed",
    ] {
        assert_eq!(observer.stat(figure).unwrap(), 0, "{figure}");
    }

    drop(many);
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    wait_for("a page", || {
        let page = admin.page("/health").ok()?;
        (page.status == 200).then_some(())
    });
    background.stop().unwrap();
    // Clients that are in the middle of something do not keep the server from stopping.
    admin.server.terminate().unwrap();
    assert!(admin.server.wait().unwrap().success());
    drop((deaf, slow.join()));
}

/// Connects this often. Each time before more connections wait to be accepted than the kernel
/// keeps, it asks for a page, whose connection is accepted, or refused, after them. Otherwise the
/// kernel would try again, a second later.
fn connect_many(admin: &AdminServer, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    while clients.len() < count {
        if clients.len() % 32 == 31 {
            let _ = admin.page("/health");
        }
        clients.push(admin.client().unwrap());
    }
    clients
}

/// Sends a request on each connection, a byte a second, until told to stop. Returns the
/// connections.
fn drip(mut clients: Vec<Client>, stop: &AtomicBool) -> Vec<Client> {
    for byte in b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n" {
        for client in &mut clients {
            // The server may have closed it for taking too long.
            let _ = client.socket.write(&[*byte]);
        }
        let next = Instant::now() + Duration::from_secs(1);
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) {
                return clients;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    clients
}

curtail_tests::on_runtimes! {
    [events rings threads fibres]
    expired_items_of_an_idle_server_are_reclaimed,
    the_pages_show_what_stats_shows,
    the_figures_of_documents_have_metrics_too,
    a_client_that_sends_a_rejected_request_to_its_end_reads_the_reply,
    every_request_is_in_the_histogram_of_its_class,
    the_histogram_can_be_turned_off,
    a_taken_address_is_an_error_that_names_it,
    hostile_admin_clients_disturb_nobody,
}
