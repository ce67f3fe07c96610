//! Giving up root.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name it was looked up by.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Whether the process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Looks a user up; none: there is no such user.
///
/// # Errors
/// The user database cannot be read, or the name holds a zero byte.
pub fn find_user(name: &str) -> io::Result<Option<User>> {
    let name_c = CString::new(name)?;
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = ptr::null_mut();
    // 16 KiB holds any sane entry; a larger one is reported as ERANGE.
    let mut text = vec![0_u8; 16 * 1024];
    // SAFETY: the name ends in zero, the three buffers are writable and outlive the call.
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
            // SAFETY: the call succeeded and found an entry, so it is initialised.
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

/// Becomes `user` for good: supplementary groups, group, then user.
///
/// # Errors
/// The process is not root. After an error the process must end: it may have changed in part.
pub fn become_user(user: &User) -> io::Result<()> {
    let check = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let name = CString::new(user.name.as_str())?;
    init_groups(&name, user.gid)?;
    // SAFETY: plain numbers; glibc and musl apply the change to every thread.
    check(unsafe { libc::setgid(user.gid) })?;
    // SAFETY: as above.
    check(unsafe { libc::setuid(user.uid) })
}

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
    fn root_is_found_and_an_unknown_user_is_not() {
        let root = find_user("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(find_user("no-such-user-here").unwrap(), None);
        assert!(find_user("a\0b").is_err());
    }
}
