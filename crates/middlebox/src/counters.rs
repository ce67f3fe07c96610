//! What a middlebox counts.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the start, each modulo 2⁶⁴.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Each name with its count.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Frames that came in.
    frames,
    /// Frames that left, injected and repeated ones included.
    sent,
    /// Frames that are no packets of reliable connections, and passed.
    foreign,
    /// Packets of connections that are not known, and passed.
    unknown_passed,
    /// Packets of connections that are not known, and were dropped: all with mapping, otherwise
    /// those of compare-and-swap operations.
    unknown_dropped,
    /// Packets with a wrong ICRC, or a wrong checksum of IPv4, dropped.
    corrupted,
    /// Responses from the clients' side and requests from the memory nodes', dropped.
    misdirected,

    /// Connections that were established.
    connected,
    /// Requests to connect that were dropped, because the client has unresolved operations.
    connects_delayed,
    /// Replies to clients that were dropped: no space for the connection or the memory node, no
    /// request to connect that is known, or shared queue pairs that are not established yet.
    replies_dropped,
    /// Packets of connection set-up that are older than others, or of a memory node too many,
    /// dropped.
    setups_ignored,
    /// Connections that were replaced because there was no space.
    flows_evicted,

    /// Compare-and-swap operations that came in, without retransmissions.
    swaps,
    /// Those that went to another tail than the client's.
    swaps_steered,
    /// Those that went to the client's tail, because it is the one that is known.
    swaps_kept,
    /// Those that passed as they were: chain or new node not known, not among the hottest, exact.
    swaps_passed,
    /// Those that became WRITEs.
    swaps_converted,
    /// Those that waited for another of their chain.
    swaps_held,
    /// Those answered as successful.
    swaps_succeeded,
    /// Those answered as failed.
    swaps_failed,
    /// Failures whose original value was changed, as the client would have read it as a success.
    originals_replaced,
    /// READs of nodes that came in.
    reads,
    /// Those that went to another node than the client's.
    reads_steered,
    /// Those whose address is not known.
    reads_unknown,
    /// WRITEs of new nodes.
    nodes_written,

    /// Chains that became known.
    chains_learned,
    /// Chains that were replaced because there was no space.
    chains_evicted,
    /// Chains that were not tracked, because none could be replaced.
    chains_refused,
    /// Addresses that were replaced because there was no space.
    addresses_evicted,
    /// Addresses that were not remembered, because none could be replaced.
    addresses_refused,
    /// Tails that became owned.
    tails_owned,
    /// Tails that were owned and are not any more.
    tails_disowned,
    /// Operations on owned tails that failed, which means that there is another path to memory.
    tails_bypassed,
    /// Chains that gave up waiting for an operation.
    holds_expired,

    /// Retransmissions of clients.
    retransmitted,
    /// Those whose first transmission is not remembered, dropped.
    stale,
    /// Requests that were dropped because others before them are missing, or the window is full.
    out_of_sequence,
    /// Requests that were dropped because there was no space for a copy.
    no_frame,
    /// Requests that were dropped because shared queue pairs are not established yet.
    not_ready,
    /// Requests that the middlebox refused: opcodes and lengths that cannot be mapped, keys,
    /// bounds, the wrong shard.
    refused,
    /// Negative acknowledgements that the middlebox sent to clients.
    naks_sent,
    /// Negative acknowledgements of memory nodes on shared queue pairs.
    naks_received,
    /// Times that a shared queue pair sent everything unanswered again.
    resends,
    /// Packets sent by that.
    packets_resent,
    /// Requests that waited for space on a shared queue pair.
    shared_waits,
    /// Shared queue pairs that counted as dead.
    shared_dead,
    /// Times that a shared queue pair had to have a higher attempt than that of an earlier start.
    attempts_raised,
    /// Replies of memory nodes that refuse a shared queue pair.
    shared_refused,
    /// Connections that failed with the shared queue pair.
    flows_failed,
    /// Acknowledgements that the middlebox made, for WRITEs and compare-and-swap operations.
    acks_injected,
    /// Responses that waited for earlier ones of their connection.
    responses_held,
    /// Responses that are not expected (any more), dropped.
    responses_ignored,
}
