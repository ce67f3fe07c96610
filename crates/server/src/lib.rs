//! A complete server: listening, limits, dropping root privileges, statistics, orderly shutdown.
//!
//! [`Server::start`] turns a [`Config`] into listening sockets, a store and a running runtime.
//! [`Server::serve`] waits for a signal and stops everything. Steps that need root privileges come
//! before the server drops them. The crate prints nothing: the caller passes a function that
//! receives each log line.

#![forbid(unsafe_code)]

mod admin;
mod cached_items;
mod class_statistics;
mod command_latencies;
mod config;
mod datagram_sockets;
mod documents;
mod error;
mod event_collector;
mod expired_items;
mod limits;
mod maintenance;
mod passwords;
mod pauses;
mod pool;
mod serving;
mod settings;
mod sockets;
mod start;
mod state;
mod tier;
mod watch;

pub use ::tier::{Rules as TierRules, limits as tier_limits};
pub use config::{Config, DEFAULT_USER, InterfaceConfig, UnixSocket};
pub use datagram_sockets::DatagramsConfig;
pub use datagrams::{ReplyLimit, limits::STRANGER_FACTOR};
pub use documents::Documents;
pub use error::Error;
pub use files::{Misses, StrategyKind};
pub use passwords::{PasswordFile, PasswordFileError};
pub use pool::PoolConfig;
pub use runtime::limits::DRAIN_NS;
pub use runtime::{
    Kind, Scheduler, WaitPolicy, fibre_connections_max, fibre_mappings_needed,
    has_lightweight_guard_pages, thread_connections_max, thread_mappings_needed,
};
pub use session::{AllowedProtocols, PasswordFormat, Permissions};
pub use start::{Server, best_runtime, open_files_needed};
pub use store::limits::HUGE_FROM;
pub use tier::{TierConfig, TierFile};
