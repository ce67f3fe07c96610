//! A minimal test server for memcached's text protocol over TCP. A test chooses the server's fault.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A fault of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// The server answers only `version`.
    Silent,
    /// The server answers at most this many requests of each connection, and no further ones. The
    /// connection stays open.
    SilentAfter(u64),
    /// The server closes the first connection after this many requests.
    ClosesFirst(u64),
    /// The server closes every connection after this many requests.
    ClosesAll(u64),
    /// The server refuses every connection, because its connection limit is reached.
    Full,
    /// The server acknowledges all sets, but does not store about half of them.
    Forgetful,
    /// The server answers every set with an error.
    RefusesSets,
    /// The server answers a get with the value twice.
    RepeatsValues,
}

/// A running test server on a free port. Its threads end with the test's process.
pub(crate) struct Server {
    /// The server's address as `HOST:PORT`.
    pub(crate) address: String,
    /// The number of requests received on all connections, except `version`.
    pub(crate) requests: Arc<AtomicU64>,
    /// All bytes received since the last `version`, on any connection. If a run has a single
    /// connection, these are the bytes of the run, because `version` is sent only when the
    /// connection is opened.
    pub(crate) received: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    /// Starts a server.
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(AtomicU64::new(0));
        let received = Arc::new(Mutex::new(Vec::new()));
        let store = Arc::new(Mutex::new(HashMap::new()));
        let (session_requests, session_received) = (Arc::clone(&requests), Arc::clone(&received));
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let session = Session {
                    fault,
                    number,
                    requests: Arc::clone(&session_requests),
                    received: Arc::clone(&session_received),
                    store: Arc::clone(&store),
                };
                thread::spawn(move || session.serve(stream.unwrap()));
            }
        });
        Self {
            address,
            requests,
            received,
        }
    }
}

/// One connection of the server.
struct Session {
    fault: Fault,
    /// The number of the connection, from 0.
    number: usize,
    requests: Arc<AtomicU64>,
    received: Arc<Mutex<Vec<u8>>>,
    store: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Session {
    /// Answers requests until the client closes the connection or the fault ends it.
    fn serve(&self, mut out: TcpStream) {
        out.set_nodelay(true).unwrap();
        if self.fault == Fault::Full {
            let _ = out.write_all(b"ERROR Too many open connections\r\n");
            return;
        }
        let mut input = BufReader::new(out.try_clone().unwrap());
        let mut line = String::new();
        let mut request_count = 0;
        while input.read_line(&mut line).is_ok_and(|len| len > 0) {
            if line == "version\r\n" {
                self.received.lock().unwrap().clear();
                let _ = out.write_all(b"VERSION 0\r\n");
                line.clear();
                continue;
            }
            request_count += 1;
            self.requests.fetch_add(1, Ordering::Relaxed);
            let closes = match self.fault {
                Fault::ClosesFirst(after) => self.number == 0 && request_count > after,
                Fault::ClosesAll(after) => request_count > after,
                _ => false,
            };
            let Some(answer) = self.answer(&line, &mut input).filter(|_| !closes) else {
                return;
            };
            let is_silent = match self.fault {
                Fault::Silent => true,
                Fault::SilentAfter(count) => request_count > count,
                _ => false,
            };
            if !is_silent && out.write_all(&answer).is_err() {
                return;
            }
            line.clear();
        }
    }

    /// Executes the request whose first line is `line`, and returns its answer. None: the request
    /// is unknown or incomplete.
    fn answer(&self, line: &str, input: &mut impl Read) -> Option<Vec<u8>> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        self.received
            .lock()
            .unwrap()
            .extend_from_slice(line.as_bytes());
        let mut store = self.store.lock().unwrap();
        match words[..] {
            ["get", key] => Some(match store.get(key) {
                Some(value) => {
                    let head = format!("VALUE {key} 0 {}\r\n", value.len());
                    let value = [head.as_bytes(), value, b"\r\n"].concat();
                    let count = match self.fault {
                        Fault::RepeatsValues => 2,
                        _ => 1,
                    };
                    [&value.repeat(count)[..], b"END\r\n"].concat()
                }
                None => b"END\r\n".to_vec(),
            }),
            ["set", key, _, _, len] => {
                let mut value = vec![0; len.parse::<usize>().ok()? + 2];
                input.read_exact(&mut value).ok()?;
                self.received.lock().unwrap().extend_from_slice(&value);
                if self.fault == Fault::RefusesSets {
                    return Some(b"SERVER_ERROR out of memory storing object\r\n".to_vec());
                }
                // The last bytes of about half of the keys are even.
                let last_byte = key.as_bytes().last().copied().unwrap_or(0);
                if self.fault != Fault::Forgetful || last_byte % 2 == 0 {
                    value.truncate(value.len() - 2);
                    store.insert(key.to_owned(), value);
                }
                Some(b"STORED\r\n".to_vec())
            }
            _ => None,
        }
    }
}
