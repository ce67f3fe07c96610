//! All bounds of a middlebox. What they drop, refuse or replace is counted: see
//! [`crate::Counters`].

/// Most connections of clients. One more replaces one that has no request waiting here or on a
/// shared queue pair: a failed one, or else the one that was not used for the longest time. If
/// there is none, the reply to the client is dropped.
pub const FLOWS_MAX: usize = 1024;
/// Most memory nodes. With mapping, requests to connect to others are dropped, without it their
/// replies.
pub const NODES_MAX: usize = 16;
/// Most shared queue pairs at one memory node.
pub const SHARED_MAX: usize = 256;
/// Most requests that a connection, or a shared queue pair, may have unanswered. Later ones are
/// dropped, or wait.
pub const WINDOW: u32 = 64;
/// Sequence numbers of requests of a connection that are remembered, answered ones included. A
/// power of two, and at least twice the window, so that each retransmission finds what was done
/// with the first.
pub const RECORDS: usize = 128;
/// Copies of packets that are kept: those waiting, those unanswered on shared queue pairs, and
/// responses that arrived before others. Without a free one, requests are dropped.
pub const FRAMES_MAX: usize = 8192;
/// Chains that are known, at most, if the configuration says nothing else.
pub const CHAINS: usize = 16_384;
/// Addresses of nodes that are known, at most, if the configuration says nothing else.
pub const ADDRESSES: usize = 65_536;
/// Entries that are looked at to find a chain that can be replaced. If there is none, the new chain
/// is not tracked.
pub const EVICTION_STEPS: usize = 64;
/// Operations after which the hottest chains are determined again, and the counts halved.
pub const HOT_PERIOD: u32 = 4096;
/// Most clients of a proxy, each of which has a socket. Datagrams of others are dropped.
pub const ALIASES_MAX: usize = 512;
/// After how long without a datagram a client of a proxy loses its alias, if another needs one: no
/// client repeats a request after so long.
pub const ALIAS_IDLE_NS: u64 = 10_000_000_000;
/// Most addresses that a proxy passes over because they are in use.
pub const ALIAS_SKIPS_MAX: usize = 4096;
/// Most frames that are taken before the port and the timers have a turn.
pub const BURST: usize = 64;
/// Most turns after the end was signalled.
pub const TURNS_AFTER_STOP: usize = 64;
/// Most frames that one system call of a bridge receives or sends.
pub const BATCH: usize = 32;
/// While a device of a bridge is down, how long the bridge waits until it looks whether the device
/// was removed.
pub const DOWN_CHECK_NS: u64 = 100_000_000;
/// Bytes of frames that the kernel keeps for each device of a bridge.
pub const DEVICE_BUFFER_LEN: usize = 16 << 20;
/// Bytes of a proxy's socket buffers, each, as far as the kernel gives them.
pub const SOCKET_BUFFER_LEN: usize = 4 << 20;

// The number of a shared queue pair has four bits for the memory node and eight for the index.
const _: () = assert!(NODES_MAX <= 16 && SHARED_MAX <= 256);
const _: () = assert!(RECORDS.is_power_of_two() && RECORDS >= 2 * WINDOW as usize);
