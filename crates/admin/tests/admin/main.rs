//! The admin service without sockets: conversations, pages, and any input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "what stops a test fails it"
)]

mod client;
mod conversations;
mod example;
mod pages;
mod properties;
