//! `curtail disk hold`: files that stay in memory, whatever else is read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use sys::limits::raise_locked_memory;
use sys::page_cache::Mapping;
use sys::signals::Signals;

use crate::stop;

/// The flags of `curtail disk hold`.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Files, and folders whose files are held; not those in folders below
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// The files that are locked in memory, until this value is dropped.
#[derive(Default)]
struct Held {
    mappings: Vec<Mapping>,
    bytes: u64,
}

/// Holds files until the process is stopped.
pub(super) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let signals = Signals::block().context("take over the signals")?;
    raise_locked_memory();
    let mut held = Held::default();
    for path in &flags.paths {
        held.add(path)
            .with_context(|| format!("hold {} in memory", path.display()))?;
    }
    let (count, size) = (held.mappings.len(), units::show_size(held.bytes));
    println!("holds {count} files, {size}, in memory");
    io::stdout().flush().context("print")?;
    stop::wait(&signals, None).context("wait for a signal")?;
    Ok(ExitCode::SUCCESS)
}

impl Held {
    /// Adds a file, or the files of a folder. An empty file needs no memory.
    fn add(&mut self, path: &Path) -> io::Result<()> {
        if !path.is_dir() {
            return self.add_file(path);
        }
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            if path.is_file() {
                self.add_file(&path)?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        if len > 0 {
            let mapping = Mapping::new(&file, len)?;
            mapping.lock().map_err(|error| {
                let text = format!("{error} (raise the limit of locked memory: ulimit -l)");
                io::Error::new(error.kind(), text)
            })?;
            self.mappings.push(mapping);
            self.bytes += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_folders_and_single_files_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, len| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, vec![1; len]).unwrap();
            path
        };
        let single = file("single", 5000);
        for (name, len) in [("a/one", 100_000), ("a/empty", 0), ("a/below/two", 7)] {
            file(name, len);
        }
        let mut held = Held::default();
        held.add(&single).unwrap();
        held.add(&folder.path().join("a")).unwrap();
        assert_eq!((held.mappings.len(), held.bytes), (2, 105_000));
        let of_process = fs::read_to_string("/proc/self/status").unwrap();
        let locked = of_process.lines().find(|it| it.starts_with("VmLck:"));
        let locked = locked.unwrap().split_whitespace().nth(1).unwrap();
        assert!(locked.parse::<u64>().unwrap() >= 105, "{locked} kB");
        assert!(held.add(&folder.path().join("absent")).is_err());
    }
}
