//! Every bound of the generator, in one place.

use std::time::Duration;

pub use measure::limits::SEARCH_TRIALS_MAX;

/// Maximum number of connections of one run, over all threads.
pub const CONNECTIONS_MAX: u32 = 1 << 20;
/// Maximum number of requests one connection may have outstanding.
pub const DEPTH_MAX: u32 = 1024;
/// Maximum number of outstanding requests of one run: connections × depth.
pub const OUTSTANDING_MAX: u64 = 1 << 24;
/// Maximum number of threads.
pub const THREADS_MAX: u32 = 256;
/// Maximum number of parts of a run: processes that generate load together.
pub const PARTS_MAX: u32 = 64;
/// Maximum number of targets.
pub const TARGETS_MAX: usize = 256;
/// Longest measured interval and longest warm-up: a day.
pub const DURATION_NS_MAX: u64 = 86_400_000_000_000;
/// Longest wait for outstanding answers after the interval.
pub const GRACE_NS_MAX: u64 = 100_000_000_000;
/// Maximum number of scheduled requests that a thread generates in advance (32 bytes each).
pub const PREGENERATED_MAX: usize = 1 << 22;
/// Requests generated in one batch while the thread is idle. A batch takes a few microseconds,
/// which is short enough not to delay a request.
pub const GENERATE_BATCH: usize = 16;
/// Maximum number of due requests that a thread queues because their connections have reached their
/// depth or their sockets are full (40 bytes each). Further requests count as censored.
pub const WAITING_MAX: usize = 1 << 20;
/// Maximum number of requests a thread sends before it polls for answers again.
pub const SENDS_PER_ITERATION_MAX: usize = 32;
/// Maximum number of events that one wait returns.
pub const EVENTS_MAX: usize = 256;
/// Bytes of requests in one send, unless a single request is longer.
pub const SEND_BYTES_MAX: usize = 1 << 16;
/// Longest value copied into a batch; longer ones are sent from the shared filler.
pub const COPIED_VALUE_LEN_MAX: usize = 4096;
/// Maximum number of values in one send that are sent from the shared filler.
pub const SPLICES_MAX: usize = 64;
/// Bytes of one receive.
pub const RECEIVE_BYTES_MAX: usize = 1 << 17;
/// Maximum number of saturating connections.
pub const SATURATING_MAX: u32 = 1024;
/// Bytes of one receive on a saturating connection. Measured requests wait while it is parsed.
pub const SATURATING_RECEIVE_MAX: usize = 1 << 13;
/// Maximum number of connections being opened concurrently, over all threads: well below the usual
/// listen backlog of 1024.
pub const OPENING_MAX: usize = 256;
/// Attempts to open a connection before the run fails.
pub const OPENING_ATTEMPTS_MAX: u32 = 6;
/// The wait before the second attempt. It doubles with each further attempt.
pub const OPENING_BACKOFF_NS: u64 = 20_000_000;
/// How long a connection may take to be established and to answer `version`.
pub const OPENING_TIMEOUT_NS: u64 = 10_000_000_000;
/// Number of files that the process may open in addition to the connections.
pub const OPEN_FILES_RESERVE: u64 = 64;
/// Connections of a prefill to each target.
pub const PREFILL_CONNECTIONS: u32 = 8;
/// Requests of a prefill one connection has outstanding.
pub const PREFILL_DEPTH: u32 = 32;
/// How long a prefill waits without any answer before it fails.
pub const PREFILL_TIMEOUT_NS: u64 = 10_000_000_000;
/// Maximum number of records read back after a prefill, to measure how many are resident.
pub const RESIDENT_SAMPLE_MAX: u64 = 50_000;
/// How long before its next send a thread starts to spin, if it may. This is long enough that the
/// thread sleeps only at the lowest rates. After a sleep, the first request would be sent with cold
/// caches.
pub const SPIN_NS: u64 = 20_000_000;
/// Duration above which a wait with a zero timeout (about 1 µs) or a send (about 5 µs) counts as
/// interrupted: by the kernel's own work, another process or the host of a virtual machine.
pub const INTERRUPTED_NS: u64 = 15_000;
/// The same for a send that opens a connection first (about 25 µs).
pub const INTERRUPTED_CONNECT_NS: u64 = 100_000;
/// The longest time from an event to the wake-up of the thread that sleeps for it, on a machine
/// that is not busy otherwise.
pub const WAKE_UP_LATENCY_NS: u64 = 100_000;
/// Maximum bytes of a server's answer to `stats`.
pub const STATS_LEN_MAX: u64 = 64 << 10;
/// Maximum bytes of one line of that answer.
pub const STATS_LINE_LEN_MAX: u64 = 4 << 10;
/// How long a server may take to answer `stats`, and to accept the connection for it; or half of
/// the interval if that is shorter.
pub const STATS_TIMEOUT: Duration = Duration::from_millis(500);
/// The period of the stall detector: short enough to see every stall of 500 µs, long enough that
/// its wake-ups take 1 % of the processor.
pub const STALL_DETECTOR_PERIOD_NS: u64 = 250_000;
/// Maximum number of requests whose times are recorded one by one.
pub const RECORDED_MAX: usize = 1 << 24;
/// Maximum bytes of a value that `append` and `prepend` add, so that records grow slowly.
pub const APPEND_LEN_MAX: usize = 16;
/// Longest value over UDP: a request is one datagram, of at most 65 507 bytes with its line.
pub const UDP_VALUE_LEN_MAX: u32 = 60_000;
/// Maximum number of datagrams of one answer: more than a value of 1 MiB takes.
pub const ANSWER_DATAGRAMS_MAX: u16 = 1024;
/// Bytes of the receive buffer of each UDP socket; the kernel may give less (net.core.rmem_max).
pub const UDP_RECEIVE_BUFFER: usize = 1 << 20;
/// Shortest and longest time-out of a request.
pub const TIMEOUT_NS: std::ops::RangeInclusive<u64> = 100_000..=10_000_000_000;
/// Seconds for which Linux keeps a closed socket in TIME_WAIT.
pub const TIME_WAIT_S: usize = 60;
/// Maximum number of sockets that connections for single requests leave in TIME_WAIT, over all
/// threads: some 60 % of the usual 28 232 local ports. Connections beyond it end in a reset.
pub const TIME_WAIT_MAX: u32 = 16_384;
/// Maximum bytes of one line of a script.
pub const SCRIPT_LINE_LEN_MAX: usize = 1 << 15;
/// Lines that the reader of a script passes to a thread together.
pub const SCRIPT_BATCH: usize = 64;
/// Maximum number of such batches that wait for one thread.
pub const SCRIPT_BATCHES_MAX: usize = 64;
/// Maximum number of malformed lines that are located; all are counted.
pub const SCRIPT_FAULTS_MAX: usize = 10;
/// Requests of a script that a thread of a closed loop has in its queues, for each that its
/// connections may have outstanding.
pub const SCRIPT_AHEAD: usize = 4;
/// How often a thread that sleeps looks for further lines of a script.
pub const SCRIPT_POLL_NS: u64 = 1_000_000;
/// Maximum number of agents of one run. The last part's number is the measuring client's.
pub const AGENTS_MAX: usize = PARTS_MAX as usize - 1;
/// Longest message between a coordinator and an agent. The longest is a summary: at most six
/// histograms, and three for each of 16 operations, of some 28 000 buckets, which nearly always
/// take a byte each.
pub const FRAME_LEN_MAX: usize = 4 << 20;
/// Longest message before the other end has proved that it has the token.
pub const HELLO_LEN_MAX: usize = 1 << 10;
/// Least length of a token: shorter ones can be guessed from a recorded proof.
pub const TOKEN_LEN_MIN: usize = 16;
/// Greatest length of a token.
pub const TOKEN_LEN_MAX: usize = 1024;
/// Maximum number of connections that an agent serves at once. One of them may be a run; the others
/// prove their token, are told that the agent is busy, and end.
pub const SESSIONS_MAX: usize = 16;
/// How long either end waits for the next message of a handshake, and for a connection.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a coordinator waits for the end of another's run before it is told that the agent is
/// busy.
pub const RUN_SLOT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an agent waits for the next message of a coordinator while no run is prepared.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a coordinator waits for an agent to open its connections and to generate its schedule,
/// and an agent that has done so for the start.
pub const PREPARE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long one message may take to be sent.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a connection that has ended with a refusal is read from.
pub const LINGER: Duration = Duration::from_secs(1);
/// How far an agent may lag: its share is missing if a second has not come so long after its end.
pub const LAG_MAX_NS: u64 = 3_000_000_000;
/// How long an agent's message may still come after its share is found to be overdue. A coordinator
/// that was itself kept from running finds the messages that came meanwhile.
pub const OVERDUE_GRACE_NS: u64 = 200_000_000;
/// How long one end of a connection is silent before the other gives it up.
pub const SILENCE_MAX_NS: u64 = 3_000_000_000;
/// Probes of each agent's clock, before a run and after it.
pub const PROBES: u32 = 16;
/// The delay from the last probe to the start of a run, beside the messages' time on the way.
pub const AGREED_START_AHEAD_NS: u64 = 250_000_000;
/// Maximum number of latency objectives of a search.
pub const OBJECTIVES_MAX: usize = 16;
/// The highest rate that a search offers, requests per second: more than any generator can.
pub const SEARCH_RATE_RPS_MAX: f64 = 1e8;
/// Fewest requests of a trial that are slower than the percentile of an objective, on average. The
/// percentile of fewer is mostly chance.
pub const BEYOND_PERCENTILE_MIN: f64 = 10.0;
/// Fewest requests of a trial whose mean is judged.
pub const MEAN_REQUESTS_MIN: f64 = 100.0;
