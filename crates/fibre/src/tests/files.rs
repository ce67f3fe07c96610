//! Files. With the I/O backend *rings*, an operation on a file is an io_uring request. With
//! *readiness* (epoll), it is a blocking call on a thread that runs no fibres.

use std::io::ErrorKind;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

use crate::File;
use crate::tests::configurations::for_each_configuration_in_fibre;

/// A path in the temporary folder. No other process uses this path.
fn temporary_path(name: &str) -> PathBuf {
    let name = format!("fibre-{}-{name}", std::process::id());
    std::env::temp_dir().join(name)
}

#[test]
fn written_bytes_are_read_back() {
    for_each_configuration_in_fibre(2, || {
        let path = temporary_path("written");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = File::open(&path, flags, Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(file.pwrite(b"a tail cut short", 5).unwrap(), 16);
        file.fsync().unwrap();
        // The five bytes before the offset of the write were never written, and are read as 0.
        let mut bytes = [1; 64];
        assert_eq!(file.pread(&mut bytes, 0).unwrap(), 21);
        assert_eq!(&bytes[..21], b"\0\0\0\0\0a tail cut short");
        assert_eq!(file.pread(&mut bytes, 21).unwrap(), 0);
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn concurrent_writes_go_to_their_offsets() {
    for_each_configuration_in_fibre(2, || {
        let path = temporary_path("many");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = File::open(&path, flags, Mode::RUSR | Mode::WUSR).unwrap();
        let file = std::sync::Arc::new(file);
        let fibres: Vec<_> = (0..100_u64)
            .map(|n| {
                let file = std::sync::Arc::clone(&file);
                crate::spawn(move || {
                    file.pwrite(&n.to_ne_bytes(), n * 8).unwrap();
                    let mut bytes = [0; 8];
                    file.pread(&mut bytes, n * 8).unwrap();
                    u64::from_ne_bytes(bytes)
                })
            })
            .collect();
        for (n, fibre) in (0..).zip(fibres) {
            assert_eq!(fibre.join().unwrap(), n);
        }
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn opening_a_missing_file_fails() {
    for_each_configuration_in_fibre(1, || {
        let opened = File::open(&temporary_path("missing"), OFlags::RDONLY, Mode::empty());
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn opening_a_file_fails_in_a_cancelled_fibre() {
    for_each_configuration_in_fibre(1, || {
        let cancelled = crate::spawn(|| {
            crate::current().cancel();
            File::open(&temporary_path("cancelled"), OFlags::RDONLY, Mode::empty()).map(drop)
        });
        assert!(crate::is_cancelled(&cancelled.join().unwrap().unwrap_err()));
    });
}

#[test]
fn panic_of_an_offloaded_call_resumes_in_the_fibre() {
    for_each_configuration_in_fibre(1, || {
        let panicked = crate::spawn(|| crate::offload(|| panic!("on purpose"))).join();
        let panic = panicked.map(drop).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
        assert_eq!(crate::offload(|| 7).unwrap(), 7);
    });
}
