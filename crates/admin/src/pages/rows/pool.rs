//! The figures of the clients of a memory pool, which only a server with a pool has.

use super::{Row, counter, gauge};

/// All figures of the clients of a pool.
pub(in super::super) static POOL_ROWS: &[Row] = &[
    gauge(
        "pool_clients",
        "pool_clients",
        "Clients of the memory pool.",
    ),
    gauge(
        "pool_clients_ready",
        "pool_clients_ready",
        "Clients of the memory pool with a lease and a connection.",
    ),
    gauge(
        "pool_operations_pending",
        "pool_operations_pending",
        "Operations on the memory pool in progress.",
    ),
    gauge(
        "pool_bytes_pending",
        "pool_bytes_pending",
        "Bytes of values of operations on the memory pool in progress.",
    ),
    gauge(
        "pool_bytes_changing",
        "pool_bytes_changing",
        "Bytes of values that changes in progress have made of what was in the memory pool.",
    ),
    counter(
        "pool_operations_refused",
        "pool_operations_refused",
        "Operations on the memory pool that no client began, because too many, or too long values, waited.",
    ),
    counter(
        "pool_operations",
        "pool_operations",
        "Operations on the memory pool that completed with a result.",
    ),
    counter(
        "pool_operations_failed",
        "pool_operations_failed",
        "Operations on the memory pool that failed.",
    ),
    counter("pool_reads", "pool_reads", "READs of the pool's memory."),
    counter("pool_writes", "pool_writes", "WRITEs to the pool's memory."),
    counter(
        "pool_swaps",
        "pool_swaps",
        "Compare-and-swaps of the pool's memory.",
    ),
    counter(
        "pool_swaps_won",
        "pool_swaps_won",
        "Compare-and-swaps that linked a value.",
    ),
    counter(
        "pool_stale_nodes",
        "pool_stale_nodes",
        "Nodes of the pool that were read and had a successor.",
    ),
    counter(
        "pool_restarts",
        "pool_restarts",
        "Times that an operation began again at the anchor of a chain.",
    ),
    counter(
        "pool_lookups",
        "pool_lookups",
        "Requests for the chain of a key to the metadata service.",
    ),
    counter(
        "pool_reconnects",
        "pool_reconnects",
        "Connections to the memory node that were lost.",
    ),
    counter(
        "pool_changes_refused",
        "pool_changes_refused",
        "Changes that were refused at once, because others waited for memory with long values.",
    ),
    counter(
        "pool_leases_ended",
        "pool_leases_ended",
        "Leases of clients that ended.",
    ),
    counter(
        "pool_bytes_sent",
        "pool_sent_bytes",
        "Bytes of frames sent to the pool, with all headers.",
    ),
    counter(
        "pool_bytes_received",
        "pool_received_bytes",
        "Bytes of frames received from the pool, with all headers.",
    ),
];
