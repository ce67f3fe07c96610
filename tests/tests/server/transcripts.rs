//! Every transcript, played to the model, to the parts of Curtail that run without a server, and to
//! memcached. The server is in `server_transcripts.rs`.

use curtail_tests::peer::{
    BypassPeer, MemoryPeer, ModelPeer, Peer as _, SessionPeer, SocketPeer, Trickle,
};
use curtail_tests::play::check;
use curtail_tests::process::{Server, memcached, memcached_command};
use tcpip::testing::Faults;

#[test]
fn the_model_knows_the_transcripts() {
    check("model", &mut ModelPeer::new());
}

#[test]
fn the_model_knows_them_byte_by_byte() {
    check("model, byte by byte", &mut Trickle(ModelPeer::new()));
}

#[test]
fn the_session_knows_the_transcripts() {
    check("session", &mut SessionPeer::new(false).unwrap());
}

#[test]
fn the_session_knows_them_with_values_received_in_place() {
    check("session, in place", &mut SessionPeer::new(true).unwrap());
}

#[test]
fn the_session_knows_them_byte_by_byte() {
    for in_place in [false, true] {
        let mut peer = Trickle(SessionPeer::new(in_place).unwrap());
        check("session, byte by byte", &mut peer);
    }
}

/// Before bytes are sent, everything is evicted, so that requests find the items of earlier ones in
/// the tier only.
#[test]
fn the_session_knows_them_with_items_in_the_tier() {
    for in_place in [false, true] {
        let mut peer = SessionPeer::tiered(in_place).unwrap();
        check("session, with a tier", &mut peer);
        assert_tier_reads(&peer);
    }
}

/// Present: 406, or 419 byte by byte.
fn assert_tier_reads(peer: &SessionPeer) {
    let reads = peer.tier_reads().unwrap();
    assert!(reads >= 400, "only {reads} items were read from the tier");
}

#[test]
fn the_session_knows_them_with_items_in_the_tier_byte_by_byte() {
    let mut peer = Trickle(SessionPeer::tiered(true).unwrap());
    check("session, with a tier, byte by byte", &mut peer);
    assert_tier_reads(&peer.0);
}

/// The loop that serves sockets, over pipes and a virtual clock. Pipes that hold a few bytes make
/// every reply wait for space.
#[test]
fn the_runtime_in_memory_knows_the_transcripts() {
    for capacity in [1 << 16, 61] {
        let name = format!("memory, {capacity} bytes a pipe");
        check(&name, &mut MemoryPeer::new(capacity).unwrap());
    }
}

#[test]
fn the_runtime_in_memory_knows_them_byte_by_byte() {
    let peer = MemoryPeer::new(1 << 16).unwrap();
    check("memory, byte by byte", &mut Trickle(peer));
}

/// The same loop, over a TCP/IP stack, a link in memory and another stack.
#[test]
fn the_runtime_bypass_knows_the_transcripts() {
    check("bypass, in memory", &mut BypassPeer::new(None).unwrap());
}

#[test]
fn the_runtime_bypass_knows_them_byte_by_byte() {
    let peer = BypassPeer::new(None).unwrap();
    check("bypass, byte by byte", &mut Trickle(peer));
}

/// Some frames do not arrive, and others arrive twice, late or damaged.
#[test]
fn the_runtime_bypass_knows_them_over_a_faulty_link() {
    let faults = Faults {
        lost: 5,
        repeated: 10,
        late: 50,
        damaged: 3,
    };
    let mut peer = BypassPeer::new(Some((faults, 7))).unwrap();
    check("bypass, over a faulty link", &mut peer);
}

#[test]
fn an_installed_memcached_knows_the_transcripts() {
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached not installed");
        return;
    };
    let server = Server::tcp(|| memcached_command(&path)).unwrap();
    let peer = SocketPeer::new(server.address.clone()).unwrap();
    let name = format!("{} {}", path.display(), peer.version());
    // Cases in which time passes then take as long as they say.
    let sleeps = std::env::var_os("CURTAIL_SLOW_TRANSCRIPTS").is_some();
    check(&name, &mut peer.sleeping(sleeps));
}
