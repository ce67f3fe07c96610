//! `-d` and `-P`: the daemon, its pid file, and the file with its ports.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sys::daemon::{Ready, Started, Starting, detach};
use sys::file_replacement;

/// The role of the process after [`start`].
pub(super) enum Role {
    /// The original process, which waits for the daemon.
    Starter(Starter),
    /// The daemon, which serves.
    Daemon(Ready),
}

/// The process that started the daemon. It keeps the privileges that the daemon drops, so it can
/// write the pid file where the daemon's user cannot.
pub(super) struct Starter {
    starting: Starting,
    pid_file: Option<PidFile>,
}

/// Forks.
///
/// # Errors
/// As [`detach`].
pub(super) fn start(pid_file: Option<PidFile>) -> io::Result<Role> {
    Ok(match detach()? {
        sys::daemon::Role::Daemon(ready) => Role::Daemon(ready),
        sys::daemon::Role::Starter(starting) => Role::Starter(Starter { starting, pid_file }),
    })
}

impl Starter {
    /// Waits until the daemon serves or has ended. Returns the exit status: 0, or the daemon's own.
    ///
    /// # Errors
    /// The daemon's exit status cannot be read.
    pub(super) fn wait(self, say: &mut dyn FnMut(&str)) -> io::Result<u8> {
        match self.starting.wait()? {
            Started::Serving(pid) => {
                if let Some(file) = self.pid_file {
                    file.write(pid, say);
                }
                Ok(0)
            }
            // A daemon that ended before it served has failed, even with status 0.
            Started::Ended(status) => {
                Ok(u8::try_from(status).ok().filter(|&it| it != 0).unwrap_or(1))
            }
        }
    }
}

/// The file that holds the server's process id (`-P`).
#[derive(Debug, Clone)]
pub(super) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// A pid file at this path, made absolute because the daemon changes its working directory.
    ///
    /// # Errors
    /// The path is empty, or the working directory does not exist.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: std::path::absolute(path)?,
        })
    }

    /// Writes the process id. A failure is logged and not fatal, as in memcached.
    pub(super) fn write(&self, pid: u32, say: &mut dyn FnMut(&str)) {
        let path = self.path.display();
        if let Some(other) = self.read().filter(|&other| other != pid)
            && is_running(other)
        {
            say(&format!(
                "-P {path}: it contained {other}, the id of a running process"
            ));
        }
        if let Err(error) = replace(&self.path, &format!("{pid}\n")) {
            say(&format!(
                "-P {path}: not written: {error} (choose a directory that the server's user can write)"
            ));
        }
    }

    /// Removes the file if it contains the id of this process.
    pub(super) fn remove(&self) {
        if self.read() == Some(std::process::id()) {
            // The server's user may lack the right to remove it.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn read(&self) -> Option<u32> {
        fs::read_to_string(&self.path).ok()?.trim().parse().ok()
    }
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Writes `TCP INET: PORT` or `TCP INET6: PORT` for each address, in memcached's form.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_ports(path: &Path, tcp: &[SocketAddr], udp: &[SocketAddr]) -> io::Result<()> {
    let mut text = String::new();
    for (protocol, addresses) in [("TCP", tcp), ("UDP", udp)] {
        for address in addresses {
            let family = if address.is_ipv4() { "INET" } else { "INET6" };
            text.push_str(&format!("{protocol} {family}: {}\n", address.port()));
        }
    }
    replace(path, &text)
}

/// Replaces a file that everybody may read.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    file_replacement::replace(path, 0o644, |file| file.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_process_removes_a_pid_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let file = PidFile::new(&path).unwrap();
        let mut said = Vec::new();
        file.write(1, &mut |line| said.push(line.to_owned()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        file.remove();
        assert!(path.exists(), "it belongs to another process");
        file.write(std::process::id(), &mut |line| said.push(line.to_owned()));
        assert!(
            said.len() == 1 && said[0].contains("contained 1"),
            "{said:?}"
        );
        file.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_failure_to_write_a_pid_file_is_logged() {
        let folder = tempfile::tempdir().unwrap();
        let file = PidFile::new(&folder.path().join("none/pid")).unwrap();
        let mut said = Vec::new();
        file.write(1, &mut |line| said.push(line.to_owned()));
        assert!(
            said.len() == 1 && said[0].contains("not written"),
            "{said:?}"
        );
    }

    #[test]
    fn ports_have_memcacheds_form() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ports");
        let addresses = ["127.0.0.1:7", "[::1]:8"].map(|text| text.parse().unwrap());
        write_ports(&path, &addresses, &addresses[..1]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "TCP INET: 7\nTCP INET6: 8\nUDP INET: 7\n");
    }
}
