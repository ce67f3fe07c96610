//! File systems that only some processes see: a mount namespace (mount_namespaces(7)), mounts in
//! it, and loop devices (loop(4)).
//!
//! A mount namespace ends with its last process, however that ends, and its mounts with it. A loop
//! device with `LO_FLAGS_AUTOCLEAR` is released with its last user, which may be such a mount.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::namespace::unshare_mounts;

/// Asks `/dev/loop-control` for a free loop device.
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
/// Attaches a file to a loop device, with all its settings (Linux 5.8).
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
/// The device is released when its last user closes it.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// The file is read and written past the page cache.
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Other processes may take a free loop device before this one does.
const LOOP_ATTEMPTS: usize = 16;

/// Gives the calling thread, and what it starts later, mounts of their own: those of the caller at
/// this time, whose later changes are seen on neither side.
///
/// # Errors
/// `PermissionDenied`: the process lacks `CAP_SYS_ADMIN`, which root has.
pub fn separate_mounts() -> io::Result<()> {
    unshare_mounts()?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", private)?)
}

/// Moves the calling process into the mounts of process `pid`. The working folder stays the one of
/// that name. Only for a process with one thread.
///
/// # Errors
/// There is no such process, this one has several threads, or it lacks `CAP_SYS_ADMIN`.
pub fn enter_mounts(pid: u32) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{pid}/ns/mnt"))?;
    let folder = std::env::current_dir()?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
    // The call has changed the working folder to the root of the namespace.
    std::env::set_current_dir(folder)
}

/// The mounts that a process has at some time, for processes that start later.
#[derive(Debug)]
pub struct Mounts(File);

impl Mounts {
    /// The mounts of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn current() -> io::Result<Self> {
        Ok(Self(File::open("/proc/thread-self/ns/mnt")?))
    }

    /// Lets the process that `command` will start enter these mounts, before its program begins.
    /// Its working folder is the root. The start fails if the parent lacks `CAP_SYS_ADMIN`.
    pub fn enter_at_start(self, command: &mut Command) {
        let enter = move || {
            let mounts = Some(LinkNameSpaceType::Mount);
            Ok(move_into_link_name_space(self.0.as_fd(), mounts)?)
        };
        // SAFETY: between fork and exec only async-signal-safe functions may be called. The closure
        // makes one system call.
        unsafe {
            command.pre_exec(enter);
        }
    }
}

/// Mounts a file system of the type `kind` at the folder or file `at`. `options` are those of the
/// file system, separated by commas, besides the general ones `ro`, `noatime`, `nodiratime`,
/// `nosuid`, `nodev` and `noexec`.
///
/// # Errors
/// The system refuses it.
pub fn mount_at(source: &Path, at: &Path, kind: &str, options: &str) -> io::Result<()> {
    let mut flags = MountFlags::empty();
    let mut rest = Vec::new();
    for option in options.split(',').filter(|it| !it.is_empty()) {
        match option {
            "ro" => flags |= MountFlags::RDONLY,
            "rw" => {}
            "noatime" => flags |= MountFlags::NOATIME,
            "nodiratime" => flags |= MountFlags::NODIRATIME,
            "nosuid" => flags |= MountFlags::NOSUID,
            "nodev" => flags |= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            other => rest.push(other),
        }
    }
    let data = CString::new(rest.join(","))?;
    Ok(mount(source, at, kind, flags, Some(data.as_c_str()))?)
}

/// Unmounts what was mounted last at `at`.
///
/// # Errors
/// It is in use.
pub fn unmount_at(at: &Path) -> io::Result<()> {
    Ok(unmount(at, UnmountFlags::empty())?)
}

/// A loop device. It exists until this value is dropped and all its other users are gone.
#[derive(Debug)]
pub struct LoopDevice {
    _device: File,
    path: PathBuf,
}

impl LoopDevice {
    /// Makes a block device of `file`, with blocks of `block_len` bytes. The file is read and
    /// written past the page cache, so that only the device's own pages are cached.
    ///
    /// # Errors
    /// No loop device is free, or the process lacks `CAP_SYS_ADMIN`.
    pub fn attach(file: &Path, block_len: u32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(file)?;
        let control = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/loop-control")?;
        let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
        for _ in 0..LOOP_ATTEMPTS {
            // SAFETY: the call takes no argument; it returns the number of a device.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = OpenOptions::new().read(true).write(true).open(&path)?;
            match configure(&device, &file.as_fd().try_clone_to_owned()?, block_len) {
                Ok(()) => {
                    return Ok(Self {
                        _device: device,
                        path,
                    });
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The kernel's `struct loop_config`: the file, the block length, `struct loop_info64`, reserved
/// words.
#[repr(C)]
struct LoopConfig {
    file: u32,
    block_len: u32,
    /// Device, inode, real device, offset, size limit: all chosen by the kernel if 0.
    words: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    name: [u8; 64],
    encryption_name: [u8; 64],
    key: [u8; 32],
    initialisation: [u64; 2],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 8 + 232 + 64);

fn configure(device: &File, file: &OwnedFd, block_len: u32) -> io::Result<()> {
    let descriptor = u32::try_from(file.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let config = LoopConfig {
        file: descriptor,
        block_len,
        words: [0; 5],
        number: 0,
        encryption: [0; 2],
        flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
        name: [0; 64],
        encryption_name: [0; 64],
        key: [0; 32],
        initialisation: [0; 2],
        reserved: [0; 8],
    };
    let argument = &raw const config;
    // SAFETY: the kernel reads `config`, which has the layout that it expects (its size is asserted
    // above) and lives until the call returns.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Mounts a FUSE file system that consists of one regular file at the file `at`, and returns the
/// descriptor by which it is served (Documentation/filesystems/fuse). Reading it never waits. The
/// file system fails all operations once the last copy of the descriptor is closed.
///
/// A process that holds the descriptor must not use the file: if it were killed, the file's last
/// operations would wait for the server, and keep the descriptor open.
///
/// # Errors
/// There is no `/dev/fuse`, or the process lacks `CAP_SYS_ADMIN`.
pub fn mount_fuse_file(at: &Path, read_len_max: u32) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/fuse")?;
    let descriptor = device.as_raw_fd();
    let options =
        format!("fd={descriptor},rootmode=100600,user_id=0,group_id=0,max_read={read_len_max}");
    let name = Path::new(std::ffi::OsStr::from_bytes(b"curtail-disk"));
    mount_at(name, at, "fuse", &options)?;
    Ok(device.into())
}
