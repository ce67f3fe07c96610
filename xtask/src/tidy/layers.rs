//! `xtask/layers.toml`: the rooms, their layers, and the edges between them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Where it is written.
pub(crate) const PATH: &str = "xtask/layers.toml";

/// Each room and the rooms it may depend on.
type Rooms = BTreeMap<String, Vec<String>>;

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layers {
    pure: Rooms,
    rim: Rooms,
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
    Rim,
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

    /// The layer of a room; none where the table does not name it.
    pub(crate) fn layer(&self, room: &str) -> Option<Layer> {
        self.each()
            .find(|(_, rooms)| rooms.contains_key(room))
            .map(|(layer, _)| layer)
    }

    /// Whether the table draws this edge. `*` stands for every room.
    pub(crate) fn draws(&self, from: &str, to: &str) -> bool {
        let row = self.each().find_map(|(_, rooms)| rooms.get(from));
        row.is_some_and(|row| row.iter().any(|name| name == to || name == "*"))
    }

    /// Every row: the layer, the room, what it may depend on.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Layer, &str, &[String])> {
        self.each().flat_map(|(layer, rooms)| {
            rooms
                .iter()
                .map(move |(room, row)| (layer, room.as_str(), row.as_slice()))
        })
    }

    fn each(&self) -> impl Iterator<Item = (Layer, &Rooms)> {
        [
            (Layer::Pure, &self.pure),
            (Layer::Rim, &self.rim),
            (Layer::Engines, &self.engines),
            (Layer::Programs, &self.programs),
            (Layer::Outside, &self.outside),
        ]
        .into_iter()
    }
}
