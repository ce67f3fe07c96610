//! The energy of a server under a latency objective.
//!
//! ```text
//!  model ── settings ─▶ energy, p99                     in virtual time, without I/O
//!  tuner ── trials so far ─▶ the next setting           without I/O
//!  knob ─▶ places and texts ─▶ session ─▶ kernel
//!                                └──▶ guard (a process of its own) restores
//!  meter ── joules, or proxies that are named so
//! ```
//!
//! [`model`] and [`tuner`] are pure: values in, values out, and a seed. Knobs, meters and the guard
//! use files of the kernel below a [`root::Root`], which tests replace, and netlink, which they do
//! not. Nothing is set without a guard that has saved what was there.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod error;
pub mod guard;
pub mod knob;
pub mod limits;
pub mod meter;
pub mod model;
pub mod root;
pub mod session;
#[cfg(test)]
mod tests;
pub mod tuner;
