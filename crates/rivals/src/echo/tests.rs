use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::*;

/// Requests of 36 bytes, with answers of 190.
fn exchange() -> Exchange {
    Exchange::gets(1, 30, 139)
}

/// The bytes of this number of requests.
fn requests(count: usize) -> Vec<u8> {
    let key = "q".repeat(30);
    format!("get {key}\r\n").repeat(count).into_bytes()
}

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
        let server = thread::spawn(move || serve(kind, &listener, &exchange(), &seen));
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
    let expected = exchange().answer.repeat(answers);
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap();
    assert!(received == expected, "the answers are other bytes");
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
            let count = pieces.iter().sum::<usize>() / exchange().request_len;
            let input = requests(count);
            let mut from = 0;
            for piece in pieces {
                stream.write_all(&input[from..from + piece]).unwrap();
                from += piece;
            }
            receive(&stream, count);
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
            stream.write_all(&requests(16)[..20]).unwrap();
        }
        for stream in &mut streams {
            stream.write_all(&requests(16)[20..]).unwrap();
        }
        for stream in &streams {
            receive(stream, 16);
        }
    });
}

#[test]
fn client_that_reads_late_receives_every_byte() {
    with_each(|address| {
        let count = 50_000;
        let mut stream = connect(address);
        let reader = stream.try_clone().unwrap();
        let (sender, may_read) = std::sync::mpsc::channel();
        let reading = thread::spawn(move || {
            // The client reads nothing until the buffers of both sockets are full.
            may_read.recv().unwrap();
            receive(&reader, count);
        });
        stream.set_nonblocking(true).unwrap();
        let input = requests(count);
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

#[test]
fn the_requests_of_a_generator_before_its_load_are_answered_and_others_end_the_connection() {
    with_each(|address| {
        let mut stream = connect(address);
        for (request, answer) in [
            ("version\r\n", "VERSION echo\r\n"),
            ("stats\r\n", "END\r\n"),
            ("stats curtail\r\n", "END\r\n"),
        ] {
            stream.write_all(request.as_bytes()).unwrap();
            let mut received = vec![0; answer.len()];
            stream.read_exact(&mut received).unwrap();
            assert_eq!(String::from_utf8(received).unwrap(), answer);
        }
        stream.write_all(&requests(1)).unwrap();
        receive(&stream, 1);
        stream.write_all(b"flush_all\r\n").unwrap();
        // A reset if the server closes before it has received everything.
        match stream.read(&mut [0; 1]) {
            Ok(len) => assert_eq!(len, 0),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    });
}

#[test]
fn a_get_of_several_keys_has_as_many_values() {
    let exchange = Exchange::gets(2, 1, 3);
    assert_eq!(exchange.request_len, "get a b\r\n".len());
    let answer = String::from_utf8(exchange.answer).unwrap();
    assert_eq!(
        answer,
        "VALUE e 0 3\r\neee\r\nVALUE e 0 3\r\neee\r\nEND\r\n"
    );
}
