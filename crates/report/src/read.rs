//! Reads the files of a run folder, each up to a bound.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::Error;

/// The text of a file of at most `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<String, Error> {
    let bytes = fs::metadata(path)
        .map_err(|error| Error::read(path, error))?
        .len();
    if bytes > limit {
        return Err(Error::TooLarge {
            path: path.to_owned(),
            bytes,
            limit,
        });
    }
    let file = File::open(path).map_err(|error| Error::read(path, error))?;
    // Bytes rather than text: an incomplete line may end within a character.
    let mut content = Vec::new();
    file.take(limit)
        .read_to_end(&mut content)
        .map_err(|error| Error::read(path, error))?;
    match String::from_utf8(content) {
        Ok(text) => Ok(text),
        Err(error) if error.utf8_error().error_len().is_none() => {
            Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
        Err(error) => {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            Err(Error::content(
                path,
                line,
                "not UTF-8",
                "is this a run folder?",
            ))
        }
    }
}

/// The line, from 1, that contains a byte.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text
        .as_bytes()
        .iter()
        .take(offset)
        .filter(|&&byte| byte == b'\n')
        .count()
}
