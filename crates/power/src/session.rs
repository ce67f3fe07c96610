//! A session sets knobs; its guard restores them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use sys::child::{Bounds, bind};

use crate::error::Error;
use crate::guard::{JOURNAL, SAVED, Saved, restore_journal};
use crate::knob::Knob;
use crate::root::Root;

/// Knobs are set while this value lives. Dropping it restores them too, but tells nothing.
#[derive(Debug)]
pub struct Session {
    root: Root,
    guard: Child,
    /// None: the guard was told to restore.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    report: ChildStderr,
}

impl Session {
    /// Starts the guard: `command` must run [`crate::guard::serve`] on its standard input and
    /// output, on the same root.
    ///
    /// # Errors
    /// It cannot be started, or another session has a guard.
    pub fn begin(root: &Root, mut command: Command) -> Result<Self, Error> {
        let bounds = Bounds {
            own_session: true,
            ..Bounds::default()
        };
        bind(&mut command, &bounds).map_err(Error::Guard)?;
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut guard = pipes.spawn().map_err(Error::Guard)?;
        let (Some(input), Some(output), Some(report)) =
            (guard.stdin.take(), guard.stdout.take(), guard.stderr.take())
        else {
            return Err(Error::Guard(io::ErrorKind::BrokenPipe.into()));
        };
        let mut session = Self {
            root: root.clone(),
            guard,
            input: Some(input),
            output: BufReader::new(output),
            report,
        };
        match session.acknowledged() {
            Ok(()) => Ok(session),
            Err(_) if root.path(JOURNAL).exists() => Err(Error::Busy(root.path(JOURNAL))),
            Err(error) => Err(Error::Guard(error)),
        }
    }

    /// Sets a knob. Each place is saved by the guard before it is written.
    ///
    /// # Errors
    /// The value is out of bounds, the guard is gone, or the kernel refuses the value. Places that
    /// were written before are restored at the end.
    pub fn set(&mut self, knob: &Knob, value: &str) -> Result<(), Error> {
        let name = knob.name.text();
        let writes = knob
            .writes(value)
            .map_err(|problem| Error::Value { name, problem })?;
        for (place, text) in writes {
            let refused = |source: io::Error| Error::Place {
                name,
                place: place.to_string(),
                source,
            };
            let before = place.read(&self.root).map_err(refused)?;
            let saved = Saved {
                place: place.clone(),
                value: before,
            };
            self.save(&saved).map_err(Error::Guard)?;
            place.write(&self.root, &text).map_err(refused)?;
        }
        Ok(())
    }

    /// Restores all, and returns what could not be: empty if all is as it was. If the guard was
    /// killed, this process restores from its journal.
    ///
    /// # Errors
    /// The guard was killed, and its journal cannot be read: it is left.
    pub fn end(mut self) -> Result<String, Error> {
        self.input = None;
        let mut report = String::new();
        let read = self.report.read_to_string(&mut report);
        let status = self.guard.wait().map_err(Error::Guard)?;
        if status.code().is_some() && read.is_ok() {
            return Ok(report.trim().to_owned());
        }
        match restore_journal(&self.root) {
            Ok(Some(restored)) => Ok(restored.failed.join("\n")),
            Ok(None) | Err(_) => Err(Error::GuardKilled(self.root.path(JOURNAL))),
        }
    }

    fn save(&mut self, saved: &Saved) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(saved.line().as_bytes())?;
        input.flush()?;
        self.acknowledged()
    }

    fn acknowledged(&mut self) -> io::Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.trim_end() == SAVED {
            true => Ok(()),
            false => Err(io::Error::other("the guard has ended")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.guard.wait();
    }
}
