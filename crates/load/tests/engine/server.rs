//! A minimal text-protocol server with injectable faults.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The fault of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It answers `version` and nothing else.
    Silent,
    /// It closes the first connection after this many requests.
    ClosesFirst(u64),
    /// It closes every connection after this many requests.
    ClosesAll(u64),
    /// Its connection limit is reached.
    Full,
    /// It acknowledges every second set without storing it.
    Forgetful,
    /// It refuses every set.
    RefusesSets,
}

/// A text-protocol server on a free port. Its threads end with the test's process.
pub(crate) struct Server {
    /// `HOST:PORT`
    pub(crate) address: String,
    /// Requests received on all connections, without `version`.
    pub(crate) requests: Arc<AtomicU64>,
    /// Everything received on the last connection, in order.
    pub(crate) received: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(AtomicU64::new(0));
        let received = Arc::new(Mutex::new(Vec::new()));
        let store = Arc::new(Mutex::new(HashMap::new()));
        let (seen, kept) = (Arc::clone(&requests), Arc::clone(&received));
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let session = Session {
                    fault,
                    number,
                    requests: Arc::clone(&seen),
                    received: Arc::clone(&kept),
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

struct Session {
    fault: Fault,
    number: usize,
    requests: Arc<AtomicU64>,
    received: Arc<Mutex<Vec<u8>>>,
    store: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Session {
    fn serve(&self, mut out: TcpStream) {
        out.set_nodelay(true).unwrap();
        if self.fault == Fault::Full {
            let _ = out.write_all(b"ERROR Too many open connections\r\n");
            return;
        }
        let mut input = BufReader::new(out.try_clone().unwrap());
        let mut line = String::new();
        let mut seen = 0;
        while input.read_line(&mut line).is_ok_and(|len| len > 0) {
            if line == "version\r\n" {
                self.received.lock().unwrap().clear();
                let _ = out.write_all(b"VERSION 0\r\n");
                line.clear();
                continue;
            }
            seen += 1;
            self.requests.fetch_add(1, Ordering::Relaxed);
            let closes = match self.fault {
                Fault::ClosesFirst(after) => self.number == 0 && seen > after,
                Fault::ClosesAll(after) => seen > after,
                _ => false,
            };
            let Some(answer) = self.answer(&line, &mut input).filter(|_| !closes) else {
                return;
            };
            if self.fault != Fault::Silent && out.write_all(&answer).is_err() {
                return;
            }
            line.clear();
        }
    }

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
                    [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
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
                let last = key.as_bytes().last().copied().unwrap_or(0);
                if self.fault != Fault::Forgetful || last % 2 == 0 {
                    value.truncate(value.len() - 2);
                    store.insert(key.to_owned(), value);
                }
                Some(b"STORED\r\n".to_vec())
            }
            _ => None,
        }
    }
}
