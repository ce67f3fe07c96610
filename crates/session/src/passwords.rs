//! The users and passwords of a file, and their comparison with the user and password that a client
//! sends.

use std::{array, fmt};

use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;

use crate::limits::{PASSWORD_LINE_MAX, PASSWORDS_MAX, SASL_PASSWORDS_MAX};

/// The format of a file of passwords, which has one user in each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordFormat {
    /// `USER:PASSWORD`, the file of memcached's `-Y`. The password may contain colons.
    Plain,
    /// `USER:PASSWORD[:…]`, the file for memcached's `-S`, which the environment variable
    /// `MEMCACHED_SASL_PWDB` names. The password ends at the second colon, if there is one. Lines
    /// without a colon are skipped.
    Sasl,
}

/// Why a file of passwords cannot be used. The messages show no part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PasswordsError {
    /// A line is not a user, a colon and a password.
    #[error("line {0} is not USER:PASSWORD")]
    Malformed(usize),
    /// A line is too long.
    #[error("line {0} is longer than {PASSWORD_LINE_MAX} bytes")]
    TooLong(usize),
    /// The file has more users than the maximum, which bounds the time of a login.
    #[error("it has more than {0} users")]
    TooMany(usize),
}

/// Users and their passwords.
#[derive(Clone, Default)]
pub struct Passwords {
    users: Vec<User>,
    /// See [`Passwords::ignored`].
    ignored: usize,
}

/// A user and a password: `USER:PASSWORD`, padded with zeros to [`PASSWORD_LINE_MAX`] bytes. Two
/// bytes follow: the length of the user, and the length of `USER:PASSWORD`. All bytes are kept in
/// words of eight, because a comparison in constant time takes one step for each element.
#[derive(Clone)]
struct User {
    words: [u64; USER_WORDS],
}

/// The number of words of a [`User`].
const USER_WORDS: usize = (PASSWORD_LINE_MAX + 2) / WORD_LEN;
const WORD_LEN: usize = size_of::<u64>();

const _: () = assert!(USER_WORDS * WORD_LEN == PASSWORD_LINE_MAX + 2);
const _: () = assert!(PASSWORD_LINE_MAX <= u8::MAX as usize);

impl Passwords {
    /// Parses the content of a file. As in memcached, a file of the format
    /// [`PasswordFormat::Plain`] has at most [`PASSWORDS_MAX`] users, and further lines are
    /// ignored.
    ///
    /// # Errors
    /// See [`PasswordsError`].
    pub fn parse(content: &[u8], format: PasswordFormat) -> Result<Self, PasswordsError> {
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        let mut passwords = Self::default();
        if content.is_empty() {
            return Ok(passwords);
        }
        for (index, line) in content.split(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match format {
                PasswordFormat::Sasl if !line.contains(&b':') => {}
                PasswordFormat::Plain if passwords.users.len() == PASSWORDS_MAX => {
                    passwords.ignored += 1;
                }
                PasswordFormat::Sasl if passwords.users.len() == SASL_PASSWORDS_MAX => {
                    return Err(PasswordsError::TooMany(SASL_PASSWORDS_MAX));
                }
                _ => passwords.users.push(user(line, index + 1, format)?),
            }
        }
        Ok(passwords)
    }

    /// The number of lines that were ignored, because they follow the first [`PASSWORDS_MAX`]
    /// users.
    #[must_use]
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// Whether there are no users, so that no client can log in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Whether `user` has this password. The duration of the comparison depends on the number of
    /// users in the file, but not on their names and passwords.
    #[must_use]
    pub fn contains(&self, user: &[u8], password: &[u8]) -> bool {
        let Some(given) = User::new(user, password) else {
            return false;
        };
        let found = self.users.iter().map(|known| known.is(&given));
        found.fold(Choice::from(0), |any, is| any | is).into()
    }
}

/// Shows no password.
impl fmt::Debug for Passwords {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Passwords");
        shown.field("users", &self.users.len()).finish()
    }
}

impl User {
    /// Returns `None` if `USER:PASSWORD` would be longer than [`PASSWORD_LINE_MAX`] bytes.
    fn new(user: &[u8], password: &[u8]) -> Option<Self> {
        let len = user.len() + 1 + password.len();
        let mut bytes = [0; USER_WORDS * WORD_LEN];
        let (line, lens) = bytes.split_at_mut(PASSWORD_LINE_MAX);
        let filled = line.get_mut(..len)?;
        filled[..user.len()].copy_from_slice(user);
        filled[user.len()] = b':';
        filled[user.len() + 1..].copy_from_slice(password);
        lens.copy_from_slice(&[user.len() as u8, len as u8]);
        let (words, _) = bytes.as_chunks::<WORD_LEN>();
        Some(Self {
            words: array::from_fn(|at| u64::from_ne_bytes(words[at])),
        })
    }

    /// Whether user and password are equal, compared in constant time.
    fn is(&self, other: &Self) -> Choice {
        self.words.ct_eq(&other.words)
    }
}

/// Parses the line with this number, counted from 1.
fn user(line: &[u8], number: usize, format: PasswordFormat) -> Result<User, PasswordsError> {
    let malformed = PasswordsError::Malformed(number);
    let colon = line
        .iter()
        .position(|&byte| byte == b':')
        .ok_or(malformed)?;
    if line.contains(&0) || line.contains(&b'\r') {
        return Err(malformed);
    }
    let (user, rest) = (&line[..colon], &line[colon + 1..]);
    let password = match format {
        PasswordFormat::Plain => rest,
        PasswordFormat::Sasl => rest.split(|&byte| byte == b':').next().unwrap_or(rest),
    };
    User::new(user, password).ok_or(PasswordsError::TooLong(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(content: &str) -> Result<Passwords, PasswordsError> {
        Passwords::parse(content.as_bytes(), PasswordFormat::Plain)
    }

    #[test]
    fn only_a_user_and_a_password_of_the_same_line_are_accepted() {
        let passwords = plain("foo:bar\nbaaaz:quux:x\r\nnone:").unwrap();
        for (user, password, is_known) in [
            ("foo", "bar", true),
            ("baaaz", "quux:x", true),
            ("none", "", true),
            ("foo", "quux:x", false),
            ("foo", "ba", false),
            ("foo", "barr", false),
            ("foo", "bar\0", false),
            ("fo", "o:bar", false),
            ("baaaz:quux", "x", false),
            ("baaaz", "quux", false),
            ("", "", false),
        ] {
            let found = passwords.contains(user.as_bytes(), password.as_bytes());
            assert_eq!(found, is_known, "{user} {password}");
        }
        assert!(!passwords.contains(&[b'a'; 300], b""));
        assert!(!format!("{passwords:?}").contains("bar"));
    }

    #[test]
    fn every_byte_of_user_and_password_is_compared() {
        let longest = [b"user:".as_slice(), &[b'p'; PASSWORD_LINE_MAX - 5]].concat();
        let passwords = Passwords::parse(&longest, PasswordFormat::Plain).unwrap();
        assert!(passwords.contains(b"user", &longest[5..]));
        // Byte 4 is the colon.
        for at in (0..4).chain(5..PASSWORD_LINE_MAX) {
            let mut other = longest.clone();
            other[at] ^= 1;
            assert!(!passwords.contains(&other[..4], &other[5..]), "byte {at}");
        }
        // The zeros that pad a password are not part of it.
        assert!(!passwords.contains(b"user", &longest[5..PASSWORD_LINE_MAX - 1]));
        let short = plain("u:p").unwrap();
        for zeros in 1..=PASSWORD_LINE_MAX - 3 {
            let password = [b"p".as_slice(), &vec![0; zeros]].concat();
            assert!(!short.contains(b"u", &password), "{zeros} zeros");
        }
    }

    #[test]
    fn a_malformed_line_is_refused_with_its_number() {
        use PasswordsError::{Malformed, TooLong};
        let long = "u:".to_owned() + &"p".repeat(PASSWORD_LINE_MAX - 1);
        let longest = "u:".to_owned() + &"p".repeat(PASSWORD_LINE_MAX - 2);
        for (content, error) in [
            ("a:b\nc\n", Malformed(2)),
            ("\na:b", Malformed(1)),
            ("a:b\n\n", Malformed(2)),
            ("a:b\0c", Malformed(1)),
            ("a:b\rc", Malformed(1)),
            (&long, TooLong(1)),
        ] {
            assert_eq!(plain(content).unwrap_err(), error, "{content:?}");
        }
        assert!(
            plain(&longest)
                .unwrap()
                .contains(b"u", &longest.as_bytes()[2..])
        );
        assert!(plain("").unwrap().is_empty());
    }

    #[test]
    fn users_beyond_the_maximum_are_ignored_or_refused() {
        let lines = |count| {
            (0..count)
                .map(|user| format!("{user}:pass\n"))
                .collect::<String>()
        };
        // The users are 0 to 8. The ninth is ignored.
        let nine = plain(&lines(PASSWORDS_MAX + 1)).unwrap();
        assert_eq!(nine.ignored(), 1);
        assert!(nine.contains(b"7", b"pass") && !nine.contains(b"8", b"pass"));
        let sasl = |count| Passwords::parse(lines(count).as_bytes(), PasswordFormat::Sasl);
        assert!(sasl(SASL_PASSWORDS_MAX).unwrap().contains(b"255", b"pass"));
        let error = sasl(SASL_PASSWORDS_MAX + 1).unwrap_err();
        assert_eq!(error, PasswordsError::TooMany(SASL_PASSWORDS_MAX));
    }

    #[test]
    fn lines_without_a_colon_are_skipped_in_the_format_of_sasl() {
        let sasl = |content: &[u8]| Passwords::parse(content, PasswordFormat::Sasl);
        let passwords = sasl(b"# users\n\na:b\n\r\nc\nd:e\n").unwrap();
        assert!(passwords.contains(b"a", b"b") && passwords.contains(b"d", b"e"));
        assert!(!passwords.contains(b"c", b"") && !passwords.contains(b"", b""));
        assert!(sasl(b"# no users\n").unwrap().is_empty());
        let many = "\n".repeat(SASL_PASSWORDS_MAX) + "a:b";
        assert!(sasl(many.as_bytes()).unwrap().contains(b"a", b"b"));
        // A line with a colon must be valid. Its number in the error counts skipped lines too.
        assert_eq!(sasl(b"\na:\0").unwrap_err(), PasswordsError::Malformed(2));
    }

    #[test]
    fn fields_after_the_password_are_ignored_in_the_format_of_sasl() {
        let passwords = Passwords::parse(b"u:secret:::", PasswordFormat::Sasl).unwrap();
        assert!(passwords.contains(b"u", b"secret"));
        assert!(!passwords.contains(b"u", b"secret:::"));
    }
}
