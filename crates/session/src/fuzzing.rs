//! Properties that hold for any content of a file of passwords. A fuzz target checks them, and a
//! test checks them on the committed corpus.

use crate::limits::{PASSWORD_LINE_MAX, PASSWORDS_MAX, SASL_PASSWORDS_MAX};
use crate::{PasswordFormat, Passwords, PasswordsError};

/// The users and passwords of a file, as the simple parser of this module ([`expected`]) finds
/// them.
type Users<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Maximum number of users whose pairs with other passwords are checked. The time that a check of
/// all would take grows with the cube of their number.
const CHECKED_USERS_MAX: usize = 16;

/// Compares [`Passwords::parse`], in both formats, with a second and simpler parser: both find the
/// same users and number of ignored lines, or the same error. Other pairs of a user and a password
/// are rejected.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_passwords(content: &[u8]) {
    for format in [PasswordFormat::Plain, PasswordFormat::Sasl] {
        match (Passwords::parse(content, format), expected(content, format)) {
            (Ok(passwords), Ok((users, ignored))) => {
                assert_eq!(passwords.ignored(), ignored);
                assert_eq!(passwords.is_empty(), users.is_empty());
                check_users(&passwords, &users);
            }
            (parsed, expected) => assert_eq!(parsed.err(), expected.err(), "{format:?}"),
        }
    }
}

/// Checks that these users are accepted, and, for [`CHECKED_USERS_MAX`] of them, that similar pairs
/// of a user and a password are rejected unless they are in the list.
fn check_users(passwords: &Passwords, users: &Users<'_>) {
    let is_known = |user: &[u8], password: &[u8]| users.contains(&(user, password));
    for (user, password) in users {
        assert!(passwords.contains(user, password));
    }
    let every = users.len().div_ceil(CHECKED_USERS_MAX).max(1);
    let checked = || users.iter().step_by(every);
    for &(user, password) in checked() {
        let line = [user, b":", password].concat();
        // The same line, divided into user and password at another place.
        for at in (0..line.len()).step_by(1 + line.len() / 8) {
            let (user, password) = (&line[..at], &line[at + 1..]);
            assert_eq!(passwords.contains(user, password), is_known(user, password));
        }
        for other in [
            [password, b"\0"].concat(),
            [password, b"a"].concat(),
            password
                .split_last()
                .map_or_else(Vec::new, |it| it.1.to_vec()),
        ] {
            assert_eq!(passwords.contains(user, &other), is_known(user, &other));
        }
    }
    for (user, _) in checked() {
        for (_, password) in checked() {
            assert_eq!(passwords.contains(user, password), is_known(user, password));
        }
    }
}

/// The users and the number of ignored lines, or the first error.
fn expected(content: &[u8], format: PasswordFormat) -> Result<(Users<'_>, usize), PasswordsError> {
    let is_plain = format == PasswordFormat::Plain;
    let mut lines: Vec<&[u8]> = content.split(|&byte| byte == b'\n').collect();
    if lines.last() == Some(&&b""[..]) {
        lines.pop();
    }
    // A file that consists of one line end has no line.
    if lines == [b""] {
        lines.clear();
    }
    let (mut users, mut ignored) = (Users::new(), 0);
    for (index, line) in lines.into_iter().enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut fields = line.splitn(if is_plain { 2 } else { 3 }, |&byte| byte == b':');
        let (user, password) = (fields.next().unwrap_or_default(), fields.next());
        if is_plain && users.len() == PASSWORDS_MAX {
            ignored += 1;
            continue;
        }
        let Some(password) = password else {
            if is_plain {
                return Err(PasswordsError::Malformed(index + 1));
            }
            continue;
        };
        if users.len() == SASL_PASSWORDS_MAX {
            return Err(PasswordsError::TooMany(SASL_PASSWORDS_MAX));
        }
        if line.iter().any(|byte| b"\0\r".contains(byte)) {
            return Err(PasswordsError::Malformed(index + 1));
        }
        if user.len() + 1 + password.len() > PASSWORD_LINE_MAX {
            return Err(PasswordsError::TooLong(index + 1));
        }
        users.push((user, password));
    }
    Ok((users, ignored))
}
