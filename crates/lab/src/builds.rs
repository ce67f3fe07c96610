//! An experiment of two builds of this program.

use toml::{Table, Value};

use crate::error::Error;
use crate::experiment::Experiment;
use crate::measured::BUILD;

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
    use crate::tests::toy::{DICE, FILE};

    #[test]
    fn the_servers_are_two_builds_with_the_arguments_of_the_first_of_ours() {
        let smoke = Experiment::load("smoke").unwrap();
        let file: Table = smoke
            .of_builds(["a", "b"], None)
            .unwrap()
            .toml()
            .parse()
            .unwrap();
        let before: Table = smoke.toml().parse().unwrap();
        let servers = file["server"].as_array().unwrap();
        let names: Vec<_> = servers
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b"]);
        for server in servers {
            assert_eq!(server["arguments"], before["server"][0]["arguments"]);
        }
        // All else is as it was.
        for key in ["load", "factor", "repeats", "quick", "question"] {
            assert_eq!(file[key], before[key], "{key}");
        }
    }

    #[test]
    fn the_builds_have_the_arguments_of_the_server_that_is_named() {
        let gets = Experiment::load("echo-gets").unwrap();
        let of_builds = gets.of_builds(["a", "b"], Some("events")).unwrap();
        let file: Table = of_builds.toml().parse().unwrap();
        for server in file["server"].as_array().unwrap() {
            let arguments = server["arguments"].as_array().unwrap();
            assert!(arguments.contains(&"events".into()), "{arguments:?}");
        }
        // A server of another program is none of them.
        let refused = |server| gets.of_builds(["a", "b"], Some(server)).unwrap_err();
        let error = refused("memcached").to_string();
        assert_has(&error, "there are rings, events");
        let instructions = Experiment::load("instructions").unwrap();
        assert!(instructions.of_builds(["a", "b"], Some("server")).is_err());
    }

    #[test]
    fn the_builds_of_a_program_are_the_first_factor() {
        let instructions = Experiment::load("instructions").unwrap();
        let of_builds = instructions.of_builds(["a", "b"], None).unwrap();
        let file: Table = of_builds.toml().parse().unwrap();
        let before: Table = instructions.toml().parse().unwrap();
        let factors = file["factor"].as_array().unwrap();
        assert_eq!(factors[0]["name"].as_str(), Some("build"));
        assert_eq!(factors[0]["values"], Value::from(vec!["a", "b"]));
        assert_eq!(factors[1..], before["factor"].as_array().unwrap()[..]);
        for key in ["program", "beside", "metric", "repeats", "quick"] {
            assert_eq!(file[key], before[key], "{key}");
        }
        // Its builds are named once.
        assert!(of_builds.of_builds(["c", "d"], None).is_err());
    }

    #[test]
    fn an_experiment_without_a_server_of_ours_is_refused() {
        let dice = Experiment::parse_of(&[DICE], "dice", "dice.toml", FILE).unwrap();
        let error = dice.of_builds(["a", "b"], None).unwrap_err().to_string();
        assert_has(&error, "`{build}`");
        let other = Experiment::load("tier-extstore").unwrap();
        let error = other.of_builds(["a", "b"], None).unwrap_err().to_string();
        assert_has(&error, "`{build}`");
        let smoke = Experiment::load("smoke").unwrap();
        let text = smoke.toml().replace(
            "[[server]]\nname = \"curtail\"",
            "[[server]]\nname = \"curtail\"\nprogram = \"x\"",
        );
        let other = Experiment::parse("other", "other.toml", &text).unwrap();
        let error = other.of_builds(["a", "b"], None).unwrap_err().to_string();
        assert!(
            error.contains("other.toml") && error.contains("of this build"),
            "{error}"
        );
    }
}
