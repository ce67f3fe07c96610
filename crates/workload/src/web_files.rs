//! The files of a web server, after SPECweb as Ruan & Pai use it (*Understanding and Addressing
//! Blocking-Induced Network Server Latency*, USENIX ATC 2006, section "Workload").
//!
//! ```text
//! /dir00000/class0_1 … class0_9    100 B … 900 B     35 % of the requests
//!           class1_1 … class1_9     1 kB … 9 kB      50 %
//!           class2_1 … class2_9    10 kB … 90 kB     14 %
//!           class3_1 … class3_9   100 kB … 900 kB     1 %
//! /dir00001/…                      36 files of 5 MB in each directory
//! ```
//!
//! A request chooses a directory by its popularity (Zipf with exponent 1), then a class, then one
//! of the nine files of the class. Within a class the files 5, 4, 6, 3, 7, 2, 8, 9, 1 are requested
//! in proportion to 1, 1/2, …, 1/9, as in SPECweb99. The paper does not state this law, but its
//! shares of sizes follow from it: 25.06 % to 0.5 kB, 28.05 % to 4 kB, 23.55 % to 6 kB, 23.34 %
//! above. (If the nine files were equally popular, the first share would be 19.4 %.)
//!
//! The bytes of a file are a function of a seed, of its number and of the position, so a client can
//! check any part of a file without a copy of it.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::keyspace::KeyBuffer;
use crate::limits::FILE_DIRECTORIES_MAX;
use crate::random_stream::{key as stream_key, word};
use crate::{Purpose, RandomStream};

/// Files of each class in a directory.
const FILES_PER_CLASS: u64 = 9;

/// The files of a directory by class and size, with the share of the requests for each class.
const CLASS_SHARES: [f64; SizeClass::COUNT] = [0.35, 0.5, 0.14, 0.01];

/// The files of a class, the most popular one first.
const FILES_BY_POPULARITY: [u8; FILES_PER_CLASS as usize] = [5, 4, 6, 3, 7, 2, 8, 9, 1];

/// A class of file sizes. Each class has nine sizes in equal steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SizeClass {
    /// 100 B to 900 B.
    Bytes100 = 0,
    /// 1 kB to 9 kB.
    Kilobytes1 = 1,
    /// 10 kB to 90 kB.
    Kilobytes10 = 2,
    /// 100 kB to 900 kB.
    Kilobytes100 = 3,
}

impl SizeClass {
    /// Number of classes.
    pub const COUNT: usize = 4;

    /// All classes, each at the index of its number.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Bytes100,
        Self::Kilobytes1,
        Self::Kilobytes10,
        Self::Kilobytes100,
    ];

    /// The share of the requests that are for files of the class, 0 to 1.
    #[must_use]
    pub const fn share(self) -> f64 {
        CLASS_SHARES[self as usize]
    }

    /// The size of the smallest file, and the difference between two sizes, bytes.
    #[must_use]
    pub const fn step(self) -> u64 {
        match self {
            Self::Bytes100 => 100,
            Self::Kilobytes1 => 1_000,
            Self::Kilobytes10 => 10_000,
            Self::Kilobytes100 => 100_000,
        }
    }

    /// The size of the largest file, bytes.
    #[must_use]
    pub const fn largest(self) -> u64 {
        self.step() * FILES_PER_CLASS
    }

    /// The name in summaries, such as `class0`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes100 => "class0",
            Self::Kilobytes1 => "class1",
            Self::Kilobytes10 => "class2",
            Self::Kilobytes100 => "class3",
        }
    }
}

/// A set of files. As text: a total size such as `3000000000`, or `directories=600`; either may be
/// followed by `,seed=N`. Sizes with units are the business of the caller ([`WebFiles::of_size`]).
///
/// Files are numbered 0 to `files − 1`: number ÷ 36 is the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebFiles {
    directories: u32,
    seed: u64,
}

/// An invalid file set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebFilesError {
    /// No directory, or too many.
    #[error("{0} directories: give between 1 and {FILE_DIRECTORIES_MAX}, of 5 MB each")]
    Directories(u64),
    /// The text is no file set.
    #[error("`{0}` is no file set: give directories=600 or a size, then ,seed=N if wanted")]
    Text(String),
}

impl WebFiles {
    /// Files in each directory.
    pub const FILES_PER_DIRECTORY: u64 = SizeClass::COUNT as u64 * FILES_PER_CLASS;

    /// Bytes of the files of a directory.
    pub const DIRECTORY_BYTES: u64 = {
        let steps = FILES_PER_CLASS * (FILES_PER_CLASS + 1) / 2;
        steps * (100 + 1_000 + 10_000 + 100_000)
    };

    /// The set of `directories` directories, whose bytes follow from `seed`.
    ///
    /// # Errors
    /// There are no directories, or more than [`FILE_DIRECTORIES_MAX`].
    pub fn new(directories: u64, seed: u64) -> Result<Self, WebFilesError> {
        match u32::try_from(directories) {
            Ok(directories @ 1..=FILE_DIRECTORIES_MAX) => Ok(Self { directories, seed }),
            _ => Err(WebFilesError::Directories(directories)),
        }
    }

    /// The set whose size is nearest to `bytes`, but at least one directory.
    ///
    /// # Errors
    /// It would have more than [`FILE_DIRECTORIES_MAX`] directories.
    pub fn of_size(bytes: u64, seed: u64) -> Result<Self, WebFilesError> {
        let nearest = bytes.saturating_add(Self::DIRECTORY_BYTES / 2) / Self::DIRECTORY_BYTES;
        Self::new(nearest.max(1), seed)
    }

    /// The same files with other bytes.
    #[must_use]
    pub const fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The seed of the files' bytes.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of directories.
    #[must_use]
    pub const fn directories(&self) -> u32 {
        self.directories
    }

    /// The number of files.
    #[must_use]
    pub const fn files(&self) -> u64 {
        self.directories as u64 * Self::FILES_PER_DIRECTORY
    }

    /// The total size, bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.directories as u64 * Self::DIRECTORY_BYTES
    }

    /// The class of a file.
    #[inline]
    #[must_use]
    pub const fn class(file: u64) -> SizeClass {
        SizeClass::ALL[(file % Self::FILES_PER_DIRECTORY / FILES_PER_CLASS) as usize]
    }

    /// The size of a file, bytes.
    #[inline]
    #[must_use]
    pub const fn size(file: u64) -> u64 {
        (file % FILES_PER_CLASS + 1) * Self::class(file).step()
    }

    /// Draws a file of a directory: its class, and the file of the class.
    #[inline]
    pub(crate) fn draw_in(directory: u64, stream: &mut RandomStream) -> u64 {
        let mut class = stream.unit();
        let mut class_number = 0;
        while class_number + 1 < SizeClass::COUNT && class >= CLASS_SHARES[class_number] {
            class -= CLASS_SHARES[class_number];
            class_number += 1;
        }
        let mut weight = stream.unit() * FILE_WEIGHT;
        let mut rank = 0;
        while rank + 1 < FILES_BY_POPULARITY.len() && weight >= 1.0 / (rank + 1) as f64 {
            weight -= 1.0 / (rank + 1) as f64;
            rank += 1;
        }
        let in_class = u64::from(FILES_BY_POPULARITY[rank]) - 1;
        let in_directory = class_number as u64 * FILES_PER_CLASS + in_class;
        directory * Self::FILES_PER_DIRECTORY + in_directory
    }

    /// Writes the path of a file, such as `/dir00000/class1_3`, into the buffer and returns it.
    #[inline]
    pub fn path(file: u64, buffer: &mut KeyBuffer) -> &[u8] {
        let path = &mut buffer[..PATH_PATTERN.len()];
        path.copy_from_slice(PATH_PATTERN);
        let mut directory = file / Self::FILES_PER_DIRECTORY;
        for digit in path[DIRECTORY_AT..DIRECTORY_AT + DIRECTORY_DIGITS]
            .iter_mut()
            .rev()
        {
            *digit = b'0' + (directory % 10) as u8;
            directory /= 10;
        }
        path[CLASS_AT] = b'0' + Self::class(file) as u8;
        path[FILE_AT] = b'1' + (file % FILES_PER_CLASS) as u8;
        path
    }

    /// Writes the bytes of a file from position `from` on into `part`.
    pub fn fill(&self, file: u64, from: u64, part: &mut [u8]) {
        let words = self.words_of(file);
        let mut at = from;
        let mut rest = part;
        while !rest.is_empty() {
            let word = &words(at / WORD_LEN).to_le_bytes()[(at % WORD_LEN) as usize..];
            let len = word.len().min(rest.len());
            let (now, later) = rest.split_at_mut(len);
            now.copy_from_slice(&word[..len]);
            rest = later;
            at += len as u64;
        }
    }

    /// Whether `part` is what a file has from position `from` on.
    #[must_use]
    pub fn matches(&self, file: u64, from: u64, part: &[u8]) -> bool {
        let words = self.words_of(file);
        let mut at = from;
        let mut rest = part;
        while !rest.is_empty() {
            let word = &words(at / WORD_LEN).to_le_bytes()[(at % WORD_LEN) as usize..];
            let len = word.len().min(rest.len());
            if rest[..len] != word[..len] {
                return false;
            }
            rest = &rest[len..];
            at += len as u64;
        }
        true
    }

    /// The words of eight bytes of which a file consists, by their number.
    fn words_of(&self, file: u64) -> impl Fn(u64) -> u64 {
        let file_key = word(stream_key(self.seed, Purpose::FileBytes), file);
        move |number| word(file_key, number)
    }
}

/// Bytes that are drawn together.
const WORD_LEN: u64 = 8;

const PATH_PATTERN: &[u8] = b"/dir00000/class0_0";
const DIRECTORY_AT: usize = 4;
const DIRECTORY_DIGITS: usize = 5;
const CLASS_AT: usize = 15;
const FILE_AT: usize = 17;

/// The sum of 1, 1/2, …, 1/9.
const FILE_WEIGHT: f64 = 7129.0 / 2520.0;

impl FromStr for WebFiles {
    type Err = WebFilesError;

    fn from_str(text: &str) -> Result<Self, WebFilesError> {
        let error = || WebFilesError::Text(text.chars().take(80).collect());
        let (extent, seed) = text.split_once(",seed=").unwrap_or((text, "1"));
        let seed = seed.parse().map_err(|_| error())?;
        match extent.split_once('=') {
            Some(("directories", count)) => Self::new(count.parse().map_err(|_| error())?, seed),
            Some(_) => Err(error()),
            None => Self::of_size(extent.parse().map_err(|_| error())?, seed),
        }
    }
}

impl fmt::Display for WebFiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "directories={},seed={}", self.directories, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(file: u64) -> String {
        let mut buffer = [0; crate::limits::KEY_LEN_MAX];
        String::from_utf8(WebFiles::path(file, &mut buffer).to_vec()).unwrap()
    }

    #[test]
    fn a_directory_has_36_files_of_5_mb() {
        let set = WebFiles::new(600, 1).unwrap();
        let sizes: Vec<u64> = (0..36).map(WebFiles::size).collect();
        assert_eq!(
            sizes[..10],
            [100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]
        );
        assert_eq!((sizes[17], sizes[18], sizes[35]), (9_000, 10_000, 900_000));
        assert_eq!(sizes.iter().sum::<u64>(), WebFiles::DIRECTORY_BYTES);
        assert_eq!(WebFiles::DIRECTORY_BYTES, 4_999_500);
        assert_eq!((set.files(), set.bytes()), (21_600, 2_999_700_000));
        assert_eq!(WebFiles::of_size(3_000_000_000, 1), Ok(set));
        assert_eq!(WebFiles::of_size(0, 1).unwrap().directories(), 1);
    }

    #[test]
    fn paths_are_those_of_the_files_that_are_made() {
        assert_eq!(path(0), "/dir00000/class0_1");
        assert_eq!(path(36 + 11), "/dir00001/class1_3");
        assert_eq!(path(36 * 99_999 + 35), "/dir99999/class3_9");
    }

    /// The published shares of the four series of sizes, and the mean response of about 14 kB.
    #[test]
    fn draws_have_the_published_shares_of_sizes_and_mean() {
        let mut stream = RandomStream::new(5, Purpose::Other, 0);
        let count = 400_000;
        let (mut sum, mut classes, mut series) = (0, [0; 4], [0; 4]);
        for _ in 0..count {
            let file = WebFiles::draw_in(7, &mut stream);
            assert_eq!(file / WebFiles::FILES_PER_DIRECTORY, 7);
            let size = WebFiles::size(file);
            sum += size;
            classes[WebFiles::class(file) as usize] += 1;
            series[[500, 4_000, 6_000].partition_point(|&end| end < size)] += 1;
        }
        let near = |counts: [u32; 4], shares: [f64; 4], tolerance: f64| {
            for (got, share) in counts.into_iter().zip(shares) {
                let got = f64::from(got) / f64::from(count);
                assert!((got - share).abs() < tolerance, "{got} {share}");
            }
        };
        near(classes, CLASS_SHARES, 0.003);
        near(series, [0.2506, 0.2805, 0.2355, 0.2334], 0.004);
        let mean = sum as f64 / f64::from(count);
        assert!((14_000.0..14_800.0).contains(&mean), "{mean}");
    }

    #[test]
    fn text_gives_the_set_and_comes_back() {
        let set: WebFiles = "directories=600".parse().unwrap();
        assert_eq!((set.directories(), set.seed()), (600, 1));
        assert_eq!("3000000000,seed=9".parse(), Ok(set.with_seed(9)));
        assert_eq!(set.to_string().parse(), Ok(set));
        for (text, fault) in [
            (
                "directories=0",
                "0 directories: give between 1 and 100000, of 5 MB each",
            ),
            ("directories=100001", "100001 directories: give between"),
            (
                "files=3",
                "`files=3` is no file set: give directories=600 or a size",
            ),
            ("3TB", "`3TB` is no file set"),
            (
                "directories=2,seed=x",
                "`directories=2,seed=x` is no file set",
            ),
        ] {
            let error = text.parse::<WebFiles>().unwrap_err().to_string();
            assert!(error.starts_with(fault), "{error}");
        }
    }

    #[test]
    fn bytes_depend_on_the_seed_and_the_file() {
        let set = WebFiles::new(2, 1).unwrap();
        let bytes = |set: WebFiles, file| {
            let mut bytes = [0; 16];
            set.fill(file, 0, &mut bytes);
            bytes
        };
        assert_ne!(bytes(set, 0), bytes(set, 1));
        assert_ne!(bytes(set, 0), bytes(set.with_seed(2), 0));
        assert!(!set.matches(1, 0, &bytes(set, 0)));
    }

    proptest! {
        #[test]
        fn any_part_of_a_file_matches_and_a_changed_byte_does_not(
            file in 0..72_u64, from in 0..50_u64, len in 1..40_usize, at in 0..40_usize,
        ) {
            let set = WebFiles::new(2, 3).unwrap();
            let mut all = [0; 100];
            set.fill(file, 0, &mut all);
            let mut part = all[from as usize..][..len].to_vec();
            prop_assert!(set.matches(file, from, &part));
            let mut again = vec![0; len];
            set.fill(file, from, &mut again);
            prop_assert_eq!(&again, &part);
            part[at % len] ^= 1;
            prop_assert!(!set.matches(file, from, &part));
        }
    }
}
