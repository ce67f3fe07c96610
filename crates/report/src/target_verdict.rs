//! The verdict on a target, and the texts of its result.

/// The result of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is within the bound.
    Go,
    /// The whole interval is beyond the bound.
    Missed,
    /// Why neither is known, as a clause.
    NotDecided(String),
}

impl Verdict {
    /// The verdict in words, without the reason.
    #[must_use]
    pub fn words(&self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Missed => "missed",
            Self::NotDecided(_) => "not decided",
        }
    }

    /// Why neither is known.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::NotDecided(reason) => Some(reason),
            Self::Go | Self::Missed => None,
        }
    }
}

/// A target and its result, as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// What the target is, with its bound.
    pub name: String,
    /// The figure with its interval. Empty: there is none.
    pub figure: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The trials that the figure leaves out, and why. Empty: none.
    pub left_out: String,
}
