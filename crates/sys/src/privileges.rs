//! Changing from root to another user.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name by which the user was looked up.
    pub name: String,
    /// The user id.
    pub uid: u32,
    /// The id of the user's primary group.
    pub gid: u32,
}

/// Returns whether the process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Looks up a user by name. Returns `None` if there is no such user.
///
/// # Errors
/// The user database cannot be read, or the name contains a zero byte.
pub fn find_user(name: &str) -> io::Result<Option<User>> {
    let name_c = CString::new(name)?;
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = ptr::null_mut();
    // The call puts the strings of the entry here. A longer entry is reported as the error ERANGE.
    let mut text = vec![0_u8; 16 * 1024];
    // SAFETY: the name ends in zero. `entry`, `text` and `found` are writable and outlive the call.
    let failed = unsafe {
        libc::getpwnam_r(
            name_c.as_ptr(),
            entry.as_mut_ptr(),
            text.as_mut_ptr().cast(),
            text.len(),
            &raw mut found,
        )
    };
    match (failed, found.is_null()) {
        (0 | libc::ENOENT, true) => Ok(None),
        (0, false) => {
            // SAFETY: the call has succeeded and found an entry, so it has initialised `entry`.
            let entry = unsafe { entry.assume_init() };
            Ok(Some(User {
                name: name.to_owned(),
                uid: entry.pw_uid,
                gid: entry.pw_gid,
            }))
        }
        (error, _) => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Changes the process to `user` permanently. Sets the supplementary groups first, then the group
/// and then the user, because only root may set the first two.
///
/// # Errors
/// The process is not root. After an error the process must end, because some of the ids may have
/// been changed already.
pub fn become_user(user: &User) -> io::Result<()> {
    let check = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let name = CString::new(user.name.as_str())?;
    init_groups(&name, user.gid)?;
    // SAFETY: the argument is a number. glibc and musl change all threads of the process.
    check(unsafe { libc::setgid(user.gid) })?;
    // SAFETY: the argument is a number. glibc and musl change all threads of the process.
    check(unsafe { libc::setuid(user.uid) })
}

/// Sets the supplementary groups of the process to those of a user.
fn init_groups(name: &CStr, gid: u32) -> io::Result<()> {
    // SAFETY: the name ends in zero and outlives the call.
    match unsafe { libc::initgroups(name.as_ptr(), gid) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_user_returns_root_and_none_for_an_unknown_name() {
        let root = find_user("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(find_user("no-such-user-here").unwrap(), None);
        assert!(find_user("a\0b").is_err());
    }
}
