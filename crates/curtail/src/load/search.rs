//! `curtail load --slo`: the flags of the search for the sustained throughput, and its output.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use ::load::limits::SEARCH_TRIALS_MAX;
use ::load::search::{self, SearchConfig, SearchEvent};
use ::load::{Config, Objective, Rate};
use anyhow::bail;
use clap::Args;

use super::{Flags, parse, write_json};

/// The flags of a search.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub(super) struct SearchFlags {
    /// Search for the highest rate that keeps latency objectives: mean=TIME or pN=TIME, such as
    /// p99=500us; several with commas. --rate is the first rate, --duration that of each trial
    #[arg(long, value_name = "OBJECTIVES", value_delimiter = ',', value_parser = parse::<Objective>)]
    slo: Vec<Objective>,

    /// Greatest share of requests that fail: answered with an error, or not at all
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = units::share,
          requires = "slo")]
    slo_failures: f64,

    /// Trials at most
    #[arg(long, value_name = "N", default_value_t = 40, requires = "slo")]
    search_trials: usize,

    /// Width of the interval at which the search ends
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = units::share,
          requires = "slo")]
    search_resolution: f64,
}

impl SearchFlags {
    /// Whether a search is wanted.
    pub(super) fn is_given(&self) -> bool {
        !self.slo.is_empty()
    }

    /// The settings of the search.
    ///
    /// # Errors
    /// A flag has no valid value.
    pub(super) fn config(&self, config: &Config) -> anyhow::Result<SearchConfig> {
        if config.rate == Rate::Max {
            bail!("--rate max: a search needs an offered rate to begin with, such as 20k");
        }
        if !(1..=SEARCH_TRIALS_MAX).contains(&self.search_trials) {
            bail!(
                "--search-trials {}: give 1 to {SEARCH_TRIALS_MAX}",
                self.search_trials
            );
        }
        let resolution = self.search_resolution;
        if resolution < 0.005 {
            bail!(
                "--search-resolution {}: give 0.5% to 100%",
                units::show_share(resolution)
            );
        }
        let mut search = SearchConfig::new(self.slo.clone());
        search.criteria.failures_max = self.slo_failures;
        search.trials_max = self.search_trials;
        search.resolution = resolution;
        search.validate(config)?;
        Ok(search)
    }

    /// Searches. `resident` is the result of the prefill.
    pub(super) fn run(
        &self,
        config: &Config,
        search_config: &SearchConfig,
        resident: Option<f64>,
        flags: &Flags,
    ) -> anyhow::Result<ExitCode> {
        let is_verbose = flags.is_verbose();
        let is_on_terminal = is_verbose && io::stderr().is_terminal();
        if is_verbose {
            let objectives: Vec<String> = self.slo.iter().map(ToString::to_string).collect();
            println!("search: the highest rate with {}", objectives.join(", "));
        }
        let mut trial = String::new();
        let mut searched = search::search(config, search_config, |event| match event {
            SearchEvent::Begin(number, rate_rps) => {
                trial = format!("trial {number} at {}/s", units::show_rate(rate_rps));
            }
            SearchEvent::Second(second) if is_on_terminal => {
                let at = units::duration_text(Duration::from_nanos(second.at_ns));
                let p99 = second.p99.map(|p99| units::show_duration(p99.value_ns));
                let p99 = p99.unwrap_or_else(|| "-".to_owned());
                eprint!("\r\x1b[K{trial}: {at}, p99 {p99}");
            }
            SearchEvent::Second(_) => {}
            SearchEvent::Trial(trial, left_ns) => {
                if is_on_terminal {
                    eprint!("\r\x1b[K");
                }
                if is_verbose {
                    let trials_max = search_config.trials_max;
                    println!("{}", search::trial_line(trial, trials_max, left_ns));
                }
            }
        })?;
        searched.resident = resident;
        if !flags.is_json_to_stdout() {
            print!("\n{}", search::result(&searched));
        }
        if let Some(path) = &flags.json {
            write_json(path, |is_pretty| match is_pretty {
                true => serde_json::to_string_pretty(&searched),
                false => serde_json::to_string(&searched),
            })?;
        }
        Ok(match searched.has_answer() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}
