//! What a server does with some bytes.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Follows the bytes of a case.
pub(super) const PROBE: &[u8] = b"GET /probe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// A connection on which nothing arrives for this long is open: the server waits for more bytes.
const QUIET: Duration = Duration::from_millis(600);

/// Maximum number of bytes of the answers that are kept.
const RECEIVED_MAX: usize = 1 << 20;

/// The content of each file, which names it.
const FILES: [(&str, &str); 9] = [
    ("index.html", "index"),
    ("probe", "probe"),
    ("smuggled", "smuggled"),
    ("a.txt", "0123456789"),
    ("b c.txt", "space"),
    ("b+c.txt", "plus"),
    ("empty", ""),
    (".hidden", "hidden"),
    ("dir/index.html", "dir"),
];

/// What the files outside of the root contain. No answer may contain it.
const SECRET: &str = "secret-of-the-host";

/// The files that the servers serve.
#[derive(Debug)]
pub struct Site {
    folder: TempDir,
}

impl Site {
    /// Makes the files in a temporary folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn make() -> Result<Self> {
        let folder = tempfile::tempdir().context("a temporary folder")?;
        let site = Self { folder };
        let root = site.root();
        fs::create_dir_all(root.join("dir")).context("the root")?;
        for (name, content) in FILES {
            let content = match content {
                "" | "0123456789" => content.to_owned(),
                _ => format!("<{content}>"),
            };
            fs::write(root.join(name), content).context(name)?;
        }
        let outside = site.folder.path().join("outside");
        fs::create_dir(&outside).context("outside")?;
        fs::write(site.folder.path().join("secret"), SECRET).context("secret")?;
        fs::write(outside.join("secret"), SECRET).context("secret")?;
        symlink("../secret", root.join("link")).context("link")?;
        symlink("../outside", root.join("out")).context("out")?;
        symlink("a.txt", root.join("inside")).context("inside")?;
        // Servers that become another user must be able to read it.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(site.folder.path(), mode).context("the folder")?;
        Ok(site)
    }

    /// The folder that is served.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// The folder for the files of servers.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Sends each of the inputs on a connection of its own, of which at most `connections` are open at
/// the same time, and returns what the server at `address` did, in the format of the corpus.
///
/// # Errors
/// The server does not accept a connection.
pub fn observe(address: SocketAddr, inputs: &[Vec<u8>], connections: usize) -> Result<Vec<String>> {
    let outcomes: Vec<OnceLock<Result<String>>> = inputs.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    // Those that stay open take long, and delay no other one.
    thread::scope(|scope| {
        for _ in 0..connections.min(inputs.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(input) = inputs.get(number) else {
                        return;
                    };
                    // No other thread has this number.
                    let _ = outcomes[number].set(exchange(address, input));
                }
            });
        }
    });
    let seen = outcomes.into_iter().map(OnceLock::into_inner);
    seen.map(|it| it.context("a connection was not made")?)
        .collect()
}

fn exchange(address: SocketAddr, input: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("connect")?;
    stream
        .set_read_timeout(Some(QUIET))
        .context("set a timeout")?;
    stream
        .set_write_timeout(Some(QUIET))
        .context("set a timeout")?;
    // The server may end the connection before it has read everything.
    let _ = stream.write_all(input);
    let (mut received, mut buffer) = (Vec::new(), [0; 1 << 14]);
    let end = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break "closed",
            Ok(len) if received.len() < RECEIVED_MAX => received.extend_from_slice(&buffer[..len]),
            Ok(_) => break "endless",
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break "open";
            }
            Err(_) => break "closed",
        }
    };
    let text = String::from_utf8_lossy(&received);
    let mut words = answers(&text);
    words.push(end.to_owned());
    Ok(words.join(" "))
}

/// What a status line begins with, without the last digit of the version.
const VERSION: &str = "HTTP/1.";

/// The answers in what a server has sent. No body contains a status line.
fn answers(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let is_status_line = |at: &usize| {
        let status = text
            .as_bytes()
            .get(at + VERSION.len() + 1..)
            .unwrap_or_default();
        matches!(status, [b' ', a, b, c, ..] if [a, b, c].iter().all(|it| it.is_ascii_digit()))
    };
    let starts = text.match_indices(VERSION).map(|(at, _)| at);
    let starts: Vec<usize> = starts.filter(is_status_line).collect();
    // An answer of HTTP/0.9 has no head.
    if !text.is_empty() && starts.first() != Some(&0) {
        words.push("0.9".to_owned());
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    for (&start, end) in starts.iter().zip(ends) {
        let part = &text[start + VERSION.len()..end];
        let status = &part[2..5];
        let (head, body) = part.split_once("\r\n\r\n").unwrap_or((part, ""));
        let word = match detail(status, head, body) {
            Some(probe) if probe == "probe" => probe,
            Some(detail) => format!("{status}[{detail}]"),
            None => status.to_owned(),
        };
        match words.last_mut() {
            // A hundred equal answers are one word.
            Some(last) if *last == word => *last = format!("2*{word}"),
            Some(last) if last.ends_with(&format!("*{word}")) => {
                let count = last.split('*').next().and_then(|it| it.parse::<u32>().ok());
                *last = format!("{}*{word}", count.unwrap_or(1) + 1);
            }
            _ => words.push(word),
        }
    }
    words
}

/// What an answer has besides its status.
fn detail(status: &str, head: &str, body: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_owned())
    };
    if body.contains(SECRET) {
        return Some("SECRET".to_owned());
    }
    match status {
        "206" => Some(match field("content-range") {
            Some(range) => range.trim_start_matches("bytes ").to_owned(),
            None => "several".to_owned(),
        }),
        "301" | "302" | "307" | "308" => {
            let location = field("location")?;
            // The port differs from run to run.
            let origin = location.split_once("://").map(|(_, rest)| rest);
            let path = origin.and_then(|rest| rest.find('/').map(|at| rest[at..].to_owned()));
            Some(path.unwrap_or(location))
        }
        "200" => {
            let known = FILES.iter().filter(|(_, content)| !content.is_empty());
            let mut known = known.filter(|(_, content)| {
                body.starts_with(&format!("<{content}>"))
                    || body.starts_with("0123456789") && content.len() == 10
            });
            let (name, _) = known.next()?;
            (*name != "index.html").then(|| (*name).to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let ok = |body: &str| format!("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{body}");
        let of = |text: &str| answers(text).join(" ");
        assert_eq!(of(""), "");
        assert_eq!(of(&[ok("<index>"), ok("<probe>")].concat()), "200 probe");
        assert_eq!(
            of(&[ok("0123456789"), ok("x").repeat(12)].concat()),
            "200[a.txt] 12*200"
        );
        assert_eq!(
            of("HTTP/1.0 206 x\r\nContent-Range: bytes 0-1/10\r\n\r\n01"),
            "206[0-1/10]"
        );
        assert_eq!(
            of("HTTP/1.1 301 x\r\nLocation: http://x:80/dir/\r\n\r\n"),
            "301[/dir/]"
        );
        assert_eq!(
            of("HTTP/1.1 301 x\r\nLocation: //evil/\r\n\r\n"),
            "301[//evil/]"
        );
        assert_eq!(of(&ok(SECRET)), "200[SECRET]");
        assert_eq!(of("<index>"), "0.9");
        assert_eq!(of("HTTP/1.1 400 x\r\n\r\nnot valid HTTP/1.1 text\n"), "400");
    }
}
