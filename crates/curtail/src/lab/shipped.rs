//! What this program adds to the laboratory: the studies' models, and their experiments.

use ::lab::{Laboratory, Shipped};

pub(crate) const LABORATORY: Laboratory = Laboratory {
    kinds: &[::lab::MEASURED, models::KIND],
    shipped: SHIPPED,
};

/// Lists the files of `experiments/` by name.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../../experiments/", $name, ".toml")),
        }),*]
    };
}

const SHIPPED: &[Shipped] = shipped![
    "blocking-bursts",
    "blocking-cdf",
    "blocking-datasize",
    "blocking-deciles",
    "blocking-hits",
    "blocking-inversion",
    "blocking-load-levels",
    "blocking-model",
    "blocking-nginx",
    "blocking-steps",
    "connections",
    "cost-mixes",
    "echo-gets",
    "energy-day",
    "energy-delay",
    "energy-pareto",
    "energy-peak",
    "energy-software",
    "energy-speed",
    "energy-sweep",
    "energy-why",
    "fairness",
    "idle-memory",
    "instructions",
    "long-values",
    "profiles",
    "protocols",
    "published-runtimes",
    "rate-ladder",
    "runtimes",
    "smoke",
    "steering-cas",
    "steering-cores",
    "steering-hero",
    "steering-loss",
    "steering-ours",
    "steering-skew",
    "steering-stall",
    "steering-top",
    "tail-half",
    "tail-nine-tenths",
    "textile-clients",
    "textile-failures",
    "textile-iterations",
    "textile-load",
    "textile-locks",
    "textile-profile",
    "textile-sizes",
    "textile-start",
    "textile-sustained",
    "textile-table",
    "tier-extstore",
    "tier-hits",
    "updates",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use report::record::Repeats;

    use super::*;

    #[test]
    fn the_shipped_experiments_are_valid() {
        for known in SHIPPED {
            let experiment = LABORATORY.load(known.name).unwrap();
            assert_eq!(experiment.toml(), known.text);
            assert!(experiment.has_quick(), "{} has no quick form", known.name);
        }
        let ladder = LABORATORY.load("rate-ladder").unwrap();
        let plan = ladder.plan(&LABORATORY.options().unwrap()).unwrap();
        assert_eq!(
            plan.settings["load"]["connections"].as_integer(),
            Some(15_360)
        );
        assert_eq!(plan.last_stage().unwrap().repeats, Repeats::fixed(15));
        assert_eq!(plan.factor("level").unwrap().values.len(), 8);
    }

    /// Each file is complete, so the script that starts the compared servers is in several.
    #[test]
    fn experiments_on_the_same_servers_start_them_alike() {
        let script = |name: &str| {
            let (_, server) = shipped_text(name)
                .split_once("name = \"server\"\n")
                .unwrap();
            server.split_once("esac'''").unwrap().0
        };
        let steps = script("blocking-steps");
        assert!(steps.contains("apache-prefork"), "{steps}");
        for name in [
            "blocking-cdf",
            "blocking-datasize",
            "blocking-inversion",
            "blocking-load-levels",
        ] {
            assert_eq!(script(name), steps, "{name}");
        }
    }

    fn shipped_text(name: &str) -> &'static str {
        SHIPPED.iter().find(|it| it.name == name).unwrap().text
    }

    #[test]
    fn every_file_is_shipped() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "toml")
            })
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort_unstable();
        let names: Vec<_> = SHIPPED.iter().map(|shipped| shipped.name).collect();
        assert_eq!(names, files);
    }

    #[test]
    fn a_similar_name_is_suggested() {
        let error = LABORATORY.load("rate-lader").unwrap_err().to_string();
        let start =
            "no experiment `rate-lader`: it is neither a file nor shipped (blocking-bursts, ";
        assert!(error.starts_with(start), "{error}");
        let end = ", tier-extstore, tier-hits, updates); did you mean `rate-ladder`?";
        assert!(error.ends_with(end), "{error}");
        let missing = LABORATORY.load("./none.toml").unwrap_err().to_string();
        assert!(missing.starts_with("open ./none.toml: "), "{missing}");
    }
}
