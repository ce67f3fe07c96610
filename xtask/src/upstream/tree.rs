//! The scratch tree in which the files run: it looks to them like memcached's, after its build.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// In place of memcached's `timedrun SECONDS PROGRAM …`, which ends the program after a while.
const TIMEDRUN: &str = "#!/bin/sh\nshift\nexec \"$@\"\n";

/// A debug build of memcached serves `debugtime` without being told to.
const DEBUG_BUILD: &str = "#!/bin/sh\nexec \"${0%-debug}\" --debug-time \"$@\"\n";

/// A Perl module that ends a file in order after a time-out: its servers, and their sockets.
const STOP: &str = "package Stop;\n$SIG{TERM} = sub { exit 124 };\n1;\n";

/// A scratch tree, removed when dropped.
pub(super) struct Tree {
    root: TempDir,
}

impl Tree {
    /// A tree with the tests of `source` for the server `program`.
    pub(super) fn new(source: &Path, program: &Path) -> Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("upstream")
            .tempdir()
            .context("failed to create a scratch folder")?;
        // Servers that become another user look for files below it.
        fs::set_permissions(root.path(), Permissions::from_mode(0o755))?;
        copy(&source.join("t"), &root.path().join("t"))?;
        symlink(program, root.path().join("memcached"))
            .with_context(|| format!("failed to link memcached to {}", program.display()))?;
        for (name, script) in [("memcached-debug", DEBUG_BUILD), ("timedrun", TIMEDRUN)] {
            let path = root.path().join(name);
            fs::write(&path, script).with_context(|| format!("failed to write {name}"))?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        }
        fs::write(root.path().join("Stop.pm"), STOP).context("failed to write Stop.pm")?;
        Ok(Self { root })
    }

    /// The command that runs a file for at most `seconds`.
    pub(super) fn perl(&self, file: &str, seconds: u32, kill_after_s: u32) -> Command {
        let mut command = Command::new("timeout");
        command
            .current_dir(self.root.path())
            .arg(format!("--kill-after={kill_after_s}"))
            .arg(seconds.to_string())
            .args(["perl", "-I.", "-MStop"])
            .arg(format!("t/{file}"));
        command
    }
}

/// Copies a folder and what is below it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let context = || format!("failed to copy {}", from.display());
    fs::create_dir(to).with_context(context)?;
    for entry in fs::read_dir(from).with_context(context)? {
        let entry = entry.with_context(context)?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(context)?;
        }
    }
    Ok(())
}
