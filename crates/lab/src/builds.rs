//! An experiment of two builds of this program.

use toml::{Table, Value};

use crate::error::Error;
use crate::experiment::Experiment;
use crate::kind::BUILD;

impl Experiment {
    /// The experiment with two builds of these names, whose programs are options of the run. They
    /// are its servers, each with the arguments of the one called `server`, or else of the first
    /// one of this build; without servers, they are the values of its first factor, `build`.
    ///
    /// # Errors
    /// It has no such server, or runs nothing of which builds could differ.
    pub fn of_builds(&self, names: [&str; 2], server: Option<&str>) -> Result<Self, Error> {
        let invalid = |problem: &str| Error::at(self.path(), problem);
        let mut file: Table = self
            .toml()
            .parse()
            .map_err(|error: toml::de::Error| invalid(error.message()))?;
        let changed = match (file.contains_key("server"), server) {
            (true, _) => replace_servers(&mut file, names, server),
            (false, None) => add_factor(&mut file, names, self.toml()).map_err(str::to_owned),
            (false, Some(_)) => Err("it has no [[server]] tables".to_owned()),
        };
        changed.map_err(|problem| invalid(&problem))?;
        // They name cells of which each is two now, or servers that are no longer there.
        file.remove("target");
        let text = toml::to_string(&file).map_err(|error| invalid(&error.to_string()))?;
        Self::parse_of(
            self.kinds,
            &format!("{}-ab", self.name),
            &format!("{} with two builds", self.path()),
            &text,
        )
    }
}

fn replace_servers(file: &mut Table, names: [&str; 2], server: Option<&str>) -> Result<(), String> {
    let key = |table: &Table, key: &str| table.get(key).and_then(Value::as_str).map(str::to_owned);
    let servers = file.get("server").and_then(Value::as_array);
    let servers = servers.into_iter().flatten().filter_map(Value::as_table);
    let mut ours = servers.filter(|it| !it.contains_key("program"));
    let known: Vec<String> = ours.clone().filter_map(|it| key(it, "name")).collect();
    if known.is_empty() {
        let none = "no server is of this build, so there is nothing of which builds differ";
        return Err(none.to_owned());
    }
    let chosen = match server {
        None => ours.next(),
        Some(server) => ours.find(|it| key(it, "name").as_deref() == Some(server)),
    };
    let ours = chosen.cloned().ok_or_else(|| {
        let server = server.unwrap_or_default();
        format!(
            "no server of this build is called `{server}`; there are {}",
            known.join(", ")
        )
    })?;
    let servers = names.map(|name| {
        let mut server = ours.clone();
        server.insert("name".to_owned(), name.into());
        Value::Table(server)
    });
    file.insert("server".to_owned(), Value::Array(servers.into()));
    // The server of which all rates are a share is no longer there either.
    let capacity = file.get_mut("capacity").and_then(Value::as_table_mut);
    let of = capacity.and_then(|it| it.get_mut("of"));
    if let Some(of) = of.and_then(Value::as_table_mut) {
        of.remove("server");
    }
    if let Some(quick) = file.get_mut("quick").and_then(Value::as_table_mut) {
        quick.remove("server");
    }
    Ok(())
}

fn add_factor(file: &mut Table, names: [&str; 2], text: &str) -> Result<(), &'static str> {
    if !text.contains(&format!("{{{BUILD}}}")) {
        return Err("no command has `{build}`, so there is nothing of which builds differ");
    }
    let mut factor = Table::new();
    factor.insert("name".to_owned(), BUILD.into());
    factor.insert("values".to_owned(), Vec::from(names).into());
    let factors = file
        .entry("factor")
        .or_insert_with(|| Value::Array(Vec::new()));
    let factors = factors
        .as_array_mut()
        .ok_or("`factor` is not a list of tables")?;
    // The report compares the cells by the first factor.
    factors.insert(0, Value::Table(factor));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_has;

    /// The file of an experiment, and that with two builds.
    fn of_builds(name: &str) -> [Table; 2] {
        let experiment = Experiment::load(name).unwrap();
        let of_builds = experiment.of_builds(["a", "b"], None).unwrap();
        [experiment.toml(), of_builds.toml()].map(|it| it.parse().unwrap())
    }

    #[test]
    fn the_servers_are_two_builds_with_the_arguments_of_one_of_ours() {
        let [before, file] = of_builds("smoke");
        let servers = file["server"].as_array().unwrap();
        let names: Vec<_> = servers.iter().map(|it| it["name"].as_str()).collect();
        assert_eq!(names, [Some("a"), Some("b")]);
        for server in servers {
            assert_eq!(server["arguments"], before["server"][0]["arguments"]);
        }
        for key in ["load", "factor", "repeats", "quick", "question"] {
            assert_eq!(file[key], before[key], "{key}");
        }
        let gets = Experiment::load("echo-gets").unwrap();
        let named = gets.of_builds(["a", "b"], Some("events")).unwrap();
        let file: Table = named.toml().parse().unwrap();
        for server in file["server"].as_array().unwrap() {
            let arguments = server["arguments"].as_array().unwrap();
            assert!(arguments.contains(&"events".into()), "{arguments:?}");
        }
    }

    #[test]
    fn the_builds_of_a_program_are_the_first_factor() {
        let [before, file] = of_builds("instructions");
        let factors = file["factor"].as_array().unwrap();
        assert_eq!(factors[0]["name"].as_str(), Some("build"));
        assert_eq!(factors[0]["values"], Value::from(vec!["a", "b"]));
        assert_eq!(factors[1..], before["factor"].as_array().unwrap()[..]);
        for key in ["program", "beside", "metric", "repeats", "quick"] {
            assert_eq!(file[key], before[key], "{key}");
        }
    }

    #[test]
    fn an_experiment_without_a_server_of_ours_is_refused() {
        let smoke = Experiment::load("smoke").unwrap();
        let ours = "[[server]]\nname = \"curtail\"";
        let text = smoke
            .toml()
            .replace(ours, &format!("{ours}\nprogram = \"x\""));
        let other = Experiment::parse("other", "other.toml", &text).unwrap();
        let instructions = Experiment::load("instructions").unwrap();
        for (experiment, server, expected) in [
            (
                Experiment::load("tier-extstore").unwrap(),
                None,
                "`{build}`",
            ),
            (
                instructions.of_builds(["a", "b"], None).unwrap(),
                None,
                "`build` twice",
            ),
            (instructions, Some("server"), "it has no [[server]] tables"),
            (
                Experiment::load("echo-gets").unwrap(),
                Some("memcached"),
                "there are rings, events",
            ),
            (other, None, "other.toml: no server is of this build"),
        ] {
            let refused = experiment.of_builds(["a", "b"], server).unwrap_err();
            assert_has(refused.to_string(), expected);
        }
    }
}
