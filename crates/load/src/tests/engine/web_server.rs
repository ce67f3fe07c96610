//! A minimal web server for tests. It serves a set of files, and a test chooses how it answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use workload::WebFiles;
use workload::limits::KEY_LEN_MAX;

/// How the server answers. Unless a variant says otherwise, each answer contains the requested file
/// and has a Content-Length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// The requested file, with a Content-Length.
    WithLength,
    /// The file is sent in chunks of 1 to 4999 bytes, without a Content-Length.
    Chunked,
    /// The third answer on a connection says `Connection: close`. Then the server closes the
    /// connection.
    ThenClose,
    /// The answers are of HTTP/1.0. The server closes the connection after each answer, and no
    /// header field says so.
    Http10,
    /// The fifth answer on a connection stops in the middle of its body, and the server closes the
    /// connection.
    Half,
    /// The answer to every seventh request of a connection is 503. Every third file is said not to
    /// exist (404).
    Errors,
    /// Every answer is a redirect.
    Redirects,
    /// The last byte of every body is wrong.
    OtherBytes,
    /// Every body is one byte too long.
    OtherLength,
    /// No answer has a Content-Length. The server closes the connection after each answer.
    WithoutLength,
    /// The server reads requests, and answers none.
    Silent,
}

/// A running web server on a free port. Its threads end with the test's process.
pub(crate) struct WebServer {
    /// The server's address as `HOST:PORT`.
    pub(crate) address: String,
    /// For each connection, the paths that were requested on it. The path `/` is left out: before a
    /// run, the generator requests it to see whether the server answers (the *probe*).
    pub(crate) connections: Arc<Mutex<Vec<Vec<String>>>>,
}

impl WebServer {
    pub(crate) fn start(answers: Answers, files: WebFiles) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
        let all = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let all = Arc::clone(&all);
                let number = all.lock().unwrap().len();
                all.lock().unwrap().push(Vec::new());
                // The thread ends when the client closes the connection.
                thread::spawn(move || serve(stream.unwrap(), answers, files, number, &all));
            }
        });
        Self {
            address,
            connections,
        }
    }

    /// Returns the number of requests on each connection, without the probe. Connections without
    /// such a request are left out.
    pub(crate) fn counts(&self) -> Vec<usize> {
        let connections = self.connections.lock().unwrap();
        let counts = connections.iter().map(Vec::len);
        counts.filter(|&count| count > 0).collect()
    }
}

/// Answers the requests on a connection. Returns when the connection is closed by the client, or
/// when it is to be closed by the server; the result has no meaning. `connection` is the index of
/// the connection in `all`, to which the requested paths are added.
fn serve(
    stream: TcpStream,
    answers: Answers,
    files: WebFiles,
    connection: usize,
    all: &Mutex<Vec<Vec<String>>>,
) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let mut stream = stream;
    // The number of requests so far.
    let mut count = 0;
    loop {
        let request = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
        let (method, after) = request.split_once(' ')?;
        let path = after.strip_suffix(" HTTP/1.1")?;
        // The probe.
        if path == "/" {
            stream
                .write_all(b"HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n")
                .ok()?;
            return None;
        }
        all.lock().unwrap()[connection].push(path.to_owned());
        count += 1;
        let file = file_of(path, &files);
        let mut body = vec![0; WebFiles::size(file) as usize];
        files.fill(file, 0, &mut body);
        let mut head = "HTTP/1.1 200 OK\r\n".to_owned();
        // Only the part of the body before this offset is sent.
        let mut end = usize::MAX;
        match answers {
            Answers::ThenClose if count == 3 => {
                head += "connection: close\r\n";
            }
            Answers::Http10 => head = "HTTP/1.0 200 OK\r\n".to_owned(),
            Answers::Half if count % 5 == 0 => end = body.len() / 2,
            Answers::Errors if count % 7 == 0 => {
                (head, body) = ("HTTP/1.1 503 \r\n".to_owned(), b"later".to_vec());
            }
            Answers::Errors if file.is_multiple_of(3) => {
                (head, body) = ("HTTP/1.1 404 \r\n".to_owned(), b"none".to_vec());
            }
            Answers::Redirects => {
                (head, body) = ("HTTP/1.1 302 \r\nLocation: /\r\n".to_owned(), Vec::new());
            }
            Answers::OtherBytes => *body.last_mut()? ^= 1,
            Answers::OtherLength => body.push(0),
            Answers::Silent => continue,
            _ => {}
        }
        match answers {
            Answers::Chunked => head += "Transfer-Encoding: chunked\r\n",
            Answers::WithoutLength => {}
            _ => head += &format!("Content-Length: {}\r\n", body.len()),
        }
        head += "\r\n";
        stream.write_all(head.as_bytes()).ok()?;
        match answers {
            _ if method == "HEAD" => {}
            Answers::Chunked => {
                let mut rest = &body[..];
                while !rest.is_empty() {
                    let (chunk, after) = rest.split_at(rest.len().min(1 + count * 7 % 4999));
                    let size = format!("{:x}\r\n", chunk.len());
                    stream
                        .write_all(&[size.as_bytes(), chunk, b"\r\n"].concat())
                        .ok()?;
                    rest = after;
                }
                stream.write_all(b"0\r\n\r\n").ok()?;
            }
            _ => stream.write_all(&body[..end.min(body.len())]).ok()?,
        }
        let closes = match answers {
            Answers::ThenClose => count == 3,
            Answers::Http10 | Answers::WithoutLength => true,
            _ => end != usize::MAX,
        };
        if closes {
            return None;
        }
    }
}

/// Returns the number of the file that has this path.
fn file_of(path: &str, files: &WebFiles) -> u64 {
    let mut buffer = [0; KEY_LEN_MAX];
    let mut all = 0..files.files();
    let found = all.find(|&file| WebFiles::path(file, &mut buffer) == path.as_bytes());
    found.unwrap_or_else(|| panic!("{path} is no file of the set"))
}
