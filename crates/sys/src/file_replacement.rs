//! Replacing a file as a whole. Another process sees the old file or the new one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Names that are tried for the new file.
const ATTEMPTS: usize = 8;

/// Replaces the file at `path`, or creates it, with the permissions `mode` (which the process's
/// mask restricts). `write` writes its content to a new file in the same folder, which is then
/// renamed. The process may be root and the folder may be open to others: the new file has a name
/// that nobody can foresee, no other file is written or removed, and no symbolic link is followed.
///
/// # Errors
/// The file cannot be written. The old one then stays.
pub fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let (new, mut file) = create(path, mode)?;
    let written = write(&mut file).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // On a full disk, it would take space that others need.
        let _ = fs::remove_file(&new);
    }
    written
}

fn create(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut error = io::ErrorKind::AlreadyExists.into();
    for _ in 0..ATTEMPTS {
        let mut new = OsString::from(name);
        // The standard library seeds its hashers with system randomness.
        new.push(format!(".{:016x}", RandomState::new().hash_one(0)));
        let new = path.with_file_name(new);
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(mode).open(&new) {
            Ok(file) => return Ok((new, file)),
            Err(found) if found.kind() == io::ErrorKind::AlreadyExists => error = found,
            Err(found) => return Err(found),
        }
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_is_replaced_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let [path, foreign] = ["file", "foreign"].map(|it| folder.path().join(it));
        fs::write(&foreign, "precious").unwrap();
        for _ in 0..2 {
            replace(&path, 0o600, |file| file.write_all(b"content")).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"content");
            let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            fs::remove_file(&path).unwrap();
            symlink(&foreign, &path).unwrap();
        }
        let failure = replace(&path, 0o600, |_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(failure.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert_eq!(fs::read(&foreign).unwrap(), b"precious");
    }
}
