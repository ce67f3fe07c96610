//! Writes a run folder: locks it, appends to it, resumes it.
//!
//! A trial's record is one line, written by one call and synchronised before the next trial begins.
//! A killed lab may leave an incomplete last line; resuming truncates it and repeats its trial.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use report::record::{Host, Plan, Record};
use serde::Serialize;

use crate::error::Error;
use crate::limits;
use crate::plan::Options;

const PLAN: &str = "plan.toml";
const HOST: &str = "host.json";
const TRIALS: &str = "trials.jsonl";
const LOCK: &str = "lock";
/// Exists once the last trial is recorded.
const COMPLETE: &str = "complete";
const REPORT: &str = "report.html";

/// A run folder, locked for this lab until it is dropped.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    trials: File,
    /// Locked while it is open; the kernel releases the lock however the lab ends.
    _lock: File,
}

pub(crate) type Opened = (RunFolder, Vec<Record>);

/// Opens the newest unfinished run of this plan by this build on this host, or begins a new one.
pub(crate) fn open(plan: &Plan, host: &Host, options: &Options) -> Result<Opened, Error> {
    if let Some(path) = &options.into {
        return open_named(path, plan, host, options.fresh);
    }
    if !options.fresh
        && let Some(path) = find_unfinished(&options.runs, plan, host)?
    {
        return RunFolder::resume(&path);
    }
    let path = create_stamped(&options.runs, plan)?;
    RunFolder::begin(&path, plan, host)
}

/// Opens the folder that the user named: a new one, or the same run unfinished.
fn open_named(path: &Path, plan: &Plan, host: &Host, fresh: bool) -> Result<Opened, Error> {
    let occupied = |problem: &str| refused(path, problem);
    if path.join(PLAN).exists() {
        if fresh {
            return Err(occupied(
                "already contains a run: name another folder, or remove this one",
            ));
        }
        if !is_same_run(path, plan, host) {
            return Err(occupied(
                "contains a run of another plan, build or server version: name another folder",
            ));
        }
        if let Some(difference) = difference_of_hosts(path, host) {
            return Err(elsewhere(path, &difference, "name another folder"));
        }
        return RunFolder::resume(path);
    }
    let is_empty = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => true,
    };
    if !is_empty {
        return Err(occupied(
            "is neither empty nor a run folder: name another folder",
        ));
    }
    RunFolder::begin(path, plan, host)
}

/// The newest folder of the same plan, build and host whose run has not ended or has no report.
fn find_unfinished(runs: &Path, plan: &Plan, host: &Host) -> Result<Option<PathBuf>, Error> {
    let Ok(entries) = fs::read_dir(runs) else {
        return Ok(None);
    };
    let prefix = format!("{}-", plan.experiment);
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&prefix))
        .collect();
    // Names end with the start time.
    names.sort_unstable_by(|a, b| b.cmp(a));
    let mut refused = None;
    for name in names.into_iter().take(limits::FOLDERS) {
        let path = runs.join(name);
        if !is_same_run(&path, plan, host) || is_finished(&path) {
            continue;
        }
        match difference_of_hosts(&path, host) {
            None => return Ok(Some(path)),
            Some(difference) => {
                refused.get_or_insert_with(|| {
                    elsewhere(&path, &difference, "begin a new run with --fresh")
                });
            }
        }
    }
    refused.map_or(Ok(None), Err)
}

/// The difference between the host on which a run began and `host`. None: there is none. Trials of
/// two hosts are not comparable, and the figures would not show the difference.
fn difference_of_hosts(path: &Path, host: &Host) -> Option<String> {
    let differences = read_host(path)?.differences(host).into_iter();
    let differences: Vec<String> = differences
        .map(|it| format!("{} `{}` there, `{}` here", it.what, it.first, it.second))
        .collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}

fn elsewhere(path: &Path, difference: &str, remedy: &str) -> Error {
    let problem = format!(
        "contains a run that began on another host, or before this host changed ({difference}): \
         their trials are not comparable; resume it there, or {remedy}"
    );
    refused(path, &problem)
}

fn read_host(path: &Path) -> Option<Host> {
    let written = fs::read_to_string(path.join(HOST)).ok()?;
    serde_json::from_str(&written).ok()
}

fn is_same_run(path: &Path, plan: &Plan, host: &Host) -> bool {
    let written = fs::read_to_string(path.join(PLAN));
    let same_plan = written.is_ok_and(|text| Plan::parse(&text).is_ok_and(|p| p == *plan));
    let same_build = read_host(path).is_some_and(|written| written.curtail == host.curtail);
    same_plan && same_build
}

fn is_finished(path: &Path) -> bool {
    path.join(COMPLETE).exists() && path.join(REPORT).exists()
}

fn create_stamped(runs: &Path, plan: &Plan) -> Result<PathBuf, Error> {
    fs::create_dir_all(runs).map_err(Error::file("create", runs))?;
    let quick = if plan.quick { "-quick" } else { "" };
    let stamp = stamp(sys::clock::unix_ns());
    let base = format!("{}-{stamp}", plan.experiment);
    let mut path = runs.join(format!("{base}{quick}"));
    for count in 2..100 {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                path = runs.join(format!("{base}-{count}{quick}"));
            }
            Err(error) => return Err(Error::file("create", &path)(error)),
        }
    }
    let problem = "and similar names exist already: remove some folders";
    Err(refused(&path, problem))
}

/// The time in a folder's name: `YYYYMMDD-HHMMSS`, UTC.
fn stamp(unix_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(unix_ns);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace(['-', ':', 'Z'], "").replace('T', "-")
}

impl RunFolder {
    /// Begins a run. The plan is written last, so that a folder with a plan is complete.
    fn begin(path: &Path, plan: &Plan, host: &Host) -> Result<Opened, Error> {
        for name in ["histograms", "logs", "series"] {
            let folder = path.join(name);
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        }
        let opened = Self::resume(path)?;
        write_synced(&path.join(HOST), &json(host, "the host's inventory", true)?)?;
        let text = toml::to_string(plan).map_err(|error| Error::encode("the plan", error))?;
        write_synced(&path.join(PLAN), text.as_bytes())?;
        Ok(opened)
    }

    /// Locks a folder, and truncates an incomplete last line.
    fn resume(path: &Path) -> Result<Opened, Error> {
        let lock = lock(path)?;
        let trials_path = path.join(TRIALS);
        let trials = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&trials_path)
            .map_err(Error::file("open", &trials_path))?;
        let (done, whole_len) = read_trials(&trials_path)?;
        trials
            .set_len(whole_len)
            .map_err(Error::file("cut", &trials_path))?;
        let folder = Self {
            path: path.to_owned(),
            trials,
            _lock: lock,
        };
        Ok((folder, done))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn log(&self, id: &str, of: &str) -> PathBuf {
        self.path.join("logs").join(format!("{id}.{of}"))
    }

    /// Writes a file of the folder durably. Its parent must be one of the folder's own.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        write_synced(&self.path.join(path), content)
    }

    pub(crate) fn finish(&self) -> Result<(), Error> {
        write_synced(&self.path.join(COMPLETE), b"")
    }

    /// Writes a trial's record durably. Its artefacts are written before it.
    pub(crate) fn append(&mut self, record: &Record) -> Result<(), Error> {
        let mut line = json(record, "a trial", false)?;
        line.push(b'\n');
        let path = self.path.join(TRIALS);
        let len = self
            .trials
            .metadata()
            .map_err(Error::file("inspect", &path))?
            .len();
        let most = report::limits::TRIALS_BYTES;
        if len + line.len() as u64 > most {
            let problem = format!(
                "would exceed {} MiB, more than a report reads: keep fewer numbers of each series, \
                 or make fewer trials",
                most >> 20
            );
            return Err(refused(&path, &problem));
        }
        self.trials
            .write_all(&line)
            .map_err(Error::file("append to", &path))?;
        self.trials
            .sync_data()
            .map_err(Error::file("synchronise", &path))
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    let lock_path = path.join(LOCK);
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&lock_path)
        .map_err(Error::file("open", &lock_path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&lock_path).unwrap_or_default();
            let holder = match holder.trim() {
                "" => String::new(),
                process => format!(" (process {process})"),
            };
            let problem = format!(
                "is in use by another lab{holder}: wait for it, stop it, or name another folder"
            );
            return Err(refused(path, &problem));
        }
        Err(TryLockError::Error(error)) => return Err(Error::file("lock", &lock_path)(error)),
    }
    // The process id is for messages only; the kernel holds the lock.
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(Error::file("write", &lock_path))?;
    Ok(file)
}

/// The recorded trials, and the length of the file without an incomplete last line.
fn read_trials(path: &Path) -> Result<(Vec<Record>, u64), Error> {
    let most = report::limits::TRIALS_BYTES;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::file("open", path))?;
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::file("read", path))?;
    if bytes.len() as u64 > most {
        let most = most >> 20;
        let problem = format!("is larger than {most} MiB: begin a new run with --fresh");
        return Err(refused(path, &problem));
    }
    let mut trials = Vec::new();
    let mut whole_len = 0;
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let end = whole_len + line.len();
        match serde_json::from_slice::<Record>(line) {
            Ok(trial) if line.ends_with(b"\n") => trials.push(trial),
            // Incomplete, or filled with zeros after a crash of the machine.
            _ if end == bytes.len() => break,
            Ok(_) => {}
            Err(error) => {
                let problem = format!(
                    "is damaged in line {}: {error}; repair the line, or begin a new run with \
                     --fresh",
                    index + 1
                );
                return Err(refused(path, &problem));
            }
        }
        whole_len = end;
    }
    Ok((trials, whole_len as u64))
}

fn refused(path: &Path, problem: &str) -> Error {
    Error::Refused(format!("{} {problem}", path.display()))
}

fn json<T: Serialize>(value: &T, what: &str, pretty: bool) -> Result<Vec<u8>, Error> {
    let text = if pretty {
        serde_json::to_vec_pretty(value)
    } else {
        serde_json::to_vec(value)
    };
    text.map_err(|error| Error::encode(what, error))
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = File::create(path).map_err(Error::file("create", path))?;
    file.write_all(bytes).map_err(Error::file("write", path))?;
    file.sync_data().map_err(Error::file("synchronise", path))
}

#[cfg(test)]
mod tests;
