//! The life of a server process: command line, listening, limits, signals, exit.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::background_client::BackgroundClient;
use curtail_tests::client::Client;
use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail, curtail_path, server};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

fn client(server: &Server) -> Client {
    Client::connect(&server.address).unwrap()
}

/// Runs the program until it exits.
fn run(arguments: &[&str]) -> Output {
    Command::new(curtail_path())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn unix_server(folder: &Path, arguments: &[&str]) -> Server {
    let path = folder.join("socket");
    let mut command = curtail();
    command.arg("-s").arg(&path).args(arguments);
    Server::at(command, Address::Unix(path)).unwrap()
}

fn a_unix_socket_has_the_given_mask() {
    let folder = tempfile::tempdir().unwrap();
    // The user that the server runs as must be able to remove its socket.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    for (arguments, mode) in [
        (&[][..], 0o700),
        (&["-a", "0640"], 0o640),
        (&["-a", "777"], 0o777),
    ] {
        let mut server = unix_server(folder.path(), arguments);
        let path = folder.path().join("socket");
        let about = fs::metadata(&path).unwrap();
        assert!(about.file_type().is_socket());
        assert_eq!(about.permissions().mode() & 0o777, mode, "{arguments:?}");
        let mut client = client(&server);
        client.set("a", b"1").unwrap();
        assert_eq!(client.get("a").unwrap().unwrap(), b"1");
        drop(client);
        server.terminate().unwrap();
        assert!(server.wait().unwrap().success());
        assert!(!path.exists(), "the socket went with its server");
    }
}

fn a_stale_unix_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    // A killed server cannot remove its socket.
    drop(unix_server(folder.path(), &[]));
    let path = folder.path().join("socket");
    assert!(path.exists());
    // The kernel may close the listener of a ring a moment later: a connection made before that
    // would never be accepted.
    while UnixStream::connect(&path).is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
    let server = unix_server(folder.path(), &[]);
    assert_eq!(client(&server).request("mn").unwrap(), "MN");
}

fn port_zero_is_no_port() {
    let folder = tempfile::tempdir().unwrap();
    let server = unix_server(folder.path(), &["-p", "0"]);
    assert_eq!(client(&server).request("mn").unwrap(), "MN");
    assert_eq!(listening_tcp_sockets(server.pid()), 0);
}

fn a_port_in_use_is_an_error_that_names_it() {
    let server = server(&[]);
    let Address::Tcp(address) = server.address else {
        panic!("{:?}", server.address);
    };
    let port = address.port().to_string();
    let output = run(&["serve", "-l", "127.0.0.1", "-p", &port]);
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains(&port), "{message}");
    assert_eq!(client(&server).request("mn").unwrap(), "MN");
}

fn an_unknown_flag_is_an_error_that_names_it() {
    for flag in ["--nonsense", "-J"] {
        let output = run(&["serve", flag]);
        assert!(!output.status.success(), "{flag}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(flag), "{flag}: {message}");
    }
}

fn a_value_out_of_range_is_an_error_that_names_the_flag() {
    for (flag, value) in [
        ("-c", "0"),
        ("-t", "0"),
        ("-p", "70000"),
        ("-I", "1"),
        ("-m", "x"),
    ] {
        let output = run(&["serve", flag, value]);
        assert!(!output.status.success(), "{flag} {value}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(flag), "{flag} {value}: {message}");
        assert!(message.contains(value), "{flag} {value}: {message}");
    }
}

fn help_and_version_start_as_memcached_does() {
    for flags in [["serve", "-h"], ["serve", "-V"]] {
        let output = run(&flags);
        assert!(output.status.success(), "{flags:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.is_empty(), "{flags:?}");
    }
}

/// Standard error is a full disk, or a pipe without a reader.
fn it_serves_when_standard_error_cannot_be_written() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    for to in [Stdio::from(full), Stdio::from(gone)] {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let path = folder.path().join("socket");
        let mut command = curtail();
        command.arg("-vv").arg("-s").arg(&path).stderr(to);
        let mut server = Server::at(command, Address::Unix(path)).unwrap();
        let mut client = client(&server);
        client.set("a", b"1").unwrap();
        drop(client);
        server.terminate().unwrap();
        assert!(server.wait().unwrap().success());
    }
}

fn root_privileges_are_dropped_for_the_given_user() {
    if !sys::privileges::is_root() {
        eprintln!("skipped: not root, nothing to give up");
        return;
    }
    let nobody = sys::privileges::find_user("nobody").unwrap().unwrap();
    let server = server(&["-u", "nobody"]);
    // It listens as root, and answers as the given user.
    assert_eq!(client(&server).request("mn").unwrap(), "MN");
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    for (field, number) in [("Uid:", nobody.uid), ("Gid:", nobody.gid)] {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        let expected = number.to_string();
        let mut numbers = line.split_whitespace().skip(1);
        assert!(numbers.all(|word| word == expected), "{line}");
    }
}

fn root_privileges_are_dropped_without_a_given_user_and_a_line_says_so() {
    if !sys::privileges::is_root() {
        eprintln!("skipped: not root, nothing to give up");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let server = Server::tcp(|| {
        let mut command = curtail();
        command.stderr(File::create(&log).unwrap());
        command
    })
    .unwrap();
    assert_eq!(client(&server).request("mn").unwrap(), "MN");
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .unwrap();
    assert!(
        !line.split_whitespace().skip(1).any(|word| word == "0"),
        "{line}"
    );
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("root"), "{said}");
}

fn an_unknown_user_is_an_error_that_names_it() {
    if !sys::privileges::is_root() {
        eprintln!("skipped: not root, nothing to give up");
        return;
    }
    let output = run(&[
        "serve",
        "-l",
        "127.0.0.1",
        "-p",
        "0",
        "-u",
        "no-such-user-here",
    ]);
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("no-such-user-here"), "{message}");
}

fn without_descriptors_new_connections_wait_and_open_ones_are_served() {
    // Only root or a process's own user may change its limits.
    let same_user: &[&str] = if sys::privileges::is_root() {
        &["-u", "root"]
    } else {
        &[]
    };
    let server = server(same_user);
    let mut background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = client(&server);
    assert_eq!(observer.request("mn").unwrap(), "MN");
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    limit_descriptors(&server, open.count() as u64 + 4);

    let mut newcomers: Vec<Client> = (0..12).map(|_| client(&server)).collect();
    observer
        .stat_until("listen_disabled_num", |count| count > 0)
        .unwrap();
    background.wait_rounds(100).unwrap();
    // Accepted connections are served while the others wait.
    assert_eq!(newcomers[0].request("mn").unwrap(), "MN");

    // When the first connections close, the waiting ones are accepted.
    newcomers.drain(..8);
    for newcomer in &mut newcomers {
        assert_eq!(newcomer.request("mn").unwrap(), "MN");
    }
    observer
        .stat_until("accepting_conns", |accepting| accepting == 1)
        .unwrap();
    background.stop().unwrap();
}

fn on_sigterm_it_completes_requests_in_progress_and_exits_with_success() {
    let mut server = server(&[]);
    let mut observer = client(&server);
    observer.set("big", &[b'x'; 1_000_000]).unwrap();

    // One client waits for its answers, one is in the middle of a value, one is idle.
    const COUNT: usize = 20;
    let mut asking = client(&server);
    asking.send(&b"get big\r\n".repeat(COUNT)).unwrap();
    let mut storing = client(&server);
    let read_before = observer.stat("bytes_read").unwrap();
    storing.send(b"set half 0 0 10000\r\n").unwrap();
    storing.send(&[b'h'; 5000]).unwrap();
    observer
        .stat_until("bytes_read", |count| count >= read_before + 5000)
        .unwrap();
    observer.stat_until("cmd_get", |count| count > 0).unwrap();

    server.terminate().unwrap();
    storing.send(&[b'h'; 5000]).unwrap();
    storing.send(b"\r\n").unwrap();
    assert_eq!(
        String::from_utf8(storing.rest().unwrap()).unwrap(),
        "STORED\r\n"
    );

    let answer_len = "VALUE big 0 1000000\r\n".len() + 1_000_000 + "\r\nEND\r\n".len();
    let answers = asking.rest().unwrap();
    assert_eq!(answers.len() % answer_len, 0, "an answer was cut off");
    assert!(!answers.is_empty());
    assert_eq!(observer.rest().unwrap(), b"");
    assert!(server.address.connect(Duration::from_secs(1)).is_err());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

fn on_sigterm_it_waits_for_a_bounded_time() {
    const DRAIN: Duration = Duration::from_millis(300);
    let mut server = server(&["--drain", "300ms"]);
    let mut observer = client(&server);
    let read_before = observer.stat("bytes_read").unwrap();
    let mut stuck = client(&server);
    stuck.send(b"set half 0 0 10000\r\nhalf").unwrap();
    observer
        .stat_until("bytes_read", |count| count >= read_before + 24)
        .unwrap();
    let since = Instant::now();
    server.terminate().unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let waited = since.elapsed();
    assert!(waited >= DRAIN, "it waited for {waited:?}");
}

fn limit_descriptors(server: &Server, most: u64) {
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

/// The number of listening TCP sockets of a process, from `/proc`.
fn listening_tcp_sockets(pid: u32) -> usize {
    const LISTEN: &str = "0A";
    let mut inodes = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words[3] == LISTEN {
                inodes.push(format!("socket:[{}]", words[9]));
            }
        }
    }
    fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter(|link| {
            inodes
                .iter()
                .any(|inode| link.as_os_str() == inode.as_str())
        })
        .count()
}

fn the_server_locks_all_its_memory_or_does_not_start() {
    let arguments = ["-k", "-m", "64", "-t", "1"];
    let command = || {
        let mut command = curtail();
        command.args(arguments);
        command
    };
    // If the limit of locked memory is lower and cannot be raised, the server reports that and does
    // not start; no client can connect meanwhile.
    let Ok(server) = Server::tcp(command) else {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut all = vec!["serve", "-s", path.to_str().unwrap()];
        all.extend(arguments);
        let told = run(&all);
        assert_eq!(told.status.code(), Some(1));
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.contains("-k"), "{told}");
        return;
    };
    let mut client = client(&server);
    for number in 0..100 {
        let key = format!("key{number}");
        client.set(&key, &[b'v'; 900_000]).unwrap();
    }
    assert!(client.stat("bytes").unwrap() > 50_000_000);
}

fn without_an_address_it_listens_on_ipv4_and_ipv6() {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    // Another process may bind the port before the server does.
    let started = (0..5).find_map(|_| {
        let free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = curtail();
        command.args(["-p", &port.to_string()]);
        let address = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        Server::at(command, Address::Tcp(address)).ok()
    });
    let mut server = started.unwrap();
    assert_eq!(client(&server).request("mn").unwrap(), "MN");
    if let Address::Tcp(address) = &mut server.address {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    assert_eq!(client(&server).request("mn").unwrap(), "MN");
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal]
    a_unix_socket_has_the_given_mask,
    a_stale_unix_socket_is_replaced,
    port_zero_is_no_port,
    a_port_in_use_is_an_error_that_names_it,
    an_unknown_flag_is_an_error_that_names_it,
    a_value_out_of_range_is_an_error_that_names_the_flag,
    help_and_version_start_as_memcached_does,
    it_serves_when_standard_error_cannot_be_written,
    root_privileges_are_dropped_for_the_given_user,
    root_privileges_are_dropped_without_a_given_user_and_a_line_says_so,
    an_unknown_user_is_an_error_that_names_it,
    without_descriptors_new_connections_wait_and_open_ones_are_served,
    on_sigterm_it_completes_requests_in_progress_and_exits_with_success,
    on_sigterm_it_waits_for_a_bounded_time,
    the_server_locks_all_its_memory_or_does_not_start,
    without_an_address_it_listens_on_ipv4_and_ipv6,
}
