//! A process at its limit of descriptors. It is a program of its own, because the limit would hit
//! the tests beside it.
// The helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used)]

use std::fs::File;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use sys::file::Folder;
use sys::file_opener::FileOpener;

#[test]
fn a_file_for_which_there_is_no_descriptor_left_is_an_error_of_that_limit() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), "x").unwrap();
    let opener = FileOpener::start(&Folder::open(root.path()).unwrap()).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(64),
            ..limit
        },
    )
    .unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    for _ in 0..3 {
        let error = opener.open(b"file").unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }
    // The opener goes on.
    files.pop();
    opener.open(b"file").unwrap().unwrap();
}
