//! Files, through the ring or through threads that block for fibres.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a failing test says where"
)]

#[path = "common/each.rs"]
mod each;

use std::io::ErrorKind;
use std::path::PathBuf;

use each::each_inside;
use fibre::File;
use rustix::fs::{Mode, OFlags};

/// A place for a file that nobody else uses.
fn place(name: &str) -> PathBuf {
    let name = format!("fibre-{}-{name}", std::process::id());
    std::env::temp_dir().join(name)
}

#[test]
fn what_was_written_is_read() {
    each_inside(2, || {
        let path = place("written");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = File::open(&path, flags, Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(file.pwrite(b"a tail cut short", 5).unwrap(), 16);
        file.fsync().unwrap();
        let mut bytes = [1; 64];
        assert_eq!(file.pread(&mut bytes, 0).unwrap(), 21);
        assert_eq!(&bytes[..21], b"\0\0\0\0\0a tail cut short");
        assert_eq!(file.pread(&mut bytes, 21).unwrap(), 0);
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn many_at_once_keep_to_their_places() {
    each_inside(2, || {
        let path = place("many");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = File::open(&path, flags, Mode::RUSR | Mode::WUSR).unwrap();
        let file = std::sync::Arc::new(file);
        let fibres: Vec<_> = (0..100_u64)
            .map(|n| {
                let file = std::sync::Arc::clone(&file);
                fibre::spawn(move || {
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
fn what_is_not_there_is_not_opened() {
    each_inside(1, || {
        let opened = File::open(&place("missing"), OFlags::RDONLY, Mode::empty());
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_cancelled_fibre_opens_no_file() {
    each_inside(1, || {
        let told = fibre::spawn(|| {
            fibre::current().cancel();
            File::open(&place("told"), OFlags::RDONLY, Mode::empty()).map(drop)
        });
        assert!(fibre::is_cancelled(&told.join().unwrap().unwrap_err()));
    });
}

#[test]
fn a_panic_of_a_call_made_elsewhere_is_the_fibres() {
    each_inside(1, || {
        let panicked = fibre::spawn(|| fibre::offload(|| panic!("elsewhere"))).join();
        let panic = panicked.map(drop).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"elsewhere"));
        assert_eq!(fibre::offload(|| 7).unwrap(), 7);
    });
}
