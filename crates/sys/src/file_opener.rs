//! Processes that open files, or bring them into memory, so that another process need not wait for
//! a disk. A file that was opened is passed over a Unix socket (`SCM_RIGHTS`, unix(7)).
//!
//! ```text
//! server: FileOpener::open ── name ──▶ opener: openat2 below the folder
//!                          ◀── descriptor, or an error ──
//! ```
//!
//! An opener is forked and executes no other program. It inherits the memory of its parent, so
//! start openers before large memory is in use. It ends when its socket is closed, which happens
//! also if the parent is killed. It has no other descriptor than its socket and the folder.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, pread};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::file::Folder;

/// Longest name in bytes, with the NUL byte at its end: the kernel's limit.
const NAME_MAX: usize = 4096;
/// The kind of a request, and two numbers.
const HEADER_LEN: usize = 17;
/// Bytes that an opener reads at a time to bring them into memory.
const TOUCH_LEN: usize = 64 * 1024;

const OPEN: u8 = 0;
const LOOK_UP: u8 = 1;
const TOUCH: u8 = 2;

/// A process that does one operation at a time. Dropping this value ends it after the operation
/// that it is in.
#[derive(Debug)]
pub struct FileOpener {
    /// `None` only while the value is dropped.
    socket: Option<OwnedFd>,
    /// `None` if another process answers than one that was started for that.
    pid: Option<Pid>,
}

/// The requests of a [`FileOpener`], for a process that answers them by its own means.
#[derive(Debug)]
pub struct FileRequests {
    socket: OwnedFd,
}

/// The opener has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// The answer of an opener: its error, or success.
type Answer<T> = Result<io::Result<T>, Lost>;

impl FileOpener {
    /// Starts a process for the files below a folder.
    ///
    /// # Errors
    /// The limit of processes or descriptors is reached.
    pub fn start(folder: &Folder) -> io::Result<Self> {
        let (own, other) = sockets()?;
        // SAFETY: the child calls `run`, which does only what is allowed after a fork of a process
        // with several threads: system calls. It neither allocates nor takes a lock, and never
        // returns.
        match unsafe { libc::fork() } {
            ..0 => Err(io::Error::last_os_error()),
            0 => run(other.as_fd(), folder.as_fd()),
            child => Ok(Self {
                socket: Some(own),
                pid: Some(Pid::from_raw(child).ok_or(io::ErrorKind::InvalidData)?),
            }),
        }
    }

    /// An opener whose requests the owner of the other value answers, usually in another process.
    ///
    /// # Errors
    /// The limit of descriptors is reached.
    pub fn pair() -> io::Result<(Self, FileRequests)> {
        let (own, other) = sockets()?;
        let opener = Self {
            socket: Some(own),
            pid: None,
        };
        Ok((opener, FileRequests { socket: other }))
    }

    /// Opens a file below the folder, like [`Folder::open_file`] with
    /// [`Wait::Allowed`](crate::file::Wait::Allowed).
    ///
    /// # Errors
    /// The opener has ended.
    pub fn open(&self, name: &[u8]) -> Answer<OwnedFd> {
        let opened = self.request(OPEN, [0, 0], name, None)?;
        Ok(opened.and_then(|file| file.ok_or_else(|| io::ErrorKind::InvalidData.into())))
    }

    /// Brings what is needed to open a file into memory, or learns that there is no such file.
    ///
    /// # Errors
    /// The opener has ended.
    pub fn look_up(&self, name: &[u8]) -> Answer<()> {
        let looked_up = self.request(LOOK_UP, [0, 0], name, None)?;
        Ok(looked_up.map(|_| ()))
    }

    /// Brings bytes of an open file into memory: `len` of them from `offset` on.
    ///
    /// # Errors
    /// The opener has ended.
    pub fn touch(&self, file: impl AsFd, offset: u64, len: u64) -> Answer<()> {
        let touched = self.request(TOUCH, [offset, len], &[], Some(file.as_fd()))?;
        Ok(touched.map(|_| ()))
    }

    /// The number of its process, if it was started for this value.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        Some(self.pid?.as_raw_nonzero().get().unsigned_abs())
    }

    fn request(
        &self,
        kind: u8,
        numbers: [u64; 2],
        name: &[u8],
        file: Option<BorrowedFd<'_>>,
    ) -> Answer<Option<OwnedFd>> {
        if name.len() >= NAME_MAX {
            return Ok(Err(Errno::NAMETOOLONG.into()));
        }
        if name.contains(&0) {
            return Ok(Err(Errno::INVAL.into()));
        }
        let socket = self.socket.as_ref().ok_or(Lost)?.as_fd();
        let numbers = numbers.map(u64::to_ne_bytes);
        let parts = [&[kind], &numbers[0][..], &numbers[1][..], name, &[0]];
        send(socket, &parts.map(IoSlice::new), file).map_err(|_| Lost)?;
        let mut code = [0; 4];
        let received = receive(socket, &mut code).map_err(|_| Lost)?;
        if received.len != code.len() {
            return Err(Lost);
        }
        Ok(match i32::from_ne_bytes(code) {
            0 if received.has_lost_file => Err(Errno::MFILE.into()),
            0 => Ok(received.file),
            code => Err(io::Error::from_raw_os_error(code)),
        })
    }
}

impl Drop for FileOpener {
    fn drop(&mut self) {
        // The opener receives the end of the stream. It is not waited for, because a disk may never
        // answer. If it has not ended yet, the kernel keeps its status until this process ends.
        self.socket = None;
        if let Some(pid) = self.pid {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

impl FileRequests {
    /// Waits for the next request to open a file, and answers it with what `open` returns for the
    /// name. Returns false once the other process has closed its socket or has ended.
    ///
    /// # Errors
    /// The answer was not sent.
    pub fn answer<F: AsFd>(&self, open: impl FnOnce(&[u8]) -> io::Result<F>) -> io::Result<bool> {
        let mut request = [0; HEADER_LEN + NAME_MAX];
        let received = receive(self.socket.as_fd(), &mut request)?;
        let Some((header, name)) = parts(&request, received.len) else {
            return Ok(false);
        };
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        let opened = match header.first() {
            Some(&OPEN) => open(name),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        // An error without a number of the kernel's is one of this process.
        let code_of = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        let (code, file) = match opened {
            Ok(file) => (0, Some(file)),
            Err(error) => (code_of(error), None),
        };
        let file = file.as_ref().map(AsFd::as_fd);
        send(
            self.socket.as_fd(),
            &[IoSlice::new(&code.to_ne_bytes())],
            file,
        )?;
        Ok(true)
    }
}

/// The two ends of the socket between an opener and its user.
fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// The header and the name of a request. `None` if there is no complete header, as at the end of
/// the stream.
fn parts(request: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
    request.get(..len)?.split_at_checked(HEADER_LEN)
}

/// Sends a message, with a descriptor if there is one.
fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    file: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.map(|file| [file]);
    if let Some(files) = &files {
        // There is space for one descriptor.
        let _ = control.push(SendAncillaryMessage::ScmRights(files));
    }
    loop {
        match sendmsg(socket, parts, &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            outcome => return outcome.map(|_| ()),
        }
    }
}

/// A message that was received.
struct Received {
    /// 0 if the other process has ended.
    len: usize,
    /// The descriptor that was passed with it.
    file: Option<OwnedFd>,
    /// A descriptor was passed, but this process has reached its limit of descriptors
    /// (`MSG_CTRUNC`, recvmsg(2)).
    has_lost_file: bool,
}

/// Receives a message.
fn receive(socket: BorrowedFd<'_>, message: &mut [u8]) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let parts = &mut [IoSliceMut::new(message)];
        match recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(Received {
        len: received.bytes,
        has_lost_file: file.is_none() && received.flags.contains(ReturnFlags::CTRUNC),
        file,
    })
}

/// The main function of an opener, which has been forked from a process that may have other
/// threads. So nothing here allocates or takes a lock.
fn run(socket: BorrowedFd<'_>, folder: BorrowedFd<'_>) -> ! {
    /// Ends the process, also if the code below panics.
    struct Exit;
    impl Drop for Exit {
        fn drop(&mut self) {
            // SAFETY: the function ends the process at once. It has no other effects.
            unsafe { libc::_exit(0) }
        }
    }
    let exit = Exit;
    let _ = rustix::thread::set_name(c"file-opener");
    if let Some((socket, folder)) = keep_two(socket, folder) {
        serve(socket, folder);
    }
    drop(exit);
    // `Exit` has ended the process.
    std::process::abort()
}

/// Closes all descriptors but two, and returns these with their new numbers. Descriptors of its
/// parent's connections would keep these open.
fn keep_two(
    socket: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
) -> Option<(BorrowedFd<'static>, BorrowedFd<'static>)> {
    let above = |file: BorrowedFd<'_>| {
        // SAFETY: the call creates a descriptor, and changes nothing else.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 2) }
    };
    let (socket, folder) = (above(socket), above(folder));
    let (socket, folder) = (move_to(socket, 0)?, move_to(folder, 1)?);
    // SAFETY: nothing in this process uses another descriptor, because `run` does not return.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 2, libc::c_uint::MAX, 0) };
    (closed == 0).then_some((socket, folder))
}

/// Gives a descriptor of an opener another number.
fn move_to(file: libc::c_int, number: libc::c_int) -> Option<BorrowedFd<'static>> {
    // SAFETY: nothing in this process uses what the number stood for, because `run` does not
    // return.
    let is_moved = unsafe { libc::dup2(file, number) } == number;
    // SAFETY: if it was moved, the descriptor stays open until the process ends.
    let moved = unsafe { BorrowedFd::borrow_raw(number) };
    is_moved.then_some(moved)
}

/// Answers requests until the other process closes its socket.
fn serve(socket: BorrowedFd<'_>, folder: BorrowedFd<'_>) {
    let mut request = [0; HEADER_LEN + NAME_MAX];
    let mut bytes = [0; TOUCH_LEN];
    while let Ok(received) = receive(socket, &mut request) {
        let Some((header, name)) = parts(&request, received.len) else {
            return;
        };
        let number = |at: usize| {
            let bytes = header.get(at..at + 8).and_then(|it| it.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let outcome = match (header.first(), received.file) {
            (Some(&TOUCH), Some(file)) => {
                touch(file.as_fd(), number(1), number(9), &mut bytes).map(|()| None)
            }
            (Some(&OPEN), None) => open(folder, name).map(Some),
            (Some(&LOOK_UP), None) => open(folder, name).map(|_| None),
            _ => Err(Errno::INVAL),
        };
        let (code, file) = match outcome {
            Ok(file) => (0, file),
            Err(error) => (error.raw_os_error(), None),
        };
        let code = code.to_ne_bytes();
        let file = file.as_ref().map(AsFd::as_fd);
        if send(socket, &[IoSlice::new(&code)], file).is_err() {
            return;
        }
    }
}

/// Opens a file whose name ends with a NUL byte, as [`Folder::open_file`] does.
fn open(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let name = CStr::from_bytes_until_nul(name).map_err(|_| Errno::INVAL)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(folder, name, flags, Mode::empty(), resolve)
}

/// Reads bytes of a file and discards them.
fn touch(file: BorrowedFd<'_>, mut offset: u64, len: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let end = offset.saturating_add(len);
    while offset < end {
        let rest = usize::try_from(end - offset).unwrap_or(usize::MAX);
        let wanted = rest.min(buffer.len());
        match pread(file, &mut buffer[..wanted], offset) {
            Ok(0) => break,
            Ok(read) => offset += read as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::process::{Signal, kill_process};

    use super::*;
    use crate::file::{Wait, read_at};

    fn example() -> (tempfile::TempDir, FileOpener) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("inside"), "0123456789").unwrap();
        symlink("/etc/passwd", root.path().join("link")).unwrap();
        let opener = FileOpener::start(&Folder::open(root.path()).unwrap()).unwrap();
        (root, opener)
    }

    #[test]
    fn a_file_that_was_opened_by_the_opener_is_read_here() {
        let (_root, opener) = example();
        for _ in 0..100 {
            let file = opener.open(b"inside").unwrap().unwrap();
            let mut buffer = [0; 16];
            let len = read_at(&file, 2, &mut buffer, Wait::Allowed).unwrap();
            assert_eq!(&buffer[..len], b"23456789");
            opener.touch(&file, 0, 1 << 20).unwrap().unwrap();
        }
        opener.look_up(b"inside").unwrap().unwrap();
    }

    #[test]
    fn names_stay_below_the_folder_and_errors_are_those_of_the_kernel() {
        let (_root, opener) = example();
        let long = vec![b'a'; NAME_MAX];
        for (name, expected) in [
            (&b"absent"[..], Errno::NOENT),
            (b"../x", Errno::XDEV),
            (b"link", Errno::XDEV),
            (b"inside/", Errno::NOTDIR),
            (b"a\0b", Errno::INVAL),
            (&long, Errno::NAMETOOLONG),
        ] {
            for error in [
                opener.open(name).unwrap().map(drop).unwrap_err(),
                opener.look_up(name).unwrap().unwrap_err(),
            ] {
                assert_eq!(
                    error.raw_os_error(),
                    Some(expected.raw_os_error()),
                    "{name:?}"
                );
            }
        }
    }

    #[test]
    fn requests_are_answered_by_another_process_or_thread() {
        let (root, _) = example();
        let (opener, requests) = FileOpener::pair().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let answers = std::thread::spawn(move || {
            let mut count = 0;
            while requests
                .answer(|name| folder.open_file(name, Wait::Allowed))
                .unwrap()
            {
                count += 1;
            }
            count
        });
        let file = opener.open(b"inside").unwrap().unwrap();
        let mut buffer = [0; 16];
        assert_eq!(read_at(&file, 5, &mut buffer, Wait::Allowed).unwrap(), 5);
        let error = opener.open(b"absent").unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(opener.touch(&file, 0, 1).unwrap().is_err());
        drop(opener);
        assert_eq!(answers.join().unwrap(), 3);
    }

    #[test]
    fn a_opener_that_has_ended_is_noticed() {
        let (_root, opener) = example();
        kill_process(opener.pid.unwrap(), Signal::KILL).unwrap();
        assert_eq!(opener.open(b"inside").map(drop), Err(Lost));
        assert_eq!(opener.look_up(b"inside").map(drop), Err(Lost));
    }

    #[test]
    fn a_opener_ends_with_its_parents_socket() {
        let (_root, opener) = example();
        // Later openers do not keep the socket of this one open.
        let (_other_root, _other) = example();
        let pid = opener.pid.unwrap();
        // Not dropped as a whole, so that its status is not taken.
        let mut opener = std::mem::ManuallyDrop::new(opener);
        opener.socket = None;
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
    }
}
