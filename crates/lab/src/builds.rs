//! An experiment whose servers are two builds of this program.

use toml::{Table, Value};

use crate::error::Error;
use crate::experiment::Experiment;

impl Experiment {
    /// The experiment with two servers of these names in place of its own: each has the arguments
    /// of the first one of kind `curtail`, and the options of the run give each its program.
    ///
    /// # Errors
    /// It is not of kind `cache`, or has no server of kind `curtail`.
    pub fn of_builds(&self, names: [&str; 2]) -> Result<Self, Error> {
        let invalid = |problem: &str| Error::Experiment {
            place: self.path().to_owned(),
            problem: problem.to_owned(),
        };
        let mut file: Table = self
            .toml()
            .parse()
            .map_err(|error: toml::de::Error| invalid(error.message()))?;
        let kind = file.get("kind").map_or(Some("cache"), Value::as_str);
        if kind != Some("cache") {
            return Err(invalid(
                "two builds can be compared by an experiment of kind `cache`",
            ));
        }
        let is_ours =
            |server: &&Value| server.get("kind").and_then(Value::as_str) == Some("curtail");
        let servers = file.get("server").and_then(Value::as_array);
        let ours = servers
            .and_then(|it| it.iter().find(is_ours))
            .and_then(Value::as_table);
        let none = "no server is of kind `curtail`, so there is nothing of which builds differ";
        let ours = ours.ok_or_else(|| invalid(none))?;
        let servers = names.map(|name| {
            let mut server = ours.clone();
            server.insert("name".to_owned(), name.into());
            Value::Table(server)
        });
        file.insert("server".to_owned(), Value::Array(servers.into()));
        if let Some(quick) = file.get_mut("quick").and_then(Value::as_table_mut) {
            quick.remove("server");
        }
        let text = toml::to_string(&file).map_err(|error| invalid(&error.to_string()))?;
        Self::parse(
            &format!("{}-ab", self.name),
            &format!("{} with two builds", self.path()),
            &text,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_are_two_builds_with_the_arguments_of_the_first_of_ours() {
        let smoke = Experiment::load("smoke").unwrap();
        let file: Table = smoke.of_builds(["a", "b"]).unwrap().toml().parse().unwrap();
        let before: Table = smoke.toml().parse().unwrap();
        let servers = file["server"].as_array().unwrap();
        let names: Vec<_> = servers
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b"]);
        for server in servers {
            assert_eq!(server["kind"].as_str(), Some("curtail"));
            assert_eq!(server["arguments"], before["server"][0]["arguments"]);
        }
        // All else is as it was.
        for key in ["load", "factor", "repeats", "quick", "question"] {
            assert_eq!(file[key], before[key], "{key}");
        }
    }

    #[test]
    fn an_experiment_without_a_server_of_ours_is_refused() {
        let model = Experiment::load("blocking-model").unwrap();
        let error = model.of_builds(["a", "b"]).unwrap_err().to_string();
        assert!(error.contains("kind `cache`"), "{error}");
        let smoke = Experiment::load("smoke").unwrap();
        let text = smoke
            .toml()
            .replace("kind = \"curtail\"", "kind = \"command\"\nprogram = \"x\"");
        let other = Experiment::parse("other", "other.toml", &text).unwrap();
        let error = other.of_builds(["a", "b"]).unwrap_err().to_string();
        assert!(
            error.contains("other.toml") && error.contains("kind `curtail`"),
            "{error}"
        );
    }
}
