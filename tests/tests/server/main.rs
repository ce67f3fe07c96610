//! Tests of servers and programs on one runtime, and of the runtimes within this process.

// Helpers of tests may do what tests may.
#![allow(clippy::panic, clippy::print_stderr, clippy::unwrap_used)]

mod admin_clients;
mod agents;
mod agreement;
mod binary_probe;
mod cached_items;
mod carriers;
mod corpora;
mod counting;
mod datagrams;
mod doctor;
mod document_processes;
mod http_corpus;
mod lab_compare;
mod pool_faults;
mod pool_processes;
mod pool_server;
mod power;
mod runtimes;
mod start_lines;
mod statistics;
mod text_probe;
mod textile;
mod tier_faults;
mod transcripts;
mod web_load;
