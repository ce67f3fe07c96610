//! Power of the whole machine by `ipmitool`.

use std::process::{Command, Stdio};

use super::sensors::{Power, Source};

/// A meter, if the command gives a number now.
pub(super) fn power() -> Option<Power> {
    read_watts().map(|_| Power::new("ipmi:dcmi".to_owned(), Source::Ipmi))
}

pub(super) fn read_watts() -> Option<f64> {
    let output = Command::new("ipmitool")
        .args(["dcmi", "power", "reading"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Watts in the output of `ipmitool dcmi power reading`.
#[must_use]
pub fn parse(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|it| it.trim_start().starts_with("Instantaneous power reading"))?;
    let (_, value) = line.split_once(':')?;
    let mut words = value.split_whitespace();
    let watts = words.next()?.parse().ok()?;
    (words.next()? == "Watts").then_some(watts)
}
