//! The file of passwords (`-Y`, or `-S` with `MEMCACHED_SASL_PWDB`): reading it at the start and
//! again on SIGHUP.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use session::{PasswordFormat, Passwords, PasswordsError};
use thiserror::Error;

use crate::limits::PASSWORD_FILE_MAX;

/// A file of passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordFile {
    /// The path of the file.
    pub path: PathBuf,
    /// Its format.
    pub format: PasswordFormat,
}

/// Why a file of passwords cannot be used.
#[derive(Debug, Error)]
pub enum PasswordFileError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is a folder, a pipe or a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// The file is too long.
    #[error("it has more than {PASSWORD_FILE_MAX} bytes")]
    TooLong,
    /// There are no passwords, when the file is read again.
    #[error("it has no passwords")]
    Empty,
    /// The content is not understood.
    #[error("{0}")]
    Content(#[from] PasswordsError),
}

impl PasswordFile {
    /// Reads the file. A pipe is refused: a server could wait for its writer, with all signals
    /// blocked, and on SIGHUP it would be empty.
    pub(crate) fn read(&self) -> Result<Passwords, PasswordFileError> {
        let mut content = Vec::new();
        let file = sys::file::open_without_waiting(&self.path)?;
        if !file.metadata()?.is_file() {
            return Err(PasswordFileError::NotRegular);
        }
        file.take(PASSWORD_FILE_MAX + 1).read_to_end(&mut content)?;
        if content.len() as u64 > PASSWORD_FILE_MAX {
            return Err(PasswordFileError::TooLong);
        }
        Ok(Passwords::parse(&content, self.format)?)
    }

    /// Whether the file is below this folder. False if one of them does not exist.
    pub(crate) fn is_below(&self, folder: &Path) -> bool {
        let paths =
            fs::canonicalize(&self.path).and_then(|file| Ok((file, fs::canonicalize(folder)?)));
        paths.is_ok_and(|(file, folder)| file.starts_with(folder))
    }

    /// A line for the operator if some lines of the file do not count, or none does.
    pub(crate) fn warning(&self, passwords: &Passwords) -> Option<String> {
        let path = self.path.display();
        if passwords.is_empty() {
            return Some(format!("{path} has no passwords, so no client can log in"));
        }
        let ignored = passwords.ignored();
        let max = session::limits::PASSWORDS_MAX;
        (ignored > 0).then(|| {
            format!("{path}: only the first {max} lines count, as in memcached ({ignored} more)")
        })
    }
}

/// The present passwords, which change when the file is read again.
#[derive(Debug)]
pub(crate) struct PresentPasswords {
    file: PasswordFile,
    passwords: RwLock<Arc<Passwords>>,
    /// How often reading the file again has failed.
    reload_failures: AtomicU64,
}

impl PresentPasswords {
    pub(crate) fn new(file: PasswordFile, passwords: Passwords) -> Self {
        Self {
            file,
            passwords: RwLock::new(Arc::new(passwords)),
            reload_failures: AtomicU64::new(0),
        }
    }

    /// A line for the operator if the file cannot be read now. Called after the user of the process
    /// has changed: otherwise only a failed SIGHUP would show that the new user may not read it.
    pub(crate) fn reload_problem(&self) -> Option<String> {
        let error = self.file.read().err()?;
        let path = self.file.path.display();
        Some(format!(
            "{path} cannot be read again ({error}), so SIGHUP cannot change the passwords: let the \
             user that the server runs as read it, or choose another user with -u"
        ))
    }

    /// An empty file is an error, because it is one that another process has just begun to write.
    fn read_again(&self) -> Result<Passwords, PasswordFileError> {
        let passwords = self.file.read()?;
        match passwords.is_empty() {
            true => Err(PasswordFileError::Empty),
            false => Ok(passwords),
        }
    }

    /// How often reading the file again has failed.
    pub(crate) fn reload_failures(&self) -> u64 {
        self.reload_failures.load(Ordering::Relaxed)
    }

    /// Whether `user` has this password.
    pub(crate) fn contains(&self, user: &[u8], password: &[u8]) -> bool {
        // Not compared under the lock, so that a reload does not wait for logins.
        let present = Arc::clone(
            &self
                .passwords
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        );
        present.contains(user, password)
    }

    /// Reads the file again. If that fails, the passwords stay as they are. Clients that are logged
    /// in stay so. Returns a line for the operator.
    pub(crate) fn reload(&self) -> String {
        let path = self.file.path.display();
        match self.read_again() {
            Ok(passwords) => {
                let warning = self.file.warning(&passwords);
                let passwords = Arc::new(passwords);
                *self
                    .passwords
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = passwords;
                warning.unwrap_or_else(|| format!("read the passwords of {path} again"))
            }
            Err(error) => {
                self.reload_failures.fetch_add(1, Ordering::Relaxed);
                format!(
                    "failed to read the passwords of {path} again: {error} (the old ones stay valid)"
                )
            }
        }
    }
}
