//! What was found: one thing about the machine, how it is, and what to do about it.

use serde::Serialize;

/// What findings are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Group {
    Runtimes,
    Limits,
    Measuring,
}

impl Group {
    pub(super) const ALL: [Self; 3] = [Self::Runtimes, Self::Limits, Self::Measuring];

    /// Its heading.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Runtimes => "Server runtimes",
            Self::Limits => "Limits",
            Self::Measuring => "Measuring",
        }
    }
}

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mark {
    Fine,
    /// Worth knowing.
    Note,
    /// Something would not work as documented.
    Wrong,
    /// The machine does not show it.
    NotShown,
}

impl Mark {
    /// As it stands before a finding.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Wrong => "WRONG",
            Self::NotShown => "-",
        }
    }
}

/// One thing about the machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) group: Group,
    pub(super) name: &'static str,
    pub(super) mark: Mark,
    /// What was seen.
    pub(super) value: String,
    /// The same as a number and its unit, where it is one.
    pub(super) number: Option<(f64, &'static str)>,
    /// What it means, where it is not fine.
    pub(super) means: Option<String>,
    /// What to do, where something can be done.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn fine(group: Group, name: &'static str, value: impl Into<String>) -> Self {
        Self {
            group,
            name,
            mark: Mark::Fine,
            value: value.into(),
            number: None,
            means: None,
            remedy: None,
        }
    }

    pub(super) fn not_shown(group: Group, name: &'static str) -> Self {
        Self {
            mark: Mark::NotShown,
            ..Self::fine(group, name, "not shown")
        }
    }

    /// What is worth knowing about it.
    pub(super) fn note(self, means: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.marked(Mark::Note, means.into(), remedy.into())
    }

    /// What is wrong with it.
    pub(super) fn wrong(self, means: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.marked(Mark::Wrong, means.into(), remedy.into())
    }

    fn marked(self, mark: Mark, means: String, remedy: String) -> Self {
        Self {
            mark,
            means: Some(means),
            remedy: Some(remedy),
            ..self
        }
    }

    pub(super) fn number(self, number: f64, unit: &'static str) -> Self {
        Self {
            number: Some((number, unit)),
            ..self
        }
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.mark == Mark::Wrong
    }
}
