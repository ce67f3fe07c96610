//! `xtask/layers.toml`: the crates, their layers, and the edges between them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Where it is written.
pub(crate) const PATH: &str = "xtask/layers.toml";

/// Each crate and the crates it may depend on.
type Rooms = BTreeMap<String, Vec<String>>;

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layers {
    pure: Rooms,
    platform: Rooms,
    engines: Rooms,
    programs: Rooms,
    outside: Rooms,
}

/// A layer; a lesser one lies below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    /// No I/O, no clock, no unsafe code.
    Pure,
    /// Where unsafe code may stand.
    Platform,
    /// Everything with a job.
    Engines,
    /// What is run.
    Programs,
    /// Tests and tools.
    Outside,
}

impl Layers {
    /// Reads the table.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).with_context(|| format!("failed to read {PATH}"))
    }

    /// The layer of a crate; none where the table does not name it.
    pub(crate) fn layer(&self, member: &str) -> Option<Layer> {
        self.each()
            .find(|(_, members)| members.contains_key(member))
            .map(|(layer, _)| layer)
    }

    /// Whether the table draws this edge. `*` stands for every crate.
    pub(crate) fn draws(&self, from: &str, to: &str) -> bool {
        let row = self.each().find_map(|(_, members)| members.get(from));
        row.is_some_and(|row| row.iter().any(|name| name == to || name == "*"))
    }

    /// Every row: the layer, the crate, what it may depend on.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Layer, &str, &[String])> {
        self.each().flat_map(|(layer, members)| {
            members
                .iter()
                .map(move |(member, row)| (layer, member.as_str(), row.as_slice()))
        })
    }

    fn each(&self) -> impl Iterator<Item = (Layer, &Rooms)> {
        [
            (Layer::Pure, &self.pure),
            (Layer::Platform, &self.platform),
            (Layer::Engines, &self.engines),
            (Layer::Programs, &self.programs),
            (Layer::Outside, &self.outside),
        ]
        .into_iter()
    }
}
