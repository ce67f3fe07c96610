//! Sending a part of a file on a stream socket from the page cache, without a copy (sendfile(2)).
//!
//! The kernel passes the pages of the file to the socket. If the file is written to before the peer
//! has received them, the peer receives the new bytes, or a mixture of both.
//!
//! sendfile waits for the disk if a page is not in memory, also on a socket that does not block. So
//! [`send_file`] looks first, and sends nothing if it would have to wait. It still waits for a page
//! that the kernel evicts between the look and the call, and for one in the middle of the part that
//! the kernel has begun to read.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::file::{Wait, read_at};
use crate::page_cache::has_pages;

/// Sends the bytes in memory that come before a part of a file, as many as the socket has space
/// for. An incomplete segment is kept back, so that it is sent together with bytes of the file.
/// Returns the number of bytes sent. It does not wait for space, even if the socket is blocking.
///
/// # Errors
/// `WouldBlock`: the socket has no space. After any other error the connection is lost.
pub fn send_before_file(socket: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::MORE | SendFlags::DONTWAIT;
    let mut control = SendAncillaryBuffer::default();
    Ok(sendmsg(socket, slices, &mut control, flags)?)
}

/// Sends `len` bytes of a file from `offset` on, as many as the socket has space for, and returns
/// their number, at least 1. A blocking socket waits for space. `None`: nothing was sent, because
/// the bytes are not all in memory, or the kernel has no sendfile for this file.
///
/// The process must ignore SIGPIPE, as programs of Rust do: no flag of the call does.
///
/// # Errors
/// `WouldBlock`: the socket has no space. `UnexpectedEof`: the file ends at `offset` or before.
/// After any error but `WouldBlock` and `Interrupted` the connection is lost.
pub fn send_file(
    socket: impl AsFd,
    file: impl AsFd,
    offset: u64,
    len: usize,
) -> io::Result<Option<usize>> {
    if !is_resident(&file, offset, len) {
        return Ok(None);
    }
    let mut at = offset;
    match sendfile(socket, file, Some(&mut at), len) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(sent) => Ok(Some(sent)),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a part of a file can be sent without waiting for a disk. Pages that the kernel still
/// reads are in the page cache too. A read of the last byte notices that they are not complete if
/// the kernel reads them in order. It does not if another read has brought the last page into
/// memory before those in front of it (docs/decisions/028-sendfile.md).
fn is_resident(file: impl AsFd, offset: u64, len: usize) -> bool {
    let last = offset.saturating_add(len as u64).saturating_sub(1);
    matches!(has_pages(&file, offset, len as u64), Ok(true))
        && !read_at(&file, last, &mut [0], Wait::Never)
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use super::*;
    use crate::page_cache::RESIDENCY_PAGES_MAX;
    use crate::socket::Stream;

    /// A file with `len` bytes that are all different from their neighbours.
    fn file(len: usize) -> (File, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    /// Whether the kernel says which pages of a new file are in memory.
    fn is_supported() -> bool {
        let is_supported = has_pages(file(1).0, 0, 1).is_ok();
        if !is_supported {
            eprintln!("skipped: the kernel has no cachestat");
        }
        is_supported
    }

    fn receive(stream: &Stream, received: &mut Vec<u8>) {
        let mut buffer = [0; 1 << 14];
        while let Ok(len @ 1..) = stream.recv(&mut buffer) {
            received.extend_from_slice(&buffer[..len]);
        }
    }

    #[test]
    fn parts_of_a_file_are_sent_as_far_as_there_is_space() {
        if !is_supported() {
            return;
        }
        let (file, bytes) = file(3_000_000);
        let (server, client) = Stream::pair().unwrap();
        let head = [IoSlice::new(b"he"), IoSlice::new(b"ad")];
        assert_eq!(send_before_file(&server, &head).unwrap(), 4);
        let (mut at, mut was_full, mut received) = (100, 0, Vec::new());
        while at < bytes.len() {
            match send_file(&server, &file, at as u64, bytes.len() - at) {
                Ok(sent) => at += sent.unwrap(),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    was_full += 1;
                    receive(&client, &mut received);
                }
            }
        }
        receive(&client, &mut received);
        assert!(was_full > 0);
        assert_eq!(&received[..4], b"head");
        assert!(received[4..] == bytes[100..]);
    }

    #[test]
    fn a_file_that_has_become_shorter_is_an_error_or_not_sent() {
        if !is_supported() {
            return;
        }
        let (file, _) = file(5000);
        let (server, client) = Stream::pair().unwrap();
        // Up to the end of the last page, the kernel has pages.
        assert_eq!(send_file(&server, &file, 0, 6000).unwrap(), Some(5000));
        let error = send_file(&server, &file, 5000, 1000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(send_file(&server, &file, 5000, 1 << 20).unwrap(), None);
        file.set_len(100).unwrap();
        assert_eq!(send_file(&server, &file, 200, 4000).unwrap(), None);
        let mut received = Vec::new();
        receive(&client, &mut received);
        assert_eq!(received.len(), 5000);
    }

    #[test]
    fn a_part_with_a_page_that_is_not_in_memory_is_not_sent() {
        if !is_supported() {
            return;
        }
        let file = tempfile::tempfile().unwrap();
        // A hole has no pages until it is read.
        let len = 4 * RESIDENCY_PAGES_MAX * 4096;
        file.set_len(len as u64).unwrap();
        rustix::io::pwrite(&file, &[1; 8192], 0).unwrap();
        let (server, _client) = Stream::pair().unwrap();
        assert_eq!(send_file(&server, &file, 0, 8193).unwrap(), None);
        assert_eq!(send_file(&server, &file, 0, 8192).unwrap(), Some(8192));
        assert_eq!(send_file(&server, &file, len as u64 / 2, 1).unwrap(), None);
    }

    #[test]
    fn a_closed_peer_is_an_error() {
        if !is_supported() {
            return;
        }
        let (file, _) = file(5000);
        let (server, client) = Stream::pair().unwrap();
        drop(client);
        let error = send_file(&server, &file, 0, 5000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
