//! Network namespaces (network_namespaces(7)), which stand for several hosts on one machine.
//!
//! A namespace lives as long as a descriptor, a process or a thread refers to it. Here a descriptor
//! does, so the kernel removes the namespace and its devices after the process that created it has
//! ended, however it ended, and after the last process in the namespace has.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Refers to the network namespace of the thread that opens it.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace. Clones refer to the same one.
#[derive(Debug, Clone)]
pub struct NetworkNamespace {
    fd: Arc<OwnedFd>,
}

impl NetworkNamespace {
    /// Creates a namespace, in which no device is up.
    ///
    /// # Errors
    /// `PermissionDenied`: the process lacks `CAP_SYS_ADMIN`, which root has.
    pub fn new() -> io::Result<Self> {
        on_new_thread(|| {
            unshare_only(UnshareFlags::NEWNET)?;
            Self::current()
        })?
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not mounted, or no descriptor is available.
    pub fn current() -> io::Result<Self> {
        Ok(Self {
            fd: Arc::new(File::open(OWN)?.into()),
        })
    }

    /// Returns a path by which other programs can refer to the namespace while this process has a
    /// reference to it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.fd.as_raw_fd()
        ))
    }

    /// Moves the calling thread into the namespace. Threads and processes that it starts later are
    /// in the namespace too. Open sockets stay in their own.
    ///
    /// # Errors
    /// The process lacks `CAP_SYS_ADMIN`.
    pub fn enter(&self) -> io::Result<()> {
        let fd = self.fd.as_fd();
        Ok(move_into_link_name_space(
            fd,
            Some(LinkNameSpaceType::Network),
        )?)
    }

    /// Calls `task` in the namespace, on a thread of its own, and waits for it. Sockets that it
    /// creates stay in the namespace.
    ///
    /// # Errors
    /// No thread can be started, the process lacks `CAP_SYS_ADMIN`, or `task` panics.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_new_thread(|| self.enter().map(|()| task()))?
    }

    /// Makes `command` start its program in the namespace. Starting it fails if the process lacks
    /// `CAP_SYS_ADMIN`.
    pub fn place(&self, command: &mut Command) {
        let namespace = self.clone();
        let in_child = move || namespace.enter();
        // SAFETY: between fork and exec only async-signal-safe functions may be called. The closure
        // makes one direct system call, takes no lock and does not allocate.
        unsafe {
            command.pre_exec(in_child);
        }
    }

    /// Makes the kernel process what `device` receives on one of the processors `cpus` (receive
    /// packet steering, Documentation/networking/scaling.rst), as if they were the processors of a
    /// machine with this device. If `cpus` is empty, the packets are processed where they were
    /// sent, which is the default.
    ///
    /// # Errors
    /// There is no such device in the namespace, or the kernel has no such steering.
    pub fn steer_receives(&self, device: &str, cpus: &[usize]) -> io::Result<()> {
        let mask = cpu_mask(cpus);
        on_new_thread(|| {
            // A sysfs shows the devices of the namespace in which it was mounted. The mount is in
            // a mount namespace of this thread, so it is visible only here and ends with it.
            unshare_only(UnshareFlags::NEWNS)?;
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", private)?;
            self.enter()?;
            mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None::<&CStr>)?;
            let file = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
            fs::write(file, mask)
        })?
    }

    /// Disables IPv6 on all devices of the namespace, present and future, so that the kernel sends
    /// no packets of its own there (router solicitations, multicast reports).
    ///
    /// # Errors
    /// The setting cannot be written. That the kernel has no IPv6 is not an error.
    pub fn disable_ipv6(&self) -> io::Result<()> {
        self.run(|| {
            ["all", "default"].into_iter().try_for_each(|devices| {
                let file = format!("/proc/sys/net/ipv6/conf/{devices}/disable_ipv6");
                match fs::write(file, "1") {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    written => written,
                }
            })
        })?
    }
}

/// Calls `task` on a thread that ends afterwards, so that its changes of namespaces end too.
fn on_new_thread<T: Send>(task: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("namespace".to_owned());
        let thread = builder.spawn_scoped(scope, task)?;
        let panicked = |_| io::Error::other("the thread in the namespace panicked");
        thread.join().map_err(panicked)
    })
}

/// Gives the calling thread a mount namespace of its own.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    unshare_only(UnshareFlags::NEWNS)
}

/// Gives the calling thread new namespaces of the kinds in `flags`.
fn unshare_only(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: the call is unsafe because of `FILES`, which would give the thread another table of
    // descriptors. It is not in `flags` (asserted above).
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// A set of processors as the kernel reads it: hexadecimal words of 32 bits, the highest first.
fn cpu_mask(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(1, |cpu| cpu / 32 + 1);
    let word = |number: usize| {
        let bits = cpus.iter().filter(|&&cpu| cpu / 32 == number);
        let bits = bits.fold(0_u32, |word, cpu| word | 1 << (cpu % 32));
        format!("{bits:08x}")
    };
    let words: Vec<String> = (0..words).rev().map(word).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::fs::MetadataExt;

    /// Returns a new namespace, or `None` if this process may not create one.
    fn namespace() -> Option<NetworkNamespace> {
        match NetworkNamespace::new() {
            Ok(namespace) => Some(namespace),
            Err(error) => {
                eprintln!("skipped: network namespaces: {error}");
                None
            }
        }
    }

    fn inode(namespace: &NetworkNamespace) -> u64 {
        fs::metadata(namespace.path()).unwrap().ino()
    }

    #[test]
    fn processor_sets_are_written_as_the_kernel_reads_them() {
        assert_eq!(cpu_mask(&[]), "00000000");
        assert_eq!(cpu_mask(&[0, 1, 5]), "00000023");
        assert_eq!(cpu_mask(&[33, 0]), "00000002,00000001");
    }

    #[test]
    fn tasks_and_programs_run_in_the_namespace_and_the_caller_stays_outside() {
        let Some(namespace) = namespace() else { return };
        let outside = inode(&NetworkNamespace::current().unwrap());
        let inside = namespace.run(|| inode(&NetworkNamespace::current().unwrap()));
        assert_eq!(inside.unwrap(), inode(&namespace));
        assert_ne!(inode(&namespace), outside);
        let mut command = Command::new("readlink");
        command.arg("/proc/self/ns/net");
        namespace.place(&mut command);
        let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(printed.trim(), format!("net:[{}]", inode(&namespace)));
        assert_eq!(inode(&NetworkNamespace::current().unwrap()), outside);
    }

    #[test]
    fn sockets_of_a_namespace_stay_in_it() {
        let Some(namespace) = namespace() else { return };
        let up = namespace.run(|| {
            let up = Command::new("ip")
                .args(["link", "set", "lo", "up"])
                .status();
            up.is_ok_and(|status| status.success())
        });
        if !up.unwrap() {
            eprintln!("skipped: no ip (iproute2)");
            return;
        }
        let listener = namespace.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let connect = move || std::net::TcpStream::connect(address);
        assert!(namespace.run(connect).unwrap().is_ok());
        assert!(connect().is_err());
    }

    #[test]
    fn steering_is_set_in_the_namespace_and_mounts_nothing_outside() {
        let Some(namespace) = namespace() else { return };
        let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
        let before = mounts();
        namespace.steer_receives("lo", &[0]).unwrap();
        assert!(namespace.steer_receives("no-such-device", &[0]).is_err());
        assert_eq!(mounts(), before);
    }
}
