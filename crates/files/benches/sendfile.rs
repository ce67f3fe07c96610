//! The processor time of a server for a document in memory: read into a buffer and sent, or sent by
//! `sendfile`. Both first look whether the pages are in memory, as the strategy `nowait` does.
//!
//! A thread sends documents to another one over loopback, and only its own processor time counts.
//! The kernel delivers to a loopback socket within `send`, so that part of the time is the same for
//! both. Rounds of both ways alternate, and the quotient is that of two neighbouring rounds.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use files::limits::BLOCK_LEN;
use sys::clock::thread_cpu_ns;
use sys::file::{Wait, read_at};
use sys::page_cache::has_pages;

/// Documents in a round.
const DOCUMENTS: usize = 4000;
const ROUNDS: usize = 11;
const HEAD: [u8; 250] = [b'h'; 250];

type Send = fn(&File, usize, &mut TcpStream, &mut Vec<u8>);

fn by_copy(file: &File, len: usize, stream: &mut TcpStream, buffer: &mut Vec<u8>) {
    // The head and the first block are sent together.
    buffer.extend_from_slice(&HEAD);
    let mut sent = 0;
    while sent < len {
        let block = BLOCK_LEN.min(len - sent);
        assert!(has_pages(file, sent as u64, block as u64).unwrap_or(true));
        let start = buffer.len();
        buffer.resize(start + block, 0);
        let read = read_at(file, sent as u64, &mut buffer[start..], Wait::Never).unwrap();
        assert_eq!(read, block);
        stream.write_all(buffer).unwrap();
        buffer.clear();
        sent += block;
    }
}

fn by_sendfile(file: &File, len: usize, stream: &mut TcpStream, _: &mut Vec<u8>) {
    let (stream_fd, mut at) = (&*stream, 0_u64);
    // More follows, so that the head is sent together with the first block.
    rustix::net::send(stream_fd, &HEAD, rustix::net::SendFlags::MORE).unwrap();
    while at < len as u64 {
        let block = BLOCK_LEN.min(len - at as usize);
        assert!(has_pages(file, at, block as u64).unwrap_or(true));
        rustix::fs::sendfile(stream_fd, file, Some(&mut at), block).unwrap();
    }
}

/// Nanoseconds of processor time for each document.
fn round(send: Send, file: &File, len: usize, stream: &mut TcpStream) -> f64 {
    let mut buffer = Vec::with_capacity(HEAD.len() + BLOCK_LEN);
    let start_ns = thread_cpu_ns();
    for _ in 0..DOCUMENTS {
        send(file, len, stream, &mut buffer);
        // The client has received everything.
        stream.read_exact(&mut [0]).unwrap();
    }
    (thread_cpu_ns() - start_ns) as f64 / DOCUMENTS as f64
}

fn main() {
    println!("bytes    copy ns   sendfile ns   sendfile / copy: median [least, greatest]");
    for len in [5_000, 20_000, 100_000] {
        measure(len);
    }
}

fn measure(len: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("document");
    std::fs::write(&path, vec![b'd'; len]).unwrap();
    let file = File::open(&path).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut document = vec![0; HEAD.len() + len];
        while stream.read_exact(&mut document).is_ok() && stream.write_all(b".").is_ok() {}
    });
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    round(by_copy, &file, len, &mut stream);
    round(by_sendfile, &file, len, &mut stream);
    let mut rounds: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let copy_ns = round(by_copy, &file, len, &mut stream);
            (copy_ns, round(by_sendfile, &file, len, &mut stream))
        })
        .collect();
    drop(stream);
    client.join().unwrap();
    let quotient = |&(copy_ns, sendfile_ns): &(f64, f64)| sendfile_ns / copy_ns;
    rounds.sort_by(|a, b| quotient(a).total_cmp(&quotient(b)));
    let (copy_ns, sendfile_ns) = rounds[ROUNDS / 2];
    println!(
        "{len:6} {copy_ns:9.0} {sendfile_ns:13.0}   {:.2} [{:.2}, {:.2}]",
        quotient(&rounds[ROUNDS / 2]),
        quotient(&rounds[0]),
        quotient(&rounds[ROUNDS - 1]),
    );
}
