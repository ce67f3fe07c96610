//! The tables `[[server]]`: one of them runs in a trial. Their programs are found before the run,
//! and a server without one is skipped.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::beside::{Beside, Ready};
use crate::error::{Error, suggestion};
use crate::plan::Options;

/// The `program` of a server that is this program, with other arguments than those of `serve`.
const OWN_PROGRAM: &str = "{curtail}";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServerTable {
    pub(super) name: String,
    /// None: `serve` of this build.
    pub(super) program: Option<String>,
    pub(super) arguments: Vec<String>,
    /// A program and its arguments that run the server, such as `chrt`. The process must become the
    /// server: what is measured is its.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) under: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) environment: BTreeMap<String, String>,
    /// None: it answers memcached's `version`.
    pub(super) ready: Option<Ready>,
    /// Whether the records are stored before the load.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(super) prefill: bool,
    /// Found on this machine: the program with its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<String>,
    pub(super) version: Option<String>,
    /// Why it takes no part.
    pub(super) skipped: Option<String>,
}

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_yes(value: &bool) -> bool {
    *value
}

impl ServerTable {
    pub(super) fn process(&self) -> Beside {
        let version = || Ready {
            version: true,
            ..Ready::default()
        };
        Beside {
            name: "server".to_owned(),
            command: self.command.clone(),
            host: super::Side::Server,
            environment: self.environment.clone(),
            ready: self.ready.clone().unwrap_or_else(version),
        }
    }
}

/// Resolves every server's program: first from the options, then from the environment variable
/// `CURTAIL_SERVER_NAME`, then from the file and the search path.
pub(super) fn resolve(
    servers: &mut [ServerTable],
    options: &Options,
    search_path: &OsStr,
    environment: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<(), Error> {
    for (name, path) in &options.servers {
        check_override(name, path, servers)?;
    }
    for server in &mut *servers {
        resolve_one(server, options, search_path, environment);
    }
    if servers.iter().all(|server| server.skipped.is_some()) {
        let reasons: Vec<String> = servers
            .iter()
            .filter_map(|server| Some(format!("{}: {}", server.name, server.skipped.as_ref()?)))
            .collect();
        return Err(no_servers(&reasons.join("; ")));
    }
    Ok(())
}

pub(super) fn no_servers(reasons: &str) -> Error {
    Error::at("no server can take part", reasons)
}

fn check_override(name: &str, path: &Path, declared: &[ServerTable]) -> Result<(), Error> {
    let names = || declared.iter().map(|server| server.name.as_str());
    let problem = if !names().any(|known| known == name) {
        let suggestion = suggestion(name, names());
        format!("the experiment has no server of that name{suggestion}")
    } else if !is_program(path) {
        format!("`{}` is not a program", shown(path))
    } else {
        return Ok(());
    };
    let option = format!("--server {name}={}", shown(path));
    Err(Error::at(option, problem))
}

fn resolve_one(
    server: &mut ServerTable,
    options: &Options,
    search_path: &OsStr,
    environment: &dyn Fn(&str) -> Option<PathBuf>,
) {
    let variable = variable(&server.name);
    let chosen = options
        .servers
        .iter()
        .find(|(name, _)| *name == server.name);
    let chosen = chosen.map(|(_, path)| path.clone());
    let (program, skipped) = match (chosen, environment(&variable), &server.program) {
        (Some(path), ..) => (path, None),
        (None, Some(path), _) if is_program(&path) => (path, None),
        (None, Some(path), _) => {
            let reason = format!("`{}` of {variable} is not a program", shown(&path));
            (path, Some(reason))
        }
        (None, None, None) => (options.curtail.clone(), None),
        (None, None, Some(name)) => {
            let name = match name.as_str() {
                OWN_PROGRAM => shown(&options.curtail),
                name => name.to_owned(),
            };
            match look_up(&name, search_path) {
                Some(path) => (path, None),
                None => (PathBuf::from(&name), Some(not_found(server, &name))),
            }
        }
    };
    let program = match skipped {
        None => absolute(&program),
        Some(_) => program,
    };
    let verb = server.program.is_none().then(|| "serve".to_owned());
    server.command = (server.under.iter().cloned())
        .chain([shown(&program)])
        .chain(verb)
        .chain(server.arguments.iter().cloned())
        .collect();
    server.skipped = skipped;
}

fn not_found(server: &ServerTable, program: &str) -> String {
    let place = if program.contains('/') {
        format!("there is no program `{program}`")
    } else {
        format!("`{program}` is not on PATH")
    };
    format!(
        "{place} (give one with --server {}=/path/to/it)",
        server.name
    )
}

fn variable(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    format!(
        "CURTAIL_SERVER_{}",
        name.chars().map(plain).collect::<String>()
    )
}

fn look_up(program: &str, search_path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    std::env::split_paths(search_path)
        .map(|folder| folder.join(program))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The program's absolute path, because the working directory may differ when the plan is used.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Setup;
    use super::*;
    use crate::Experiment;
    use crate::tests::assert_has;
    use crate::tests::repository::text_of;

    fn declared(experiment: &Experiment) -> Vec<ServerTable> {
        let settings = experiment.content(false).unwrap().kind.settings().unwrap();
        settings.try_into::<Setup>().unwrap().server
    }

    fn resolve(
        declared: &[ServerTable],
        options: &Options,
        search_path: &OsStr,
        environment: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Result<Vec<ServerTable>, Error> {
        let mut servers = declared.to_vec();
        super::resolve(&mut servers, options, search_path, environment)?;
        Ok(servers)
    }

    fn smoke() -> Vec<ServerTable> {
        changed("", "")
    }

    /// The servers of the smoke experiment with `to` in place of `from`.
    fn changed(from: &str, to: &str) -> Vec<ServerTable> {
        let text = text_of("smoke").replacen(from, to, 1);
        declared(&Experiment::parse("smoke", "smoke.toml", &text).unwrap())
    }

    fn options(curtail: &Path) -> Options {
        Options {
            curtail: curtail.to_owned(),
            ..Options::new().unwrap()
        }
    }

    fn program(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn an_absent_server_is_skipped_by_name_and_a_present_one_found() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(Path::new("/opt/curtail"));
        let found = || resolve(&smoke(), &options, folder.path().as_os_str(), &|_| None).unwrap();
        let servers = found();
        assert_eq!(servers[0].command[..2], ["/opt/curtail", "serve"]);
        let absent = "`memcached` is not on PATH (give one with --server memcached=/path/to/it)";
        assert_eq!(servers[1].skipped.as_deref(), Some(absent));
        let path = program(folder.path(), "memcached");
        let servers = found();
        assert_eq!(servers[1].skipped, None);
        assert_eq!(servers[1].command[..2], [shown(&path), "-l".to_owned()]);
    }

    #[test]
    fn a_server_may_be_this_program_and_run_under_another_one() {
        let under = "program = \"{curtail}\"\nunder = [\"chrt\", \"--fifo\", \"1\"]";
        let servers = changed("program = \"memcached\"", under);
        let folder = tempfile::tempdir().unwrap();
        let options = options(&program(folder.path(), "curtail"));
        let servers = resolve(&servers, &options, OsStr::new(""), &|_| None).unwrap();
        let own = shown(&options.curtail);
        assert_eq!(servers[1].command[..5], ["chrt", "--fifo", "1", &own, "-l"]);
        // It is not `serve`, which a server without a program is.
        assert_eq!(servers[0].command[..2], [own, "serve".to_owned()]);
    }

    #[test]
    fn an_option_goes_before_the_environment_and_that_before_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| program(folder.path(), name));
        let mut options = options(Path::new("/opt/curtail"));
        let environment = |name: &str| (name == "CURTAIL_SERVER_MEMCACHED").then(|| second.clone());
        let found = |options: &Options| {
            let servers = resolve(&smoke(), options, OsStr::new(""), &environment).unwrap();
            servers[1].command[0].clone()
        };
        assert_eq!(found(&options), shown(&second));
        options.servers = vec![("memcached".to_owned(), first.clone())];
        assert_eq!(found(&options), shown(&first));
    }

    #[test]
    fn a_wrong_option_is_an_error_with_a_remedy() {
        for (name, path, expected) in [
            (
                "memcache",
                "/bin/sh",
                "the experiment has no server of that name; did you mean `memcached`?",
            ),
            ("memcached", "/bin/none", "`/bin/none` is not a program"),
        ] {
            let mut options = options(Path::new("/opt/curtail"));
            options.servers = vec![(name.to_owned(), PathBuf::from(path))];
            let error = resolve(&smoke(), &options, OsStr::new(""), &|_| None).unwrap_err();
            let expected = format!("--server {name}={path}: {expected}");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn no_server_at_all_is_an_error() {
        let servers = changed(
            "name = \"curtail\"",
            "name = \"other\"\nprogram = \"./other\"",
        );
        let options = options(Path::new("/opt/curtail"));
        let error = resolve(&servers, &options, OsStr::new(""), &|_| None).unwrap_err();
        assert_has(error.to_string(), "other: there is no program `./other`");
        assert_has(error.to_string(), "memcached: `memcached` is not on PATH");
    }
}
