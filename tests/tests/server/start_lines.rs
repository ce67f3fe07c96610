//! memcached's start lines, through a link named `memcached`: those of operators, of the container
//! image and of Debian's package.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::client::Client;
use curtail_tests::peer::Address;
use curtail_tests::play::REFERENCE_VERSION;
use curtail_tests::process::{Server, curtail_path, free_address, memcached, memcached_command};
use sys::privileges::{find_user, is_root};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A directory that every user may enter, with a link to the program named `memcached`.
struct Installation {
    folder: tempfile::TempDir,
}

impl Installation {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let installed = Self { folder };
        let copy = installed.path("curtail");
        // Another process writes the copy: a child forked meanwhile by another test would inherit
        // this process's descriptor for writing, and running the copy would fail with `ETXTBSY`.
        let copied = Command::new("cp").arg(curtail_path()).arg(&copy).status();
        assert!(copied.unwrap().success());
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
        symlink(&copy, installed.path("memcached")).unwrap();
        installed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The link, called with the arguments of `line`.
    fn memcached(&self, line: &str) -> Command {
        let mut command = Command::new(self.path("memcached"));
        command.args(line.split_whitespace()).stdin(Stdio::null());
        command
    }
}

/// A daemon that is stopped when dropped.
struct Daemon(u32);

impl Daemon {
    fn of(pid_file: &Path) -> Self {
        Self(
            fs::read_to_string(pid_file)
                .unwrap()
                .trim()
                .parse()
                .unwrap(),
        )
    }

    fn has_ended(&self) -> bool {
        // Without a parent that waits for it, an ended daemon may stay as a zombie.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0));
        stat.map_or(true, |stat| stat.contains(") Z "))
    }

    fn stop(&self) {
        let _ = sys::child::terminate(self.0);
        let start = Instant::now();
        while !self.has_ended() {
            assert!(start.elapsed() < TIMEOUT, "the daemon does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = sys::child::terminate(self.0);
    }
}

fn free_port() -> u16 {
    free_address(Ipv4Addr::LOCALHOST).unwrap().port()
}

fn client(port: u16) -> Client {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let start = Instant::now();
    loop {
        match Client::connect(&Address::Tcp(address)) {
            Ok(client) => return client,
            Err(error) => assert!(start.elapsed() < TIMEOUT, "{error:#}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn setting(client: &mut Client, name: &str) -> Option<String> {
    let mut settings = client.stats_of("stats settings").unwrap();
    settings.remove(name)
}

#[test]
fn a_stock_start_line_starts_a_daemon_that_serves() {
    let installed = Installation::new();
    let (port, pid_file) = (free_port(), installed.path("x.pid"));
    let line = format!(
        "-d -m 512 -p {port} -U {port} -u nobody -P {} -c 1024 -o modern",
        pid_file.display()
    );
    let output = installed.memcached(&line).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The pid file and the server exist as soon as the command has ended.
    let daemon = Daemon::of(&pid_file);
    let mut client = client(port);
    assert_eq!(client.stat("pid").unwrap(), u64::from(daemon.0));
    assert_eq!(client.stat("limit_maxbytes").unwrap(), 512 << 20);
    client.set("a", b"1").unwrap();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = b"\0\x07\0\0\0\x01\0\0get a\r\n";
    udp.send_to(request, (Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut reply = [0; 64];
    let len = udp.recv(&mut reply).unwrap();
    assert_eq!(
        &reply[..len],
        b"\0\x07\0\0\0\x01\0\0VALUE a 0 1\r\n1\r\nEND\r\n"
    );
    let streams = fs::read_link(format!("/proc/{}/fd/2", daemon.0));
    if let Ok(stderr) = streams {
        assert_eq!(stderr, Path::new("/dev/null"));
    }
    daemon.stop();
}

/// Relative paths refer to the directory in which the daemon was started.
#[test]
fn a_daemon_removes_its_files_by_relative_paths() {
    let installed = Installation::new();
    let folder = installed.folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    let mut command = installed.memcached("-d -s socket -P pid -u nobody");
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let daemon = Daemon::of(&installed.path("pid"));
    assert!(installed.path("socket").exists());
    daemon.stop();
    assert!(!installed.path("socket").exists());
    assert!(!installed.path("pid").exists());
}

#[test]
fn a_daemon_that_fails_to_start_has_a_status_that_says_so() {
    let installed = Installation::new();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let pid_file = installed.path("x.pid");
    let line = format!("-d -l 127.0.0.1 -p {port} -P {}", pid_file.display());
    let output = installed.memcached(&line).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert!(said(&output).contains(&port.to_string()), "{output:?}");
    assert!(!pid_file.exists());
    let output = installed
        .memcached("-d -u no-such-user-here -p -1")
        .output()
        .unwrap();
    assert_eq!(output.status.success(), !is_root(), "{output:?}");
}

#[test]
fn the_pid_file_is_removed_at_the_end() {
    let installed = Installation::new();
    fs::set_permissions(installed.folder.path(), Permissions::from_mode(0o777)).unwrap();
    let (port, pid_file) = (free_port(), installed.path("x.pid"));
    let line = format!("-l 127.0.0.1 -p {port} --pidf={}", pid_file.display());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut server = Server::at(installed.memcached(&line), Address::Tcp(address)).unwrap();
    let start = Instant::now();
    while fs::read_to_string(&pid_file).ok() != Some(format!("{}\n", server.pid())) {
        assert!(start.elapsed() < TIMEOUT);
        thread::sleep(Duration::from_millis(5));
    }
    server.terminate().unwrap();
    assert!(server.wait().unwrap().success());
    assert!(!pid_file.exists());
}

#[test]
fn port_minus_one_is_a_free_port_written_to_a_file() {
    let installed = Installation::new();
    fs::set_permissions(installed.folder.path(), Permissions::from_mode(0o777)).unwrap();
    let ports = installed.path("ports");
    let mut command = installed.memcached("-vv -Am64 -l 127.0.0.1 -p -1");
    command
        .env("MEMCACHED_PORT_FILENAME", &ports)
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let text = loop {
        match fs::read_to_string(&ports) {
            Ok(text) => break text,
            Err(error) => assert!(start.elapsed() < TIMEOUT, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    let port = text.strip_prefix("TCP INET: ").unwrap().trim().parse();
    let mut client = client(port.unwrap());
    assert_eq!(
        client.request("shutdown now").unwrap(),
        "CLIENT_ERROR invalid shutdown mode"
    );
    client.send(b"shutdown\r\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn signals_act_as_in_memcached() {
    let installed = Installation::new();
    for (signal, ends) in [
        ("HUP", false),
        ("USR1", true),
        ("INT", true),
        ("TERM", true),
    ] {
        let port = free_port();
        let line = format!("-l 127.0.0.1 -p {port}");
        let mut child = installed
            .memcached(&line)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = client(port);
        let kill = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {}", child.id())])
            .status();
        assert!(kill.unwrap().success());
        if ends {
            assert!(child.wait().unwrap().success(), "{signal}");
        } else {
            assert_eq!(client.request("mn").unwrap(), "MN");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

#[test]
fn disabled_commands_answer_as_in_memcached() {
    let installed = Installation::new();
    let theirs = memcached();
    if theirs.is_none() {
        eprintln!("skipped: memcached is not installed: what it answers is not compared");
    }
    for (line, command, expected) in [
        ("-F", "flush_all", "CLIENT_ERROR flush_all not allowed"),
        (
            "-X",
            "stats cachedump 1 1",
            "CLIENT_ERROR stats cachedump not allowed",
        ),
        (
            "-X",
            "stats detail on",
            "CLIENT_ERROR stats detail not allowed",
        ),
        ("-W", "watch", "CLIENT_ERROR watch commands not allowed"),
        ("", "shutdown", "SERVER_ERROR: shutdown not enabled"),
        ("-A", "shutdown now", "CLIENT_ERROR invalid shutdown mode"),
        (
            "",
            "stats detail",
            "CLIENT_ERROR usage: stats detail on|off|dump",
        ),
        ("", "stats detail on", "OK"),
    ] {
        let answers = |command_of: &dyn Fn() -> Command| {
            let server = Server::tcp(|| {
                let mut command = command_of();
                command.args(line.split_whitespace());
                command
            });
            let server = server.unwrap();
            let mut client = Client::connect(&server.address).unwrap();
            (
                client.request("version").unwrap(),
                client.request(command).unwrap(),
            )
        };
        let (_, answer) = answers(&|| installed.memcached(""));
        assert_eq!(answer, expected, "{line} {command}");
        if let Some(path) = &theirs {
            let (version, answer) = answers(&|| memcached_command(path));
            if version.ends_with(REFERENCE_VERSION) {
                assert_eq!(answer, expected, "memcached {line} {command}");
            } else {
                eprintln!("skipped: not for {version}");
            }
        }
    }
}

#[test]
fn counts_by_prefix_are_memcacheds() {
    let installed = Installation::new();
    let dump = |command_of: &dyn Fn() -> Command| {
        let server = Server::tcp(|| {
            let mut command = command_of();
            command.arg("-D/");
            command
        });
        let server = server.unwrap();
        let mut client = Client::connect(&server.address).unwrap();
        for line in [
            "set a/1 0 0 1\r\n1",
            "add a/1 0 0 1\r\n1",
            "delete a/2",
            "set /3 0 0 1\r\n1",
        ] {
            client.request(line).unwrap();
        }
        client.set("none", b"1").unwrap();
        client
            .send(b"get a/1 a/2 none b/1/2\r\nstats detail dump\r\n")
            .unwrap();
        let mut lines = Vec::new();
        while lines.iter().filter(|line| *line == "END").count() < 2 {
            lines.push(client.line().unwrap());
        }
        lines.retain(|line| line.starts_with("PREFIX"));
        lines.sort();
        lines
    };
    let ours = dump(&|| installed.memcached(""));
    assert_eq!(
        ours,
        [
            "PREFIX  get 0 hit 0 set 1 del 0",
            "PREFIX a get 2 hit 1 set 2 del 1",
            "PREFIX b get 1 hit 0 set 0 del 0",
        ]
    );
    match memcached() {
        Some(path) => assert_eq!(ours, dump(&|| memcached_command(&path))),
        None => eprintln!("skipped: memcached is not installed: its counts are not compared"),
    }
}

#[test]
fn flags_without_effect_are_logged_and_shown() {
    let installed = Installation::new();
    let port = free_port();
    let line = format!(
        "-l 127.0.0.1 -p {port} -f 1.5 -n 64 -C -N 2 -o hashpower=20,slab_automove=2 -o \
         no_lru_crawler,idle_timeout=60 --verb"
    );
    let mut child = installed.memcached(&line);
    let child = child.stderr(Stdio::piped()).spawn().unwrap();
    let mut client = client(port);
    for (name, value) in [
        ("growth_factor", "1.50"),
        ("chunk_size", "64"),
        ("cas_enabled", "no"),
        ("hashpower_init", "20"),
        ("slab_automove", "2"),
        ("lru_crawler", "no"),
        ("idle_timeout", "60"),
        ("verbosity", "1"),
    ] {
        assert_eq!(setting(&mut client, name).as_deref(), Some(value), "{name}");
    }
    drop(client);
    sys::child::terminate(child.id()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    for part in [
        "-f 1.5",
        "-n 64",
        "-C",
        "-N 2",
        "hashpower=20",
        "slab_automove=2",
    ] {
        assert!(said(&output).contains(part), "{part}: {output:?}");
    }
}

#[test]
fn flags_of_unserved_security_are_rejected() {
    let installed = Installation::new();
    for line in ["-Z", "-o ssl_key=k", "-l notls:127.0.0.1"] {
        let output = installed.memcached(line).output().unwrap();
        assert!(!output.status.success(), "{line}");
        assert!(said(&output).contains("not served"), "{line}: {output:?}");
    }
}

#[test]
fn help_and_version_are_in_memcacheds_form() {
    let installed = Installation::new();
    let text = |line: &str| {
        let output = installed.memcached(line).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(text("-V").starts_with("memcached 1.6.45"));
    assert_eq!(text("--vers"), text("-V"));
    let help = text("-vh");
    assert!(help.starts_with("memcached 1.6.45"), "{help}");
    if let Some(path) = memcached() {
        let theirs = Command::new(path).arg("-h").output().unwrap().stdout;
        let theirs = String::from_utf8_lossy(&theirs).into_owned();
        // Every flag of memcached's help is in ours, except those that are rejected.
        for flag in theirs.lines().filter(|line| line.starts_with('-')) {
            let name = flag.get(..2).unwrap_or_default();
            let refused = ["-Z", "-e"].contains(&name);
            let is_there = help.lines().any(|line| line.starts_with(name));
            assert!(refused || is_there, "{name} is not in the help");
        }
    }
}

/// The entry point of the container image on Docker Hub executes `memcached` from the path with its
/// arguments, as an unprivileged user.
#[test]
fn the_container_images_command_starts_it() {
    let installed = Installation::new();
    let entry = installed.path("entrypoint.sh");
    let script = "#!/bin/sh\nset -e\nif [ \"${1#-}\" != \"$1\" ]; then\n\tset -- memcached \"$@\"\nfi\n\
                  exec \"$@\"\n";
    fs::write(&entry, script).unwrap();
    let port = free_port();
    for arguments in ["memcached -m 64", "--memory-limit=64 --conn-limit 1024 -t2"] {
        let mut command = Command::new("sh");
        command
            .arg(&entry)
            .args(arguments.split(' '))
            .args(["-p", &port.to_string()])
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", installed.folder.path().display()),
            );
        if is_root() {
            let nobody = find_user("nobody").unwrap().unwrap();
            command.uid(nobody.uid).gid(nobody.gid);
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Server::at(command, Address::Tcp(address)).unwrap();
        let mut client = Client::connect(&server.address).unwrap();
        assert_eq!(client.stat("limit_maxbytes").unwrap(), 64 << 20);
        drop(client);
        server.terminate().unwrap();
        assert!(server.wait().unwrap().success());
    }
}

/// Debian's systemd unit runs a script that reads `/etc/memcached.conf` and executes
/// `/usr/bin/memcached`.
#[test]
fn debians_wrapper_starts_it() {
    const WRAPPER: &str = "/usr/share/memcached/scripts/systemd-memcached-wrapper";
    const PROGRAM: &str = "/usr/bin/memcached";
    if !Path::new(WRAPPER).exists() || !Path::new(PROGRAM).exists() {
        eprintln!("skipped: Debian's package of memcached is not installed");
        return;
    }
    let can_mount = Command::new("unshare").args(["--mount", "true"]).output();
    if !can_mount.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no mount namespace can be made here");
        return;
    }
    let installed = Installation::new();
    fs::set_permissions(installed.folder.path(), Permissions::from_mode(0o777)).unwrap();
    let (port, pid_file) = (free_port(), installed.path("memcached.pid"));
    let settings = installed.path("memcached.conf");
    // The lines that Debian ships, with a port, a user and a pid file of the test.
    let text = format!(
        "# memcached default config file\n-d\nlogfile /var/log/memcached.log\n# -v\n-m 64\n-p \
         {port}\n-u nobody\n-l 127.0.0.1\n# -c 1024\n-P {}\n",
        pid_file.display()
    );
    fs::write(&settings, text).unwrap();
    let script = format!(
        "mount --bind {} {PROGRAM} && exec perl {WRAPPER} {}",
        installed.path("curtail").display(),
        settings.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut server = Server::at(command, Address::Tcp(address)).unwrap();
    let mut client = Client::connect(&server.address).unwrap();
    assert!(
        client.stats().unwrap().contains_key("curtail"),
        "it is ours"
    );
    assert_eq!(Daemon::of(&pid_file).0, server.pid());
    drop(client);
    server.terminate().unwrap();
    assert!(server.wait().unwrap().success());
    assert!(!pid_file.exists());
}
