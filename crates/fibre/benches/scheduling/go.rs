//! Builds the Go program in `benches/go`, which contains the same benchmarks for goroutines.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the Go program.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/go");

/// Builds the Go program in `directory`, and returns its path.
///
/// # Errors
/// No Go toolchain is on the path, or the build fails.
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
