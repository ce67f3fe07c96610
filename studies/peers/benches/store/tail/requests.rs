//! What is asked of a store, and who asks it.

use std::thread;

use store::{Deleted, Expiry, Miss, Mode, Published, Read, Rejected, Worker, Write};
use workload::{Distribution, Popularity, Purpose, RandomStream, RecordSampler, SizeDistribution};

pub(crate) const RECORDS: u32 = 1_000_000;
const VALUE_MAX: u32 = 8_000;

/// What is to be done with a record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wish {
    /// Read it; where nothing is found, set it.
    Get,
    /// Set it, to expire in a while.
    Set,
    Delete,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) wish: Wish,
    key: [u8; 8],
    /// Length of the value, if one is written.
    pub(crate) len: usize,
}

/// Gets, sets where nothing is found, and some of everything else: the same each time.
pub(crate) struct Requests {
    picker: RecordSampler,
    sizes: SizeDistribution,
    stream: RandomStream,
}

impl Requests {
    pub(crate) fn new() -> Self {
        let popularity = "zipf:0.9".parse().unwrap_or(Popularity::Uniform);
        Self {
            picker: RecordSampler::new(popularity, u64::from(RECORDS), 1),
            sizes: SizeDistribution::new(
                "fb_value".parse().unwrap_or(Distribution::Fixed(329.0)),
                1,
                VALUE_MAX,
            ),
            stream: RandomStream::new(5, Purpose::Other, 0),
        }
    }

    pub(crate) fn draw(&mut self) -> Request {
        let record = self.picker.draw(&mut self.stream);
        let key = record.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let len = self.sizes.len_of(self.stream.next_u64()) as usize;
        let wish = match self.stream.below(100) {
            0..80 => Wish::Get,
            80..95 => Wish::Set,
            _ => Wish::Delete,
        };
        Request { wish, key, len }
    }
}

/// Asks a store, and takes what it answers.
pub(crate) struct Client {
    pub(crate) worker: Worker,
    pub(crate) now_s: u32,
    value: Vec<u8>,
    out: Vec<u8>,
}

impl Client {
    pub(crate) fn new(worker: Worker) -> Self {
        Self {
            worker,
            now_s: 1,
            value: vec![b'v'; VALUE_MAX as usize],
            out: Vec::with_capacity(VALUE_MAX as usize),
        }
    }

    /// How long the value is, or why there is none.
    pub(crate) fn get(&mut self, request: &Request) -> Result<usize, Miss> {
        let (key, out) = (&request.key, &mut self.out);
        out.clear();
        let hash = self.worker.hash(key);
        self.worker
            .read(key, hash, self.now_s, Read::default(), |item| {
                item.value().for_each(|piece| out.extend_from_slice(piece));
                Some(())
            })?;
        Ok(self.out.len())
    }

    /// Sets a record that was not found.
    pub(crate) fn set_missed(&mut self, request: &Request) -> Result<Published, Rejected> {
        self.set_until(request, Expiry::NEVER)
    }

    /// Sets a record that expires in a while.
    pub(crate) fn set(&mut self, request: &Request) -> Result<Published, Rejected> {
        let expiry = Expiry::at(self.now_s + 1 + request.len as u32 % 100);
        self.set_until(request, expiry)
    }

    fn set_until(&mut self, request: &Request, expiry: Expiry) -> Result<Published, Rejected> {
        let key = &request.key;
        let (hash, write) = (self.worker.hash(key), Write::plain(Mode::Set, expiry));
        let value = &self.value[..request.len];
        loop {
            match self.worker.put(key, hash, value, &write, self.now_s) {
                Err(Rejected::Deferred) => thread::yield_now(),
                done => return done,
            }
        }
    }

    pub(crate) fn delete(&mut self, request: &Request) -> Deleted {
        let key = &request.key;
        let hash = self.worker.hash(key);
        self.worker.delete(key, hash, None, self.now_s)
    }
}
