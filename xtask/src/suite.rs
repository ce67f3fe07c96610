//! Running tests, so that what is shown fits a screen: a line for each test program, and what its
//! failed tests said. All of it is in a log, whose path is printed first.
//!
//! `cargo test` of this workspace prints some five thousand lines, most of them panics and server
//! messages that tests provoke. Where a record keeps only so much of a run, the one line that
//! matters was not in it.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::tally::Tally;

/// Lines shown at most of what one program said of its failures, the last ones.
const LINES_SHOWN: usize = 300;

/// How often it is looked whether cargo has ended, where it says nothing.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long is listened after that, to a process some test left behind with the output open.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Lines on their way from the reader.
const LINES_AHEAD: usize = 1024;

/// All tests of the workspace, or those `arguments` of `cargo test` choose, and their sum.
pub(crate) fn run_and_print(arguments: &[String]) -> Result<()> {
    let mut tally = Tally::default();
    let outcome = if arguments.is_empty() {
        all(&mut tally)
    } else {
        let mut line = vec!["test"];
        line.extend(arguments.iter().map(String::as_str));
        run(cargo::command(&line), "test", &mut tally)
    };
    println!("{tally}");
    outcome
}

/// Every test of the workspace, counted into `tally`; an error unless all of them held.
pub(crate) fn all(tally: &mut Tally) -> Result<()> {
    // Every program runs, so that the sum is of all of them.
    let line = [
        "test",
        "--workspace",
        "--no-fail-fast",
        "--",
        "--show-output",
    ];
    let mut command = cargo::command(&line);
    if std::env::var_os("CURTAIL").is_none() {
        command.env("CURTAIL", built("curtail")?);
    }
    run(command, "test", tally)
}

/// A program as `cargo test --workspace` builds it, before it runs any test: Cargo builds it for
/// the tests of its own package. To build it alone would build its dependencies again, with other
/// features.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    Ok(cargo::metadata()?.target_directory.join("debug").join(name))
}

/// Runs a `cargo test` and counts into `tally`; an error, with the names of those that failed,
/// unless all tests held. What it prints is kept as `log`.
pub(crate) fn run(mut command: Command, log: &str, tally: &mut Tally) -> Result<()> {
    let spoken = cargo::spoken(&command);
    let folder = cargo::target_apart("ci");
    fs::create_dir_all(&folder)
        .with_context(|| format!("failed to create {}", folder.display()))?;
    let path = folder.join(format!("{log}.log"));
    let kept =
        File::create(&path).with_context(|| format!("failed to write {}", path.display()))?;
    println!("$ {spoken}\n  all it prints: {}", path.display());

    // One pipe for both, so that their lines keep their order; plain, because it is read.
    let (output, writer) = io::pipe().context("failed to make a pipe")?;
    command
        .stdout(writer.try_clone().context("failed to share a pipe")?)
        .stderr(writer)
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_QUIET", "false");
    let mut child = command
        .spawn()
        .with_context(|| format!("failed to start `{spoken}`"))?;
    // With it goes the last end to write to that is not cargo's.
    drop(command);

    let (to, lines) = mpsc::sync_channel(LINES_AHEAD);
    let reader = thread::spawn(move || keep(BufReader::new(output), kept, &to));
    let mut shown = Shown::new(tally, io::stdout().lock());
    let status = match follow(&mut child, &lines, &mut shown) {
        Ok(status) => status,
        Err(error) => {
            // Cargo would start more programs, and nobody listens. It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    let failed = shown.end(status.success())?;
    // It may still read what a process left behind prints.
    if lines.try_recv() == Err(TryRecvError::Disconnected)
        && let Ok(outcome) = reader.join()
    {
        outcome.with_context(|| format!("failed to keep the output in {}", path.display()))?;
    }
    if !status.success() {
        let names = if failed.is_empty() {
            String::new()
        } else {
            format!(": {}", failed.join(", "))
        };
        bail!(
            "`{spoken}` ended with {status}{names}; all it printed is in {}",
            path.display()
        );
    }
    Ok(())
}

/// Shows what cargo says until it has ended.
fn follow(
    child: &mut Child,
    lines: &Receiver<String>,
    shown: &mut Shown<'_, impl Write>,
) -> Result<ExitStatus> {
    let mut ended = None;
    loop {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => shown.take(&line)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if ended.is_none() {
            let status = child.try_wait().context("failed to wait for cargo")?;
            ended = status.map(|_| Instant::now());
        }
        if ended.is_some_and(|ended| ended.elapsed() > AFTERWARDS) {
            for line in lines.try_iter().take(LINES_AHEAD) {
                shown.take(&line)?;
            }
            break;
        }
    }
    child.wait().context("failed to wait for cargo")
}

/// Copies what is read into the log and, by lines, to whoever shows it.
fn keep(mut from: impl BufRead, mut log: File, to: &SyncSender<String>) -> io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        log.write_all(&line)?;
        if to
            .send(String::from_utf8_lossy(&line).trim_end().to_owned())
            .is_err()
        {
            // Nobody listens any more: cargo has ended.
            break;
        }
        line.clear();
    }
    Ok(())
}

/// The last lines of something.
#[derive(Default)]
struct Tail {
    lines: VecDeque<String>,
    /// Lines that came before.
    dropped: usize,
}

impl Tail {
    fn push(&mut self, line: &str) {
        if self.lines.len() == LINES_SHOWN {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line.to_owned());
    }

    fn show(&self, to: &mut impl Write) -> io::Result<()> {
        if self.dropped > 0 {
            writeln!(to, "({} lines before these are in the log)", self.dropped)?;
        }
        for line in &self.lines {
            writeln!(to, "{line}")?;
        }
        Ok(())
    }
}

/// Where in cargo's output a line is.
#[derive(PartialEq, Eq)]
enum Place {
    /// Cargo itself speaks: it builds, or says what failed.
    Cargo,
    /// A test program runs.
    Program,
    /// It tells what its failed tests printed.
    Failures,
}

/// Cargo's output, read for what is worth showing.
struct Shown<'a, W> {
    tally: &'a mut Tally,
    to: W,
    place: Place,
    /// The program that runs, or ran last.
    program: String,
    /// What was said where we are.
    said: Tail,
    /// Tests named as failed by the program that runs.
    named: Vec<String>,
    /// Those of all programs.
    failed: Vec<String>,
}

impl<'a, W: Write> Shown<'a, W> {
    fn new(tally: &'a mut Tally, to: W) -> Self {
        Self {
            tally,
            to,
            place: Place::Cargo,
            // Of which cargo was told not to speak.
            program: "a program".to_owned(),
            said: Tail::default(),
            named: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn take(&mut self, line: &str) -> Result<()> {
        self.tally.take(line);
        if let Some(program) = program_of(line) {
            self.leave()?;
            program.clone_into(&mut self.program);
            self.place = Place::Program;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.result(result)?;
        } else if line == "failures:" {
            // It comes twice: before what they printed, and before their names.
            if self.place != Place::Failures {
                self.said = Tail::default();
                self.place = Place::Failures;
            }
            self.named.clear();
        } else {
            if let (Place::Failures, Some(name)) = (&self.place, line.strip_prefix("    ")) {
                self.named.push(name.to_owned());
            }
            self.said.push(line);
        }
        Ok(())
    }

    /// A program has ended as it should, whatever its tests did.
    fn result(&mut self, result: &str) -> Result<()> {
        if self.place == Place::Failures {
            self.show_said()?;
        }
        for name in self.named.drain(..) {
            self.failed.push(format!("{name} ({})", self.program));
        }
        self.said = Tail::default();
        self.place = Place::Cargo;
        let is_empty = result.contains(" 0 passed; 0 failed; 0 ignored;");
        if is_empty && result.contains(" 0 filtered out") {
            return Ok(());
        }
        let short = result.replace(" 0 measured; 0 filtered out;", "");
        let told = writeln!(self.to, "{:<16} {short}", self.program);
        told.and_then(|()| self.to.flush())
            .context("failed to show a result")
    }

    /// Whatever comes now, the program before it ran to its result or did not.
    fn leave(&mut self) -> Result<()> {
        if self.place != Place::Cargo {
            self.show_said()?;
            writeln!(self.to, "{}: ended without a result", self.program)
                .context("failed to show an end")?;
            self.failed.push(format!("all of {}", self.program));
            self.place = Place::Cargo;
        }
        self.said = Tail::default();
        Ok(())
    }

    fn show_said(&mut self) -> Result<()> {
        let told = writeln!(self.to, "\n── {}", self.program);
        told.and_then(|()| self.said.show(&mut self.to))
            .context("failed to show what was said")
    }

    /// Cargo has ended, well or not: the names of the tests that failed.
    fn end(mut self, well: bool) -> Result<Vec<String>> {
        if !well && self.place == Place::Cargo {
            self.said
                .show(&mut self.to)
                .context("failed to show what cargo said")?;
        }
        self.leave()?;
        Ok(self.failed)
    }
}

/// The test program cargo says it starts: the name of its file without the hash, or `Doc-tests`
/// and the crate.
fn program_of(line: &str) -> Option<&str> {
    if line.starts_with("   Doc-tests ") {
        return Some(line.trim_start());
    }
    let (_, path) = line
        .strip_prefix("     Running ")?
        .strip_suffix(')')?
        .rsplit_once(" (")?;
    let file = path.rsplit('/').next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_of(output: &str, well: bool) -> (String, Vec<String>, Tally) {
        let mut tally = Tally::default();
        let mut to = Vec::new();
        let mut shown = Shown::new(&mut tally, &mut to);
        for line in output.lines() {
            shown.take(line).unwrap();
        }
        let failed = shown.end(well).unwrap();
        (String::from_utf8(to).unwrap(), failed, tally)
    }

    #[test]
    fn programs_that_held_are_a_line_each() {
        let (shown, failed, tally) = shown_of(
            "   Compiling store v0.1.0\n\
             \x20    Running unittests src/lib.rs (target/debug/deps/store-15651c8d91e76124)\n\
             running 2 tests\n\
             thread 'a' panicked at b.rs:1:1, as a test wanted it to\n\
             test a ... ok\n\
             test result: ok. 46 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
             finished in 5.83s\n\
             \x20    Running unittests src/main.rs (target/debug/deps/calibrate-6af7)\n\
             test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 0.00s\n\
             \x20  Doc-tests store\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 0.10s\n",
            true,
        );
        assert_eq!(
            shown,
            "store            ok. 46 passed; 0 failed; 1 ignored; finished in 5.83s\n\
             Doc-tests store  ok. 1 passed; 0 failed; 0 ignored; finished in 0.10s\n"
        );
        assert!(failed.is_empty());
        assert_eq!(tally.to_string(), "47 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_failed_test_is_shown_with_its_output_and_name() {
        let (shown, failed, _) = shown_of(
            "     Running tests/edges.rs (target/debug/deps/edges-0a8c)\n\
             chatter\n\
             \n\
             failures:\n\
             \n\
             ---- slow stdout ----\n\
             thread 'slow' panicked at edges.rs:3:5:\n\
             \x20   left: 1\n\
             \n\
             failures:\n\
             \x20   edges::slow\n\
             \n\
             test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 1s\n\
             error: test failed, to rerun pass `-p curtail-tests --test edges`\n",
            false,
        );
        assert!(shown.contains("left: 1"), "{shown}");
        assert!(
            shown.contains("edges            FAILED. 3 passed; 1 failed"),
            "{shown}"
        );
        assert!(shown.ends_with("--test edges`\n"), "{shown}");
        assert!(!shown.contains("chatter"), "{shown}");
        assert_eq!(failed, ["edges::slow (edges)"]);
    }

    #[test]
    fn a_program_that_ends_without_a_result_shows_its_last_words() {
        let (shown, failed, _) = shown_of(
            "     Running tests/torn.rs (target/debug/deps/torn-d43b)\n\
             running 1 test\n\
             memory allocation of 16 bytes failed\n\
             \x20    Running tests/touch.rs (target/debug/deps/touch-797)\n\
             test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
            false,
        );
        assert!(
            shown.contains("memory allocation of 16 bytes failed\n"),
            "{shown}"
        );
        assert!(shown.contains("torn: ended without a result\n"), "{shown}");
        assert_eq!(failed, ["all of torn"]);
    }

    #[test]
    fn what_does_not_compile_is_shown_and_only_the_end_of_what_is_long() {
        let mut output = "error[E0308]: first\n".to_owned();
        for line in 0..LINES_SHOWN {
            output.push_str(&format!("note {line}\n"));
        }
        let (shown, failed, _) = shown_of(&output, false);
        assert!(
            shown.starts_with("(1 lines before these are in the log)\nnote 0\n"),
            "{shown}"
        );
        assert!(failed.is_empty());
        assert_eq!(shown_of(&output, true).0, "", "it was only talk");
    }

    #[test]
    fn a_filter_that_matches_nothing_shows() {
        let (shown, ..) = shown_of(
            "     Running unittests src/lib.rs (target/debug/deps/store-1565)\n\
             test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 46 filtered out; \
             finished in 0.00s\n",
            true,
        );
        assert!(shown.contains("46 filtered out"), "{shown}");
    }

    /// Runs a shell as if it were cargo; also what is in its log.
    fn run_shell(script: &str, name: &str) -> (Result<()>, Tally, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut tally = Tally::default();
        let log = format!("suite-test-{name}-{}", std::process::id());
        let outcome = run(command, &log, &mut tally);
        let path = cargo::target_apart("ci").join(format!("{log}.log"));
        let kept = fs::read_to_string(&path).unwrap();
        fs::remove_file(path).unwrap();
        (outcome, tally, kept)
    }

    #[test]
    fn a_leftover_process_with_the_output_open_is_not_waited_for() {
        let start = Instant::now();
        let script = "(for i in $(seq 600); do echo chatter; sleep 0.05; done) & \
             echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'; \
             exit 0";
        let (outcome, tally, _) = run_shell(script, "left");
        outcome.unwrap();
        assert_eq!(tally.to_string(), "3 passed, 0 failed, 0 skipped");
        assert!(start.elapsed() < Duration::from_secs(15));
    }

    #[test]
    fn what_fails_is_named_and_all_it_printed_is_kept() {
        let script = "echo 'thread panicked' >&2; echo failures:; echo '    slow'; \
             echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101";
        let (outcome, tally, kept) = run_shell(script, "failed");
        let told = outcome.unwrap_err().to_string();
        assert!(told.contains("slow (a program)"), "{told}");
        assert_eq!(tally.to_string(), "0 passed, 1 failed, 0 skipped");
        assert!(kept.starts_with("thread panicked\n"), "{kept}");
    }
}
