//! What a program adds to the laboratory: kinds of trial, and experiments by name.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, suggestion};
use crate::experiment::Experiment;
use crate::kind::Entry;
use crate::limits;
use crate::plan::Options;

/// Kinds of trial and experiments, from the crates that have them.
#[derive(Debug, Clone, Copy)]
pub struct Laboratory {
    /// The kinds of trial, such as [`crate::MEASURED`].
    pub kinds: &'static [Entry],
    /// The experiments, by name.
    pub shipped: &'static [Shipped],
}

/// An experiment inside the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

impl Laboratory {
    /// Loads an experiment by its shipped name or by the path of a file (which contains a `/` or
    /// ends in `.toml`).
    ///
    /// # Errors
    /// There is no such experiment, or it is unreadable or invalid; the message names the place.
    pub fn load(&self, name_or_path: &str) -> Result<Experiment, Error> {
        if let Some(known) = self.shipped.iter().find(|it| it.name == name_or_path) {
            let parsed = self.parse(known.name, &format!("{}.toml", known.name), known.text);
            return parsed.map(|mut it| {
                it.is_shipped = true;
                it
            });
        }
        let path = Path::new(name_or_path);
        let is_toml = path.extension().is_some_and(|it| it == "toml");
        if !is_toml && !name_or_path.contains('/') && !path.is_file() {
            let names: Vec<&str> = self.shipped.iter().map(|it| it.name).collect();
            let near = suggestion(name_or_path, names.iter().copied());
            let names = names.join(", ");
            return Err(Error::Refused(format!(
                "no experiment `{name_or_path}`: it is neither a file nor shipped ({names}){near}"
            )));
        }
        let mut text = String::new();
        let file = File::open(path).map_err(Error::file("open", path))?;
        file.take(limits::EXPERIMENT_LEN + 1)
            .read_to_string(&mut text)
            .map_err(Error::file("read", path))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        self.parse(&name, name_or_path, &text)
    }

    /// Parses an experiment from `text`; messages call it `path`.
    ///
    /// # Errors
    /// It is invalid; the message names the place.
    pub fn parse(&self, name: &str, path: &str, text: &str) -> Result<Experiment, Error> {
        Experiment::parse_of(self.kinds, name, path, text)
    }

    /// The defaults of the options of a run: this program, and `runs` in the working directory.
    ///
    /// # Errors
    /// The running program's path is not known (`/proc` is not mounted).
    pub fn options(&self) -> Result<Options, Error> {
        let curtail = std::env::current_exe().map_err(Error::system("find the running program"))?;
        Ok(Options {
            quick: false,
            fresh: false,
            seed: None,
            servers: Vec::new(),
            into: None,
            runs: PathBuf::from("runs"),
            curtail,
            timeouts: limits::Timeouts::default(),
            kinds: self.kinds,
        })
    }
}
