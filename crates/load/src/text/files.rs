//! The text output of a run against web servers: latencies by the size of the files, the service
//! inversion, and the statuses of the answers.

use std::fmt::Write as _;

use units::show_share;

use super::{latency_line, or_dash};
use crate::summary::{FilesSummary, HttpSummary, Loop, Summary};

/// Returns lines with the latencies of each size class, with the service inversion, and with the
/// sizes of the files in the fastest and the slowest tenth of the gets. Empty: no files were
/// requested.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let Some(files) = &summary.files else {
        return Vec::new();
    };
    let time = match summary.demand {
        Loop::Open => "response",
        Loop::Closed => "service",
    };
    let mut lines = vec![String::new(), format!("{time} by size of file")];
    for class in &files.classes {
        // These are the times that the heading names: `response` is `Some` exactly in open loop.
        let latency = class.response.as_ref().unwrap_or(&class.service);
        let name = size_range(class.smallest_bytes, class.largest_bytes);
        lines.push(format!(
            "{}  {} requests",
            latency_line(&name, latency),
            latency.count
        ));
    }
    lines.push(inversion_line(files));
    lines.extend(decile_line(files));
    lines
}

/// Returns a range of sizes, such as `100-900 B`.
fn size_range(smallest: u64, largest: u64) -> String {
    match smallest {
        0..1_000 => format!("{smallest}-{largest} B"),
        _ => format!("{}-{} kB", smallest / 1_000, largest / 1_000),
    }
}

/// Returns the service inversion (how far the order of latencies is from the order of file sizes),
/// and the number of gets from which it was computed.
fn inversion_line(files: &FilesSummary) -> String {
    let inversion = files.service_inversion.map(|it| format!("{it:.3}"));
    let sampled = match files.sampled == files.sampled_of {
        true => format!("{} gets", files.sampled),
        false => format!("a sample of {} of {} gets", files.sampled, files.sampled_of),
    };
    format!(
        "{:<10} {} of {sampled} (0: latency follows size, 1: the reverse)",
        "inversion",
        or_dash(inversion)
    )
}

/// Returns which shares of the fastest and of the slowest tenth of the gets were for files of each
/// size series. A size series is a range of file sizes: `files.size_series` contains the upper
/// bound of each, and the range begins above the previous bound. None: there were too few gets.
fn decile_line(files: &FilesSummary) -> Option<String> {
    let deciles = files.size_deciles.as_ref()?;
    let mut text = format!("{:<10}", "sizes");
    for (name, shares) in [
        ("fastest", deciles.deciles.first()),
        ("slowest", deciles.deciles.last()),
    ] {
        // Writing into a String cannot fail.
        let _ = write!(text, " {name} tenth");
        for (share, upper_bound_bytes) in shares?.iter().zip(&files.size_series) {
            let upper_bound_kb = *upper_bound_bytes as f64 / 1e3;
            let share = show_share(*share);
            let _ = write!(text, " {share} to {upper_bound_kb} kB,");
        }
        // Replaces the last comma.
        text.pop();
        text.push(';');
    }
    text.pop();
    Some(text)
}

/// Returns the number of answers by status. If there are answers with wrong bodies or malformed
/// answers, also returns their numbers.
pub(super) fn http_line(http: &HttpSummary) -> String {
    let mut line = format!(
        "{:<10} {} 2xx, {} 3xx, {} 4xx, {} 5xx",
        "status", http.status_2xx, http.status_3xx, http.status_4xx, http.status_5xx
    );
    if http.wrong_bodies > 0 {
        let _ = write!(
            line,
            ", {} with another body than the file",
            http.wrong_bodies
        );
    }
    if http.malformed > 0 {
        let fault = http.fault.as_deref().unwrap_or_default();
        let _ = write!(line, ", {} malformed: {fault}", http.malformed);
    }
    line
}
