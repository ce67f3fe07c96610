//! The operations of a load, and the mix of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What one request does. The first two are the operations of every cache; the list is open: a new
/// operation is one variant here and one line in each wire of the load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Op {
    /// Read a record.
    Get = 0,
    /// Write a record.
    Set = 1,
    /// Read several records with one request.
    MultiGet = 2,
    /// Write a record if it is absent.
    Add = 3,
    /// Write a record if it is present.
    Replace = 4,
    /// Append a few bytes to a record.
    Append = 5,
    /// Prepend a few bytes to a record.
    Prepend = 6,
    /// Delete a record.
    Delete = 7,
    /// Give a record a new TTL.
    Touch = 8,
    /// Read a record and give it a new TTL.
    GetAndTouch = 9,
    /// Add 1 to a record's counter, which is an item of its own
    /// ([`crate::Keyspace::counter_key`]).
    Increment = 10,
    /// Subtract 1 from a record's counter.
    Decrement = 11,
    /// Read a record with its CAS. If it is found, a [`Op::Cas`] follows.
    Gets = 12,
    /// Write a record if its CAS is still the one read. Only ever follows a [`Op::Gets`].
    Cas = 13,
    /// Read a record. If it is absent, a [`Op::Fill`] follows.
    ReadThrough = 14,
    /// Write a record that a [`Op::ReadThrough`] did not find. Only ever follows one.
    Fill = 15,
    /// Ask for the size of a file without its bytes. Only HTTP has it.
    Head = 16,
}

impl Op {
    /// Number of operations.
    pub const COUNT: usize = 17;

    /// All operations; each stands at the index of its own number.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Get,
        Self::Set,
        Self::MultiGet,
        Self::Add,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::Delete,
        Self::Touch,
        Self::GetAndTouch,
        Self::Increment,
        Self::Decrement,
        Self::Gets,
        Self::Cas,
        Self::ReadThrough,
        Self::Fill,
        Self::Head,
    ];

    /// The name in summaries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::MultiGet => "multiget",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Delete => "delete",
            Self::Touch => "touch",
            Self::GetAndTouch => "gat",
            Self::Increment => "incr",
            Self::Decrement => "decr",
            Self::Gets => "gets",
            Self::Cas => "cas",
            Self::ReadThrough => "read-through",
            Self::Fill => "fill",
            Self::Head => "head",
        }
    }

    /// Whether the answer carries values.
    #[inline]
    #[must_use]
    pub const fn reads(self) -> bool {
        const READS: u32 = Op::set_of(&[
            Op::Get,
            Op::MultiGet,
            Op::GetAndTouch,
            Op::Gets,
            Op::ReadThrough,
        ]);
        self.is_in(READS)
    }

    /// Whether the request carries a value.
    #[inline]
    #[must_use]
    pub const fn stores(self) -> bool {
        const STORES: u32 = Op::set_of(&[
            Op::Set,
            Op::Add,
            Op::Replace,
            Op::Append,
            Op::Prepend,
            Op::Cas,
            Op::Fill,
        ]);
        self.is_in(STORES)
    }

    /// Whether the request, or the one that follows it, carries a TTL.
    #[inline]
    #[must_use]
    pub const fn has_ttl(self) -> bool {
        const WITH_TTL: u32 = Op::set_of(&[
            Op::Set,
            Op::Add,
            Op::Replace,
            Op::Touch,
            Op::GetAndTouch,
            Op::Gets,
            Op::Cas,
            Op::ReadThrough,
            Op::Fill,
        ]);
        self.is_in(WITH_TTL)
    }

    /// Whether it works on the record's counter.
    #[inline]
    #[must_use]
    pub const fn counts(self) -> bool {
        self.is_in(Op::set_of(&[Op::Increment, Op::Decrement]))
    }

    /// Whether some answers to it cause another request.
    #[inline]
    #[must_use]
    pub const fn has_follow_up(self) -> bool {
        self.is_in(Op::set_of(&[Op::Gets, Op::ReadThrough]))
    }

    /// A set of operations: a bit for each.
    const fn set_of(operations: &[Self]) -> u32 {
        let (mut set, mut index) = (0, 0);
        while index < operations.len() {
            set |= 1 << operations[index] as u32;
            index += 1;
        }
        set
    }

    #[inline]
    const fn is_in(self, set: u32) -> bool {
        set >> self as u32 & 1 != 0
    }

    /// The operation that some answers to this one cause.
    #[must_use]
    pub fn follow_up(self) -> Option<Self> {
        match self {
            Self::Gets => Some(Self::Cas),
            Self::ReadThrough => Some(Self::Fill),
            _ => None,
        }
    }

    /// The operation of a name in a mix: a pair of requests goes by the name of its purpose.
    fn of_mix(name: &str) -> Option<Self> {
        match name {
            "cas" => Some(Self::Gets),
            "gets" | "fill" => None,
            _ => Self::ALL.into_iter().find(|op| op.name() == name),
        }
    }
}

/// The shares of the operations in a load.
///
/// It parses from weights, `get=90,set=9,delete=1`; `cas` stands for a `gets` and the `cas` that
/// follows it, `read-through` for a get and the set that follows a miss. The shares are those of
/// planned requests; requests that follow answers come on top. The serialised form is exact, which
/// weights are not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Each operation with the sum of the shares up to and including its own, ascending.
    thresholds: Vec<(f64, Op)>,
    /// The operation of the remaining share.
    otherwise: Op,
}

/// The error of a text that is not a mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mix `{text}`: {fault}; give weights such as get=90,set=9,delete=1 of: {OPERATIONS}")]
pub struct MixError {
    text: String,
    fault: String,
}

const OPERATIONS: &str = "get, multiget, set, add, replace, append, prepend, delete, touch, gat, \
                          incr, decr, cas, read-through, head";

impl Mix {
    /// Sets by `share`, 0 to 1; the rest are gets.
    #[must_use]
    pub fn sets(share: f64) -> Self {
        Self {
            thresholds: vec![(share, Op::Set)],
            otherwise: Op::Get,
        }
    }

    /// The mix of some weights, in any order; the same weights give the same requests. None: there
    /// is no weight above 0.
    #[must_use]
    pub fn of_weights(weights: &[(Op, f64)]) -> Option<Self> {
        let mut weights: Vec<(Op, f64)> = weights.iter().copied().filter(|it| it.1 > 0.0).collect();
        // Gets take the remaining share, as with `sets`: a mix of gets and sets gives the same
        // requests however it was written.
        weights.sort_by_key(|&(op, _)| (op == Op::Get, op as u8));
        let total: f64 = weights.iter().map(|it| it.1).sum();
        let (otherwise, _) = weights.pop()?;
        let mut sum = 0.0;
        let threshold = |(op, weight)| {
            sum += weight;
            (sum / total, op)
        };
        Some(Self {
            thresholds: weights.into_iter().map(threshold).collect(),
            otherwise,
        })
    }

    /// The operations with a share above 0.
    pub fn operations(&self) -> impl Iterator<Item = Op> + '_ {
        let mut below = 0.0;
        let rest = self.thresholds.last().is_none_or(|last| last.0 < 1.0);
        let named = self.thresholds.iter().filter_map(move |&(end, op)| {
            let has_share = end > below;
            below = end;
            has_share.then_some(op)
        });
        named.chain(rest.then_some(self.otherwise))
    }

    /// The threshold that lies outside 0 to 1, if one does.
    pub(crate) fn invalid_share(&self) -> Option<f64> {
        let mut ends = self.thresholds.iter().map(|it| it.0);
        ends.find(|end| !(0.0..=1.0).contains(end))
    }

    /// The operation of a number drawn from (0, 1).
    #[inline]
    pub(crate) fn of(&self, unit: f64) -> Op {
        for &(end, op) in &self.thresholds {
            if unit < end {
                return op;
            }
        }
        self.otherwise
    }
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let fault = |fault: String| MixError {
            text: text.chars().take(100).collect(),
            fault,
        };
        let mut weights: Vec<(Op, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part
                .split_once('=')
                .ok_or_else(|| fault(format!("`{part}` has no weight")))?;
            let op = Op::of_mix(name.trim())
                .ok_or_else(|| fault(format!("there is no operation `{name}`")))?;
            let number = weight.trim().parse::<f64>().ok();
            let weight = number
                .filter(|weight| weight.is_finite() && *weight >= 0.0)
                .ok_or_else(|| fault(format!("`{weight}` is not a weight")))?;
            if weights.iter().any(|&(other, _)| other == op) {
                return Err(fault(format!("`{name}` is given twice")));
            }
            weights.push((op, weight));
        }
        Self::of_weights(&weights).ok_or_else(|| fault("no weight is above 0".to_owned()))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_stands_at_its_number() {
        for (index, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, index);
        }
    }

    #[test]
    fn a_mix_of_gets_and_sets_equals_its_share_of_sets() {
        for text in ["get=97,set=3", "set=3,get=97", "set=0.03,get=0.97"] {
            assert_eq!(text.parse::<Mix>().unwrap(), Mix::sets(0.03), "{text}");
        }
        let only: Vec<Op> = Mix::sets(0.0).operations().collect();
        assert_eq!(only, [Op::Get]);
        assert_eq!(Mix::sets(1.0).operations().collect::<Vec<_>>(), [Op::Set]);
    }

    #[test]
    fn operations_have_their_shares() {
        let mix: Mix = "get=50,set=20,cas=20,read-through=10".parse().unwrap();
        let mut counts = [0; Op::COUNT];
        for step in 0..1000 {
            counts[mix.of((f64::from(step) + 0.5) / 1000.0) as usize] += 1;
        }
        let shares = [Op::Get, Op::Set, Op::Gets, Op::ReadThrough].map(|op| counts[op as usize]);
        assert_eq!(shares, [500, 200, 200, 100]);
        assert_eq!(mix.operations().count(), 4);
    }

    #[test]
    fn a_wrong_mix_names_its_fault_and_the_operations() {
        for (text, fault) in [
            ("get", "`get` has no weight"),
            ("got=1", "there is no operation `got`"),
            ("gets=1", "there is no operation `gets`"),
            ("get=-1", "`-1` is not a weight"),
            ("get=1,get=2", "`get` is given twice"),
            ("get=0,set=0", "no weight is above 0"),
        ] {
            let message = text.parse::<Mix>().unwrap_err().to_string();
            let expected = format!("mix `{text}`: {fault}; give weights such as");
            assert!(message.starts_with(&expected), "{message}");
            assert!(message.ends_with("read-through, head"), "{message}");
        }
    }
}
