//! Web servers for tests: Curtail, and those with which it is compared.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::peer::Address;
use crate::process::{Server, at_free_address, curtail, installed};

/// The names of the servers, in the order of the tables.
pub const NAMES: [&str; 5] = ["curtail", "nginx", "apache", "llhttp", "hyper"];

/// A server with which Curtail is compared, if it is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name: one of [`NAMES`].
    pub name: &'static str,
    /// The path of the program.
    program: PathBuf,
    /// What the program calls its version.
    pub version: String,
}

impl Peer {
    /// The peers that are installed, and the names of those that are not. llhttp is the parser of
    /// Node.js.
    #[must_use]
    pub fn all() -> (Vec<Self>, Vec<&'static str>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (name, programs, flag) in [
            ("nginx", &["nginx"][..], "-v"),
            ("apache", &["apache2", "httpd"], "-v"),
            ("llhttp", &["node"], "--version"),
        ] {
            let variable = name.to_uppercase();
            let program = programs.iter().find_map(|it| installed(it, &variable));
            let program = program.or_else(|| {
                let paths = programs.iter().map(|it| Path::new("/usr/sbin").join(it));
                paths.into_iter().find(|path| path.is_file())
            });
            match program.and_then(|program| Some((version(&program, flag)?, program))) {
                Some((version, program)) => found.push(Self {
                    name,
                    program,
                    version,
                }),
                None => missing.push(name),
            }
        }
        (found, missing)
    }

    /// Whether the peer serves files, so that its paths and ranges can be compared.
    #[must_use]
    pub fn serves_files(&self) -> bool {
        self.name != "llhttp"
    }

    /// Starts the peer on a free port. It serves the files below `root`, and writes its own files
    /// to `folder`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(&self, folder: &Path, root: &Path) -> Result<(Server, SocketAddr)> {
        at_free_address(Ipv4Addr::LOCALHOST, |address| {
            Ok((self.start_at(address, folder, root)?, address))
        })
    }

    fn start_at(&self, address: SocketAddr, folder: &Path, root: &Path) -> Result<Server> {
        let folder = folder.join(self.name);
        fs::create_dir_all(&folder).context("a folder for the server")?;
        let root = root.display().to_string();
        let mut command = Command::new(&self.program);
        let file = folder.join("configuration");
        let text = match self.name {
            "nginx" => {
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
                nginx(address, &root)
            }
            "apache" => {
                command
                    .arg("-X")
                    .arg("-d")
                    .arg(&folder)
                    .arg("-f")
                    .arg(&file);
                apache(address, &root, &folder.display().to_string())
            }
            _ => {
                command.arg(&file);
                llhttp(address)
            }
        };
        fs::write(&file, text).context("a configuration")?;
        // Node.js makes inherited pipes non-blocking, for all processes that share them. A
        // test that prints much would then fail to print.
        let output = fs::File::create(folder.join("output")).context("a file for its output")?;
        let errors = output.try_clone()?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        Server::at(command, Address::Tcp(address))
    }
}

/// Starts Curtail with the files below `root`, and with these flags.
///
/// # Errors
/// It does not start.
pub fn start(root: &Path, flags: &[&str]) -> Result<(Server, SocketAddr)> {
    Server::tcp_and(|address| {
        let mut command = curtail();
        command
            .args(["-m", "64", "--http", &address.to_string(), "--root"])
            .arg(root)
            .args(flags);
        command
    })
}

/// The version of a program, which it prints to either output.
fn version(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let is_number =
        |word: &&str| word.contains('.') && word.contains(|it: char| it.is_ascii_digit());
    let mut words = text.split([' ', '\n', '(']);
    words.find(is_number).map(ToOwned::to_owned)
}

fn nginx(address: SocketAddr, root: &str) -> String {
    let user = match sys::privileges::is_root() {
        true => "user root;",
        false => "",
    };
    format!(
        "{user} daemon off; master_process off; pid nginx.pid; error_log /dev/null;
         events {{ worker_connections 512; }}
         http {{
             access_log off; client_body_temp_path body; proxy_temp_path a; fastcgi_temp_path b;
             uwsgi_temp_path c; scgi_temp_path d;
             server {{ listen {address}; root {root}; index index.html; }}
         }}"
    )
}

fn apache(address: SocketAddr, root: &str, folder: &str) -> String {
    let modules = "/usr/lib/apache2/modules";
    let user = match sys::privileges::is_root() {
        true => "User www-data\nGroup www-data",
        false => "",
    };
    let load = |name: &str| {
        format!(
            "<IfModule !{name}_module>\nLoadModule {name}_module {modules}/mod_{name}.so\n</IfModule>\n"
        )
    };
    let loads: String = ["mpm_event", "authz_core", "dir"].map(load).concat();
    format!(
        "ServerName x\nListen {address}\nPidFile {folder}/pid\nErrorLog /dev/null\n\
         DefaultRuntimeDir {folder}\n{loads}{user}\nDocumentRoot {root}\nDirectoryIndex index.html\n\
         KeepAlive On\nMaxKeepAliveRequests 0\nThreadsPerChild 64\n\
         MaxRequestWorkers 64\nServerLimit 1\n\
         <Directory {root}>\nRequire all granted\nOptions FollowSymLinks\n</Directory>\n"
    )
}

/// Answers every request that the parser accepts, with the content of the file if it is known.
fn llhttp(address: SocketAddr) -> String {
    format!(
        "const known = {{'/': '<index>', '/probe': '<probe>', '/smuggled': '<smuggled>'}};
         require('http').createServer({{keepAlive: true}}, (request, response) => {{
             request.on('data', () => {{}});
             request.on('end', () => response.end(known[request.url] ?? '<index>'));
         }}).listen({}, '{}');",
        address.port(),
        address.ip()
    )
}
