//! A model that only this file knows.

use std::time::Duration;

use report::record::Better;

use crate::kind::Entry;
use crate::model::{self, Computed, Default, Model, Registry, Simulate};
use crate::tests::assert_has;
use crate::tests::records::trials;
use crate::{Experiment, LineReporter, Options};

#[derive(Debug)]
struct Toys;

impl Registry for Toys {
    const MODELS: &'static [Model] = &[Model {
        name: "line",
        settings: &[
            ("rate", Default::Number(1.0)),
            ("servers", Default::Number(1.0)),
        ],
        metrics: &[("wait_ns", "wait", "ns", Better::Lower)],
        factors: &[("rate", "offered rate", "/s")],
        read: |settings| {
            let rate = settings.positive("rate")?;
            Ok(Box::new(Line(rate / settings.positive("servers")?)))
        },
    }];
}

pub(crate) const KINDS: &[Entry] = &[crate::MEASURED, model::kind::<Toys>()];

struct Line(f64);

impl Simulate for Line {
    fn takes(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn simulate(&self, seed: u64) -> Result<Computed, String> {
        let mut computed = Computed {
            metrics: vec![("wait_ns", self.0)],
            series: vec![("seeds", vec![seed as f64]), ("nothing", Vec::new())],
            ..Computed::default()
        };
        computed.response.record(self.0 as u64);
        Ok(computed)
    }
}

const FILE: &str = "kind = \"model\"\nmodel = \"line\"\nquestion = \"Why?\"\nseed = 1\nrepeats = 2\n\
                    [settings]\nservers = 2\n[[factor]]\nname = \"rate\"\nvalues = [\"0.1k\", 400]\n";

#[test]
fn a_registered_model_is_planned_run_and_recorded() {
    let runs = tempfile::tempdir().unwrap();
    let options = Options {
        runs: runs.path().to_owned(),
        kinds: KINDS,
        // It is read as a whole for the record of the host.
        curtail: "/bin/sh".into(),
        ..Options::new().unwrap()
    };
    let experiment = Experiment::parse_of(KINDS, "line", "line.toml", FILE).unwrap();
    let plan = experiment.plan(&options).unwrap();
    assert_eq!(plan.factor("rate").unwrap().title, "offered rate");
    let outcome = crate::run(&plan, &options, &mut LineReporter::new(std::io::sink())).unwrap();
    let records = trials(&outcome.folder);
    assert_eq!(records.len(), 4);
    for record in records {
        let measured = record.measured().unwrap();
        let rate = record.factors["rate"].number().unwrap();
        assert_eq!(measured.metric("wait_ns"), Some(rate / 2.0));
        assert_eq!(measured.series["seeds"].len(), 1);
        assert!(!measured.series.contains_key("nothing"));
        let kept = outcome
            .folder
            .join(format!("histograms/{}.hist", record.id));
        assert!(kept.is_file());
    }
}

#[test]
fn wrong_names_are_refused_with_the_known_ones() {
    for (from, to, expected) in [
        ("line\"", "lime\"", "no model `lime`; did you mean `line`?"),
        ("line\"", "x\"", "no model `x`; known are line"),
        (
            "servers",
            "severs",
            "`severs` is no setting of the model; known are rate, servers",
        ),
    ] {
        let text = FILE.replacen(from, to, 1);
        let refused = Experiment::parse_of(KINDS, "line", "line.toml", &text).unwrap_err();
        let refused = refused.to_string();
        assert_has(&refused, expected);
    }
}
