//! The schedule of a run: requests, their intended times and their connections.

use std::ops::Range;

use crate::arrivals::{Arrivals, ArrivalsError, Superposition};
use crate::limits::{MULTIGET_KEYS_MAX, RECORDS_MAX, TTL_S_MAX};
use crate::random_stream::splitmix_output;
use crate::{Distribution, Mix, Op, Popularity, Purpose, RandomStream, RecordSampler, WebFiles};

/// One request of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// The record; the first one of a multiget.
    pub record: u64,
    /// The TTL in seconds, or what a multiget's further records are drawn from.
    detail: u32,
    /// Number of keys; 1 but for multigets.
    pub keys: u16,
    /// The operation.
    pub op: Op,
}

// A generator holds millions of planned requests.
const _: () = assert!(size_of::<Request>() == 16 && size_of::<PlannedRequest>() == 32);

impl Request {
    /// A request of one key without a TTL.
    #[inline]
    #[must_use]
    pub fn new(op: Op, record: u64) -> Self {
        Self {
            record,
            detail: 0,
            keys: 1,
            op,
        }
    }

    /// The same with a TTL in seconds; 0: the item does not expire.
    #[must_use]
    pub fn with_ttl(self, ttl_s: u32) -> Self {
        Self {
            detail: ttl_s.min(TTL_S_MAX),
            ..self
        }
    }

    /// A request for several keys.
    #[must_use]
    pub fn multiget(record: u64, keys: u16, seed: u32) -> Self {
        Self {
            record,
            detail: seed,
            keys,
            op: Op::MultiGet,
        }
    }

    /// The TTL in seconds; 0: the item does not expire.
    #[inline]
    #[must_use]
    pub fn ttl_s(&self) -> u32 {
        if self.op.has_ttl() { self.detail } else { 0 }
    }

    /// The request that follows the answer to this one, on the same record with the same TTL.
    #[must_use]
    pub fn follow_up(&self) -> Option<Self> {
        let op = self.op.follow_up()?;
        Some(Self { op, ..*self })
    }

    /// The records of a multiget: the first, then others as popular as the sampler makes them. A
    /// pure function of the request.
    pub fn records<'a>(&self, sampler: &'a RecordSampler) -> impl Iterator<Item = u64> + 'a {
        let index = self.record ^ u64::from(self.detail) << 30;
        let mut stream = RandomStream::new(index, Purpose::MultiGet, 0);
        let further = (1..self.keys).map(move |_| sampler.draw(&mut stream));
        std::iter::once(self.record).chain(further)
    }
}

/// One planned request of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlannedRequest {
    /// From the schedule's beginning.
    pub intended_ns: u64,
    /// What is requested.
    pub request: Request,
    /// The connection, from 0.
    pub connection: u32,
}

/// The offered load of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// Seeds every random choice.
    pub seed: u64,
    /// Which of the seed's schedules. All of them have the same popular records; times and requests
    /// are independent of each other.
    pub repeat: u64,
    /// Connections in all.
    pub connections: u32,
    /// Distribution of gaps between requests; only its shape matters.
    pub arrivals: Distribution,
    /// How the connections' arrivals combine.
    pub superposition: Superposition,
    /// Distribution of popularity.
    pub popularity: Popularity,
    /// Records in all. Not used if there are files.
    pub records: u64,
    /// The files that are requested instead of records: a request's record is then the number of a
    /// file, and the popularity is that of the directories. None: records are requested.
    pub files: Option<WebFiles>,
    /// The shares of the operations.
    pub mix: Mix,
    /// Distribution of TTLs in seconds, rounded; `fixed:0`: no item expires. Of any other
    /// distribution, samples below 1 s count as 1 s and those above 30 days as 30 days
    /// ([`TTL_S_MAX`]): 0 would mean no expiry, and memcached takes larger numbers for Unix times.
    pub ttl: Distribution,
    /// Distribution of the number of keys of a multiget, rounded, from 1 to
    /// [`MULTIGET_KEYS_MAX`].
    pub multiget: Distribution,
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
            self.repeat_seed(),
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
        RandomStream::new(self.repeat_seed(), Purpose::Requests, u64::from(connection))
    }

    /// The seed of times and requests; for the first repeat, the seed itself.
    fn repeat_seed(&self) -> u64 {
        match self.repeat {
            0 => self.seed,
            repeat => self.seed ^ splitmix_output(repeat),
        }
    }

    fn request_sampler(&self) -> Result<RequestSampler, DemandError> {
        if let Some(share) = self.mix.invalid_share() {
            return Err(DemandError::Update(share));
        }
        if !(1..=RECORDS_MAX).contains(&self.records) {
            return Err(DemandError::Records(self.records));
        }
        Ok(RequestSampler {
            sampler: self.record_sampler(),
            files: self.files.is_some(),
            mix: self.mix.clone(),
            ttl: (self.ttl != Distribution::Fixed(0.0)).then_some(self.ttl),
            multiget: self.multiget,
        })
    }

    /// Draws records, or the directories of files, by their popularity.
    #[must_use]
    pub fn record_sampler(&self) -> RecordSampler {
        let directories = self.files.map(|files| u64::from(files.directories()));
        RecordSampler::new(
            self.popularity,
            directories.unwrap_or(self.records),
            self.seed,
        )
    }
}

/// Draws the requests of every connection.
///
/// The order of draws is fixed: the operation, the record, then what the operation needs beyond
/// them. So a load of gets and sets without TTL is the same as before there were others.
#[derive(Debug, Clone)]
struct RequestSampler {
    sampler: RecordSampler,
    /// Whether the sampler draws directories, of each of which a file is drawn.
    files: bool,
    mix: Mix,
    ttl: Option<Distribution>,
    multiget: Distribution,
}

impl RequestSampler {
    #[inline]
    fn next(&self, stream: &mut RandomStream) -> Request {
        let op = self.mix.of(stream.unit());
        let mut record = self.sampler.draw(stream);
        if self.files {
            record = WebFiles::draw_in(record, stream);
        }
        let request = Request::new(op, record);
        if op == Op::MultiGet {
            return self.multiget(request, stream);
        }
        match &self.ttl {
            Some(ttl) if op.has_ttl() => {
                // `as` saturates at the bounds of the type.
                let ttl_s = libm::round(ttl.sample(stream)) as u32;
                request.with_ttl(ttl_s.max(1))
            }
            _ => request,
        }
    }

    fn multiget(&self, first: Request, stream: &mut RandomStream) -> Request {
        let keys = libm::round(self.multiget.sample(stream)) as u16;
        let seed = (stream.next_u64() >> 32) as u32;
        Request::multiget(first.record, keys.clamp(1, MULTIGET_KEYS_MAX), seed)
    }
}

/// The infinite sequence of requests of a connection, without times.
#[derive(Debug, Clone)]
pub struct Requests {
    stream: RandomStream,
    sampler: RequestSampler,
}

impl Iterator for Requests {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
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
        Some(PlannedRequest {
            intended_ns: arrival.intended_ns,
            request: self.sampler.next(stream),
            connection: arrival.connection,
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
        let Request {
            record,
            detail,
            keys,
            op,
        } = planned.request;
        let connection = u64::from(planned.connection) << 1;
        // Gets and sets keep the digests they had when there was nothing else.
        let rest = match op {
            Op::Get | Op::Set => connection | op as u64,
            _ => connection | (op as u64) << 40 | u64::from(keys) << 48,
        };
        let words = [planned.intended_ns, record, rest, detail.into()];
        let count = if detail == 0 { 3 } else { 4 };
        words[..count].iter().fold(self, |digest, word| {
            Self(splitmix_output(digest.0.rotate_left(5) ^ word))
        })
    }

    /// The digest as a number.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}
