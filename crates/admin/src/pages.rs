//! The pages, by path.

mod index;
mod json;
mod metrics;
mod openmetrics;
mod rows;

use crate::figures::Figures;
use crate::source::Source;
use http::{Request, Status};
use openmetrics::Exposition;

/// The media type of a line of text.
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    Index,
    Metrics,
    Stats,
    Health,
    Ready,
}

impl Page {
    const ALL: [Self; 5] = [
        Self::Index,
        Self::Metrics,
        Self::Stats,
        Self::Health,
        Self::Ready,
    ];

    fn path(self) -> &'static str {
        match self {
            Self::Index => "/",
            Self::Metrics => "/metrics",
            Self::Stats => "/stats.json",
            Self::Health => "/health",
            Self::Ready => "/ready",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Index => "this list",
            Self::Metrics => "all figures, for Prometheus and its like",
            Self::Stats => "statistics, settings and latencies as JSON",
            Self::Health => "200 while the process answers",
            Self::Ready => "200 while the server takes connections, else 503",
        }
    }

    /// Writes the body of the reply to a GET. Returns its status and media type.
    pub(crate) fn write(
        request: &Request<'_>,
        source: &dyn Source,
        out: &mut Vec<u8>,
    ) -> (Status, &'static str) {
        let path = request.path();
        match Self::ALL.into_iter().find(|page| page.path() == path) {
            Some(Self::Index) => {
                let others = Self::ALL.into_iter().filter(|page| *page != Self::Index);
                index::write(others.map(|page| (page.path(), page.description())), out);
                (Status::Ok, HTML)
            }
            Some(Self::Metrics) => {
                let exposition = Exposition::asked_for(request);
                metrics::write(&stats(source), source.latencies().as_ref(), exposition, out);
                (Status::Ok, exposition.content_type())
            }
            Some(Self::Stats) => {
                let settings = figures(|settings| source.write_settings(settings));
                json::write(&stats(source), &settings, source.latencies().as_ref(), out);
                (Status::Ok, JSON)
            }
            Some(Self::Health) => {
                out.extend_from_slice(b"ok\n");
                (Status::Ok, PLAIN)
            }
            Some(Self::Ready) if source.is_ready() => {
                out.extend_from_slice(b"ready\n");
                (Status::Ok, PLAIN)
            }
            Some(Self::Ready) => {
                out.extend_from_slice(b"not ready\n");
                (Status::ServiceUnavailable, PLAIN)
            }
            None => {
                not_found(out);
                (Status::NotFound, PLAIN)
            }
        }
    }
}

fn not_found(out: &mut Vec<u8>) {
    out.extend_from_slice(b"no such page; there are\n");
    for page in Page::ALL {
        let line = format!("{:<12} {}\n", page.path(), page.description());
        out.extend_from_slice(line.as_bytes());
    }
}

fn stats(source: &dyn Source) -> Figures {
    figures(|stats| source.write_stats(stats))
}

fn figures(write: impl FnOnce(&mut Figures)) -> Figures {
    let mut figures = Figures::default();
    write(&mut figures);
    figures
}
