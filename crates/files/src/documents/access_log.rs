//! A log of requests in the common log format, as of the NCSA's and Apache's servers.
//!
//! ```text
//! worker ── a line ──▶ its buffer ──▶ writer thread, which may wait ──▶ file
//!            no space: dropped and counted
//! ```
//!
//! A worker takes the lock of its own buffer, which the writer holds only to exchange the buffer
//! for an empty one. It makes a system call only for the first line after each exchange, to wake
//! the writer.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http::Request;

use crate::limits::{LOG_BUFFER_MAX, LOG_PAUSE_NS, READER_STACK_LEN};

/// The log, with the thread that writes it. Dropping this value writes the lines that are left.
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    buffers: Mutex<Vec<Arc<Mutex<Vec<u8>>>>>,
    dropped: AtomicU64,
    must_reopen: AtomicBool,
    is_stopped: AtomicBool,
}

/// The lines of a worker that are not written yet.
#[derive(Debug)]
pub(super) struct LogBuffer {
    lines: Arc<Mutex<Vec<u8>>>,
    log: Arc<AccessLog>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AccessLog {
    /// Opens the file at `path`, or creates it, and starts the thread that appends to it.
    ///
    /// # Errors
    /// The file cannot be opened for writing, or the limit of threads is reached.
    pub fn open(path: &Path) -> io::Result<Arc<Self>> {
        let file = open(path)?;
        let shared = Arc::<Shared>::default();
        let (writer_shared, path) = (Arc::clone(&shared), path.to_owned());
        let writer = thread::Builder::new()
            .name("access-log".to_owned())
            .stack_size(READER_STACK_LEN)
            .spawn(move || writer_shared.write_all(file, &path))?;
        Ok(Arc::new(Self {
            shared,
            writer: Some(writer),
        }))
    }

    /// Opens the file by its name again, so that it can be renamed first. If that fails, the lines
    /// go to the old file.
    pub fn reopen(&self) {
        self.shared.must_reopen.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// The number of lines that were dropped because there was no space, or because writing failed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        if let Some(writer) = &self.writer {
            writer.thread().unpark();
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(writer) = self.writer.take() {
            // A panic of the thread has been reported by its message.
            let _ = writer.join();
        }
    }
}

impl LogBuffer {
    /// The buffer of a new worker.
    pub(super) fn new(log: &Arc<AccessLog>) -> Self {
        let lines = Arc::<Mutex<Vec<u8>>>::default();
        lock(&log.shared.buffers).push(Arc::clone(&lines));
        Self {
            lines,
            log: Arc::clone(log),
        }
    }

    /// Appends a line. `date` is that of a header field, and `reply` begins with the head of the
    /// reply. `request` is `None` if it was not understood.
    pub(super) fn append(
        &self,
        peer: Option<IpAddr>,
        date: &str,
        request: Option<&Request<'_>>,
        reply: &[u8],
    ) {
        let mut lines = lock(&self.lines);
        let (start, was_empty) = (lines.len(), lines.is_empty());
        write_line(peer, date, request, reply, &mut lines);
        if lines.len() > LOG_BUFFER_MAX {
            lines.truncate(start);
            self.log.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        drop(lines);
        if was_empty {
            self.log.wake();
        }
    }
}

impl Shared {
    /// The main function of the writer.
    fn write_all(&self, mut file: File, path: &Path) {
        let mut lines = Vec::new();
        let mut is_torn = false;
        loop {
            thread::park();
            let is_stopped = self.is_stopped.load(Ordering::Relaxed);
            if !is_stopped {
                // Further lines join the first one.
                thread::sleep(Duration::from_nanos(LOG_PAUSE_NS));
            }
            if self.must_reopen.swap(false, Ordering::Relaxed) {
                match open(path) {
                    Ok(opened) => {
                        file = opened;
                        is_torn = false;
                    }
                    // Lines go on to the old file. A line in it is the only place left to say so.
                    Err(error) => {
                        let path = path.display();
                        let _ = writeln!(file, "- - - failed to reopen {path}: {error}");
                    }
                }
            }
            // A buffer of which this is the last owner gets no more lines.
            let mut buffers = lock(&self.buffers).clone();
            lock(&self.buffers).retain(|buffer| Arc::strong_count(buffer) > 2);
            for buffer in buffers.drain(..) {
                lines.clear();
                std::mem::swap(&mut *lock(&buffer), &mut lines);
                let dropped = write_whole_lines(&mut file, &lines, &mut is_torn);
                self.dropped.fetch_add(dropped, Ordering::Relaxed);
            }
            if is_stopped {
                return;
            }
        }
    }
}

/// Writes lines. `is_torn` says that the last write ended within a line, which is then ended first.
/// Returns the number of lines that were not written as a whole.
fn write_whole_lines(mut file: impl Write, lines: &[u8], is_torn: &mut bool) -> u64 {
    let count = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
    if *is_torn && file.write_all(b"\n").is_err() {
        return count(lines);
    }
    *is_torn = false;
    let mut written = 0;
    while written < lines.len() {
        match file.write(&lines[written..]) {
            Ok(len) if len > 0 => written += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => {
                *is_torn = lines[..written].last().is_some_and(|&byte| byte != b'\n');
                break;
            }
        }
    }
    count(&lines[written..])
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Appends `HOST - - [DATE] "REQUEST" STATUS LENGTH`.
fn write_line(
    peer: Option<IpAddr>,
    date: &str,
    request: Option<&Request<'_>>,
    reply: &[u8],
    line: &mut Vec<u8>,
) {
    // Writing to a vector cannot fail.
    let _ = match peer {
        Some(peer) => write!(line, "{peer}"),
        None => write!(line, "-"),
    };
    // `date` is as in "Sun, 06 Nov 1994 08:49:37 GMT".
    let part = |range| date.get(range).unwrap_or("-");
    let (day, month, year, time) = (part(5..7), part(8..11), part(12..16), part(17..25));
    let _ = write!(line, " - - [{day}/{month}/{year}:{time} +0000] \"");
    match request {
        Some(request) => {
            escape(request.method.as_bytes(), line);
            line.push(b' ');
            escape(request.target.as_bytes(), line);
            line.extend_from_slice(if request.is_1_0 {
                b" HTTP/1.0"
            } else {
                b" HTTP/1.1"
            });
        }
        None => line.push(b'-'),
    }
    line.extend_from_slice(b"\" ");
    line.extend_from_slice(reply.get(9..12).unwrap_or(b"-"));
    line.push(b' ');
    let is_head = request.is_some_and(|request| request.method == "HEAD");
    let len = body_len(reply).filter(|&len| len != b"0" && !is_head);
    line.extend_from_slice(len.unwrap_or(b"-"));
    line.push(b'\n');
}

/// The length of the body, as the head of a reply states it.
fn body_len(reply: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"Content-Length: ";
    for field in reply.split(|&byte| byte == b'\n') {
        match field.strip_prefix(NAME) {
            Some(len) => return Some(len.trim_ascii_end()),
            None if field == b"\r" => return None,
            None => {}
        }
    }
    None
}

/// Appends what a client has sent, so that it can neither end the line nor the quotation.
fn escape(text: &[u8], line: &mut Vec<u8>) {
    for &byte in text {
        if (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\') {
            line.push(byte);
        } else {
            let _ = write!(line, "\\x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Parsed;

    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nContent-Length: 7\r\n";

    fn line(peer: Option<IpAddr>, head: &str, reply: &[u8]) -> String {
        let mut line = Vec::new();
        match Request::parse(head.as_bytes()) {
            Parsed::Request(request) => write_line(peer, DATE, Some(&request), reply, &mut line),
            _ => write_line(peer, DATE, None, reply, &mut line),
        }
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn lines_have_the_common_format() {
        let v6 = "2001:db8::1".parse().ok();
        let get = "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(
            line(v6, get, REPLY),
            "2001:db8::1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 12\n"
        );
        let head = "HEAD / HTTP/1.0\r\n\r\n";
        assert!(line(None, head, REPLY).ends_with("] \"HEAD / HTTP/1.0\" 200 -\n"));
        let unchanged = b"HTTP/1.1 304 Not Modified\r\n\r\nContent-Length: 5\r\n";
        assert!(line(None, get, unchanged).ends_with(" 304 -\n"));
        assert!(
            line(None, "\rnonsense", REPLY).starts_with("- - - [06/Nov/1994:08:49:37 +0000] \"-\"")
        );
        let quoted = line(None, "GET /\"\\ HTTP/1.1\r\nHost: x\r\n\r\n", REPLY);
        assert!(
            quoted.contains("\"GET /\\x22\\x5c HTTP/1.1\"") || quoted.contains("\"-\""),
            "{quoted}"
        );
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = AccessLog::open(&path).unwrap();
        let buffer = LogBuffer::new(&log);
        // While this lock is held, the writer cannot exchange the buffer.
        let mut held = lock(&buffer.lines);
        let mut count = 0;
        while held.len() <= LOG_BUFFER_MAX {
            write_line(None, DATE, None, REPLY, &mut held);
            count += 1;
        }
        drop(held);
        // The buffer was not empty, so nothing has woken the writer.
        buffer.append(None, DATE, None, REPLY);
        assert_eq!(log.dropped(), 1);
        drop(buffer);
        drop(log);
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written.iter().filter(|&&byte| byte == b'\n').count(), count);
    }

    #[test]
    fn a_renamed_file_is_left_when_the_log_is_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("log"), folder.path().join("old"));
        let log = AccessLog::open(&path).unwrap();
        let buffer = LogBuffer::new(&log);
        buffer.append(None, DATE, None, REPLY);
        let lines = |path: &Path| {
            let written = std::fs::read_to_string(path).unwrap_or_default();
            written.lines().count()
        };
        while lines(&path) < 1 {
            thread::yield_now();
        }
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        while !path.exists() {
            thread::yield_now();
        }
        buffer.append(None, DATE, None, REPLY);
        drop(buffer);
        drop(log);
        assert_eq!((lines(&old), lines(&path)), (1, 1));
    }

    /// A disk on which there is space for some bytes more.
    struct FullAfter(Vec<u8>, usize);

    impl Write for FullAfter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.1);
            if len == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend_from_slice(&bytes[..len]);
            self.1 -= len;
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn line_that_a_full_disk_cut_off_is_counted_and_joined_with_no_other() {
        let (mut disk, mut is_torn) = (FullAfter(Vec::new(), 6), false);
        assert_eq!(
            write_whole_lines(&mut disk, b"one\ntwo\nthree\n", &mut is_torn),
            2
        );
        assert!(is_torn);
        assert_eq!(write_whole_lines(&mut disk, b"four\n", &mut is_torn), 1);
        disk.1 = 100;
        assert_eq!(write_whole_lines(&mut disk, b"five\n", &mut is_torn), 0);
        assert_eq!(disk.0, b"one\ntw\nfive\n");
    }
}
