//! Builds the Go program in `benches/fibre/go`, which contains the same benchmarks for goroutines.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that contains the source of the Go program.
const SOURCE_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/fibre/go");

/// Builds the Go program. Writes the executable file to `directory`, and returns the path of this
/// file.
///
/// # Errors
/// No folder in the environment variable `PATH` contains the program `go`, or the build fails.
pub(crate) fn build(directory: &Path) -> Result<PathBuf, String> {
    let program = directory.join("scheduling-go");
    let exit_status = Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(SOURCE_FOLDER)
        .status();
    match exit_status {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("go build: {status}")),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("not installed".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
