//! The core workloads of YCSB (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC
//! 2010): shares of reads and updates, and records by Zipf's law.
//!
//! [`Zipfian`] and [`ScrambledZipfian`] draw the records that the classes of the same name in
//! YCSB's core draw from the same uniform numbers; a test compares them with a table made by these
//! classes. [`crate::RecordSampler`] has Zipf's law without their approximation, for any exponent.

mod zipfian;

use std::fmt;
use std::str::FromStr;

pub use zipfian::{ScrambledZipfian, Zipfian, ZipfianError};

/// A workload of reads and updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ycsb {
    /// Update heavy: half of the operations are updates.
    A,
    /// Read mostly: one in twenty is an update.
    B,
    /// Reads only.
    C,
    /// Updates only; not one of YCSB's own.
    WriteOnly,
}

impl Ycsb {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::WriteOnly];

    /// The name in experiments and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "ycsb-a",
            Self::B => "ycsb-b",
            Self::C => "ycsb-c",
            Self::WriteOnly => "write-only",
        }
    }

    /// The share of updates among all operations, 0 to 1.
    #[must_use]
    pub const fn update_share(self) -> f64 {
        match self {
            Self::A => 0.5,
            Self::B => 0.05,
            Self::C => 0.0,
            Self::WriteOnly => 1.0,
        }
    }
}

/// A text that names no workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("workload `{0}` is not one of ycsb-a, ycsb-b, ycsb-c, write-only")]
pub struct YcsbError(String);

impl FromStr for Ycsb {
    type Err = YcsbError;

    fn from_str(text: &str) -> Result<Self, YcsbError> {
        let found = Self::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| YcsbError(text.chars().take(40).collect()))
    }
}

impl fmt::Display for Ycsb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
