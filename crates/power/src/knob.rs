//! Knobs: what an operator may set, each with a probe, bounds, and the places it writes.
//!
//! A knob does not write by itself. [`Knob::writes`] says which places get which text, and a
//! [`crate::session::Session`] saves each place before it writes it.
//!
//! | file | knobs |
//! |---|---|
//! | `processor.rs` | governor, frequency, energy preference, idle states |
//! | `package.rs` | limit of a package's power (RAPL) |
//! | `network.rs` | interrupt delay, busy poll, deferred interrupts, their suspension |

mod network;
mod package;
mod place;
mod processor;

pub(crate) use self::package::is_package;
pub use self::place::Place;

use crate::root::Root;

/// The knobs, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Name {
    /// Delay of a device's receive interrupts, µs; also turns adaptive delays off.
    RxUsecs,
    /// Governor of all processors.
    Governor,
    /// One frequency of all processors, kHz.
    Frequency,
    /// Energy preference (EPP) of all processors.
    EnergyPreference,
    /// Limit of each package's power, W.
    PowerLimit,
    /// Deepest idle state of all processors, by number.
    IdleState,
    /// How long a socket's call polls for packets, µs.
    BusyPoll,
    /// Empty polls before a device's interrupts are enabled again.
    DeferHardIrqs,
    /// Time before deferred interrupts are enabled, ns.
    GroFlushTimeout,
    /// How long interrupts stay off while an application polls, ns.
    IrqSuspendTimeout,
}

impl Name {
    /// All, with the names of the command line.
    pub const ALL: [(&'static str, Self); 10] = [
        ("rx-usecs", Self::RxUsecs),
        ("governor", Self::Governor),
        ("frequency-khz", Self::Frequency),
        ("energy-preference", Self::EnergyPreference),
        ("power-limit-w", Self::PowerLimit),
        ("idle-state", Self::IdleState),
        ("busy-poll-us", Self::BusyPoll),
        ("defer-hard-irqs", Self::DeferHardIrqs),
        ("gro-flush-timeout-ns", Self::GroFlushTimeout),
        ("irq-suspend-timeout-ns", Self::IrqSuspendTimeout),
    ];

    /// The name of the command line.
    #[must_use]
    pub fn text(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|it| it.1 == self)
            .map_or("", |it| it.0)
    }
}

/// Which values a knob takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Bounds {
    /// Numbers, both ends included.
    Range(u64, u64),
    /// One of these.
    Choice(Vec<String>),
}

impl Bounds {
    /// Whether a value is within; the problem if not.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self {
            Self::Range(least, most) => match value.parse::<u64>() {
                Ok(number) if (*least..=*most).contains(&number) => Ok(()),
                _ => Err(format!(
                    "`{value}` is not a whole number from {least} to {most}"
                )),
            },
            Self::Choice(all) if all.iter().any(|it| it == value) => Ok(()),
            Self::Choice(all) => Err(format!("`{value}` is not one of {}", all.join(", "))),
        }
    }
}

/// A knob that this machine has.
#[derive(Debug, Clone, PartialEq)]
pub struct Knob {
    /// Which.
    pub name: Name,
    /// How it is set now. Places that differ are joined with `|`.
    pub present: String,
    /// What it takes.
    pub bounds: Bounds,
    /// Each place, and how a value is written there.
    targets: Vec<(Place, Form)>,
}

/// The text of a value at a place.
#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// As it is.
    Same,
    /// Times this.
    Times(u64),
    /// Always this: a step on the way.
    Fixed(String),
    /// `1` if the value is below this, otherwise `0`: a switch that turns off.
    OffBelow(u64),
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq)]
pub enum Probe {
    /// It may be set.
    Usable(Knob),
    /// It is there, but this process may not set it.
    ReadOnly(Knob, String),
    /// It is not there, and why.
    Absent(String),
}

impl Knob {
    /// The places and texts of a value, in the order in which they must be written.
    ///
    /// # Errors
    /// The value is out of bounds.
    pub fn writes(&self, value: &str) -> Result<Vec<(Place, String)>, String> {
        self.bounds.check(value)?;
        let number: u64 = value.parse().unwrap_or(0);
        let text = |form: &Form| match form {
            Form::Same => value.to_owned(),
            Form::Times(factor) => number.saturating_mul(*factor).to_string(),
            Form::Fixed(text) => text.clone(),
            Form::OffBelow(state) => u8::from(number < *state).to_string(),
        };
        Ok(self
            .targets
            .iter()
            .map(|(place, form)| (place.clone(), text(form)))
            .collect())
    }
}

/// Probes a knob; those of the network for this device.
#[must_use]
pub fn probe(root: &Root, name: Name, device: Option<&str>) -> Probe {
    match name {
        Name::Governor => processor::governor(root),
        Name::Frequency => processor::frequency(root),
        Name::EnergyPreference => processor::energy_preference(root),
        Name::IdleState => processor::idle_state(root),
        Name::PowerLimit => package::power_limit(root),
        Name::BusyPoll => network::busy_poll(root),
        Name::RxUsecs => network::rx_usecs(root, device),
        Name::DeferHardIrqs => network::defer_hard_irqs(root, device),
        Name::GroFlushTimeout => network::gro_flush_timeout(root, device),
        Name::IrqSuspendTimeout => network::irq_suspend_timeout(root, device),
    }
}

/// A probe of a knob whose places are there.
fn found(root: &Root, knob: Knob) -> Probe {
    let refused = knob
        .targets
        .iter()
        .find_map(|(place, _)| place.refusal(root));
    match refused {
        None => Probe::Usable(knob),
        Some(why) => Probe::ReadOnly(knob, why),
    }
}

/// The values that places have, each once.
fn present(root: &Root, places: impl IntoIterator<Item = Place>) -> String {
    let mut values: Vec<String> = Vec::new();
    for place in places {
        let value = place.read(root).unwrap_or_else(|error| error.to_string());
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_name_what_they_take() {
        let range = Bounds::Range(2, 9);
        assert!(range.check("2").is_ok() && range.check("9").is_ok());
        for wrong in ["1", "10", "-3", "4.5", "", "x"] {
            let problem = range.check(wrong).unwrap_err();
            assert!(problem.ends_with("from 2 to 9"), "{problem}");
        }
        let choice = Bounds::Choice(vec!["powersave".into(), "performance".into()]);
        assert!(choice.check("powersave").is_ok());
        assert!(
            choice
                .check("ondemand")
                .unwrap_err()
                .contains("powersave, performance")
        );
    }

    #[test]
    fn names_are_found_by_their_text() {
        for (text, name) in Name::ALL {
            assert_eq!(name.text(), text);
        }
    }
}
