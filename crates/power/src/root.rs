//! The files of the kernel, below a folder that tests replace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::limits;

/// Where `/sys`, `/proc` and `/run` are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// This machine.
    #[must_use]
    pub fn machine() -> Self {
        Self::at("/")
    }

    /// Another tree. Device settings that are not files are then not there.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Whether it is this machine.
    #[must_use]
    pub fn is_machine(&self) -> bool {
        self.path == Path::new("/")
    }

    /// The path of a file of the tree, which is given without a leading slash.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.path.join(relative)
    }

    /// The text of a file, without the white space around it.
    ///
    /// # Errors
    /// It cannot be read, or is longer than any setting.
    pub fn read(&self, relative: &str) -> io::Result<String> {
        let text = fs::read(self.path(relative))?;
        if text.len() > limits::FILE_LEN {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// A number in a file.
    ///
    /// # Errors
    /// It cannot be read, or is no number.
    pub fn number(&self, relative: &str) -> io::Result<f64> {
        let text = self.read(relative)?;
        text.parse()
            .map_err(|_| io::Error::other(format!("`{text}` is no number")))
    }

    /// Writes a file that exists.
    ///
    /// # Errors
    /// It does not exist, or the kernel refuses the value.
    pub fn write(&self, relative: &str, text: &str) -> io::Result<()> {
        use std::io::Write;
        let mut options = fs::OpenOptions::new();
        // A file of a fake tree must not keep the rest of a longer value; sysfs ignores this.
        let mut file = options
            .write(true)
            .truncate(true)
            .open(self.path(relative))?;
        file.write_all(text.as_bytes())
    }

    /// Whether the file may be written by this process.
    #[must_use]
    pub fn is_writable(&self, relative: &str) -> bool {
        fs::OpenOptions::new()
            .write(true)
            .open(self.path(relative))
            .is_ok()
    }

    /// The names in a folder, sorted with numbers in their order. Empty: there is none.
    #[must_use]
    pub fn list(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(relative)) else {
            return Vec::new();
        };
        let names = entries.filter_map(|it| it.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(limits::ENTRIES).collect();
        names.sort_by_key(|name| (number_in(name), name.clone()));
        names
    }
}

/// The first number in a name, such as 12 of `cpu12`.
pub(crate) fn number_in(name: &str) -> Option<u64> {
    let digits = name.trim_start_matches(|it: char| !it.is_ascii_digit());
    let end = digits
        .find(|it: char| !it.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}
