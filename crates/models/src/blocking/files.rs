//! The files of the simulated server, after SPECweb, and the page cache over them.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Files of a size class in a folder.
const FILES_OF_CLASS: usize = 9;
/// The smallest file of each class; the n-th file is n times as large.
const CLASS_BYTES: [u64; 4] = [100, 1_000, 10_000, 100_000];
/// The files of a class, the most popular one first; their popularities are as 1, ½, ⅓ and so on,
/// as in SPECweb99. The study does not say so, but its shares of sizes follow from it.
const FILES_BY_POPULARITY: [usize; FILES_OF_CLASS] = [5, 4, 6, 3, 7, 2, 8, 9, 1];
/// The share of accesses of each class.
const CLASS_SHARES: [f64; 4] = [0.35, 0.50, 0.14, 0.01];
const FILES_OF_FOLDER: usize = FILES_OF_CLASS * CLASS_BYTES.len();
/// Bytes that are sent in one turn: what a socket takes.
pub(super) const CHUNK: u64 = 64 << 10;
/// Bytes of a page: the least that a block takes in the cache.
const PAGE: u64 = 4 << 10;

/// A set of files in folders: 36 in each, 5 MB together.
#[derive(Debug)]
pub(super) struct Files {
    folders: usize,
    /// Cumulative popularity of the folders, by Zipf's law with exponent 1.
    popularity: Vec<f64>,
    /// The same of the files of a class.
    in_class: Vec<f64>,
}

impl Files {
    /// As many whole folders as `bytes` holds, at least one.
    pub(super) fn new(bytes: u64) -> Self {
        let of_folder: u64 = (0..FILES_OF_FOLDER).map(size_in_folder).sum();
        let folders = usize::try_from((bytes / of_folder).max(1)).unwrap_or(usize::MAX);
        Self {
            folders,
            popularity: zipf_sums(folders),
            in_class: zipf_sums(FILES_OF_CLASS),
        }
    }

    pub(super) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> usize {
        let folder = draw_rank(&self.popularity, random);
        let mut share = random.random::<f64>();
        let mut class = 0;
        while class + 1 < CLASS_SHARES.len() && share >= CLASS_SHARES[class] {
            share -= CLASS_SHARES[class];
            class += 1;
        }
        let rank = draw_rank(&self.in_class, random);
        let nth = FILES_BY_POPULARITY[rank] - 1;
        folder * FILES_OF_FOLDER + class * FILES_OF_CLASS + nth
    }

    pub(super) fn count(&self) -> usize {
        self.folders * FILES_OF_FOLDER
    }

    pub(super) fn folder(file: usize) -> usize {
        file / FILES_OF_FOLDER
    }

    pub(super) fn size(file: usize) -> u64 {
        size_in_folder(file % FILES_OF_FOLDER)
    }

    /// Blocks of all files: for each its metadata, and its data, which are read and cached as one.
    pub(super) fn blocks(&self) -> usize {
        2 * self.count()
    }

    pub(super) fn metadata(file: usize) -> usize {
        2 * file
    }

    pub(super) fn data(file: usize) -> usize {
        2 * file + 1
    }

    pub(super) fn chunk_len(file: usize, chunk: usize) -> u64 {
        Self::size(file)
            .saturating_sub(chunk as u64 * CHUNK)
            .min(CHUNK)
    }
}

/// 1, 1 + ½, 1 + ½ + ⅓ and so on.
fn zipf_sums(count: usize) -> Vec<f64> {
    let sums = (1..=count).scan(0.0, |sum, rank| {
        *sum += 1.0 / rank as f64;
        Some(*sum)
    });
    sums.collect()
}

/// Draws a rank, from 0, by cumulative weights.
fn draw_rank(sums: &[f64], random: &mut Xoshiro256PlusPlus) -> usize {
    let total = sums.last().copied().unwrap_or(1.0);
    let at = random.random::<f64>() * total;
    sums.partition_point(|&sum| sum <= at)
        .min(sums.len().saturating_sub(1))
}

fn size_in_folder(file: usize) -> u64 {
    CLASS_BYTES[file / FILES_OF_CLASS] * (file % FILES_OF_CLASS + 1) as u64
}

const NONE: u32 = u32::MAX;

/// A page cache that evicts the block used least recently.
#[derive(Debug)]
pub(super) struct PageCache {
    capacity: u64,
    used: u64,
    /// Neighbours of each block in the order of use; a block that is not cached has length 0.
    newer: Vec<u32>,
    older: Vec<u32>,
    len: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl PageCache {
    /// An empty cache of `capacity` bytes for blocks with numbers below `blocks`.
    pub(super) fn new(capacity: u64, blocks: usize) -> Self {
        Self {
            capacity,
            used: 0,
            newer: vec![NONE; blocks],
            older: vec![NONE; blocks],
            len: vec![0; blocks],
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(super) fn contains(&self, block: usize) -> bool {
        self.len[block] > 0
    }

    /// Marks a block as used now, and caches its `bytes` if it is not.
    pub(super) fn touch(&mut self, block: usize, bytes: u64) {
        if self.contains(block) {
            self.unlink(block);
        } else {
            let len = bytes.next_multiple_of(PAGE).max(PAGE);
            self.len[block] = u32::try_from(len).unwrap_or(u32::MAX);
            self.used += len;
        }
        self.older[block] = self.newest;
        self.newer[block] = NONE;
        match self.newest {
            NONE => self.oldest = block as u32,
            newest => self.newer[newest as usize] = block as u32,
        }
        self.newest = block as u32;
        while self.used > self.capacity && self.oldest != self.newest {
            let oldest = self.oldest as usize;
            self.unlink(oldest);
            self.used -= u64::from(self.len[oldest]);
            self.len[oldest] = 0;
        }
    }

    fn unlink(&mut self, block: usize) {
        let (newer, older) = (self.newer[block], self.older[block]);
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
    }
}

/// A bounded set of files in the order of their last use: those that a server keeps open.
pub(super) type OpenFiles = PageCache;

/// Open files, each of which takes the place of a page.
pub(super) fn open_files(count: usize, files: usize) -> OpenFiles {
    PageCache::new(count as u64 * PAGE, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn files_are_those_of_the_study() {
        let files = Files::new(3_000_000_000);
        assert_eq!(files.count() % 36, 0);
        let total: u64 = (0..files.count()).map(Files::size).sum();
        assert!((2_900_000_000..=3_000_000_000).contains(&total), "{total}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let draws: Vec<usize> = (0..200_000).map(|_| files.draw(&mut random)).collect();
        let mean = draws.iter().map(|&it| Files::size(it)).sum::<u64>() as f64 / 200_000.0;
        assert!((13_500.0..=15_500.0).contains(&mean), "{mean}");
        // The shares of sizes that the study prints.
        for (most, share) in [(500, 0.2506), (4_000, 0.5311), (6_000, 0.7666)] {
            let below = draws.iter().filter(|&&it| Files::size(it) <= most).count();
            let found = below as f64 / 200_000.0;
            assert!((found - share).abs() < 0.005, "{most}: {found}");
        }
        let small = draws.iter().filter(|&&it| Files::size(it) < 1_000).count();
        assert!((small as f64 / 200_000.0 - 0.35).abs() < 0.01, "{small}");
        // Zipf: the first folder is about as popular as the second and third together ×1.2.
        let of = |folder| {
            draws
                .iter()
                .filter(|&&it| Files::folder(it) == folder)
                .count() as f64
        };
        assert!((of(0) / of(1) - 2.0).abs() < 0.1);
        assert!((of(0) / of(3) - 4.0).abs() < 0.3);
    }

    #[test]
    fn the_block_used_least_recently_is_evicted() {
        let mut cache = PageCache::new(3 * PAGE, 9);
        for block in [0, 1, 2, 0, 3] {
            cache.touch(block, 1);
        }
        let cached: Vec<usize> = (0..9).filter(|&it| cache.contains(it)).collect();
        assert_eq!(cached, [0, 2, 3]);
        // A block that takes two pages evicts two.
        cache.touch(4, PAGE + 1);
        let cached: Vec<usize> = (0..9).filter(|&it| cache.contains(it)).collect();
        assert_eq!(cached, [3, 4]);
    }
}
