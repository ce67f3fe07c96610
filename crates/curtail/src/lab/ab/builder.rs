//! Builds revisions of a repository.
//!
//! Both revisions of a comparison are checked out in one work tree, one after the other, so that
//! only what differs between them is built twice. The tree and the build are in the folder `ab` of
//! the target folder, for one comparison at a time. The tree is removed at the end; one that a
//! killed comparison left is removed by the next one.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Builds revisions of one repository.
pub(super) struct Builder<'a> {
    repository: &'a Path,
    /// The target folder of the builds.
    target: PathBuf,
    /// The work tree, once there is one.
    tree: Option<PathBuf>,
    /// Locked as long as this exists.
    _lock: File,
}

impl<'a> Builder<'a> {
    /// Waits until no other comparison builds.
    pub(super) fn new(repository: &'a Path) -> anyhow::Result<Self> {
        let given = std::env::var_os("CARGO_TARGET_DIR").filter(|it| !it.is_empty());
        let target = given.map_or_else(|| repository.join("target"), PathBuf::from);
        let target = std::path::absolute(target.join("ab"))?;
        let context = || format!("failed to make {}", target.display());
        fs::create_dir_all(&target).with_context(context)?;
        let lock = File::create(target.join("lock")).with_context(context)?;
        lock.lock().with_context(context)?;
        Ok(Self {
            repository,
            target,
            tree: None,
            _lock: lock,
        })
    }

    /// Builds a revision, and copies its program to `program`.
    pub(super) fn build(&mut self, revision: &str, program: &Path) -> anyhow::Result<()> {
        let context = || format!("failed to build {revision}");
        let built = self.check_out(revision).and_then(|tree| self.compile(tree));
        fs::copy(built.with_context(context)?, program).with_context(context)?;
        Ok(())
    }

    /// The work tree with a revision.
    fn check_out(&mut self, revision: &str) -> anyhow::Result<PathBuf> {
        if let Some(tree) = &self.tree {
            git(tree, ["checkout", "--detach", "--force", revision])?;
            return Ok(tree.clone());
        }
        let tree = self.target.join("tree");
        if tree.exists() {
            fs::remove_dir_all(&tree).context("failed to remove the work tree of a killed run")?;
        }
        // Forced, because that tree may still be registered.
        let add = ["worktree", "add", "--force", "--detach"].map(OsStr::new);
        let place = [tree.as_os_str(), OsStr::new(revision)];
        git(self.repository, add.into_iter().chain(place))?;
        self.tree = Some(tree.clone());
        Ok(tree)
    }

    /// The program of the work tree.
    fn compile(&self, tree: PathBuf) -> anyhow::Result<PathBuf> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--package", "curtail", "--profile", "dist"]);
        // A revision may be older than its profile `dist`.
        for setting in ["inherits=\"release\"", "lto=\"thin\"", "codegen-units=1"] {
            cargo.arg("--config").arg(format!("profile.dist.{setting}"));
        }
        let status = cargo
            .arg("--target-dir")
            .arg(&self.target)
            .current_dir(tree)
            .status()
            .context("failed to start cargo")?;
        if !status.success() {
            bail!("cargo build: {status}");
        }
        Ok(self.target.join("dist/curtail"))
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        if let Some(tree) = self.tree.take() {
            let remove = ["worktree", "remove", "--force"].map(OsStr::new);
            // The next comparison removes what remains.
            let _ = git(
                self.repository,
                remove.into_iter().chain([tree.as_os_str()]),
            );
        }
    }
}

/// The output of a git command in a folder, without the line break.
pub(super) fn git<I: AsRef<OsStr>>(
    folder: &Path,
    arguments: impl IntoIterator<Item = I>,
) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    let output = git
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .context("failed to start git")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("git: {}: {}", output.status, message.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
