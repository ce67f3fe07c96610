//! The public traces that hit ratios are measured with, and what each is for.
//!
//! *The division.* A change of the store's eviction is chosen with the learning traces; the judging
//! traces only confirm or refute it. The traces are sorted by name, and every other one is for
//! learning, beginning with the first. The rule was fixed before any trace had been replayed. A new
//! trace changes the roles of those after it, so all results are then measured again.
//!
//! *Where they come from.* Caffeine's repository has its traces in the folder `parser` of its
//! simulator's resources, libCacheSim's in `data`. The directory of traces has the contents of both
//! folders. A file may be compressed in another way, or not at all, under the same name.

use std::fs;
use std::path::Path;

use super::compression::decompress;
use super::format::Format;
use super::{Trace, TraceError};

/// What a trace is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Changes of the store are chosen with it.
    Learning,
    /// It confirms or refutes a change that was chosen with others.
    Judging,
}

impl Role {
    /// The role in a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Learning => "learning",
            Self::Judging => "judging",
        }
    }
}

/// A public trace.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name: its path in its collection, without suffixes.
    pub name: &'static str,
    /// Its file, below the directory of traces.
    pub path: &'static str,
    /// How the decompressed file is to be read.
    pub format: Format,
    /// What it is used for.
    pub role: Role,
}

impl Entry {
    /// Reads the trace below `directory`. None: its file is missing.
    ///
    /// # Errors
    /// The file cannot be read or is not of its format.
    pub fn load(&self, directory: &Path) -> Result<Option<Trace>, TraceError> {
        let path = directory.join(self.path);
        if !path.exists() {
            return Ok(None);
        }
        let content = decompress(fs::read(path)?)?;
        self.format.parse(&content).map(Some)
    }
}

const fn learning(name: &'static str, path: &'static str, format: Format) -> Entry {
    Entry {
        name,
        path,
        format,
        role: Role::Learning,
    }
}

const fn judging(name: &'static str, path: &'static str, format: Format) -> Entry {
    Entry {
        role: Role::Judging,
        ..learning(name, path, format)
    }
}

/// All traces, by name.
#[rustfmt::skip]
pub const CATALOGUE: [Entry; 31] = [
    learning("adapt_size/request", "adapt_size/request.trace.xz", Format::SizedText),
    judging("address/gcc", "address/gcc.trace.gz", Format::Addresses),
    learning("address/gzip", "address/gzip.trace.gz", Format::Addresses),
    judging("address/mcf", "address/mcf.trace.gz", Format::Addresses),
    learning("address/swim", "address/swim.trace.gz", Format::Addresses),
    judging("address/twolf", "address/twolf.trace.gz", Format::Addresses),
    learning("cache2k/orm-busy", "cache2k/orm-busy.trace.xz", Format::Integers4),
    judging("cache2k/orm-night", "cache2k/orm-night.trace.xz", Format::Integers4),
    learning("cache2k/web07", "cache2k/web07.trace.xz", Format::Integers4),
    judging("cache2k/web12", "cache2k/web12.trace.xz", Format::Integers4),
    learning("cloudPhysicsIO", "cloudPhysicsIO.oracleGeneral.bin", Format::OracleGeneral),
    judging("cloud_physics/w106", "cloud_physics/w106.trace.xz", Format::Integers4),
    learning("corda/vaultservice", "corda/trace_vaultservice.gz", Format::Integers8),
    judging("corda/vaultservice_large", "corda/trace_vaultservice_large.gz", Format::Integers8),
    learning("lirs/2_pools", "lirs/2_pools.trace.gz", Format::Lirs),
    judging("lirs/backf", "lirs/backf.trace.gz", Format::Lirs),
    learning("lirs/cpp", "lirs/cpp.trace.gz", Format::Lirs),
    judging("lirs/cs", "lirs/cs.trace.gz", Format::Lirs),
    learning("lirs/gli", "lirs/gli.trace.gz", Format::Lirs),
    judging("lirs/loop", "lirs/loop.trace.gz", Format::Lirs),
    learning("lirs/multi1", "lirs/multi1.trace.gz", Format::Lirs),
    judging("lirs/multi2", "lirs/multi2.trace.gz", Format::Lirs),
    learning("lirs/multi3", "lirs/multi3.trace.gz", Format::Lirs),
    judging("lirs/ps", "lirs/ps.trace.gz", Format::Lirs),
    learning("lirs/scan", "lirs/scan.trace.gz", Format::Lirs),
    judging("lirs/sprite", "lirs/sprite.trace.gz", Format::Lirs),
    learning("lirs/zigzag", "lirs/zigzag.trace.gz", Format::Lirs),
    judging("scarab/prods", "scarab/prods.trace.20160808T073231Z.xz", Format::Integers8),
    learning("scarab/recs", "scarab/recs.trace.20160808T073231Z.xz", Format::Integers8),
    judging("scarab/scarab-recs", "scarab/scarab-recs.trace.xz", Format::Integers8),
    learning("twitter_cluster52", "twitter_cluster52.csv", Format::Twitter),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_alternate_by_name() {
        assert!(CATALOGUE.is_sorted_by_key(|entry| entry.name));
        for (at, entry) in CATALOGUE.iter().enumerate() {
            let expected = [Role::Learning, Role::Judging][at % 2];
            assert_eq!(entry.role, expected, "{}", entry.name);
        }
    }

    #[test]
    fn a_trace_is_read_from_its_directory_and_a_missing_one_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let entry = judging("three", "folder/three.trace", Format::Lirs);
        assert_eq!(entry.load(directory.path()).unwrap(), None);
        fs::create_dir(directory.path().join("folder")).unwrap();
        fs::write(directory.path().join(entry.path), "1\n*\n2\n1\n").unwrap();
        let trace = entry.load(directory.path()).unwrap().unwrap();
        assert_eq!((trace.requests.len(), trace.keys), (3, 2));
        fs::write(directory.path().join(entry.path), "1\nno\n").unwrap();
        assert!(entry.load(directory.path()).is_err());
    }
}
