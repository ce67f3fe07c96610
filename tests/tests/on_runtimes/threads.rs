//! What only a server with a thread per connection has to do.

use std::process::Command;

use curtail_tests::background_client::BackgroundClient;
use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail_path};

/// A user without processes, because the limit counts all threads of a user.
const USER: &str = "games";
/// The server's own three threads, and three for connections.
const LIMITED: &str = "ulimit -u 6 2>/dev/null || ulimit -p 6; exec \"$0\" \"$@\"";

fn without_threads_new_connections_are_refused_and_open_ones_are_served() {
    let is_there = sys::privileges::find_user(USER).unwrap().is_some();
    if !sys::privileges::is_root() || !is_there {
        eprintln!("skipped: not root, or no user {USER} to become: others' threads would count");
        return;
    }
    let server = Server::tcp(|| {
        let mut command = Command::new("sh");
        command.args(["-c", LIMITED]).arg(curtail_path());
        command.args(["serve", "--runtime", "threads", "-u", USER]);
        command
    })
    .unwrap();
    let mut background = BackgroundClient::start(&server.address).unwrap();
    let mut observer = admitted(&server);
    let third = admitted(&server);
    let before = observer.stat("rejected_connections").unwrap();
    let told = Client::connect(&server.address).unwrap().rest().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&told),
        "ERROR Too many open connections\r\n"
    );
    assert_eq!(observer.stat("rejected_connections").unwrap(), before + 1);
    observer
        .stat_until("listen_disabled_num", |count| count > 0)
        .unwrap();
    background.wait_rounds(20).unwrap();

    // When a connection closes, another is accepted.
    drop(third);
    admitted(&server);
    assert_eq!(observer.request("mn").unwrap(), "MN");
    background.stop().unwrap();
}

/// A client that got a thread. The thread of a closed connection may take a moment to end.
fn admitted(server: &Server) -> Client {
    let mut tries = (0..1_000).map(|_| Client::connect(&server.address).unwrap());
    tries
        .find_map(|mut client| (client.request("mn").ok()? == "MN").then_some(client))
        .unwrap()
}

curtail_tests::on_runtimes! {
    [threads]
    without_threads_new_connections_are_refused_and_open_ones_are_served,
}
