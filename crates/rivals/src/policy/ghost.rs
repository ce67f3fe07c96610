//! What left, as our store remembers it: fingerprints in sets of eight, each set overwritten in
//! turn. Two records may share a fingerprint; then one is taken for the other, which costs a place
//! in the main part and nothing else.

use super::scattered;

const WAYS: usize = 8;

/// A table of fingerprints.
#[derive(Debug)]
pub(super) struct Ghost {
    /// 0: nothing.
    fingerprints: Vec<u16>,
    /// The next to be overwritten in each set.
    turns: Vec<u8>,
    fingerprint_max: u64,
}

impl Ghost {
    /// A table of `bytes`, `fingerprint_bytes` (1 or 2) for each record in it.
    pub(super) fn new(bytes: u64, fingerprint_bytes: u32) -> Self {
        let sets = (bytes / u64::from(fingerprint_bytes)) as usize / WAYS;
        Self {
            fingerprints: vec![0; sets * WAYS],
            turns: vec![0; sets],
            fingerprint_max: (1 << (8 * fingerprint_bytes)) - 1,
        }
    }

    /// The set of a record, and its fingerprint.
    fn place(&self, record: u32) -> Option<(usize, u16)> {
        let bits = scattered(record);
        let sets = self.turns.len() as u64;
        let set = (bits >> 32).checked_rem(sets)?;
        let fingerprint = 1 + (bits & 0xffff_ffff) % self.fingerprint_max;
        Some((set as usize, fingerprint as u16))
    }

    pub(super) fn add(&mut self, record: u32) {
        if let Some((set, fingerprint)) = self.place(record) {
            let turn = self.turns[set];
            self.turns[set] = (turn + 1) % WAYS as u8;
            self.fingerprints[set * WAYS + usize::from(turn)] = fingerprint;
        }
    }

    /// Whether a record is there; if it was, it no longer is.
    pub(super) fn take(&mut self, record: u32) -> bool {
        let Some((set, fingerprint)) = self.place(record) else {
            return false;
        };
        let ways = &mut self.fingerprints[set * WAYS..][..WAYS];
        let found = ways.iter_mut().find(|way| **way == fingerprint);
        found.map(|way| *way = 0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered_once() {
        let mut ghost = Ghost::new(2048, 2);
        (0..100_000).for_each(|record| ghost.add(record));
        let newest = (99_800..100_000).filter(|&record| ghost.take(record));
        assert!(newest.count() > 190);
        assert!(!(99_800..100_000).any(|record| ghost.take(record)));
        let strange = (0..90_000).filter(|&record| ghost.take(record)).count();
        assert!(strange < 90_000 * 8 / 65_535 * 4 + 20, "{strange}");
    }

    #[test]
    fn without_memory_nothing_is_remembered() {
        let mut ghost = Ghost::new(0, 1);
        ghost.add(1);
        assert!(!ghost.take(1));
    }
}
