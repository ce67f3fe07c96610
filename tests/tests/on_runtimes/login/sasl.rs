//! Logins by SASL (`-S`), in the binary protocol.

use curtail_tests::binary_frame::binary_frame;
use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail};
use protocol::binary::Header;
use protocol::binary::reply::Reply;
use protocol::limits::LOGIN_TOKEN_MAX;

use super::{PASSWORDS, Passwords, logs_in};

/// A client of the binary protocol.
struct BinaryClient(Client);

impl BinaryClient {
    fn connect(server: &Server) -> Self {
        Self(Client::connect(&server.address).unwrap())
    }

    /// Sends a frame, and returns the status and the value of the reply.
    fn request(&mut self, opcode: u8, key: &str, value: &[u8]) -> (u16, String) {
        self.0
            .send(&binary_frame(opcode, b"", key.as_bytes(), value))
            .unwrap();
        self.reply()
    }

    fn reply(&mut self) -> (u16, String) {
        let mut bytes = self.0.take(24).unwrap();
        let header = Header::read(bytes.first_chunk().unwrap());
        bytes.extend(self.0.take(header.body_len as usize).unwrap());
        let (reply, _) = Reply::read(&bytes).unwrap().unwrap();
        (
            reply.header.status,
            String::from_utf8(reply.value.to_vec()).unwrap(),
        )
    }

    fn set(&mut self) -> (u16, String) {
        self.0
            .send(&binary_frame(0x01, &[0; 8], b"key", b"value"))
            .unwrap();
        self.reply()
    }

    fn assert_closed(&mut self) {
        assert_eq!(self.0.rest().unwrap(), b"");
    }
}

fn reply(status: u16, value: &str) -> (u16, String) {
    (status, value.to_owned())
}

const LIST: u8 = 0x20;
const AUTH: u8 = 0x21;
const STEP: u8 = 0x22;
const VERSION: u8 = 0x0b;
const GET: u8 = 0x00;

fn clients_of_the_binary_protocol_log_in_by_sasl() {
    let refused = || reply(0x20, "Auth failure.");
    let accepted = || reply(0, "Authenticated");
    let passwords = Passwords::new(PASSWORDS);
    let server = passwords.server(&["-S", "-B", "binary"]);
    for opcode in [GET, 0x01, 0x07, 0x0a, 0x10, 0x1b, 0xff] {
        let mut client = BinaryClient::connect(&server);
        assert_eq!(client.request(opcode, "key", b""), refused(), "{opcode:#x}");
        client.assert_closed();
    }
    let mut client = BinaryClient::connect(&server);
    assert_eq!(client.request(VERSION, "", b""), reply(0, "1.6.45"));
    assert_eq!(client.request(LIST, "", b""), reply(0, "PLAIN"));
    assert_eq!(client.request(AUTH, "PLAIN", b"\0foo\0bad"), refused());
    assert_eq!(client.request(AUTH, "CRAM-MD5", b"\0foo\0bar"), refused());
    assert_eq!(client.request(AUTH, "PLAIN", b"other\0foo\0bar"), refused());
    assert_eq!(
        client.request(STEP, "PLAIN", b"\0foo\0bar"),
        refused(),
        "nothing has begun"
    );
    assert_eq!(
        client.request(AUTH, &"M".repeat(33), b""),
        reply(4, "Invalid arguments")
    );
    let long = vec![b'x'; LOGIN_TOKEN_MAX + 1];
    assert_eq!(client.request(AUTH, "PLAIN", &long), refused());
    assert_eq!(client.request(AUTH, "PLAIN", b"foo\0foo\0bar"), accepted());
    assert_eq!(client.set(), reply(0, ""));
    assert_eq!(client.request(GET, "key", b""), reply(0, "value"));
    // A pipeline behind a login is executed with its outcome.
    let (good, bad) = (b"\0last\0one", b"\0last\0two");
    let get = binary_frame(GET, b"", b"key", b"");
    client
        .0
        .send(&[binary_frame(AUTH, b"", b"PLAIN", good), get.clone()].concat())
        .unwrap();
    assert_eq!(
        (client.reply(), client.reply()),
        (accepted(), reply(0, "value"))
    );
    client
        .0
        .send(&[binary_frame(AUTH, b"", b"PLAIN", bad), get].concat())
        .unwrap();
    assert_eq!((client.reply(), client.reply()), (refused(), refused()));
    client.assert_closed();

    let mut slow = BinaryClient::connect(&server);
    assert_eq!(slow.request(AUTH, "PLAIN", b""), reply(0x21, ""));
    for byte in binary_frame(STEP, b"", b"PLAIN", b"\0foo\0bar") {
        slow.0.send(&[byte]).unwrap();
    }
    assert_eq!(slow.reply(), accepted());
    slow.0.send(&binary_frame(0x07, b"", b"", b"")).unwrap();
    assert_eq!(slow.reply(), reply(0, ""));
    slow.assert_closed();

    let mut text = Client::connect(&server.address).unwrap();
    text.send(b"set k 0 0 7\r\nfoo bar\r\n").unwrap();
    assert_eq!(text.rest().unwrap(), b"", "-B binary serves no text");
}

fn both_flags_together_are_for_both_protocols() {
    let passwords = Passwords::new(PASSWORDS);
    let server = passwords.server(&["-S"]);
    assert!(logs_in(&server, "foo bar") && !logs_in(&server, "foo bad"));
    let mut text = Client::connect(&server.address).unwrap();
    assert_eq!(
        text.request("get key").unwrap(),
        "CLIENT_ERROR unauthenticated"
    );
    let mut client = BinaryClient::connect(&server);
    assert_eq!(
        client.request(AUTH, "PLAIN", b"\0foo\0bar"),
        reply(0, "Authenticated")
    );
    assert_eq!(client.set(), reply(0, ""));
    let mut stranger = BinaryClient::connect(&server);
    assert_eq!(
        stranger.request(GET, "key", b""),
        reply(0x20, "Auth failure.")
    );
    stranger.assert_closed();
}

/// As with memcached, the environment names the file of `-S` alone, whose lines may have more
/// fields, or no password.
fn sasl_alone_has_the_file_of_the_environment() {
    let passwords = Passwords::new("# users\n\nfoo:bar:::\n");
    let path = passwords.path();
    let start = || {
        let mut command = curtail();
        command.arg("-S").env("MEMCACHED_SASL_PWDB", &path);
        command
    };
    let server = Server::tcp(start).unwrap();
    let mut client = BinaryClient::connect(&server);
    assert_eq!(
        client.request(AUTH, "PLAIN", b"\0foo\0bar"),
        reply(0, "Authenticated")
    );
}

curtail_tests::on_runtimes! {
    [events rings threads fibres bypass]
    clients_of_the_binary_protocol_log_in_by_sasl,
    both_flags_together_are_for_both_protocols,
    sasl_alone_has_the_file_of_the_environment,
}
