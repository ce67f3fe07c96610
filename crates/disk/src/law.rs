//! The law of a disk's delays: how long it serves one request.
//!
//! The service time is a seek, a turn and a transfer. A request that begins where the one before it
//! ended needs no seek and no turn if the disk has one arm. A law is text: the name of a preset,
//! and changes of it, as in `spindle:seek=2ms,seek-law=exponential`.

use std::fmt;
use std::str::FromStr;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::limits;

/// How the time of a seek is drawn. All have the same mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekLaw {
    /// Always the mean.
    Fixed,
    /// Exponential.
    Exponential,
    /// Uniform from 0 to twice the mean.
    Uniform,
}

impl SeekLaw {
    const ALL: [(&'static str, Self); 3] = [
        ("fixed", Self::Fixed),
        ("exponential", Self::Exponential),
        ("uniform", Self::Uniform),
    ];
}

/// The law of a disk's delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Law {
    /// The preset it began as.
    preset: &'static str,
    /// Requests served at the same time, each as fast as one alone.
    pub channels: u32,
    /// Mean time of a seek.
    pub seek_ns: u64,
    /// How it is drawn.
    pub seek_law: SeekLaw,
    /// Time of a full turn. The wait for a block is uniform from 0 to it.
    pub turn_ns: u64,
    /// Bytes a second of one channel.
    pub transfer: u64,
}

/// What is wrong with the text of a law.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LawError {
    /// No preset has this name.
    #[error("`{0}` is no disk: known are {known}", known = Law::names())]
    Preset(String),
    /// A change is no `key=value`, or no law has this key.
    #[error("`{0}` is no setting of a disk: known are {KEYS}, each as KEY=VALUE")]
    Key(String),
    /// A value is wrong.
    #[error("`{key}={value}` is wrong: {problem}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is expected.
        problem: String,
    },
}

const KEYS: &str = "channels, seek, seek-law, turn, transfer";

/// The presets. `spindle` and its two faster siblings are decision 016.
const PRESETS: [Law; 4] = [
    // A disk of 2006 with 7200 turns a minute: 8.9 ms for 16 KiB.
    Law {
        preset: "spindle-2006",
        channels: 1,
        seek_ns: 4_500_000,
        seek_law: SeekLaw::Uniform,
        turn_ns: 8_333_333,
        transfer: 60_000_000,
    },
    // The same, ten times faster in each part, as today's servers are.
    Law {
        preset: "spindle",
        channels: 1,
        seek_ns: 450_000,
        seek_law: SeekLaw::Uniform,
        turn_ns: 833_333,
        transfer: 600_000_000,
    },
    Law {
        preset: "ssd",
        channels: 8,
        seek_ns: 100_000,
        seek_law: SeekLaw::Uniform,
        turn_ns: 0,
        transfer: 250_000_000,
    },
    Law {
        preset: "nvme",
        channels: 64,
        seek_ns: 80_000,
        seek_law: SeekLaw::Uniform,
        turn_ns: 0,
        transfer: 1_000_000_000,
    },
];

impl Law {
    /// The presets.
    #[must_use]
    pub fn presets() -> &'static [Self] {
        &PRESETS
    }

    fn names() -> String {
        PRESETS.map(|it| it.preset).join(", ")
    }

    /// Time of the transfer of `len` bytes.
    #[must_use]
    pub fn transfer_ns(&self, len: u32) -> u64 {
        u64::from(len) * 1_000_000_000 / self.transfer
    }

    /// Mean service time of a request of `len` bytes at a random place.
    #[must_use]
    pub fn mean_ns(&self, len: u32) -> u64 {
        self.seek_ns + self.turn_ns / 2 + self.transfer_ns(len)
    }

    /// Draws a service time. `is_contiguous`: the request begins where the last one ended.
    #[must_use]
    pub fn draw_ns(&self, random: &mut Draws, len: u32, is_contiguous: bool) -> u64 {
        // Both are drawn always, so that one contiguous request does not change all later delays.
        let (seek, turn) = (random.unit(), random.unit());
        let transfer_ns = self.transfer_ns(len);
        if is_contiguous && self.channels == 1 {
            return transfer_ns;
        }
        let seek = match self.seek_law {
            SeekLaw::Fixed => 1.0,
            SeekLaw::Exponential => -libm::log(1.0 - seek),
            SeekLaw::Uniform => 2.0 * seek,
        };
        let drawn = seek * self.seek_ns as f64 + turn * self.turn_ns as f64;
        drawn.round() as u64 + transfer_ns
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let duration = || -> Result<u64, String> {
            let ns = units::duration_ns(value).map_err(|error| error.to_string())?;
            match ns <= limits::DELAY_NS {
                true => Ok(ns),
                false => Err(format!(
                    "at most {}",
                    units::duration_argument(limits::DELAY_NS)
                )),
            }
        };
        match key {
            "channels" => {
                let channels = value.parse().ok();
                let channels = channels.filter(|it| (1..=limits::CHANNELS).contains(it));
                let most = limits::CHANNELS;
                self.channels = channels.ok_or_else(|| format!("expected 1 to {most}"))?;
            }
            "seek" => self.seek_ns = duration()?,
            "turn" => self.turn_ns = duration()?,
            "seek-law" => {
                let found = SeekLaw::ALL.iter().find(|(name, _)| *name == value);
                let expected = || "expected fixed, exponential or uniform".to_owned();
                self.seek_law = found.ok_or_else(expected)?.1;
            }
            "transfer" => {
                let bytes = units::size_bytes(value).map_err(|error| error.to_string())?;
                if bytes < limits::TRANSFER_MIN {
                    return Err("bytes a second, at least 1KiB".to_owned());
                }
                self.transfer = bytes;
            }
            // The caller has compared the key.
            _ => return Err(format!("known are {KEYS}")),
        }
        Ok(())
    }
}

impl FromStr for Law {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let (name, changes) = text.split_once(':').unwrap_or((text, ""));
        let preset = PRESETS.iter().find(|it| it.preset == name);
        let mut law = preset
            .ok_or_else(|| LawError::Preset(name.to_owned()))?
            .clone();
        for change in changes.split(',').filter(|it| !it.is_empty()) {
            let known = |(key, _): &(&str, &str)| KEYS.split(", ").any(|it| it == *key);
            let (key, value) = change
                .split_once('=')
                .filter(known)
                .ok_or_else(|| LawError::Key(change.to_owned()))?;
            law.set(key, value).map_err(|problem| LawError::Value {
                key: key.to_owned(),
                value: value.to_owned(),
                problem,
            })?;
        }
        Ok(law)
    }
}

impl fmt::Display for Law {
    /// The whole law, as text that parses to it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seek_law = SeekLaw::ALL.iter().find(|(_, it)| *it == self.seek_law);
        write!(
            f,
            "{}:channels={},seek={},seek-law={},turn={},transfer={}",
            self.preset,
            self.channels,
            units::duration_argument(self.seek_ns),
            seek_law.map_or("", |it| it.0),
            units::duration_argument(self.turn_ns),
            self.transfer
        )
    }
}

/// A stream of random numbers from a seed.
#[derive(Debug, Clone)]
pub struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub(crate) fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// A whole number below `bound`, which is not 0.
    #[must_use]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u32 = 16 << 10;

    fn mean_ns(law: &Law, seed: u64) -> f64 {
        let mut draws = Draws::new(seed);
        let count = 100_000;
        let sum: u64 = (0..count)
            .map(|_| law.draw_ns(&mut draws, PAGES, false))
            .sum();
        sum as f64 / f64::from(count)
    }

    #[test]
    fn drawn_service_times_have_the_mean_of_the_law() {
        for text in [
            "spindle",
            "spindle:seek-law=exponential",
            "spindle:seek-law=fixed",
            "ssd",
        ] {
            let law: Law = text.parse().unwrap();
            let found = mean_ns(&law, 3) / law.mean_ns(PAGES) as f64;
            assert!((found - 1.0).abs() < 0.01, "{text}: {found}");
        }
    }

    #[test]
    fn presets_are_those_of_decision_016() {
        for (name, channels, expected_ns) in [
            ("spindle-2006", 1, 8_939_732),
            ("spindle", 1, 893_972),
            ("ssd", 8, 165_536),
            ("nvme", 64, 96_384),
        ] {
            let law: Law = name.parse().unwrap();
            assert_eq!(
                (law.channels, law.mean_ns(PAGES)),
                (channels, expected_ns),
                "{name}"
            );
        }
    }

    #[test]
    fn a_contiguous_request_of_one_arm_only_takes_its_transfer() {
        let spindle: Law = "spindle".parse().unwrap();
        let mut draws = Draws::new(1);
        assert_eq!(spindle.draw_ns(&mut draws, 600, true), 1_000);
        // It consumes the numbers of any other request.
        let after = spindle.draw_ns(&mut draws, 600, false);
        let mut again = Draws::new(1);
        let _ = spindle.draw_ns(&mut again, 600, false);
        assert_eq!(spindle.draw_ns(&mut again, 600, false), after);
    }

    #[test]
    fn the_text_of_a_law_parses_to_it() {
        for text in [
            "spindle",
            "nvme:channels=4",
            "ssd:seek=1500us,turn=1ns,transfer=1KiB",
        ] {
            let law: Law = text.parse().unwrap();
            assert_eq!(law.to_string().parse::<Law>(), Ok(law), "{text}");
        }
    }

    #[test]
    fn wrong_laws_are_refused_with_the_reason() {
        for (text, expected) in [
            (
                "tape",
                "`tape` is no disk: known are spindle-2006, spindle, ssd, nvme",
            ),
            (
                "ssd:speed=3",
                "`speed=3` is no setting of a disk: known are channels",
            ),
            ("ssd:seek", "`seek` is no setting"),
            ("ssd:channels=0", "`channels=0` is wrong: expected 1 to 256"),
            ("ssd:seek=11s", "`seek=11s` is wrong: at most 10s"),
            ("ssd:seek-law=odd", "expected fixed, exponential or uniform"),
            ("ssd:transfer=1", "at least 1KiB"),
        ] {
            let refused = text.parse::<Law>().unwrap_err().to_string();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
