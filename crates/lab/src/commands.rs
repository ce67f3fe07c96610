//! An experiment without a file: servers that are command lines, under one load.

use std::collections::HashSet;
use std::fmt::Write;

use toml::Value;

use crate::design::check_name;

/// What `lab try` compares.
#[derive(Debug, Clone)]
pub struct Commands {
    /// The command lines.
    pub commands: Vec<String>,
    /// The offered rates, such as `10k`. Empty: as fast as answers come.
    pub rates: Vec<String>,
    /// Connections of the load.
    pub connections: u32,
    /// The measured interval, such as `2s`.
    pub trial: String,
    /// The time before it.
    pub warmup: String,
    /// Trials of each cell.
    pub repeats: u32,
    /// Records that are filled in before.
    pub records: u64,
    /// The share of requests that are sets.
    pub update: f64,
    /// Processors of the server and of the load. Empty: all.
    pub processors: [Vec<u32>; 2],
    /// Whether the servers start as root.
    pub is_root: bool,
}

/// The experiment of some commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The text of the file.
    pub text: String,
    /// What was added to commands, as sentences.
    pub notes: Vec<String>,
}

struct Server {
    /// `curtail`: this program.
    program: String,
    arguments: Vec<String>,
}

impl Commands {
    /// Writes the experiment file.
    ///
    /// # Errors
    /// What is wrong with a command, and the remedy.
    pub fn write(&self) -> Result<Written, String> {
        let mut notes = Vec::new();
        let mut servers = Vec::new();
        for command in &self.commands {
            let mut server = Server::read(command)?;
            let added = server.complete(command, self)?;
            if !added.is_empty() {
                notes.push(format!("`{command}`: added `{}`", added.join(" ")));
            }
            servers.push(server);
        }
        let names = names(&servers);
        let question = match &names[..] {
            [] => return Err("name at least one command".to_owned()),
            [one] => format!("What does a request cost {one}?"),
            [one, other] => format!("Which is faster: {one} or {other}?"),
            all => format!("Which is the fastest: {}?", all.join(", ")),
        };
        Ok(Written {
            text: self.text(&question, &names, &servers),
            notes,
        })
    }

    /// The one place that knows how such a file looks.
    fn text(&self, question: &str, names: &[String], servers: &[Server]) -> String {
        let [question, trial, warmup] =
            [question, &self.trial, &self.warmup].map(|it| Value::from(it).to_string());
        let figures = match self.rates.len() {
            0 => "[\"cpu\"]",
            _ => "[\"throughput\", \"tail\", \"cpu\"]",
        };
        let (repeats, connections, records) = (self.repeats, self.connections, self.records);
        let update = self.update;
        let mut text = format!(
            "question = {question}\nseed = 1\nrepeats = {repeats}\ntrial = {trial}\n\
             warmup = {warmup}\nfigures = {figures}\n\n[load]\nconnections = {connections}\n\
             update = {update:?}\nrecords = {records}\n"
        );
        let mut table = |lines: String| text.push_str(&format!("\n{lines}\n"));
        let [server, load] = &self.processors;
        if !server.is_empty() {
            table(format!("[pins]\nserver = {server:?}\nload = {load:?}"));
        }
        if !self.rates.is_empty() {
            let rates = Value::from(self.rates.clone());
            table(format!("[[factor]]\nname = \"rate\"\nvalues = {rates}"));
        }
        for (name, server) in names.iter().zip(servers) {
            let name = Value::from(name.as_str());
            let program = match server.program.as_str() {
                CURTAIL => String::new(),
                program => format!("program = {}\n", Value::from(program)),
            };
            let arguments = Value::from(server.arguments.clone());
            table(format!(
                "[[server]]\nname = {name}\n{program}arguments = {arguments}"
            ));
        }
        text
    }
}

const CURTAIL: &str = "curtail";

impl Server {
    fn read(command: &str) -> Result<Self, String> {
        let mut words = words(command)?.into_iter();
        let program = words.next().ok_or("a command is empty")?;
        let mut arguments: Vec<String> = words.collect();
        if program == CURTAIL {
            match arguments.first().map(String::as_str) {
                Some("serve") => _ = arguments.remove(0),
                _ => {
                    return Err(format!(
                        "`{command}`: of `curtail`, only `curtail serve …` is a server"
                    ));
                }
            }
        }
        Ok(Self { program, arguments })
    }

    /// Adds what the laboratory needs and the command does not say: where memcached, and what takes
    /// its flags, has to listen.
    fn complete(&mut self, command: &str, load: &Commands) -> Result<Vec<String>, String> {
        let file = self.program.rsplit('/').next().unwrap_or_default();
        let takes_flags = file.starts_with("memcached") || file == CURTAIL;
        let mut added: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| added.extend(words.iter().map(|it| (*it).to_owned()));
        let has = |flags: &[&str]| self.arguments.iter().any(|it| flags.contains(&it.as_str()));
        if !self.arguments.iter().any(|it| it.contains("{port}")) {
            if !takes_flags {
                return Err(format!(
                    "`{command}` has no `{{port}}`: write it where the port goes that the \
                     laboratory chooses, such as `{file} --port {{port}}`"
                ));
            }
            if let Some(flag) = self.arguments.iter().find(|it| is_port(it)) {
                return Err(format!(
                    "`{command}`: leave `{flag}` out, or write `-p {{port}}`: the laboratory \
                     chooses the port"
                ));
            }
            add(&["-p", "{port}"]);
            if !has(&["-l"]) {
                add(&["-l", "127.0.0.1"]);
            }
        }
        // memcached refuses to run as root otherwise, and its default is 1024 connections.
        if takes_flags && load.is_root && !has(&["-u"]) {
            add(&["-u", "root"]);
        }
        let connections = load.connections + SPARE_CONNECTIONS;
        if takes_flags && connections > DEFAULT_CONNECTIONS && !has(&["-c"]) {
            add(&["-c", &connections.to_string()]);
        }
        self.arguments.extend(added.iter().cloned());
        Ok(added)
    }

    /// Its flags, each with its value, and its other words.
    fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        let mut is_flag = false;
        for word in &self.arguments {
            match parts.last_mut() {
                Some(last) if is_flag && !word.starts_with('-') => {
                    last.push_str(word);
                    is_flag = false;
                }
                _ => {
                    is_flag = word.starts_with('-');
                    parts.push(word.clone());
                }
            }
        }
        parts
    }
}

/// Connections of memcached without `-c`.
const DEFAULT_CONNECTIONS: u32 = 1_024;
/// Connections for the prefill and the laboratory's own.
const SPARE_CONNECTIONS: u32 = 64;

fn is_port(word: &str) -> bool {
    let digits = word.strip_prefix("-p").or(word.strip_prefix("--port="));
    digits.is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit())) || word == "--port"
}

/// Names of servers: their programs, and what differs between their arguments. Equal commands are
/// numbered.
fn names(servers: &[Server]) -> Vec<String> {
    let parts: Vec<Vec<String>> = servers.iter().map(Server::parts).collect();
    let mut names: Vec<String> = Vec::new();
    for (server, own) in servers.iter().zip(&parts) {
        let mut name = String::new();
        plain(
            &mut name,
            server.program.rsplit('/').next().unwrap_or_default(),
        );
        let is_common = |part| parts.iter().all(|it| it.contains(part));
        for part in own.iter().filter(|it| !is_common(it)) {
            name.push('-');
            plain(&mut name, part.trim_start_matches('-'));
        }
        name.truncate(NAME_LEN);
        names.push(match check_name(&name) {
            Ok(()) => name,
            Err(_) => "server".to_owned(),
        });
    }
    let mut seen: HashSet<String> = HashSet::new();
    for name in &mut names {
        let first = name.clone();
        let mut number = 1;
        while !seen.insert(name.clone()) {
            number += 1;
            *name = format!("{first}-{number}");
        }
    }
    names
}

/// Characters of a name before its number.
const NAME_LEN: usize = 48;

fn plain(name: &mut String, text: &str) {
    for char in text.chars() {
        let may = char.is_ascii_alphanumeric() || "._-".contains(char);
        let _ = name.write_char(if may { char } else { '-' });
    }
}

/// A command line in words, as a shell splits them: by blanks, except within quotes.
fn words(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for char in command.chars() {
        match (quote, char) {
            (None, ' ' | '\t' | '\n') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == char => quote = None,
            _ => word.get_or_insert_default().push(char),
        }
    }
    match quote {
        Some(quote) => Err(format!("`{command}`: the quote {quote} does not end")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use crate::tests::assert_has;

    fn commands(commands: &[&str]) -> Commands {
        Commands {
            commands: commands.iter().map(|it| (*it).to_owned()).collect(),
            rates: vec!["5k".to_owned(), "10k".to_owned()],
            connections: 16,
            trial: "2s".to_owned(),
            warmup: "500ms".to_owned(),
            repeats: 5,
            records: 10_000,
            update: 0.1,
            processors: [vec![0], vec![1]],
            is_root: false,
        }
    }

    fn names_of(lines: &[&str]) -> Vec<String> {
        let servers: Vec<Server> = lines.iter().map(|it| Server::read(it).unwrap()).collect();
        names(&servers)
    }

    #[test]
    fn the_file_is_valid_and_says_what_was_asked() {
        let written = commands(&["memcached -t 1", "curtail serve -t 1 -m 64"]).write();
        let written = written.unwrap();
        let added = "`memcached -t 1`: added `-p {port} -l 127.0.0.1`";
        assert_eq!(written.notes[0], added);
        let experiment = Experiment::parse("try", "try.toml", &written.text).unwrap();
        let plan = experiment.content(false).unwrap().plan().unwrap();
        let server = plan.factors.iter().find(|it| it.name == "server").unwrap();
        let names: Vec<String> = server.values.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["memcached", "curtail-m64"]);
        let rate = plan.factor("rate").unwrap();
        assert_eq!(
            rate.values,
            [5_000.0, 10_000.0].map(report::record::Value::from)
        );
        assert_eq!(plan.last_stage().unwrap().repeats.most, 5);
        // Without rates, it is a closed loop.
        let closed = Commands {
            rates: Vec::new(),
            ..commands(&["memcached"])
        };
        assert!(!closed.write().unwrap().text.contains("rate"));
    }

    #[test]
    fn names_are_what_differs() {
        #[rustfmt::skip]
        let table = [
            (["memcached -t 1", "memcached -t 2"], ["memcached-t1", "memcached-t2"]),
            (["/a/memcached -t 1", "curtail serve -t 1"], ["memcached", "curtail"]),
            (["memcached", "memcached"], ["memcached", "memcached-2"]),
            (["memcached -m 64 -o 'modern'", "memcached -m 64"], ["memcached-omodern", "memcached"]),
        ];
        for (lines, expected) in table {
            assert_eq!(names_of(&lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn what_a_command_lacks_is_added_or_asked_for() {
        let many = Commands {
            connections: 5_000,
            is_root: true,
            ..commands(&["memcached -l 127.0.0.1 -p {port}"])
        };
        let notes = many.write().unwrap().notes;
        assert!(notes[0].ends_with("added `-u root -c 5064`"), "{notes:?}");
        for (command, expected) in [
            (
                "redis-server",
                "`redis-server` has no `{port}`: write it where",
            ),
            ("memcached -p 11211", "leave `-p` out"),
            ("memcached -p11211", "leave `-p11211` out"),
            ("curtail doctor", "only `curtail serve …` is a server"),
            ("memcached -o 'a", "the quote ' does not end"),
            ("  ", "a command is empty"),
        ] {
            let refused = commands(&[command]).write().unwrap_err();
            assert_has(&refused, expected);
        }
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(
            words("a  'b c' d\"e f\" ''").unwrap(),
            ["a", "b c", "de f", ""]
        );
    }
}
