//! An experiment file: one question, in TOML.
//!
//! The laboratory reads the keys of [`General`]; all other tables belong to the kind of trial. An
//! unknown key is an error with file, line and the most similar known key. Every value is checked,
//! with and without the changes of `[quick]`, before any process is started.

use std::time::Duration;

use report::answer;
use report::figure::{self, Figure};
use report::published::{self, Published};
use report::record::{Answer, Factors, Narrow, Plan, Repeats, SCHEMA, Stage};
use report::target::{self, Target};
use report::{Located, LocatedError};
use serde::Deserialize;
use serde::de::Error as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::design::{Design, FactorSpec, Ladder, Listed};
use crate::error::{Error, remedy, suggestion};
use crate::kind::{Entry, Kind, Violation};
use crate::{kind, limits, location, overlay, rates};

/// An experiment, read and checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The file's stem.
    pub name: String,
    /// The file's name in messages.
    path: String,
    text: String,
    /// The kinds that it may be of.
    pub(crate) kinds: &'static [Entry],
    /// Whether it is known by its name alone.
    pub(crate) is_shipped: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct General {
    pub(crate) question: String,
    pub(crate) study: Option<String>,
    /// The published figure or table that it repeats.
    pub(crate) after: Option<String>,
    /// How long a trial usually takes.
    #[serde(default, with = "location::optional_duration")]
    takes: Option<Duration>,
    pub(crate) seed: u64,
    pub(crate) repeats: RepeatsSpec,
    #[serde(default)]
    retries: u32,
    answer: Option<Answer>,
    #[serde(default)]
    figures: Vec<String>,
    #[serde(default)]
    figure: Vec<Figure>,
    #[serde(default)]
    published: Vec<Published>,
    #[serde(default)]
    target: Vec<Target>,
    #[serde(default)]
    factor: Vec<FactorSpec>,
    #[serde(default)]
    cell: Listed,
    ladder: Option<Ladder>,
}

impl General {
    /// Reads rates with units, wherever a factor's value may stand.
    fn read_rates(&mut self) {
        self.factor.iter_mut().for_each(FactorSpec::read_rates);
        self.cell.read_rates();
        self.ladder.iter_mut().for_each(Ladder::read_rates);
        let figures = self.figure.iter_mut().map(|it| &mut it.only);
        let published = self.published.iter_mut();
        let published = published.flat_map(|it| [&mut it.only, &mut it.to]);
        let targets = self
            .target
            .iter_mut()
            .flat_map(|it| [&mut it.of, &mut it.to]);
        let answer = self.answer.iter_mut();
        let answer = answer.flat_map(|it| [&mut it.baseline, &mut it.cells]);
        figures
            .chain(answer)
            .chain(published)
            .chain(targets)
            .for_each(rates::read_all);
    }
}

/// The names of the keys of [`General`], and of those that are read before it.
const GENERAL: [&str; 17] = [
    "question",
    "study",
    "after",
    "takes",
    "seed",
    "repeats",
    "retries",
    "answer",
    "figures",
    "figure",
    "published",
    "target",
    "factor",
    "cell",
    "ladder",
    "kind",
    "quick",
];

/// `repeats = 15`, or `repeats = { least = 5, most = 30, metric = "…", width = 0.05 }`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RepeatsSpec(pub(crate) Repeats);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sequential {
    least: u32,
    most: u32,
    metric: String,
    width: f64,
}

impl<'de> Deserialize<'de> for RepeatsSpec {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(source)? {
            toml::Value::Integer(count) => match u32::try_from(count) {
                Ok(count) => Ok(Self(Repeats::fixed(count))),
                Err(_) => Err(D::Error::custom(format!(
                    "{count} is not a number of repeats"
                ))),
            },
            table => {
                let it: Sequential = table.try_into().map_err(|error: toml::de::Error| {
                    let form =
                        "`repeats` is a number, or a table with least, most, metric and width";
                    D::Error::custom(format!("{form}: {}", error.message()))
                })?;
                Ok(Self(Repeats {
                    least: it.least,
                    most: it.most,
                    until: Some(Narrow {
                        metric: it.metric,
                        width: it.width,
                    }),
                }))
            }
        }
    }
}

/// An experiment with its kind and cells: the long form, or the short one.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) general: General,
    pub(crate) kind_name: &'static str,
    pub(crate) kind: Box<dyn Kind>,
    /// Whether the changes of `[quick]` are made.
    quick: bool,
}

impl Content {
    pub(crate) fn design(&self) -> Result<Design, Violation> {
        Design::of(
            &*self.kind,
            &self.general.factor,
            &self.general.cell,
            self.general.ladder.as_ref(),
        )
    }

    /// The figures to draw: those by name, then those declared.
    pub(crate) fn figures(&self, design: &Design) -> Result<Vec<Figure>, Violation> {
        let known = self.kind.figures(&design.factors);
        let mut figures = Vec::new();
        for name in &self.general.figures {
            let Some(figure) = known.iter().find(|it| it.name == *name) else {
                let remedy = match known.is_empty() {
                    true => "; declare it in a [[figure]] table".to_owned(),
                    false => remedy(name, known.iter().map(|it| it.name.as_str())),
                };
                let problem = format!("has `{name}`, which is no figure of this kind{remedy}");
                return Err(Violation::new("", 0, "figures", problem));
            };
            figures.push(figure.clone());
        }
        figures.extend(self.general.figure.iter().cloned());
        Ok(figures)
    }

    fn check(&self) -> Result<(), Violation> {
        let at_top = |key, problem: String| Err(Violation::new("", 0, key, problem));
        if self.general.question.trim().is_empty() {
            let problem = "is empty: state the question of the experiment";
            return at_top("question", problem.to_owned());
        }
        if i64::try_from(self.general.seed).is_err() {
            return at_top("seed", "is beyond 2^63 - 1".to_owned());
        }
        let (most, repeats) = (limits::REPEATS, &self.general.repeats.0);
        if !(1..=most).contains(&repeats.least) || !(repeats.least..=most).contains(&repeats.most) {
            let problem = match &repeats.until {
                None => format!("is {}, not 1 to {most}", repeats.least),
                Some(_) => format!(
                    "has least {} and most {}; they must ascend and be 1 to {most}",
                    repeats.least, repeats.most
                ),
            };
            return at_top("repeats", problem);
        }
        let metrics = self.kind.metrics();
        if let Some(until) = &repeats.until {
            if !metrics.iter().any(|it| it.name == until.metric) {
                let names = metrics.iter().map(|it| it.name.as_str());
                let near = suggestion(&until.metric, names);
                return at_top("repeats", format!("has no metric `{}`{near}", until.metric));
            }
            if !(until.width > 0.0 && until.width < 10.0) {
                return at_top(
                    "repeats",
                    "has a width that is not above 0 and below 10".to_owned(),
                );
            }
        }
        if self.general.retries > limits::RETRIES {
            let problem = format!("is {}, at most {}", self.general.retries, limits::RETRIES);
            return at_top("retries", problem);
        }
        let design = self.design()?;
        self.check_cells(&design.cells)?;
        design.check_distinct()?;
        let stages = self.kind.stages(design.cells.clone(), repeats.clone());
        let trials = |it: &Stage| it.cells.len() as u64 * u64::from(it.repeats.most);
        let trials: u64 = stages.iter().map(trials).sum();
        let most = report::limits::TRIALS as u64;
        if trials > most {
            return at_top(
                "repeats",
                format!("makes {trials} trials in all, more than {most}"),
            );
        }
        let figures = self.figures(&design)?;
        let mut names = std::collections::HashSet::new();
        for figure in &figures {
            if !names.insert(&figure.name) {
                return at_top("figures", format!("draws `{}` twice", figure.name));
            }
        }
        let plan = self.draft(design, stages, figures)?;
        report::check_readable(&plan).map_err(|problem| {
            let problem = format!("tables make a run that could not be read: {problem}");
            Violation::new("", 0, "factor", problem)
        })?;
        published::check(&plan)
            .map_err(|(nth, key, problem)| Violation::new("[[published]]", nth, key, problem))?;
        // The short form may lack their cells. The report says so.
        if !self.quick {
            answer::check(&plan)
                .map_err(|(key, problem)| Violation::new("[answer]", 0, key, problem))?;
            target::check(&plan)
                .map_err(|(nth, key, problem)| Violation::new("[[target]]", nth, key, problem))?;
        }
        for (nth, figure) in self.general.figure.iter().enumerate() {
            figure::check(figure, &plan)
                .map_err(|problem| Violation::new("[[figure]]", nth, "name", problem))?;
        }
        Ok(())
    }

    /// Checks the cells. The name of a ladder's step is a label: it may be in a command, as
    /// `{NAME}`, but other factors must have an effect, and it need not.
    fn check_cells(&self, cells: &[Factors]) -> Result<(), Violation> {
        let checked = self.kind.check(cells);
        let (Err(_), Some(ladder)) = (&checked, &self.general.ladder) else {
            return checked;
        };
        let mut unlabelled = cells.to_vec();
        for cell in &mut unlabelled {
            cell.remove(&ladder.name);
        }
        self.kind.check(&unlabelled)
    }

    /// The plan without what depends on the machine.
    fn draft(
        &self,
        design: Design,
        stages: Vec<Stage>,
        figures: Vec<Figure>,
    ) -> Result<Plan, Violation> {
        let mut published = self.general.published.clone();
        if self.quick {
            // The short form may lack cells. That each value is of some cell was checked before.
            let cells = stages.last().into_iter().flat_map(|it| &it.cells);
            published.retain(|it| cells.clone().any(|cell| it.is_of(cell)));
        }
        let settings = self.kind.settings();
        let problem = |error: Error| Violation::new("", 0, "kind", error.to_string());
        Ok(Plan {
            schema: SCHEMA.to_owned(),
            experiment: String::new(),
            question: self.general.question.clone(),
            kind: self.kind_name.to_owned(),
            quick: false,
            seed: self.general.seed,
            retries: self.general.retries,
            takes_ns: self.general.takes.map(|it| it.as_nanos() as u64),
            notes: Vec::new(),
            settings: settings.map_err(problem)?,
            metrics: self.kind.metrics(),
            answer: self.general.answer.clone(),
            rerun: None,
            stages,
            factors: design.factors,
            figures,
            published,
            targets: self.general.target.clone(),
        })
    }

    /// The plan of the kind as it is now.
    pub(crate) fn plan(&self) -> Result<Plan, Violation> {
        let design = self.design()?;
        let figures = self.figures(&design)?;
        let stages = self
            .kind
            .stages(design.cells.clone(), self.general.repeats.0.clone());
        self.draft(design, stages, figures)
    }
}

impl Experiment {
    /// Parses an experiment from `text`, which may be of these `kinds`; messages call it `path`.
    pub(crate) fn parse_of(
        kinds: &'static [Entry],
        name: &str,
        path: &str,
        text: &str,
    ) -> Result<Self, Error> {
        if text.len() as u64 > limits::EXPERIMENT_LEN {
            let problem = format!("longer than {} bytes", limits::EXPERIMENT_LEN);
            return Err(Error::at(path, problem));
        }
        let experiment = Self {
            name: name.to_owned(),
            path: path.to_owned(),
            text: text.to_owned(),
            kinds,
            is_shipped: false,
        };
        let check = |quick| {
            let content = experiment.content(quick)?;
            let checked = content.check();
            checked.map_err(|violation| experiment.explain(&violation, quick))
        };
        check(false)?;
        if experiment.has_quick() {
            check(true)?;
        }
        Ok(experiment)
    }

    /// The experiment's content: the long form, or the one with the changes of `[quick]`.
    pub(crate) fn content(&self, quick: bool) -> Result<Content, Error> {
        let explain = |error: LocatedError| location::explain(&error, &self.path, &self.text, &[]);
        let parsed = DeTable::parse(&self.text).map_err(|error| explain(error.into()))?;
        let span = parsed.span();
        let mut table = parsed.into_inner();
        match table.remove("quick").map(Spanned::into_inner) {
            Some(DeValue::Table(changes)) if quick => overlay::apply(&mut table, changes),
            Some(DeValue::Table(_)) | None => {}
            Some(_) => {
                let problem = "is not a table: write the changes under [quick]";
                return Err(self.explain(&Violation::new("", 0, "quick", problem), false));
            }
        }
        let entry = self.entry(table.remove("kind").as_ref())?;
        let mut general = DeTable::new();
        for key in GENERAL {
            if let Some((key, value)) = table.remove_entry(key) {
                general.insert(key, value);
            }
        }
        // The tables of the kind first: a misspelt key of the laboratory is an unknown key there,
        // and here only a missing one.
        let own = Located::from(Spanned::new(span.clone(), table));
        let kind = (entry.read)(own)
            .map_err(|error| location::explain(&error, &self.path, &self.text, &GENERAL))?;
        let general = Located::from(Spanned::new(span, general));
        let mut general = General::deserialize(general).map_err(explain)?;
        general.read_rates();
        Ok(Content {
            general,
            kind_name: entry.name,
            kind,
            quick,
        })
    }

    /// The kind of that name; the default if the file names none.
    fn entry(&self, kind: Option<&Spanned<DeValue<'_>>>) -> Result<Entry, Error> {
        let name = kind.map_or(Some(kind::DEFAULT), |it| it.get_ref().as_str());
        let entry = self.kinds.iter().find(|it| Some(it.name) == name);
        entry.copied().ok_or_else(|| {
            let names: Vec<&str> = self.kinds.iter().map(|it| it.name).collect();
            let remedy = remedy(name.unwrap_or_default(), names);
            let problem = format!("is no kind of trial{remedy}");
            self.explain(&Violation::new("", 0, "kind", problem), false)
        })
    }

    /// Whether the file has a short form.
    #[must_use]
    pub fn has_quick(&self) -> bool {
        DeTable::parse(&self.text).is_ok_and(|it| it.get_ref().contains_key("quick"))
    }

    /// A violation as an error that names its place.
    pub(crate) fn explain(&self, violation: &Violation, quick: bool) -> Error {
        let Violation {
            table,
            nth,
            key,
            problem,
            others,
        } = violation;
        let mut problem = problem.clone();
        let mut line = None;
        let mut named = table.clone();
        if quick {
            // The wrong value may be in [quick] itself, or be wrong only with its changes.
            let inner = table.trim_matches(['[', ']']);
            let path = match inner {
                "" => "[quick]".to_owned(),
                _ => table.replace(inner, &format!("quick.{inner}")),
            };
            let nth = overlay::index_of_change(&self.text, inner, *nth);
            line = nth.and_then(|nth| location::line_of(&self.text, &path, nth, key));
            match line {
                Some(_) => named = path,
                None => problem.push_str(", with the changes of [quick]"),
            }
        }
        let line = line.or_else(|| location::line_of(&self.text, table, *nth, key));
        let path = &self.path;
        let place = match line {
            Some(line) => format!("{path}:{line}"),
            None => path.clone(),
        };
        let table = match named.as_str() {
            "" => String::new(),
            table => format!(" in {table}"),
        };
        let mut problem = format!("`{key}`{table} {problem}");
        for other in others {
            problem.push_str(&format!("\n{}", self.explain(other, quick)));
        }
        Error::at(place, problem)
    }

    /// The file's name in messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The question of the experiment.
    ///
    /// # Errors
    /// The file is invalid, which was checked when it was read.
    pub fn question(&self) -> Result<String, Error> {
        Ok(self.content(false)?.general.question)
    }

    /// The file's text.
    #[must_use]
    pub fn toml(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests;
