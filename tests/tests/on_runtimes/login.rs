//! Passwords: `-Y` for text, `-S` for the binary protocol. The conversations of text are those of
//! memcached too.

mod sasl;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::client::Client;
use curtail_tests::pattern::show;
use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail, memcached_command, reference_memcached};
use curtail_tests::served_pool::Pool;
use protocol::limits::{LINE_MAX, LOGIN_TOKEN_MAX};
use rustix::process::Signal;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(10);
const PASSWORDS: &str = "foo:bar\nbaaaz:quux:x\r\nlast:one";

/// The end of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The connection is open, and the client has logged in.
    LoggedIn,
    /// The connection is open, and the client has not logged in.
    Refused,
    /// The server closes the connection.
    Closed,
}

/// A command whose reply shows whether the client has logged in.
const PROBE: &[u8] = b"set k 0 0 7\r\nfoo-bar\r\n";

/// What a client sends and receives, in turns, and the end.
type Conversation = (Vec<(Vec<u8>, &'static str)>, End);

const NO_TOKEN: &str = "CLIENT_ERROR bad authentication token format\r\n";

fn conversations() -> Vec<Conversation> {
    const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated\r\n";
    const FAILED: &str = "CLIENT_ERROR authentication failure\r\n";
    let open = |turns: &[(&str, &'static str)]| {
        let turns = turns
            .iter()
            .map(|(input, reply)| (input.as_bytes().to_vec(), *reply));
        let turns: Vec<_> = turns.collect();
        let has_logged_in = turns.iter().any(|(_, reply)| *reply == "STORED\r\n");
        let end = match has_logged_in {
            true => End::LoggedIn,
            false => End::Refused,
        };
        (turns, end)
    };
    let closed = |input: &[u8]| (vec![(input.to_vec(), "")], End::Closed);
    let mut conversations = vec![
        open(&[
            ("set any 0 0 7\r\nfoo bar\r\n", "STORED\r\n"),
            ("set foo 0 0 2\r\nhi\r\n", "STORED\r\n"),
            ("get foo\r\n", "VALUE foo 0 2\r\nhi\r\nEND\r\n"),
            ("mn\r\n", "MN\r\n"),
        ]),
        open(&[
            ("set k 1 2 12\r\nbaaaz quux:x\r\n", "STORED\r\n"),
            ("version\r\n", "VERSION 1.6.45\r\n"),
        ]),
        open(&[
            ("setx a b c 8 noreply\r\nlast one\r\n", "STORED\r\n"),
            ("set k 0 0 8\r\nlast one\r\n", "STORED\r\n"),
            ("get k\r\n", "VALUE k 0 8\r\nlast one\r\nEND\r\n"),
        ]),
        // The value of a command that is refused is the next command.
        open(&[
            ("get foo\r\n", UNAUTHENTICATED),
            ("add foo 0 0 7\r\n", UNAUTHENTICATED),
            ("version\r\n", UNAUTHENTICATED),
            ("set foo 0 0 6\r\nsecret\r\n", NO_TOKEN),
            ("set any 0 0 7\r\nfoo bab\r\n", FAILED),
            ("set any 0 0 8\r\nfoo bar \r\n", FAILED),
            ("set any 0 0 5\r\n foo \r\n", FAILED),
            ("set any 0 0 0\r\n\r\n", NO_TOKEN),
            ("set any 0 0 7\r\nfoo-bar\r\n", NO_TOKEN),
            (
                "set any 0 0 2147483646\r\n",
                "CLIENT_ERROR auth token too long\r\n",
            ),
            ("set any 0 0 7\r\nfoo bar\r\n", "STORED\r\n"),
            ("get absent\r\n", "END\r\n"),
        ]),
        open(&[(
            "set any 0 0 7\r\nfoo barrr",
            "CLIENT_ERROR bad command line termination\r\n",
        )]),
        closed(b"mn\r\n"),
        closed(b"quit\r\n"),
        closed(&[b'x'; LINE_MAX + 1]),
    ];
    for refused in [
        "stats",
        "shutdown",
        "mg foo v",
        "ms foo 2",
        " set any 0 0 7",
        "set any 0 0",
        "set any 0 0 -1",
        "set any 0 0 99999999999",
    ] {
        conversations.push(open(&[(&format!("{refused}\r\n"), UNAUTHENTICATED)]));
    }
    conversations
}

/// A folder with a file of passwords that every user may read.
struct Passwords {
    folder: TempDir,
}

impl Passwords {
    fn new(content: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let passwords = Self { folder };
        passwords.write(content);
        passwords
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("passwords")
    }

    fn write(&self, content: &str) {
        fs::write(self.path(), content).unwrap();
        self.set_mode(0o644);
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.path(), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn server(&self, flags: &[&str]) -> Server {
        let path = self.path();
        Server::tcp(|| with(curtail(), &path, flags)).unwrap()
    }

    /// A server, and the file with its lines for the operator.
    fn logging_server(&self) -> (Server, PathBuf) {
        let (path, log) = (self.path(), self.folder.path().join("log"));
        let start = || {
            let mut command = with(curtail(), &path, &[]);
            command.stderr(fs::File::create(&log).unwrap());
            command
        };
        (Server::tcp(start).unwrap(), log)
    }
}

fn with(mut command: Command, passwords: &Path, flags: &[&str]) -> Command {
    command.arg("-Y").arg(passwords).args(flags);
    command
}

/// Sends in pieces of this length, and compares the bytes of a reply, of which there may be more.
fn exchange(client: &mut Client, input: &[u8], reply: &str, piece_len: usize) {
    send(client, input, piece_len);
    let received = client.take(reply.len()).unwrap();
    compare(input, &received, reply, piece_len);
}

/// As [`exchange`], at the end of a conversation: nothing else may be received.
fn exchange_last(client: &mut Client, input: &[u8], reply: &str, end: End, piece_len: usize) {
    let probe_reply = match end {
        End::LoggedIn => "STORED\r\n",
        End::Refused => NO_TOKEN,
        End::Closed => {
            send(client, input, piece_len);
            return compare(input, &client.rest().unwrap(), reply, piece_len);
        }
    };
    exchange(client, input, reply, piece_len);
    exchange(client, PROBE, probe_reply, piece_len);
    client.socket.shutdown_send().unwrap();
    compare(PROBE, &client.rest().unwrap(), "", piece_len);
}

fn send(client: &mut Client, input: &[u8], piece_len: usize) {
    for piece in input.chunks(piece_len) {
        // The server may close the connection before it has all.
        if client.send(piece).is_err() {
            break;
        }
    }
}

fn compare(input: &[u8], received: &[u8], reply: &str, piece_len: usize) {
    let (received, expected) = (show(received), show(reply.as_bytes()));
    assert_eq!(
        received,
        expected,
        "to {} in pieces of {piece_len}",
        show(input)
    );
}

/// Holds all conversations turn by turn.
fn converse(server: &Server, piece_len: usize) {
    for (turns, end) in conversations() {
        let mut client = Client::connect(&server.address).unwrap();
        let (last, earlier) = turns.split_last().unwrap();
        for (input, reply) in earlier {
            exchange(&mut client, input, reply, piece_len);
        }
        let (input, reply) = last;
        exchange_last(&mut client, input, reply, end, piece_len);
    }
}

/// Holds all conversations, the input of each at once.
fn converse_at_once(server: &Server) {
    for (turns, end) in conversations() {
        let mut client = Client::connect(&server.address).unwrap();
        let inputs: Vec<&[u8]> = turns.iter().map(|(input, _)| &**input).collect();
        let replies: String = turns.iter().map(|(_, reply)| *reply).collect();
        exchange_last(&mut client, &inputs.concat(), &replies, end, usize::MAX);
    }
}

fn conversations_with_passwords() {
    let passwords = Passwords::new(PASSWORDS);
    let server = passwords.server(&[]);
    converse(&server, usize::MAX);
    converse(&server, 1);
}

/// Not played to memcached, which sends only the last of several refusals.
fn requests_behind_a_login_are_answered_with_its_outcome() {
    let passwords = Passwords::new(PASSWORDS);
    converse_at_once(&passwords.server(&[]));
}

fn conversations_with_passwords_over_a_unix_socket() {
    let passwords = Passwords::new(PASSWORDS);
    let socket = passwords.folder.path().join("socket");
    let mut command = with(curtail(), &passwords.path(), &[]);
    command.arg("-s").arg(&socket).args(["-a", "777"]);
    let server = Server::at(command, Address::Unix(socket)).unwrap();
    converse(&server, usize::MAX);
    converse_at_once(&server);
}

/// Sessions whose items are in a pool are another state machine.
fn conversations_with_passwords_and_a_pool() {
    let pool = Pool::start("16MiB");
    let passwords = Passwords::new(PASSWORDS);
    let server = passwords.server(&["-t", "1", "--pool", &pool.address()]);
    let mut client = Client::connect(&server.address).unwrap();
    exchange(
        &mut client,
        b"set k 0 0 7\r\nfoo bar\r\n",
        "STORED\r\n",
        usize::MAX,
    );
    client
        .stat_until("pool_clients_ready", |ready| ready == 1)
        .unwrap();
    converse(&server, usize::MAX);
    converse(&server, 1);
    converse_at_once(&server);
}

/// memcached's buffer is too short for the longest token that it allows.
fn longest_token_is_compared_and_not_more() {
    let passwords = Passwords::new(PASSWORDS);
    let server = passwords.server(&[]);
    let mut client = Client::connect(&server.address).unwrap();
    let line = format!("set any 0 0 {LOGIN_TOKEN_MAX}\r\nfoo ");
    let longest = [line.as_bytes(), &[b'x'; LOGIN_TOKEN_MAX - 4], b"\r\n"].concat();
    let failed = "CLIENT_ERROR authentication failure\r\n";
    exchange(&mut client, &longest, failed, usize::MAX);
    let line = format!("set any 0 0 {}\r\n", LOGIN_TOKEN_MAX + 1);
    let too_long = "CLIENT_ERROR auth token too long\r\n";
    exchange_last(
        &mut client,
        line.as_bytes(),
        too_long,
        End::Refused,
        usize::MAX,
    );
}

fn conversations_with_passwords_of_memcached() {
    // Some others crash at a long token.
    let Some(path) = reference_memcached() else {
        return;
    };
    let passwords = Passwords::new(PASSWORDS);
    let file = passwords.path();
    let server = Server::tcp(|| with(memcached_command(&path), &file, &[])).unwrap();
    converse(&server, usize::MAX);
    converse(&server, 1);
}

fn logins_and_their_failures_are_counted() {
    let passwords = Passwords::new(PASSWORDS);
    let server = passwords.server(&[]);
    let mut client = Client::connect(&server.address).unwrap();
    for password in ["bad", "ba", "bar"] {
        let len = 4 + password.len();
        client
            .send(format!("set k 0 0 {len}\r\nfoo {password}\r\n").as_bytes())
            .unwrap();
        client.line().unwrap();
    }
    let stats = client.stats().unwrap();
    assert_eq!((&*stats["auth_cmds"], &*stats["auth_errors"]), ("3", "2"));
    let settings = client.stats_of("stats settings").unwrap();
    let path = passwords.path();
    assert_eq!(Path::new(&settings["auth_enabled_ascii"]), path);
    assert_eq!(settings["auth_enabled_sasl"], "no");
    assert_eq!(settings["binding_protocol"], "ascii");
}

/// Whether a new client of text can log in.
fn logs_in(server: &Server, user_and_password: &str) -> bool {
    let mut client = Client::connect(&server.address).unwrap();
    let len = user_and_password.len();
    client
        .send(format!("set k 0 0 {len}\r\n{user_and_password}\r\n").as_bytes())
        .unwrap();
    client.line().unwrap() == "STORED"
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "not after {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

fn passwords_are_read_again_on_sighup_unless_the_file_is_malformed() {
    let passwords = Passwords::new("foo:bar");
    let (server, log) = passwords.logging_server();
    let mut early = Client::connect(&server.address).unwrap();
    early.send(b"set k 0 0 7\r\nfoo bar\r\n").unwrap();
    assert_eq!(early.line().unwrap(), "STORED");

    passwords.write("foo:new");
    server.signal(Signal::HUP).unwrap();
    wait_until("the new password is valid", || logs_in(&server, "foo new"));
    assert!(!logs_in(&server, "foo bar"));
    assert_eq!(
        early.request("mn").unwrap(),
        "MN",
        "a client that has logged in stays so"
    );

    passwords.write("no colon");
    server.signal(Signal::HUP).unwrap();
    let says = |text: &str| fs::read_to_string(&log).unwrap().contains(text);
    wait_until("the failure is logged", || {
        says("again: line 1 is not USER:PASSWORD")
    });
    assert!(logs_in(&server, "foo new"));
    assert!(!says("colon"), "the log shows a part of the file");

    // A file that is written in its place is empty at first.
    passwords.write("");
    server.signal(Signal::HUP).unwrap();
    wait_until("the failure is logged", || {
        says("again: it has no passwords")
    });
    assert!(logs_in(&server, "foo new"));
}

/// A password could otherwise stay valid although the operator has deleted it.
fn file_that_cannot_be_read_again_is_reported_and_counted() {
    let passwords = Passwords::new("foo:bar");
    let (server, log) = passwords.logging_server();
    let says = |text: &str| fs::read_to_string(&log).unwrap().contains(text);
    let mut client = Client::connect(&server.address).unwrap();
    client.send(b"set k 0 0 7\r\nfoo bar\r\n").unwrap();
    assert_eq!(client.line().unwrap(), "STORED");
    assert_eq!(client.stat("password_reload_failures").unwrap(), 0);
    assert!(!says("cannot be read again"));

    passwords.write("foo:new");
    passwords.set_mode(0o000);
    server.signal(Signal::HUP).unwrap();
    client
        .stat_until("password_reload_failures", |count| count == 1)
        .unwrap();
    wait_until("the failure is logged", || says("again: Permission denied"));
    assert!(logs_in(&server, "foo bar") && !logs_in(&server, "foo new"));

    passwords.set_mode(0o644);
    server.signal(Signal::HUP).unwrap();
    wait_until("the new password is valid", || logs_in(&server, "foo new"));
    assert_eq!(client.stat("password_reload_failures").unwrap(), 1);

    // Opening a pipe without a writer waits, except with O_NONBLOCK.
    fs::remove_file(passwords.path()).unwrap();
    make_pipe(&passwords.path());
    passwords.set_mode(0o644);
    server.signal(Signal::HUP).unwrap();
    client
        .stat_until("password_reload_failures", |count| count == 2)
        .unwrap();
    wait_until("the reason is logged", || {
        says("again: it is not a regular file")
    });
    assert!(logs_in(&server, "foo new"));
}

fn file_that_only_root_may_read_is_reported_at_the_start() {
    if !sys::privileges::is_root() {
        eprintln!("skipped: a server changes its user only if root starts it");
        return;
    }
    let passwords = Passwords::new("foo:bar");
    passwords.set_mode(0o600);
    let (server, log) = passwords.logging_server();
    assert!(logs_in(&server, "foo bar"));
    let log = fs::read_to_string(&log).unwrap();
    assert!(
        log.contains("cannot be read again (Permission denied"),
        "{log}"
    );
}

fn server_without_a_usable_file_does_not_start() {
    let passwords = Passwords::new("foo:bar\nmalformed");
    let path = passwords.path();
    let absent = passwords.folder.path().join("absent");
    let refused = |path: &Path, flags: &[&str]| {
        let mut command = Command::new(curtail_tests::process::curtail_path());
        command
            .args(["serve", "-p", "0", "-s"])
            .arg(path.with_extension("socket"));
        let output = with(command, path, flags).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused(&path, &[]);
    assert!(
        error.contains("line 2 is not USER:PASSWORD") && error.contains("-Y"),
        "{error}"
    );
    let error = refused(&absent, &[]);
    assert!(
        error.contains("absent") && error.contains("No such file"),
        "{error}"
    );
    let pipe = passwords.folder.path().join("pipe");
    make_pipe(&pipe);
    for irregular in [&*pipe, passwords.folder.path(), Path::new("/dev/null")] {
        let error = refused(irregular, &[]);
        assert!(error.contains("it is not a regular file"), "{error}");
    }
    let http = ["--http", "127.0.0.1:0", "--root", "/", "--http-cache"];
    let error = refused(&path, &http);
    assert!(error.contains("--http-cache"), "{error}");
    passwords.write("foo:bar");
    let folder = passwords.folder.path().to_str().unwrap();
    let error = refused(&path, &["--http", "127.0.0.1:0", "--root", folder]);
    assert!(error.contains("below the folder of --root"), "{error}");
}

curtail_tests::on_runtimes! {
    [events rings threads fibres bypass]
    conversations_with_passwords,
    requests_behind_a_login_are_answered_with_its_outcome,
    longest_token_is_compared_and_not_more,
    conversations_with_passwords_of_memcached,
    logins_and_their_failures_are_counted,
    passwords_are_read_again_on_sighup_unless_the_file_is_malformed,
    file_that_cannot_be_read_again_is_reported_and_counted,
    file_that_only_root_may_read_is_reported_at_the_start,
    server_without_a_usable_file_does_not_start,
}

curtail_tests::on_runtimes! {
    [events rings threads fibres]
    conversations_with_passwords_over_a_unix_socket,
}

// The sessions of a pool are the same on every runtime.
curtail_tests::on_runtimes! {
    [events]
    conversations_with_passwords_and_a_pool,
}
