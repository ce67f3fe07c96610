//! A memcached of our own, for as long as it is wanted.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use sys::child::Bounds;

/// How often it is asked whether it answers yet, and how long in between.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A memcached on loopback; dropped, it is killed, and so it is if the thread that started it ends.
#[derive(Debug)]
pub struct Memcached {
    child: Child,
    port: u16,
}

impl Memcached {
    /// Starts the first on the PATH, one thread, items in so many mebibytes. None: there is none.
    ///
    /// # Errors
    /// No port is free, or the child cannot be bound to this thread.
    pub fn start(megabytes: u64) -> io::Result<Option<Self>> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new("memcached");
        command
            .args(["-u", "root", "-l", "127.0.0.1", "-U", "0", "-t", "1"])
            .args(["-p", &port.to_string(), "-m", &megabytes.to_string()]);
        let bounds = Bounds {
            dies_with_parent: true,
            ..Default::default()
        };
        sys::child::bind(&mut command, &bounds)?;
        let child = command.spawn();
        Ok(child.ok().map(|child| Self { child, port }))
    }

    /// A connection, as soon as it listens.
    ///
    /// # Errors
    /// It does not.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
            thread::sleep(PAUSE);
        }
        Err(last.unwrap_or_else(|| io::Error::other("memcached does not answer")))
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
