//! The answer of a run: its first sentence.
//!
//! The sentence is of the last stage and of one metric. An experiment may name the metric, the
//! baseline and the cells; without that, they are those of its first figure. If there are more than
//! [`LISTED`] comparisons, those at one point are told: where each number that is equal on both
//! sides has the value nearest to half load, its reference or, without one, the middle of its list.
//! The plan and the capacities alone determine the point, so that no other result can influence it.
//!
//! A sentence is the longest of several forms that has at most [`WORDS`] words.

use measure::{pooled_spread, repeats_to_decide};

use crate::cell::{self, Cell, Values};
use crate::comparison::{
    self, COULD_REVERSE, Comparison, Comparisons, Effect, Family, Scale, TOO_FEW_TRIALS, Verdict,
    Wanted, words,
};
use crate::figure::{Known, check_value, find};
use crate::published::{self, Pair, has_all};
use crate::record::{Better, Factor, Factors, Metric, Plan, Stage, Unit, Value, names};
use crate::{Run, findings, limits, units};

/// With up to this many comparisons, the sentence lists them.
const LISTED: usize = 3;
/// The most words of a sentence.
const WORDS: usize = 30;
/// The share of a capacity at which servers are compared.
const HALF: f64 = 0.5;
/// The effects of which it is told how many repeats would show them, in this order.
const EFFECTS: [f64; 6] = [0.05, 0.02, 0.01, 0.1, 0.2, 0.5];
/// The most repeats that it is told would show an effect.
const REPEATS: u32 = 100;

/// The cells of a stage with their comparisons.
pub(crate) struct StageResults<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) cells: Vec<Cell<'a>>,
    /// The factors that have several values in the stage.
    pub(crate) varied: Vec<&'a Factor>,
    /// None: no factor has several values in the stage.
    pub(crate) comparisons: Option<Comparisons<'a>>,
}

impl<'a> StageResults<'a> {
    /// The varied factors that tell cells apart, without those that follow from them: what the
    /// compared factor implies, and what is equal wherever the others are.
    pub(crate) fn telling(&self) -> Vec<&'a Factor> {
        let is_telling = |factor: &&Factor| {
            let comparisons = self.comparisons.as_ref();
            comparisons.is_none_or(|it| it.tells(factor))
        };
        self.varied.iter().copied().filter(is_telling).collect()
    }

    /// Whether nothing in the cells is left to chance: a model whose trials of a cell are equal.
    pub(crate) fn is_exact(&self, metric: &Metric) -> bool {
        let mut families = self.comparisons.iter().flat_map(|it| &it.families);
        let family = families.find(|it| it.metric.name == metric.name);
        let comparisons = family.iter().flat_map(|it| &it.comparisons);
        let mut effects = comparisons.filter_map(|it| match &it.verdict {
            Verdict::Decided(effect) | Verdict::Undecided(effect, _) => Some(effect.is_exact),
            Verdict::Unknown(_) | Verdict::Fails(_) => None,
        });
        effects.next().is_some_and(|it| it) && effects.all(|it| it)
    }
}

/// The cells of every stage, in the order of the plan.
pub(crate) fn stages(run: &Run) -> Vec<StageResults<'_>> {
    let last = run.plan.stages.len().saturating_sub(1);
    let stages = run.plan.stages.iter().enumerate().map(|(at, stage)| {
        let cells = cell::of_stage(run, stage);
        let wanted = wanted(&run.plan).filter(|_| at == last);
        let comparisons = comparison::of(run, stage, &cells, wanted);
        StageResults {
            stage,
            varied: cell::varied(&run.plan, stage),
            cells,
            comparisons,
        }
    });
    stages.collect()
}

/// Checks the answer of a plan that has all cells of its experiment.
///
/// # Errors
/// The key, and the problem, which follows the key in a sentence.
pub fn check(plan: &Plan) -> Result<(), (&'static str, String)> {
    let Some(answer) = &plan.answer else {
        return Ok(());
    };
    let wrong = |what: String| format!("is wrong: {what}");
    find(plan, &answer.metric, Known::Metric).map_err(|what| ("metric", wrong(what)))?;
    let metric = plan.metric(&answer.metric);
    if metric.is_some_and(|it| it.better == Better::Neither) {
        let problem = format!(
            "is `{}`, of which neither higher nor lower values are better",
            answer.metric
        );
        return Err(("metric", problem));
    }
    for (key, factors) in [("baseline", &answer.baseline), ("cells", &answer.cells)] {
        for (name, value) in factors {
            find(plan, name, Known::Factor).map_err(|what| (key, wrong(what)))?;
            check_value(plan, name, value).map_err(|what| (key, wrong(what)))?;
        }
        let mut cells = plan.last_stage().into_iter().flat_map(|it| &it.cells);
        if !cells.any(|cell| has_all(cell, factors)) {
            return Err((
                key,
                "matches no cell: no cell has all these values".to_owned(),
            ));
        }
    }
    let cells = || plan.last_stage().into_iter().flat_map(|it| &it.cells);
    let is_told =
        |cell: &&Factors| has_all(cell, &answer.cells) && !has_all(cell, &answer.baseline);
    if !answer.baseline.is_empty() && cells().find(is_told).is_none() {
        let problem = "leaves nothing to compare with the baseline: name fewer factors";
        return Err(("cells", problem.to_owned()));
    }
    Ok(())
}

/// What the experiment wants to have compared: by its answer, or else by its first figure.
fn wanted(plan: &Plan) -> Option<Wanted<'_>> {
    if let Some(answer) = plan.answer.as_ref().filter(|it| !it.baseline.is_empty()) {
        let mut factors = plan.factors.iter();
        return Some(Wanted {
            factor: factors.find(|it| answer.baseline.contains_key(&it.name))?,
            baseline: Some(&answer.baseline),
        });
    }
    let figure = plan.figures.first()?;
    let factor = |name: &Option<String>| plan.factor(name.as_ref()?);
    let named = || factor(&figure.x).filter(|it| it.is_named());
    Some(Wanted {
        factor: factor(&figure.by).or_else(named)?,
        baseline: None,
    })
}

/// The metric of the answer: that of which the experiment asks or, if nothing of it counts, the
/// first that its invalid trials spare. None: none of the stage's has a better direction.
pub(crate) fn metric<'a>(run: &'a Run, last: &StageResults<'a>) -> Option<&'a Metric> {
    let measured = cell::measured(&run.plan, &last.cells).into_iter();
    let measured = measured.filter(|metric| metric.better != Better::Neither);
    let measured: Vec<&Metric> = measured.collect();
    let is_known = |it: &&&Metric| {
        let told = told_of(run, last, it);
        told.is_some_and(|it| it.those.iter().any(|it| it.verdict.is_known()))
    };
    let faults = || {
        run.records
            .iter()
            .filter_map(|it| it.measured()?.fault.as_ref())
    };
    let is_spared = |it: &&&Metric| faults().any(|fault| fault.spares.contains(&it.name));
    let asked = measured.first();
    let spared = measured.iter().filter(is_spared);
    let mut candidates = asked.into_iter().chain(spared);
    candidates.find(is_known).or(asked).copied()
}

/// The metric of which the experiment asks, and the one that is told instead of it.
pub(crate) fn instead<'a>(
    run: &'a Run,
    last: &StageResults<'a>,
) -> Option<(&'a Metric, &'a Metric)> {
    let told = metric(run, last)?;
    let mut asked = cell::measured(&run.plan, &last.cells).into_iter();
    let asked = asked.find(|it| it.better != Better::Neither)?;
    (asked.name != told.name).then_some((asked, told))
}

/// The metrics of a table of at most `most` columns: that of the answer and others that have a
/// better direction or, if none has, any.
pub(crate) fn columns<'a>(run: &'a Run, last: &StageResults<'a>, most: usize) -> Vec<&'a Metric> {
    let measured = cell::measured(&run.plan, &last.cells);
    let has_direction = |metric: &&Metric| metric.better != Better::Neither;
    let is_any = !measured.iter().any(has_direction);
    let columns = measured.into_iter();
    let columns = columns.filter(|metric| is_any || has_direction(metric));
    let mut columns: Vec<&Metric> = columns.collect();
    let first = metric(run, last).map(|it| &it.name);
    columns.sort_by_key(|it| Some(&it.name) != first);
    columns.truncate(most);
    columns
}

/// What the sentence and its table are about.
pub(crate) struct Told<'r, 'a> {
    comparisons: &'r Comparisons<'a>,
    family: &'r Family<'a>,
    /// Those told.
    those: Vec<&'r Comparison<'a>>,
    cells: &'r [Cell<'a>],
}

/// The comparisons that are told. None: nothing is compared.
pub(crate) fn told<'r, 'a>(run: &'a Run, last: &'r StageResults<'a>) -> Option<Told<'r, 'a>> {
    told_of(run, last, metric(run, last)?)
}

fn told_of<'r, 'a>(
    run: &'a Run,
    last: &'r StageResults<'a>,
    metric: &Metric,
) -> Option<Told<'r, 'a>> {
    let comparisons = last.comparisons.as_ref()?;
    let mut families = comparisons.families.iter();
    let family = families.find(|family| family.metric.name == metric.name)?;
    let cells = last.cells.as_slice();
    let mut those: Vec<&Comparison> = family.comparisons.iter().collect();
    let is_told = |it: &&Comparison| {
        let (of, to) = (cells[it.of].factors, cells[it.to].factors);
        match (&run.plan.answer, run.plan.figures.first()) {
            (Some(answer), _) => has_all(of, &answer.cells) && has_all(to, &answer.baseline),
            // A figure of the baseline alone tells of no comparison.
            (None, Some(figure)) => figure.only.iter().all(|(name, value)| {
                *name == comparisons.factor.name || of.get(name) == Some(value)
            }),
            (None, None) => true,
        }
    };
    if those.iter().any(is_told) {
        those.retain(is_told);
    }
    let x = run.plan.figures.first().and_then(|it| it.x.as_ref());
    let is_x = |it: &&&Factor| Some(&it.name) == x;
    let numbers = comparisons.equal.iter().filter(|it| !it.is_named());
    let (first, rest): (Vec<&&Factor>, Vec<&&Factor>) = numbers.partition(is_x);
    for factor in first.into_iter().chain(rest) {
        if those.len() <= LISTED {
            break;
        }
        let values = those.iter().filter_map(|it| cells[it.of].value(factor));
        let values: Vec<&Value> = values.collect();
        let to = those.first().map(|it| cells[it.to].factors);
        if let Some(point) = point(run, factor, &values, to) {
            those.retain(|it| cells[it.of].value(factor) == Some(point));
        }
    }
    (!those.is_empty()).then_some(Told {
        comparisons,
        family,
        those,
        cells,
    })
}

/// The value of a factor at which cells are compared, of those that cells have.
fn point<'a>(
    run: &Run,
    factor: &'a Factor,
    known: &[&'a Value],
    baseline: Option<&Factors>,
) -> Option<&'a Value> {
    let values = factor.values.iter().filter(|it| known.contains(it));
    let values: Vec<&Value> = values.collect();
    let nearest = |wanted: f64| {
        let distance = |it: &&&Value| it.number().map_or(f64::MAX, |it| (it - wanted).abs());
        let mut by_distance = values.clone();
        by_distance.sort_by(|a, b| distance(&a).total_cmp(&distance(&b)));
        by_distance.first().copied()
    };
    let reference = factor.reference.as_ref();
    let reference = reference.and_then(|it| values.iter().copied().find(|value| *value == it));
    let half = match factor.name.as_str() {
        names::LEVEL => nearest(HALF),
        names::RATE => {
            let capacity = baseline.and_then(|cell| findings::capacity_of(run, cell));
            capacity.and_then(|it| nearest(HALF * it))
        }
        _ => None,
    };
    half.or(reference)
        .or_else(|| values.get(values.len() / 2).copied())
}

/// The sentence. Ends with a full stop.
pub(crate) fn sentence(run: &Run, last: Option<&StageResults>) -> String {
    let forms = forms(run, last);
    let words = |form: &&String| form.split_whitespace().count();
    let form = forms.iter().find(|it| words(it) <= WORDS);
    let form = form.or_else(|| forms.iter().min_by_key(words));
    let form = form.cloned().unwrap_or_default();
    let mut form: Vec<&str> = form.split_inclusive(char::is_whitespace).collect();
    let is_cut = form.len() > WORDS;
    form.truncate(WORDS);
    let form = form.concat();
    match is_cut {
        true => format!("{}…", capitalised(form.trim_end())),
        false => format!("{}.", capitalised(&form)),
    }
}

/// The text with a capital first letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), letters.as_str())
}

/// The sentence in several forms, the most telling first.
fn forms(run: &Run, last: Option<&StageResults>) -> Vec<String> {
    let Some(last) = last else {
        return vec!["the plan has no trials: there is no answer".to_owned()];
    };
    if last.cells.iter().all(|cell| cell.measured.is_empty()) {
        return vec!["no trial was measured: there is no answer".to_owned()];
    }
    let Some(metric) = metric(run, last) else {
        return vec!["no metric has a better direction, so nothing is compared".to_owned()];
    };
    let Some(told) = told(run, last) else {
        return alone(metric, last);
    };
    let pairs = published::pairs(run, last);
    let exact = match last.is_exact(metric) {
        true => "; one value each",
        false => "",
    };
    let forms = match told.those.as_slice() {
        [only] => told.one(only, &pairs),
        those if those.len() <= LISTED => told.few(&pairs),
        _ => told.many(),
    };
    let forms: Vec<String> = forms
        .into_iter()
        .map(|form| format!("{form}{exact}"))
        .collect();
    match instead(run, last) {
        None => forms,
        Some((asked, _)) => {
            let title = words::title(asked);
            let with =
                |form: &String| format!("{form}; the {title} {} not known", words::is(&title));
            let said: Vec<String> = forms.iter().map(with).collect();
            said.into_iter().chain(forms).collect()
        }
    }
}

/// Nothing is compared.
fn alone(metric: &Metric, last: &StageResults) -> Vec<String> {
    let title = words::title(metric);
    let is = words::is(&title);
    let medians = last.cells.iter();
    let medians = medians.filter_map(|it| Some(it.values(&metric.name).spread()?.median));
    let medians: Vec<f64> = medians.collect();
    let least = medians.iter().copied().reduce(f64::min);
    let greatest = medians.iter().copied().reduce(f64::max);
    match least.zip(greatest) {
        None => {
            let values = last.cells.iter().map(|it| it.values(&metric.name));
            let (mut failing, mut reason) = (true, None);
            for values in values {
                failing &= values.failing.is_some();
                reason = reason.or(values.reason);
            }
            let why = match (failing, reason) {
                (true, _) => "the server fails in every cell".to_owned(),
                (_, Some(why)) => format!("its values do not count: {why}"),
                _ => "it has no value".to_owned(),
            };
            vec![format!("the {title} {is} not known: {why}")]
        }
        Some((least, _)) if last.cells.len() == 1 => {
            let values = last.cells[0].values(&metric.name);
            let value = metric.unit.words(least);
            let range = values.median().filter(comparison::has_full_confidence);
            let range = range.map(|it| {
                let interval = it.interval;
                let range = metric.unit.range(it.value, interval.low, interval.high);
                units::bounded_range(&range, values.is_bound_at(interval.high))
            });
            let bound = units::lower_bound(values.is_lower_bound());
            let range = range.map(|it| format!(" {it}")).unwrap_or_default();
            let form = format!("the {title} {is} {bound}{value}");
            vec![format!("{form}{range}"), form]
        }
        Some((least, greatest)) => {
            let [least, greatest] = [least, greatest].map(|it| metric.unit.words(it));
            let cells = units::plural(medians.len() as u64, "cell");
            vec![format!("the {title} {is} {least} to {greatest} in {cells}")]
        }
    }
}

impl<'r> Told<'r, '_> {
    /// The indices of the cells that are told of.
    pub(crate) fn cells(&self) -> Vec<usize> {
        let mut cells: Vec<usize> = self.those.iter().flat_map(|it| [it.of, it.to]).collect();
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    /// The factors that are equal in all comparisons told, or that differ between them.
    fn equal(&self, shared: bool) -> Vec<&'r Factor> {
        let is_shared = |factor: &&&Factor| {
            let mut values = self.those.iter().map(|it| self.cells[it.of].value(factor));
            let first = values.next();
            values.all(|it| Some(it) == first) == shared
        };
        self.comparisons
            .equal
            .iter()
            .filter(is_shared)
            .copied()
            .collect()
    }

    /// Where all are: `, at load level 0.5`. Empty: everywhere.
    pub(crate) fn place(&self) -> String {
        let cell = self.those.first().map(|it| &self.cells[it.of]);
        let place = cell.map(|cell| words::place(&self.equal(true), cell));
        match place.unwrap_or_default() {
            place if place.is_empty() => place,
            place => format!(", {place}"),
        }
    }

    /// The effect in words, with the interval if that is wanted and there is one.
    fn effect(&self, effect: &Effect, with_interval: bool) -> String {
        match with_interval {
            true => self.family.effect(effect),
            false => self.family.short_effect(effect.estimate.value),
        }
    }

    /// One comparison.
    fn one(&self, it: &Comparison, pairs: &[Pair]) -> Vec<String> {
        let (title, place) = (words::title(self.family.metric), self.place());
        let is = words::is(&title);
        let sides = [it.value, self.comparisons.baseline];
        let [of, to] = sides.map(|value| self.comparisons.factor.label(value));
        let differ = if is == "are" { "differ" } else { "differs" };
        let what = format!("whether the {title} {differ} between {of} and {to}");
        let comma = if place.is_empty() { "" } else { "," };
        match &it.verdict {
            Verdict::Fails(reason) => {
                let of_fails = self.values(it.of).failing.is_some();
                let (fails, whole) = if of_fails { (of, it.to) } else { (to, it.of) };
                let whole = self.median(whole);
                let whole = whole.map(|it| format!("; the {title} {is} {it}"));
                let whole = whole.unwrap_or_default();
                vec![
                    format!("{reason}{place}{whole}"),
                    format!("{reason}{whole}"),
                    format!("{fails} fails{place}{whole}"),
                    format!("{fails} fails{place}"),
                ]
            }
            Verdict::Unknown(reason) => vec![
                format!("{what}{place}{comma} is not known: {reason}"),
                format!("{what} is not known: {reason}"),
                format!("the {title} {is} not known: {reason}"),
            ],
            Verdict::Undecided(effect, None) => {
                let others = self.others(it);
                let remedy = repeats(self.family, it, self.cells);
                let remedy = remedy.map(|it| format!("; {it}")).unwrap_or_default();
                let ending = format!("is undecided: {}{remedy}", self.of_effect(effect, true));
                vec![
                    format!("{what}{place}{others}{comma} {ending}"),
                    format!("{what}{place}{comma} {ending}"),
                    format!("{what} {ending}"),
                    format!("the {title} {ending}"),
                ]
            }
            Verdict::Decided(effect) => self.effect_of_one(it, effect, "", pairs),
            Verdict::Undecided(effect, Some(why)) => {
                self.effect_of_one(it, effect, caveat(effect, why), pairs)
            }
        }
    }

    /// One comparison that has an effect, with what qualifies it.
    fn effect_of_one(
        &self,
        it: &Comparison,
        effect: &Effect,
        caveat: &str,
        pairs: &[Pair],
    ) -> Vec<String> {
        let (title, place) = (words::title(self.family.metric), self.place());
        let is = words::is(&title);
        let (others, published) = (self.others(it), self.published(pairs));
        let sides = [it.value, self.comparisons.baseline];
        let [of, to] = sides.map(|value| words::subject(self.comparisons.factor, value));
        let both = [it.of, it.to].map(|cell| self.median(cell).unwrap_or_default());
        let both = format!("the {title} {is} {}", both.join(" and "));
        let (long, short) = (self.of_effect(effect, true), self.of_effect(effect, false));
        let differ = if is == "are" { "differ" } else { "differs" };
        let alone = match self.family.scale {
            Scale::Ratio => format!("the {title} {of} {is} {short} that {to}"),
            Scale::Difference => format!("the {title} {of} {differ} by {short} from that {to}"),
        };
        let factor = self.comparisons.factor;
        let [of_name, to_name] = sides.map(|value| factor.label(value));
        let by_name = match self.family.scale {
            Scale::Ratio if factor.is_named() => {
                format!("the {title} of {of_name} {is} {short} {to_name}'s{place}{caveat}")
            }
            _ => alone.clone(),
        };
        vec![
            format!("{both}{place}{others}: {long}{caveat}{published}"),
            format!("{both}{place}{others}: {short}{caveat}{published}"),
            format!("{both}{place}: {short}{caveat}{published}"),
            format!("{both}{place}: {short}{caveat}"),
            format!("{alone}{place}{caveat}"),
            by_name,
            format!("{alone}{caveat}"),
            format!("the {title} {is} {short} that {to}{caveat}"),
        ]
    }

    fn values(&self, cell: usize) -> Values {
        self.cells[cell].values(&self.family.metric.name)
    }

    /// `312 µs for curtail`. None: there is none.
    fn median(&self, cell: usize) -> Option<String> {
        let values = self.values(cell);
        let bound = units::lower_bound(values.is_lower_bound());
        let median = self.family.metric.unit.words(values.spread()?.median);
        let factor = self.comparisons.factor;
        let subject = words::subject(factor, self.cells[cell].value(factor)?);
        Some(format!("{bound}{median} {subject}"))
    }

    /// What differs besides the compared factor: `, with 4 threads instead of 5`. Empty: nothing.
    fn others(&self, it: &Comparison) -> String {
        match self.comparisons.differences(it, self.cells) {
            others if others.is_empty() => others,
            others => format!(", {others}"),
        }
    }

    /// `0.71 times [0.68, 0.74]`, `+3.2 ms [2.9, 3.6]`.
    fn of_effect(&self, effect: &Effect, with_interval: bool) -> String {
        let text = self.effect(effect, with_interval);
        match (self.family.scale, text.split_once(' ')) {
            (Scale::Difference, _) => text,
            (Scale::Ratio, Some((value, range))) => format!("{value} times {range}"),
            (Scale::Ratio, None) => format!("{text} times"),
        }
    }

    /// Two or three comparisons.
    fn few(&self, pairs: &[Pair]) -> Vec<String> {
        let (title, place) = (words::title(self.family.metric), self.place());
        let is = words::is(&title);
        let factor = self.comparisons.factor;
        let base = words::subject(factor, self.comparisons.baseline);
        let times = match self.family.scale {
            Scale::Ratio => " times",
            Scale::Difference => "",
        };
        // The effect, and what it is to be followed by.
        let text = |it: &Comparison, with_interval: bool| match &it.verdict {
            Verdict::Decided(effect) | Verdict::Undecided(effect, Some(_)) => {
                (self.effect(effect, with_interval), times, "")
            }
            Verdict::Undecided(effect, None) => {
                (self.effect(effect, with_interval), times, " (undecided)")
            }
            Verdict::Fails(_) => ("failing".to_owned(), "", ""),
            Verdict::Unknown(_) => ("not known".to_owned(), "", ""),
        };
        let first = self.those.first().map(|it| it.value);
        let is_one_value = self.those.iter().all(|it| Some(it.value) == first);
        let listed = |with_interval: bool| {
            let texts = self.those.iter().map(|it| (*it, text(it, with_interval)));
            if is_one_value {
                let texts = texts.map(|(_, (effect, _, mark))| format!("{effect}{mark}"));
                let texts = units::listed(&texts.collect::<Vec<_>>());
                let of = first
                    .map(|it| words::subject(factor, it))
                    .unwrap_or_default();
                return format!("the {title} {of} {is} {texts}{times} that {base}");
            }
            let each = texts.map(|(it, (effect, times, mark))| {
                format!("{effect}{times} {}{mark}", words::subject(factor, it.value))
            });
            let each = units::listed(&each.collect::<Vec<_>>());
            let base = factor.label(self.comparisons.baseline);
            format!("the {title} {is} {each}, compared with {base}")
        };
        let at = if is_one_value {
            self.each_place()
        } else {
            String::new()
        };
        let published = self.published(pairs);
        let is_open = |it: &&Comparison| matches!(it.verdict, Verdict::Undecided(_, Some(_)));
        let few = match self.those.iter().all(is_open) {
            true => format!("; {}", self.few_trials()),
            false => String::new(),
        };
        let (long, short) = (listed(true), listed(false));
        let by_name = match first.filter(|_| is_one_value && factor.is_named()) {
            Some(value) => {
                let texts = self.those.iter().map(|it| text(it, false));
                let texts = texts.map(|(effect, _, mark)| format!("{effect}{mark}"));
                let texts = units::listed(&texts.collect::<Vec<_>>());
                let title = title.split(" (").next().unwrap_or_default();
                let [of, to] = [value, self.comparisons.baseline].map(|it| factor.label(it));
                format!("the {title} of {of} {is} {texts}{times} {to}'s")
            }
            None => short.clone(),
        };
        let mut forms = vec![
            format!("{long}{at}{place}{published}{few}"),
            format!("{short}{at}{place}{published}{few}"),
            format!("{by_name}{at}{place}{published}{few}"),
            format!("{by_name}{at}{place}{published}"),
            format!("{by_name}{at}{published}"),
            format!("{by_name}{at}{place}{few}"),
            format!("{by_name}{at}{few}"),
            format!("{short}{place}{few}"),
            format!("{short}{few}"),
        ];
        forms.extend(self.many());
        forms
    }

    /// Where each comparison is, if they are of one value: `, for workload a, b and c`.
    fn each_place(&self) -> String {
        let differing = self.equal(false);
        let cells = || self.those.iter().map(|it| &self.cells[it.of]);
        let places: Vec<String> = match differing.as_slice() {
            [] => return String::new(),
            [factor] => {
                let values: Vec<&Value> = cells().filter_map(|it| it.value(factor)).collect();
                let texts: Vec<String> = values.iter().map(|it| factor.value_text(it)).collect();
                let last = values.last().map(|it| words::subject(factor, it));
                let (last, text) = (last.unwrap_or_default(), texts.last());
                // `with 4 threads` becomes `with 1 and 4 threads`.
                match text.filter(|it| last.matches(it.as_str()).count() == 1) {
                    Some(text) => vec![last.replacen(text, &units::listed(&texts), 1)],
                    None => texts,
                }
            }
            _ => words::joined(cells().map(|cell| words::place(&differing, cell)).collect()),
        };
        format!(", {}", units::listed(&places))
    }

    /// `; published 1.7 and 3.7`, if there is a published ratio of a comparison told.
    fn published(&self, pairs: &[Pair]) -> String {
        let same = |a: &Cell, b: &Cell| a.factors == b.factors;
        let of = |it: &&Comparison| {
            let (of, to) = (&self.cells[it.of], &self.cells[it.to]);
            let of_metric = pairs
                .iter()
                .filter(|it| it.metric.name == self.family.metric.name);
            let mut ratios = of_metric.clone().filter(|it| same(it.cell, of));
            let ratio = ratios.find(|it| it.other.as_ref().is_some_and(|(it, _)| same(it, to)));
            if let Some(pair) = ratio {
                return Some(pair.value);
            }
            let value = |cell: &Cell| {
                let mut own = of_metric.clone();
                let own = own.find(|it| it.other.is_none() && same(it.cell, cell));
                own.map(|it| it.value)
            };
            Some(value(of)? / value(to)?).filter(|it| it.is_finite())
        };
        let values: Vec<Option<f64>> = self.those.iter().map(of).collect();
        if self.family.scale != Scale::Ratio || values.iter().all(Option::is_none) {
            return String::new();
        }
        let ratio = Unit::ratio();
        let word = |it: &Option<f64>| it.map_or("none".to_owned(), |it| ratio.words(it));
        let words: Vec<String> = values.iter().map(word).collect();
        format!("; published {}", units::listed(&words))
    }

    /// More than three.
    fn many(&self) -> Vec<String> {
        let (title, place) = (words::title(self.family.metric), self.place());
        let is = words::is(&title);
        let factor = self.comparisons.factor;
        let base = factor.label(self.comparisons.baseline);
        let differing = self.equal(false);
        let name = |it: &Comparison, with_value: bool| {
            let cell = &self.cells[it.of];
            let value = with_value.then(|| factor.label(it.value));
            let others = differing.iter();
            let others = others.filter_map(|it| Some(it.label(cell.value(it)?)));
            value
                .into_iter()
                .chain(others)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let effect = |it: &&'r Comparison<'_>| match &it.verdict {
            Verdict::Decided(effect) | Verdict::Undecided(effect, _) => {
                Some((effect.estimate.value, *it))
            }
            Verdict::Unknown(_) | Verdict::Fails(_) => None,
        };
        let mut effects: Vec<(f64, &Comparison)> = self.those.iter().filter_map(effect).collect();
        effects.sort_by(|a, b| a.0.total_cmp(&b.0));
        let counts = self.counts();
        let (Some(least), Some(greatest)) = (effects.first(), effects.last()) else {
            return vec![format!(
                "the {title} {is} {counts}, compared with {base}{place}"
            )];
        };
        let times = match self.family.scale {
            Scale::Ratio => " times",
            Scale::Difference => "",
        };
        let texts = [least, greatest].map(|(value, _)| self.family.short_effect(*value));
        let is_one_value = self.those.iter().all(|it| it.value == least.1.value);
        let names = [least, greatest].map(|(_, it)| match name(it, !is_one_value) {
            name if name.is_empty() => name,
            name => format!(" ({name})"),
        });
        let of = match is_one_value {
            true => format!(" {}", words::subject(factor, least.1.value)),
            false => String::new(),
        };
        let [low, high] = texts;
        let [low_name, high_name] = names;
        let what = |low_name: &str, high_name: &str| match low == high {
            true => format!("the {title}{of} {is} {low}{times}"),
            false => format!("the {title}{of} {is} {low}{low_name} to {high}{times}{high_name}"),
        };
        let named = what(&low_name, &high_name);
        vec![
            format!("compared with {base}{place}, {named}: {counts}"),
            format!("compared with {base}, {named}: {counts}"),
            format!("compared with {base}{place}, {}: {counts}", what("", "")),
            format!("compared with {base}, {}: {counts}", what("", "")),
            format!("compared with {base}, {}", what("", "")),
        ]
    }

    /// `better in 3 and undecided in 2 of 5 comparisons`.
    fn counts(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for it in &self.those {
            let word = match &it.verdict {
                Verdict::Decided(effect) => self.family.quality(effect),
                Verdict::Undecided(_, None) => "undecided",
                Verdict::Undecided(..) => "open",
                Verdict::Fails(_) => "failing",
                Verdict::Unknown(_) => "not known",
            };
            match counts.iter_mut().find(|(other, _)| *other == word) {
                Some((_, count)) => *count += 1,
                None => counts.push((word, 1)),
            }
        }
        if let [("open", _)] = counts.as_slice() {
            return self.few_trials().to_owned();
        }
        let parts = counts
            .iter()
            .map(|(word, count)| format!("{word} in {count}"));
        let all = units::plural(self.those.len() as u64, "comparison");
        format!("{} of {all}", units::listed(&parts.collect::<Vec<_>>()))
    }

    /// Why effects without a verdict have none.
    fn few_trials(&self) -> &'static str {
        let samples = self.those.iter().filter_map(|it| match &it.verdict {
            Verdict::Decided(effect) | Verdict::Undecided(effect, _) => {
                Some(effect.estimate.samples)
            }
            Verdict::Unknown(_) | Verdict::Fails(_) => None,
        });
        match samples.max() {
            Some(2..) => "too few trials to decide",
            _ => "one trial each",
        }
    }
}

/// What would decide a comparison: `12 repeats would show 5 %`. None: nothing promises that.
pub(crate) fn repeats(family: &Family, it: &Comparison, cells: &[Cell]) -> Option<String> {
    let values = [it.of, it.to].map(|cell| cells[cell].values(&family.metric.name).valid);
    let had = values.iter().map(Vec::len).min()? as u32;
    // Of two trials, the spread is a guess.
    let spread = pooled_spread(values.iter().map(Vec::as_slice)).filter(|_| had > 2)?;
    let shows = EFFECTS.into_iter().find_map(|effect| {
        let repeats = repeats_to_decide(spread, effect)?;
        (repeats > had && repeats <= REPEATS).then_some((repeats, effect))
    });
    let (repeats, effect) = shows.filter(|_| family.scale == Scale::Ratio)?;
    Some(format!(
        "{repeats} repeats would show {}",
        units::percent(effect)
    ))
}

/// Why an effect with an interval that excludes none is not decided, after the effect.
fn caveat(effect: &Effect, why: &str) -> &'static str {
    match why {
        _ if effect.estimate.samples < 2 => " (one trial each)",
        TOO_FEW_TRIALS => ", from too few trials to decide",
        COULD_REVERSE => ", but lower bounds could reverse it",
        _ => ", not significant among all comparisons",
    }
}

/// The cells of the table below the answer: indices, and the words of the point that they share,
/// if they are not all.
pub(crate) fn shown(run: &Run, last: &StageResults) -> (Vec<usize>, Option<String>) {
    let mut all: Vec<usize> = (0..last.cells.len()).collect();
    if all.len() <= limits::FRONT_ROWS {
        return (all, None);
    }
    let told = told(run, last);
    let Some((cells, place)) = told.map(|it| (it.cells(), it.place())) else {
        all.truncate(limits::FRONT_ROWS);
        return (all, None);
    };
    let place = place.strip_prefix(", ").map(str::to_owned);
    let all_fit = cells.len() <= limits::FRONT_ROWS;
    let cells = cells.into_iter().take(limits::FRONT_ROWS).collect();
    (cells, place.filter(|_| all_fit))
}

/// The comparison of a cell. None: it is the baseline, or is compared with nothing.
pub(crate) fn comparison_of<'f, 'a>(
    family: &'f Family<'a>,
    cell: usize,
) -> Option<&'f Comparison<'a>> {
    family.comparisons.iter().find(|it| it.of == cell)
}
