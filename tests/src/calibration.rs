//! Calibration: the load generator held to laws that are known.
//!
//! A server of one thread ([`server`]) answers each request after a time drawn from a [`law`] and
//! logs how long the request truly was with it. The generator measures the same requests; opaque
//! tokens say which is which ([`bench`]). Each of the [`lines`] compares the two, or a percentile
//! with what theory says it is, and has a bound.
//!
//! **True residence.** A request waits in the server's socket while another is served, and a
//! client sees that wait, so it belongs to the truth. A server that sleeps through its service
//! could not stamp the arrival: this one spends every service time polling its sockets, and
//! stamps each request just after receiving it, a few microseconds after it came at worst. The
//! answer is stamped just before it is sent. What lies outside the two stamps, and so in the
//! difference, is the generator's part, both ways through the kernel, and the server's glance and
//! its send: the difference is never negative, and bounds the instrument's error from above.

pub mod bench;
pub mod law;
pub mod lines;
pub mod search;
pub mod server;

use std::path::PathBuf;

/// How a calibration is made.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The program that serves when called with the words `known-law-server LAW SEED CPU`.
    pub program: PathBuf,
    /// Trials a fifth as long, and a stall of a fifth of a second in two.
    pub short: bool,
    /// The server's processor; none: not pinned.
    pub server_cpu: Option<usize>,
    /// The generator's processor; none: not pinned.
    pub load_cpu: Option<usize>,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Which law, which loop.
    pub case: String,
    /// What was compared.
    pub figure: &'static str,
    /// What came out.
    pub found: String,
    /// What is allowed.
    pub bound: String,
    /// Whether it is.
    pub within: bool,
}

/// The lines as a table.
#[must_use]
pub fn table(lines: &[Line]) -> String {
    let width = |of: fn(&Line) -> &str| lines.iter().map(|line| of(line).chars().count()).max();
    let case = width(|line| &line.case).unwrap_or(0);
    let figure = width(|line| line.figure).unwrap_or(0);
    let found = width(|line| &line.found).unwrap_or(0);
    let bound = width(|line| &line.bound).unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        let verdict = if line.within { "ok" } else { "OUT OF BOUND" };
        text.push_str(&format!(
            "{:<case$}  {:<figure$}  {:>found$}  {:<bound$}  {verdict}\n",
            line.case, line.figure, line.found, line.bound
        ));
    }
    text
}
