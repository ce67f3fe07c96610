//! Every transcript, played to the server.

use curtail_tests::peer::{Address, SocketPeer, Trickle};
use curtail_tests::play::check;
use curtail_tests::process::{Server, curtail};

fn the_server_knows_the_transcripts() {
    let server = Server::tcp(curtail).unwrap();
    check(
        "server",
        &mut SocketPeer::new(server.address.clone()).unwrap(),
    );
}

fn the_server_knows_them_byte_by_byte() {
    let server = Server::tcp(curtail).unwrap();
    let peer = SocketPeer::new(server.address.clone()).unwrap();
    check("server, byte by byte", &mut Trickle(peer));
}

fn the_server_knows_them_behind_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut command = curtail();
    command.arg("-s").arg(&path);
    let server = Server::at(command, Address::Unix(path)).unwrap();
    let mut peer = SocketPeer::new(server.address.clone()).unwrap();
    check("server behind a Unix socket", &mut peer);
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal bypass]
    the_server_knows_the_transcripts,
    the_server_knows_them_byte_by_byte,
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal]
    the_server_knows_them_behind_a_unix_socket,
}
