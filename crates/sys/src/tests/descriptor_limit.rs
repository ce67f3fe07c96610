//! A process at its limit of descriptors. It is a child of its own, because the limit would hit
//! the tests next to it.

use std::fs::File;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::file::Folder;
use crate::file_opener::FileOpener;

/// The name of an environment variable. If it is set, this process is the child.
const CHILD: &str = "DESCRIPTOR_LIMIT_CHILD";

#[test]
fn a_file_for_which_there_is_no_descriptor_left_is_an_error_of_that_limit() {
    if std::env::var_os(CHILD).is_none() {
        let (_, module) = module_path!().split_once("::").unwrap();
        let test = "a_file_for_which_there_is_no_descriptor_left_is_an_error_of_that_limit";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::{test}")])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
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
