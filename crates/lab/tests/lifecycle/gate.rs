//! The test's side: a folder with the scripts, and the gate to which all fake processes connect.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lab::Options;
use tempfile::TempDir;

/// Long enough for the slowest machine; reached only by a test that fails.
const AT_MOST: Duration = Duration::from_secs(60);

/// A folder for runs, the fake programs, and the gate.
pub(crate) struct Fixture {
    folder: TempDir,
    gate: Arc<Mutex<Gate>>,
    held: Receiver<()>,
}

#[derive(Default)]
struct Gate {
    /// Name of each process, and its connection, which closes when the process exits.
    visitors: Vec<(String, UnixStream)>,
    /// The generator, counted from 1, that is held and therefore hangs.
    hold: Option<usize>,
    generators: usize,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gate = Arc::new(Mutex::new(Gate::default()));
        let (tell, held) = channel();
        let listener = UnixListener::bind(folder.path().join("gate")).unwrap();
        let shared = Arc::clone(&gate);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                shared.lock().unwrap().admit(stream.unwrap(), &tell);
            }
        });
        let fixture = Self { folder, gate, held };
        let program = std::env::current_exe().unwrap();
        let folder = fixture.folder.path().display();
        let become_fake = format!(
            "FAKE_FOLDER='{folder}' FAKE=\"$*\" exec '{}' --exact fake::process --nocapture \
             3>&1 >/dev/null",
            program.display()
        );
        fixture.script("fake", &become_fake);
        fixture.script("deaf", &format!("trap '' TERM\n{become_fake}"));
        fixture.script("wrapped", &format!("'{folder}/fake' \"$@\" & wait"));
        let refuse = "if [ \"$1\" = load ]; then echo fake refusal >&2; exit 7; fi";
        fixture.script("no-generator", &format!("{refuse}\n{become_fake}"));
        fixture
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options under which the fake program stands for this build.
    pub(crate) fn options(&self) -> Options {
        Options {
            runs: self.path("runs"),
            curtail: self.path("fake"),
            ..Options::new().unwrap()
        }
    }

    /// From now on the `nth` generator, counted from 1, hangs.
    pub(crate) fn hold_generator(&self, nth: usize) {
        let mut gate = self.gate.lock().unwrap();
        gate.generators = 0;
        gate.hold = Some(nth);
    }

    pub(crate) fn wait_for_held(&self) {
        self.held
            .recv_timeout(AT_MOST)
            .expect("no generator came to be held");
        self.gate.lock().unwrap().hold = None;
    }

    /// Waits for the end of every process that passed the gate.
    pub(crate) fn assert_no_processes_left(&self) {
        let visitors = std::mem::take(&mut self.gate.lock().unwrap().visitors);
        assert!(!visitors.is_empty(), "no process connected");
        for (name, mut stream) in visitors {
            stream.set_read_timeout(Some(AT_MOST)).unwrap();
            match stream.read(&mut [0; 1]) {
                Ok(0) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
                left => panic!("{name} is left behind: {left:?}"),
            }
        }
    }
}

impl Gate {
    fn admit(&mut self, mut stream: UnixStream, tell: &Sender<()>) {
        let mut name = String::new();
        BufReader::new(&stream).read_line(&mut name).unwrap();
        if name.starts_with("generator") {
            self.generators += 1;
            if self.hold == Some(self.generators) {
                tell.send(()).unwrap();
            } else {
                // It fails only where the process was killed meanwhile.
                let _ = stream.write_all(b"go\n");
            }
        }
        self.visitors.push((name, stream));
    }
}
