//! The process that restores what a session has changed, however the session ends.
//!
//! ```text
//!  session ── place, value ──▶ guard: saved, and in the journal
//!          ◀───────── "ok" ──
//!          ── writes the place
//!          ── end of input (closed, or killed) ──▶ guard: restores all, removes the journal
//! ```
//!
//! The guard is the only one that restores, so an orderly end and SIGKILL take the same path. It is
//! in a session of its own: neither Ctrl-C nor a signal to the group of the rest reaches it. What
//! it has saved is also in a file, from which `curtail power restore` restores if guard and session
//! were killed together; a second session refuses to begin while that file exists.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Read, Write};

use crate::knob::Place;
use crate::limits;
use crate::root::Root;

/// The journal, below the root.
pub const JOURNAL: &str = "run/curtail-power.saved";
/// The answer to a saved place.
pub(crate) const SAVED: &str = "ok";

/// A place and the value that it had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The place.
    pub place: Place,
    /// Its value.
    pub value: String,
}

impl Saved {
    /// Its line in the journal and on the way to the guard.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}\t{}\n", self.place, self.value)
    }

    /// Reads a line.
    ///
    /// # Errors
    /// It is no such line.
    pub fn parse(line: &str) -> Result<Self, String> {
        let (place, value) = line.trim_end().split_once('\t').ok_or("no tab")?;
        Ok(Self {
            place: place.parse()?,
            value: value.to_owned(),
        })
    }
}

/// What was restored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Places that have their value again.
    pub places: usize,
    /// Places that do not, and why.
    pub failed: Vec<String>,
}

/// Saves what arrives until the input ends, then restores it.
///
/// # Errors
/// The journal exists already or cannot be written. What was saved by then is restored.
pub fn serve(root: &Root, input: impl BufRead, output: impl Write) -> io::Result<Restored> {
    let path = root.path(JOURNAL);
    let mut journal = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    let mut saved = Vec::new();
    let ending = save(&mut journal, input, output, &mut saved);
    let restored = restore(root, &saved);
    // Kept for `curtail power restore` if a place is not as it was.
    if restored.failed.is_empty() {
        fs::remove_file(path)?;
    }
    ending.map(|()| restored)
}

fn save(
    journal: &mut fs::File,
    mut input: impl BufRead,
    mut output: impl Write,
    saved: &mut Vec<Saved>,
) -> io::Result<()> {
    // Before the first place: the session knows that no other one runs.
    answer(&mut output)?;
    let mut seen = HashSet::new();
    while saved.len() < limits::SAVED {
        let mut line = String::new();
        let len = input.by_ref().take(limits::LINE_LEN).read_line(&mut line)?;
        if len == 0 || !line.ends_with('\n') {
            return Ok(());
        }
        let entry = Saved::parse(&line).map_err(io::Error::other)?;
        if seen.insert(entry.place.clone()) {
            journal.write_all(line.as_bytes())?;
            // What a machine that loses power would forget is also forgotten by sysfs.
            journal.flush()?;
            saved.push(entry);
        }
        answer(&mut output)?;
    }
    Ok(())
}

fn answer(output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "{SAVED}")?;
    output.flush()
}

/// Restores places, the last saved first. What fails is tried again after the others: the kernel
/// refuses a lowest frequency above the highest, whichever is written first.
#[must_use]
pub fn restore(root: &Root, saved: &[Saved]) -> Restored {
    let mut left: Vec<(&Saved, String)> =
        saved.iter().rev().map(|it| (it, String::new())).collect();
    for _ in 0..limits::RESTORE_PASSES {
        left.retain_mut(|(entry, problem)| {
            match restore_one(root, entry) {
                Ok(()) => return false,
                Err(why) => *problem = why,
            }
            true
        });
    }
    Restored {
        places: saved.len() - left.len(),
        failed: left
            .into_iter()
            .map(|(entry, why)| format!("{}: {why}", entry.place))
            .collect(),
    }
}

fn restore_one(root: &Root, saved: &Saved) -> Result<(), String> {
    let written = saved.place.write(root, &saved.value);
    match saved.place.read(root) {
        Ok(value) if value == saved.value => Ok(()),
        Ok(value) => Err(match written {
            Ok(()) => format!("is {value}, not {}", saved.value),
            Err(error) => format!("is {value}, not {}: {error}", saved.value),
        }),
        Err(error) => Err(error.to_string()),
    }
}

/// Restores what a guard that was killed has left in its journal. None: there is no journal.
///
/// # Errors
/// The journal cannot be read or removed. A line that was cut off is left out: its place was never
/// written, since the session waits for the answer.
pub fn restore_journal(root: &Root) -> io::Result<Option<Restored>> {
    let path = root.path(JOURNAL);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let whole = text.split_inclusive('\n').filter(|it| it.ends_with('\n'));
    let saved: Result<Vec<Saved>, String> = whole.map(Saved::parse).collect();
    let restored = restore(root, &saved.map_err(io::Error::other)?);
    if restored.failed.is_empty() {
        fs::remove_file(path)?;
    }
    Ok(Some(restored))
}
