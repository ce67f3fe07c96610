//! The schedule of a run: requests, their intended times and their connections.

use std::ops::Range;

use crate::arrivals::{Arrivals, ArrivalsError, Superposition};
use crate::limits::RECORDS_MAX;
use crate::random_stream::splitmix_output;
use crate::{Distribution, Popularity, Purpose, RandomStream, RecordSampler};

/// The operation on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read it.
    Get,
    /// Write it.
    Set,
}

/// One planned request of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlannedRequest {
    /// From the schedule's beginning.
    pub intended_ns: u64,
    /// Which record.
    pub record: u64,
    /// The connection, from 0.
    pub connection: u32,
    /// Get or set.
    pub op: Op,
}

/// The offered load of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// Seeds every random choice.
    pub seed: u64,
    /// Connections in all.
    pub connections: u32,
    /// Distribution of gaps between requests; only its shape matters.
    pub arrivals: Distribution,
    /// How the connections' arrivals combine.
    pub superposition: Superposition,
    /// Distribution of popularity.
    pub popularity: Popularity,
    /// Records in all.
    pub records: u64,
    /// Share of sets, 0 to 1.
    pub update: f64,
}

/// Why a demand is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DemandError {
    /// The arrivals are invalid.
    #[error(transparent)]
    Arrivals(#[from] ArrivalsError),
    /// The share of sets is not between 0 and 1.
    #[error("update {0}: give the share of sets, from 0 to 1")]
    Update(f64),
    /// No records, or too many.
    #[error("{0} records: give between 1 and {RECORDS_MAX}")]
    Records(u64),
}

impl Demand {
    /// The schedule at an offered rate.
    ///
    /// # Errors
    /// The demand is invalid.
    pub fn schedule(&self, rate_rps: f64) -> Result<Schedule, DemandError> {
        self.schedule_of(rate_rps, 0..self.connections)
    }

    /// The part of the schedule for some of the connections. The parts add up to the whole:
    /// dividing the connections among threads changes neither requests nor times.
    ///
    /// # Errors
    /// The demand is invalid.
    pub fn schedule_of(&self, rate_rps: f64, part: Range<u32>) -> Result<Schedule, DemandError> {
        let first = part.start;
        let arrivals = Arrivals::new(
            self.arrivals,
            self.superposition,
            rate_rps,
            self.connections,
            part.clone(),
            self.seed,
        )?;
        let streams = part
            .map(|connection| self.request_stream(connection))
            .collect();
        Ok(Schedule {
            arrivals,
            streams,
            first,
            sampler: self.request_sampler()?,
        })
    }

    /// The sequence of requests of one connection without times, for a closed loop. It is the same
    /// sequence as in the schedule.
    ///
    /// # Errors
    /// The demand is invalid.
    pub fn requests(&self, connection: u32) -> Result<Requests, DemandError> {
        Ok(Requests {
            stream: self.request_stream(connection),
            sampler: self.request_sampler()?,
        })
    }

    fn request_stream(&self, connection: u32) -> RandomStream {
        RandomStream::new(self.seed, Purpose::Requests, u64::from(connection))
    }

    fn request_sampler(&self) -> Result<RequestSampler, DemandError> {
        if !(0.0..=1.0).contains(&self.update) {
            return Err(DemandError::Update(self.update));
        }
        if !(1..=RECORDS_MAX).contains(&self.records) {
            return Err(DemandError::Records(self.records));
        }
        let sampler = RecordSampler::new(self.popularity, self.records, self.seed);
        Ok(RequestSampler {
            sampler,
            update: self.update,
        })
    }
}

/// Draws the requests of every connection.
#[derive(Debug, Clone)]
struct RequestSampler {
    sampler: RecordSampler,
    update: f64,
}

impl RequestSampler {
    #[inline]
    fn next(&self, stream: &mut RandomStream) -> (u64, Op) {
        let op = if stream.unit() < self.update {
            Op::Set
        } else {
            Op::Get
        };
        (self.sampler.draw(stream), op)
    }
}

/// The infinite sequence of requests of a connection, without times.
#[derive(Debug, Clone)]
pub struct Requests {
    stream: RandomStream,
    sampler: RequestSampler,
}

impl Iterator for Requests {
    type Item = (u64, Op);

    #[inline]
    fn next(&mut self) -> Option<(u64, Op)> {
        Some(self.sampler.next(&mut self.stream))
    }
}

/// The infinite sequence of planned requests, in the order of their intended times.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    streams: Vec<RandomStream>,
    first: u32,
    sampler: RequestSampler,
}

impl Iterator for Schedule {
    type Item = PlannedRequest;

    #[inline]
    fn next(&mut self) -> Option<PlannedRequest> {
        let arrival = self.arrivals.next()?;
        let stream = &mut self.streams[(arrival.connection - self.first) as usize];
        let (record, op) = self.sampler.next(stream);
        Some(PlannedRequest {
            intended_ns: arrival.intended_ns,
            record,
            connection: arrival.connection,
            op,
        })
    }
}

/// A digest of planned requests: equal for equal schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(u64);

impl Digest {
    /// The digest of some requests.
    pub fn of(requests: impl IntoIterator<Item = PlannedRequest>) -> Self {
        requests.into_iter().fold(Self::default(), Self::with)
    }

    /// The digest with one more request.
    #[must_use]
    pub fn with(self, planned: PlannedRequest) -> Self {
        let rest = u64::from(planned.connection) << 1 | u64::from(planned.op == Op::Set);
        [planned.intended_ns, planned.record, rest]
            .into_iter()
            .fold(self, |digest, word| {
                Self(splitmix_output(digest.0.rotate_left(5) ^ word))
            })
    }

    /// The digest as a number.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}
