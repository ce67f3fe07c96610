//! Residency in the page cache of a real file system.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{Advice, fadvise};

use crate::file::{Wait, read_at};
use crate::page_cache::{Mapping, has_pages};

const LEN: u64 = 256 * 1024;

fn file(len: u64) -> File {
    // The target folder, since the system's temporary folder may be in memory.
    let program = std::env::current_exe().unwrap();
    let mut file = tempfile::tempfile_in(program.parent().unwrap()).unwrap();
    file.write_all(&vec![b'x'; len as usize]).unwrap();
    file
}

/// A file that no page of the cache belongs to. `None` if the file system keeps its pages.
fn cold_file() -> Option<File> {
    let file = file(LEN);
    file.sync_all().unwrap();
    // Later reads shall read no more than what they are told to.
    fadvise(&file, 0, None, Advice::Random).unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let mapping = Mapping::new(&file, LEN).unwrap();
    if mapping.is_resident(0, LEN).unwrap() {
        eprintln!("skipped: the file system of the target folder keeps its pages");
        return None;
    }
    Some(file)
}

#[test]
fn a_page_is_cached_after_it_was_read() {
    let Some(file) = cold_file() else { return };
    let mapping = Mapping::new(&file, LEN).unwrap();
    let mut buffer = [0; 4096];
    read_at(&file, 64 * 1024, &mut buffer, Wait::Allowed).unwrap();
    for (offset, len, expected) in [
        (0, 1, false),
        (64 * 1024, 4096, true),
        (64 * 1024 + 100, 1, true),
        (64 * 1024 + 100, 4096 * 4, false),
        (0, LEN, false),
    ] {
        assert_eq!(
            mapping.is_resident(offset, len).unwrap(),
            expected,
            "{offset}, {len}"
        );
        match has_pages(&file, offset, len) {
            Ok(found) => assert_eq!(found, expected, "{offset}, {len}"),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                eprintln!("skipped: cachestat is not available");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_read_that_must_not_wait_gets_no_byte_from_a_disk() {
    let Some(file) = cold_file() else { return };
    let mut buffer = [0; 4096];
    let refused = read_at(&file, 128 * 1024, &mut buffer, Wait::Never).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(
        read_at(&file, 128 * 1024, &mut buffer, Wait::Allowed).unwrap(),
        4096
    );
    assert_eq!(
        read_at(&file, 128 * 1024, &mut buffer, Wait::Never).unwrap(),
        4096
    );
}

#[test]
fn a_file_that_becomes_shorter_kills_nobody() {
    let file = file(LEN);
    let mapping = Mapping::new(&file, LEN).unwrap();
    assert!(mapping.is_resident(0, LEN).unwrap());
    file.set_len(10).unwrap();
    // The kernel may still have the pages, as a part of a larger one.
    mapping.is_resident(LEN / 2, 4096).unwrap();
    let mut buffer = [0; 4096];
    assert_eq!(
        read_at(&file, LEN / 2, &mut buffer, Wait::Never).unwrap(),
        0
    );
}

#[test]
fn bounds_of_mappings() {
    let file = file(10);
    assert!(Mapping::new(&file, 0).is_err());
    let mapping = Mapping::new(&file, 10).unwrap();
    for (offset, len) in [(0, 0), (0, u64::MAX), (9, 1), (10, 1), (u64::MAX, u64::MAX)] {
        assert!(mapping.is_resident(offset, len).unwrap(), "{offset}, {len}");
    }
}
