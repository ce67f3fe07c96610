//! From the disk's file to a mounted ext4: the mount namespace, the server's process, the loop
//! device, the file system, and the phases of its use.
//!
//! All is in a folder `at`, on which a small file system in memory is mounted: `device` is the
//! disk's file, `files` the mounted ext4, and `control` the socket. Outside of the namespace the
//! folder is as it was.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sys::child::{Bounds, bind};
use sys::mount::{LoopDevice, Mounts};

use crate::law::Law;
use crate::memory_group::MemoryGroup;
use crate::{control, limits};

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The law of the delays.
    pub law: Law,
    /// Their seed.
    pub seed: u64,
    /// Size of the disk.
    pub size: u64,
    /// The folder on which it is mounted, for the processes of the namespace.
    pub at: PathBuf,
    /// The options with which ext4 is mounted once it is filled.
    pub options: String,
    /// The bound of the memory of the processes that use the disk, with their page cache.
    pub memory: Option<u64>,
}

/// Why there is no disk.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A setting is outside of its bounds.
    #[error("`{key} {value}` is not {bounds}")]
    Bounds {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        bounds: String,
    },
    /// A step failed.
    #[error("failed to {what}: {error}{hint}")]
    System {
        /// The step.
        what: String,
        /// The cause.
        error: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// A program failed.
    #[error("`{program}` failed ({status})")]
    Program {
        /// The program.
        program: String,
        /// How it ended.
        status: String,
    },
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> StackError {
    let what = what.into();
    move |error| StackError::System {
        hint: match error.kind() {
            io::ErrorKind::PermissionDenied => " (a slow disk needs root)",
            _ => "",
        },
        what,
        error,
    }
}

impl Settings {
    /// Checks all bounds.
    ///
    /// # Errors
    /// The first setting that is outside of them.
    pub fn check(&self) -> Result<(), StackError> {
        let sizes = limits::SIZE_MIN..=limits::SIZE_MAX;
        let bounds = |key, value: u64, bounds: &str| StackError::Bounds {
            key,
            value: units::show_size(value),
            bounds: bounds.to_owned(),
        };
        if !sizes.contains(&self.size) {
            return Err(bounds("size", self.size, "16MiB to 1TiB"));
        }
        match self.memory {
            Some(memory) if memory < limits::MEMORY_MIN => {
                Err(bounds("memory", memory, "at least 4MiB"))
            }
            _ => Ok(()),
        }
    }
}

/// A mounted disk. Dropping it unmounts it; if that is impossible, it goes with the last process of
/// the namespace.
#[derive(Debug)]
pub struct Stack {
    settings: Settings,
    device: LoopDevice,
    server: Child,
    /// Removed last, when its processes have ended.
    _group: Option<MemoryGroup>,
}

impl Stack {
    /// Builds a disk without delays, mounts it for writing, and moves the calling thread into its
    /// mount namespace. `server` starts this program as the server of the file: the descriptor of
    /// the file is its standard input, the listener of the control socket its standard output.
    ///
    /// # Errors
    /// A step failed; nothing is left.
    pub fn build(settings: Settings, server: Command) -> Result<Self, StackError> {
        settings.check()?;
        let at = settings.at.clone();
        let outside = Mounts::current().map_err(system("find the mounts of this process"))?;
        sys::mount::separate_mounts().map_err(system("make a mount namespace"))?;
        let step = |what: &str| system(format!("{what} {}", at.display()));
        sys::mount::mount_at(Path::new("tmpfs"), &at, "tmpfs", "mode=0755,size=1m")
            .map_err(step("mount a folder at"))?;
        fs::create_dir(at.join("files")).map_err(step("make a folder in"))?;
        let file = at.join("device");
        File::create(&file).map_err(step("make a file in"))?;
        let listener = UnixListener::bind(at.join(control::SOCKET));
        let listener = listener.map_err(step("listen in"))?;
        let descriptor = sys::mount::mount_fuse_file(&file, limits::REQUEST_LEN);
        let descriptor = descriptor.map_err(step("mount a FUSE file in"))?;
        let server = start(server, descriptor, listener, outside)?;
        let mut server = KilledOnDrop(Some(server));
        let device = LoopDevice::attach(&file, limits::BLOCK_LEN);
        let device = device.map_err(step("make a loop device of the file in"))?;
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-i", "8192", "-O", "^has_journal"])
            .args(["-E", "nodiscard,lazy_itable_init=0", "-m", "0"])
            .arg(device.path()))?;
        sys::mount::mount_at(device.path(), &at.join("files"), "ext4", "noatime")
            .map_err(step("mount ext4 in"))?;
        let group = settings.memory.map(MemoryGroup::create).transpose();
        let group = group.map_err(system("bound the memory"))?;
        let Some(server) = server.0.take() else {
            return Err(system("start the server")(io::ErrorKind::Other.into()));
        };
        Ok(Self {
            settings,
            device,
            server,
            _group: group,
        })
    }

    /// Where files are.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.settings.at.join("files")
    }

    /// Ends the time of filling: writes everything, forgets what is cached, and mounts the file
    /// system with its options.
    ///
    /// # Errors
    /// A program still uses a file.
    pub fn finish_filling(&self) -> Result<(), StackError> {
        let files = self.files();
        let step = |what: &str| system(format!("{what} {}", files.display()));
        sys::mount::unmount_at(&files).map_err(step("unmount"))?;
        sys::mount::mount_at(self.device.path(), &files, "ext4", &self.settings.options)
            .map_err(step("mount ext4 with the given options at"))
    }

    /// Sends a command to the server ([`control`]).
    ///
    /// # Errors
    /// It has ended, or refuses the command.
    pub fn tell(&self, command: &str) -> Result<String, StackError> {
        let socket = self.settings.at.join(control::SOCKET);
        control::tell(&socket, command).map_err(system(format!("tell the disk `{command}`")))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // It fails if a process is left that uses a file.
        let _ = sys::mount::unmount_at(&self.files());
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A server whose disk could not be built.
struct KilledOnDrop(Option<Child>);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        if let Some(server) = &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Starts the server. This process then has no descriptor of the file system any more.
///
/// The server runs outside of the mount namespace. The last process of the namespace unmounts ext4
/// while it ends, which waits until the server has written everything, or is gone. A server in the
/// namespace could be that process, and would wait for itself for ever: even after SIGKILL, the
/// kernel closes the descriptor only after the unmounting.
fn start(
    mut server: Command,
    descriptor: OwnedFd,
    listener: UnixListener,
    outside: Mounts,
) -> Result<Child, StackError> {
    outside.enter_at_start(&mut server);
    server
        .stdin(Stdio::from(descriptor))
        .stdout(Stdio::from(OwnedFd::from(listener)));
    let bounds = Bounds {
        dies_with_parent: true,
        // It needs little time, but in time: a disk does not wait for a free processor.
        goes_first: true,
        ..Bounds::default()
    };
    bind(&mut server, &bounds).map_err(system("prepare the server of the disk"))?;
    server
        .spawn()
        .map_err(system("start the server of the disk"))
}

fn run(command: &mut Command) -> Result<(), StackError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(system(format!("start `{program}` (e2fsprogs)")))?;
    match status.success() {
        true => Ok(()),
        false => Err(StackError::Program {
            program,
            status: status.to_string(),
        }),
    }
}
