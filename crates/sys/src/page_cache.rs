//! Whether bytes of a file are in the page cache: by descriptor (cachestat(2)) or by mapping
//! (mincore(2)).
//!
//! The kernel answers both calls truthfully only if the process owns the file or may write it.
//! Otherwise cachestat fails, and mincore says that everything is resident.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, munmap};
use rustix::param::page_size;

/// The number of cachestat(2), which is the same on all architectures that Rust supports but MIPS.
const SYS_CACHESTAT: libc::c_long = 451;

/// Maximum number of pages that one call of [`Mapping::is_resident`] looks at: 4 MiB.
pub const RESIDENCY_PAGES_MAX: usize = 1024;

/// `struct cachestat_range` of the kernel.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat` of the kernel: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Statistics {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Returns whether all bytes of a file from `offset` on, `len` of them, have a page in the page
/// cache (cachestat(2)). The page may still be about to be read. The call does not wait for a
/// disk.
///
/// # Errors
/// `Unsupported`: the kernel is older than Linux 6.5, or a container's filter forbids the call.
/// `PermissionDenied`: the process neither owns the file nor may write it.
pub fn has_pages(file: impl AsFd, offset: u64, len: u64) -> io::Result<bool> {
    if len == 0 {
        // For the kernel it would mean everything up to the end of the file.
        return Ok(true);
    }
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let range = Range { offset, len };
    let mut statistics = Statistics::default();
    // SAFETY: the kernel reads `range` and writes `statistics`, which have the layouts that it
    // expects and live until the call returns.
    let outcome = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            &raw const range,
            &raw mut statistics,
            0,
        )
    };
    if outcome != 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::ENOSYS | libc::EOPNOTSUPP) => io::ErrorKind::Unsupported.into(),
            _ => error,
        });
    }
    Ok(statistics.cached >= pages(offset, len))
}

/// The number of pages that a part of a file touches.
fn pages(offset: u64, len: u64) -> u64 {
    let page = page_size() as u64;
    offset.saturating_add(len).div_ceil(page) - offset / page
}

/// A mapping of a file. It tells which pages are resident, and may keep them so. Its memory is
/// never accessed, so a file that becomes shorter causes no SIGBUS.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<c_void>,
    len: usize,
}

// SAFETY: the address is only passed to the kernel, which serialises the calls. Dropping the
// mapping needs exclusive access.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file. It needs no memory, only addresses, and reads
    /// nothing.
    ///
    /// # Errors
    /// `len` is 0, or the file cannot be mapped, or there are too many mappings.
    pub fn new(file: impl AsFd, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let address = unsafe {
            mmap(
                null,
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )
        }?;
        let address = NonNull::new(address).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { address, len })
    }

    /// Returns whether all bytes from `offset` on, `len` of them, are resident, as far as the file
    /// is mapped. At most [`RESIDENCY_PAGES_MAX`] pages are looked at.
    ///
    /// # Errors
    /// An error of the system, such as a lack of memory.
    pub fn is_resident(&self, offset: u64, len: u64) -> io::Result<bool> {
        let page = page_size();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len);
        let end = start
            .saturating_add(usize::try_from(len).unwrap_or(usize::MAX))
            .min(self.len);
        let first = start / page * page;
        let mut residency = [0; RESIDENCY_PAGES_MAX];
        let end = end.min(first + residency.len() * page);
        if start >= end {
            return Ok(true);
        }
        let address = self.address.as_ptr().wrapping_byte_add(first);
        // SAFETY: the range is inside of the mapping, whose pages are looked up but not accessed.
        // The kernel writes a byte for each of its pages, of which there are at most
        // `residency.len()`.
        let outcome = unsafe { libc::mincore(address, end - first, residency.as_mut_ptr()) };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
        let count = (end - first).div_ceil(page);
        Ok(residency[..count].iter().all(|byte| byte & 1 != 0))
    }

    /// Reads all bytes into memory, and keeps them there until the mapping is dropped.
    ///
    /// # Errors
    /// The limit of locked memory is too low ([`crate::limits::raise_locked_memory`]), there is not
    /// enough memory, or the file has become shorter.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: the mapping is this value's own. Locking changes no bytes.
        unsafe { mlock(self.address.as_ptr(), self.len) }?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to its memory.
        let _ = unsafe { munmap(self.address.as_ptr(), self.len) };
    }
}
