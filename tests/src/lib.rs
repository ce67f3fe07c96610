//! Black-box tests of Curtail.
//!
//! A *transcript* is a file of requests and expected replies (`tests/transcripts/*.txt`, see
//! [`transcript`] for the format). A *peer* is anything that can answer the requests: the model, a
//! session without a socket, a server process, or a real memcached. [`play`] sends the requests of
//! a transcript to a peer and reports the first reply that differs.
//!
//! | environment variable | meaning |
//! |---|---|
//! | `CURTAIL` | path of the program under test; by default it is built from this source |
//! | `CURTAIL_RUNTIME` | runtime of the tests that are not made for each runtime (`events`) |
//! | `MEMCACHED` | path of the memcached to compare with; by default the one on the PATH, if any |
//! | `CURTAIL_SLOW_TRANSCRIPTS` | play cases with `@tick` to that memcached too, in real time |
#![forbid(unsafe_code)]

pub mod admin;
pub mod agents;
pub mod background_client;
pub mod binary_frame;
pub mod calibration;
pub mod callgrind;
pub mod client;
pub mod datagram_frames;
pub mod device_pair;
pub mod disk_process;
pub mod host_server;
pub mod http_corpus;
pub mod in_process;
pub mod ledger;
pub mod pattern;
pub mod peer;
pub mod play;
pub mod pool_capture;
pub mod pool_cases;
pub mod pool_hosts;
pub mod pool_peer;
pub mod pool_processes;
pub mod probe;
pub mod process;
pub mod processes;
pub mod protocols;
pub mod runtimes;
pub mod served_pool;
pub mod slow_disk;
pub mod toy;
pub mod transcript;
pub mod web_servers;
