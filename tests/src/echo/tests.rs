use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::*;

const EXCHANGE: Exchange = Exchange {
    request_len: 36,
    answer_len: 190,
};

/// Runs `test` against a server of each kind. Afterwards the server must end when it is told to.
fn with_each(test: impl Fn(SocketAddr)) {
    for kind in Kind::ALL {
        if let Err(error) = kind.probe() {
            println!("skipped: no server over {}: {error}", kind.name());
            continue;
        }
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.address().unwrap();
        let end = Arc::new(Waker::new().unwrap());
        let seen = Arc::clone(&end);
        let server = thread::spawn(move || serve(kind, &listener, EXCHANGE, &seen));
        test(address);
        end.wake();
        server.join().unwrap().unwrap();
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let timeout = Some(Duration::from_secs(20));
    stream.set_read_timeout(timeout).unwrap();
    stream.set_write_timeout(timeout).unwrap();
    stream
}

/// Receives this number of answers.
fn receive(mut stream: &TcpStream, answers: usize) {
    let mut received = vec![0; answers * EXCHANGE.answer_len];
    stream.read_exact(&mut received).unwrap();
}

#[test]
fn each_request_gets_one_answer_however_the_input_is_split() {
    with_each(|address| {
        let mut stream = connect(address);
        // The lengths of the pieces: one request at once, one in two pieces, two in one piece, and
        // pieces that end within a request.
        for pieces in [
            &[36][..],
            &[1, 35],
            &[72],
            &[54, 18],
            &[7; 36],
            &[37, 70, 1],
        ] {
            for piece in pieces {
                stream.write_all(&vec![b'q'; *piece]).unwrap();
            }
            receive(&stream, pieces.iter().sum::<usize>() / EXCHANGE.request_len);
        }
        // The end comes next, so there was no other answer.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn bytes_of_each_connection_are_counted_separately() {
    with_each(|address| {
        let mut streams: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
        for stream in &mut streams {
            stream.write_all(&[b'q'; 20]).unwrap();
        }
        for stream in &mut streams {
            stream.write_all(&[b'q'; 16 + 36 * 15]).unwrap();
        }
        for stream in &streams {
            receive(stream, 16);
        }
    });
}

#[test]
fn client_that_reads_late_receives_every_byte() {
    with_each(|address| {
        let requests = 50_000;
        let mut stream = connect(address);
        let reader = stream.try_clone().unwrap();
        let (sender, may_read) = std::sync::mpsc::channel();
        let reading = thread::spawn(move || {
            // The client reads nothing until the buffers of both sockets are full.
            may_read.recv().unwrap();
            receive(&reader, requests);
        });
        stream.set_nonblocking(true).unwrap();
        let input = vec![b'q'; requests * EXCHANGE.request_len];
        let mut sent = 0;
        while let Ok(len @ 1..) = stream.write(&input[sent..]) {
            sent += len;
        }
        // This also applies to the reader, whose handle refers to the same socket.
        stream.set_nonblocking(false).unwrap();
        sender.send(()).unwrap();
        stream.write_all(&input[sent..]).unwrap();
        reading.join().unwrap();
    });
}
