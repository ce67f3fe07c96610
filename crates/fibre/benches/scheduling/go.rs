//! The same benchmarks in Go: a program of its own, in `benches/go`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/go");

/// Builds it in a directory, where a Go toolchain is on the path; says what is wrong where not.
pub(crate) fn build(directory: &Path) -> Result<PathBuf, String> {
    let program = directory.join("scheduling-go");
    let built = Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(SOURCE)
        .status();
    match built {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("go build: {status}")),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("not installed".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
