//! `curtail files`: makes the files that `curtail load --protocol http` requests.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use workload::WebFiles;
use workload::limits::KEY_LEN_MAX;

/// The flags of `curtail files`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the files in a folder: 36 files of 5 MB in each of its directories, of 100 B to 900 kB.
    Make(MakeFlags),
}

#[derive(Debug, Args)]
struct MakeFlags {
    /// Folder; it is made if there is none
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Total size, such as 3GB, or directories=600
    #[arg(long, value_name = "FILES", value_parser = web_files)]
    files: WebFiles,

    /// Seed of the bytes; `curtail load --verify` takes it as --files SIZE,seed=N [default: 1, or
    /// that of --files]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Parses a file set, whose size may have a unit.
pub(crate) fn web_files(text: &str) -> anyhow::Result<WebFiles> {
    let (extent, seed) = match text.split_once(',') {
        Some((extent, seed)) => (extent, format!(",{seed}")),
        None => (text, String::new()),
    };
    let plain = match units::size_bytes(extent) {
        Ok(bytes) => format!("{bytes}{seed}"),
        Err(_) => text.to_owned(),
    };
    Ok(plain.parse()?)
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let Command::Make(flags) = &flags.command;
    let files = match flags.seed {
        Some(seed) => flags.files.with_seed(seed),
        None => flags.files,
    };
    make(&flags.folder, &files)?;
    println!(
        "{}: {} files, {}, in {} directories; request them with --files {files}",
        flags.folder.display(),
        files.files(),
        units::show_size(files.bytes()),
        files.directories()
    );
    Ok(ExitCode::SUCCESS)
}

/// Makes all files. A file of the same name is replaced; others are left alone.
fn make(folder: &Path, files: &WebFiles) -> anyhow::Result<()> {
    if folder.is_file() {
        bail!(
            "make files in {}: it is a file; give a folder",
            folder.display()
        );
    }
    let mut bytes = Vec::new();
    let mut buffer = [0; KEY_LEN_MAX];
    for file in 0..files.files() {
        let path = WebFiles::path(file, &mut buffer);
        let path = std::str::from_utf8(path).context("the path of a file")?;
        let path = folder.join(path.trim_start_matches('/'));
        if let Some(directory) = path.parent()
            && file % WebFiles::FILES_PER_DIRECTORY == 0
        {
            let context = || format!("make the folder {}", directory.display());
            fs::create_dir_all(directory).with_context(context)?;
        }
        bytes.resize(WebFiles::size(file) as usize, 0);
        files.fill(file, 0, &mut bytes);
        let context = || format!("write {}; is there space?", path.display());
        let mut file = File::create(&path).with_context(context)?;
        file.write_all(&bytes).with_context(context)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_may_have_units_and_seeds() {
        let set = web_files("3GB,seed=4").unwrap();
        assert_eq!((set.directories(), set.seed()), (600, 4));
        assert_eq!(web_files("directories=600,seed=4").unwrap(), set);
        let error = web_files("3 sheep").unwrap_err().to_string();
        assert!(
            error.starts_with("`3 sheep` is no file set: give directories=600"),
            "{error}"
        );
    }

    #[test]
    fn files_have_the_sizes_and_the_bytes_of_the_set() {
        let folder = tempfile::tempdir().unwrap();
        let set = WebFiles::new(2, 5).unwrap();
        make(folder.path(), &set).unwrap();
        let last = fs::read(folder.path().join("dir00001/class3_9")).unwrap();
        assert_eq!(last.len(), 900_000);
        assert!(set.matches(71, 0, &last) && !set.matches(35, 0, &last));
        let entries = fs::read_dir(folder.path().join("dir00000")).unwrap();
        assert_eq!(entries.count(), 36);
    }
}
