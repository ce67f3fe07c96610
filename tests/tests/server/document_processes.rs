//! `curtail rival documents`: a process for each connection.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use curtail_tests::process::curtail_path;
use sys::child::{Bounds, bind, terminate};

/// The longest time that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer that must not come is waited for.
const ABSENT: Duration = Duration::from_millis(50);

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(root: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(curtail_path());
        command.args(["rival", "documents", "-p", "0", "--root"]);
        command.arg(root).args(arguments).stderr(Stdio::piped());
        let bounds = Bounds {
            dies_with_parent: true,
            ..Default::default()
        };
        bind(&mut command, &bounds).unwrap();
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap();
        let address = address.parse().unwrap_or_else(|_| panic!("{line}"));
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Stops the server, and checks that none of its processes is left.
    fn stop(mut self) {
        terminate(self.child.id()).unwrap();
        assert!(self.child.wait().unwrap().success());
        let refused = TcpStream::connect(self.address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}

fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "content of a").unwrap();
    fs::write(root.path().join("large"), "x".repeat(300_000)).unwrap();
    root
}

#[test]
fn documents_are_served_with_and_without_a_backend() {
    let root = folder();
    for arguments in [
        &["--processes", "2"][..],
        &["--processes", "2", "--backend"],
    ] {
        let server = Server::start(root.path(), arguments);
        for _ in 0..10 {
            assert!(
                server.get("/a").ends_with("\r\n\r\ncontent of a"),
                "{arguments:?}"
            );
            assert!(
                server.get("/absent").starts_with("HTTP/1.1 404 "),
                "{arguments:?}"
            );
            assert!(
                server.get("/%2e%2e/a").starts_with("HTTP/1.1 400 "),
                "{arguments:?}"
            );
            assert!(
                server.get("/large").ends_with(&"x".repeat(300_000)),
                "{arguments:?}"
            );
        }
        server.stop();
    }
}

#[test]
fn a_connection_waits_for_a_process() {
    let root = folder();
    for arguments in [
        &["--processes", "2"][..],
        &["--processes", "2", "--backend"],
    ] {
        let server = Server::start(root.path(), arguments);
        let request = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut buffer = [0; 1024];
        let mut open: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
        for stream in &mut open[..2] {
            stream.write_all(request).unwrap();
            assert!(stream.read(&mut buffer).unwrap() > 0, "{arguments:?}");
        }
        let third = &mut open[2];
        third.write_all(request).unwrap();
        third.set_read_timeout(Some(ABSENT)).unwrap();
        let early = third.read(&mut buffer).map_err(|error| error.kind());
        assert_eq!(early, Err(ErrorKind::WouldBlock), "{arguments:?}");
        third.set_read_timeout(Some(TIMEOUT)).unwrap();
        drop(open.remove(0));
        assert!(open[1].read(&mut buffer).unwrap() > 0, "{arguments:?}");
        server.stop();
    }
}
