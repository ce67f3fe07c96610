//! Every transcript, played to the server.
// The helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use curtail_tests::peer::{Address, SocketPeer, Trickle};
use curtail_tests::play::check;
use curtail_tests::process::{Server, curtail, runtime};

#[test]
fn the_server_knows_the_transcripts() {
    let server = Server::tcp(curtail).unwrap();
    check(
        "server",
        &mut SocketPeer::new(server.address.clone()).unwrap(),
    );
}

#[test]
fn the_server_knows_them_byte_by_byte() {
    let server = Server::tcp(curtail).unwrap();
    let peer = SocketPeer::new(server.address.clone()).unwrap();
    check("server, byte by byte", &mut Trickle(peer));
}

#[test]
fn the_server_knows_them_behind_a_unix_socket() {
    if runtime() == "bypass" {
        eprintln!("skipped: it has no sockets");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut command = curtail();
    command.arg("-s").arg(&path);
    let server = Server::at(command, Address::Unix(path)).unwrap();
    let mut peer = SocketPeer::new(server.address.clone()).unwrap();
    check("server behind a Unix socket", &mut peer);
}
