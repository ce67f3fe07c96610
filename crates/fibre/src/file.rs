//! Files whose reads and writes block only the fibre.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::fs::{Mode, OFlags};

use crate::io::IoBackend;
use crate::io::rings::{check, clamp, perform};
use crate::offload::offload;
use crate::switch::current;

/// A file. With the I/O backend `Rings`, an operation is a request in the io_uring of the processor
/// that runs the calling fibre. With `Readiness` (epoll), an operation is a blocking call on one of
/// the threads of [`offload`](crate::offload()).
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    io_backend: IoBackend,
}

impl File {
    /// Opens a file. `flags` and `mode` are those of `open(2)`; `O_CLOEXEC` is added.
    ///
    /// # Errors
    /// The kernel returns an error, or the fibre was cancelled.
    ///
    /// # Panics
    /// The caller is not a fibre.
    pub fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<Self> {
        let io_backend = current().record.anchor.shared.io_backend;
        let flags = flags | OFlags::CLOEXEC;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let fd = match io_backend {
            IoBackend::Rings => {
                let entry = opcode::OpenAt::new(Fd(libc::AT_FDCWD), path.as_ptr())
                    .flags(flags.bits().cast_signed())
                    .mode(mode.bits());
                // `None`: without a deadline, as in all calls of `perform` in this file.
                // SAFETY: the path outlives the call.
                let [result] = unsafe { perform([entry.build()], None)? };
                // Fails if `result` is an error number.
                check(result)?;
                // SAFETY: the kernel created this descriptor for this call, so nothing else owns
                // it.
                unsafe { OwnedFd::from_raw_fd(result) }
            }
            IoBackend::Readiness => offload(|| rustix::fs::open(&path, flags, mode))??,
        };
        Ok(Self { fd, io_backend })
    }

    /// Reads into `buffer`, from the offset `at` in the file. Returns the number of bytes read; 0
    /// at the end of the file.
    ///
    /// # Errors
    /// The same as for [`File::open`].
    pub fn pread(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self.io_backend {
            IoBackend::Rings => {
                let len = clamp(buffer.len());
                let entry = opcode::Read::new(self.fd(), buffer.as_mut_ptr(), len).offset(at);
                // SAFETY: the buffer is borrowed for the call.
                let [result] = unsafe { perform([entry.build()], None)? };
                check(result)
            }
            IoBackend::Readiness => Ok(offload(|| rustix::io::pread(&self.fd, buffer, at))??),
        }
    }

    /// Writes `bytes` to the offset `at` in the file. Returns the number of bytes written, which
    /// may be less than the length of `bytes`.
    ///
    /// # Errors
    /// The same as for [`File::open`].
    pub fn pwrite(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        match self.io_backend {
            IoBackend::Rings => {
                let len = clamp(bytes.len());
                let entry = opcode::Write::new(self.fd(), bytes.as_ptr(), len).offset(at);
                // SAFETY: the bytes are borrowed for the call.
                let [result] = unsafe { perform([entry.build()], None)? };
                check(result)
            }
            IoBackend::Readiness => Ok(offload(|| rustix::io::pwrite(&self.fd, bytes, at))??),
        }
    }

    /// Waits until all data that was written to the file is on the disk.
    ///
    /// # Errors
    /// The same as for [`File::open`].
    pub fn fsync(&self) -> io::Result<()> {
        match self.io_backend {
            IoBackend::Rings => {
                let entry = opcode::Fsync::new(self.fd()).build();
                // SAFETY: the entry contains no pointer.
                let [result] = unsafe { perform([entry], None)? };
                check(result).map(drop)
            }
            IoBackend::Readiness => Ok(offload(|| rustix::fs::fsync(&self.fd))??),
        }
    }

    /// The file descriptor, as io_uring's requests take it.
    fn fd(&self) -> Fd {
        Fd(self.fd.as_raw_fd())
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
