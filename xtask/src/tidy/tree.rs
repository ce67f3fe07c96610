//! The repository's files as text.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A file that holds text.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

impl File {
    /// What follows the last dot of the name; empty where there is none.
    pub(crate) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The numbered lines, from 1, with everything but the line feed.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .split_terminator('\n')
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

/// Everything committed, and everything that would be by `git add .`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<File>,
    /// Of all files, text or not.
    paths: Vec<String>,
}

impl Tree {
    /// Asks git for the files below `root` and reads them.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            // A checkout that belongs to another user is still only read.
            .args(["-c", "safe.directory=*", "ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("failed to start git, which knows the repository's files")?;
        if !output.status.success() {
            bail!(
                "failed to list files: {}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        let list = String::from_utf8(output.stdout).context("a path is not UTF-8")?;
        let mut tree = Self::default();
        for path in list.split_terminator('\0') {
            let full = root.join(path);
            // Deleted but not yet committed, or a link.
            if !full
                .symlink_metadata()
                .is_ok_and(|metadata| metadata.is_file())
            {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("failed to read {path}"))?;
            tree.add(path, bytes);
        }
        Ok(tree)
    }

    /// A tree of the given texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add(path, text.as_bytes().to_vec());
        }
        tree
    }

    fn add(&mut self, path: &str, bytes: Vec<u8>) {
        self.paths.push(path.to_owned());
        if let Ok(text) = String::from_utf8(bytes)
            && !text.contains('\0')
        {
            self.files.push(File {
                path: path.to_owned(),
                text,
            });
        }
    }

    /// The files that hold text.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// The paths of all files.
    pub(crate) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|file| file.path == path)
            .map(|file| file.text.as_str())
    }
}
