//! Requests to answers: the part of the server that has no sockets.

use std::sync::Arc;

use sys::clock::{thread_cpu_ns, unix_ns};

use super::control::Control;
use super::counters::{WorkerCounters, add};
use crate::textile::wire::{self, Request};
use crate::textile::{SmallCache, Stored};

/// A worker's handle on the cache, with its counters.
pub(crate) struct Handler {
    cache: Box<dyn SmallCache>,
    pub(crate) counters: Arc<WorkerCounters>,
    control: Arc<Control>,
    /// Space for a value that is read.
    value: Vec<u8>,
}

impl Handler {
    pub(crate) fn new(
        cache: Box<dyn SmallCache>,
        counters: Arc<WorkerCounters>,
        control: Arc<Control>,
    ) -> Self {
        Self {
            cache,
            counters,
            control,
            value: Vec::new(),
        }
    }

    /// Appends the answer to a request over TCP, which is given without its NUL.
    pub(crate) fn answer_tcp(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let answer = match wire::parse(text) {
            Some(Request::Put { key, value }) => self.set(key, value),
            Some(Request::Delete(key)) => {
                self.timed(|cache| cache.delete(key));
                add(&self.counters.deletes, 1);
                wire::DELETED
            }
            Some(Request::Get(_)) | None => {
                add(&self.counters.malformed, 1);
                wire::MALFORMED
            }
            Some(Request::ResetCounters) => {
                // First, so that this request counts among those before the reset.
                add(&self.counters.others, 1);
                self.control.reset_counters();
                wire::COUNTERS_RESET
            }
            Some(request) => {
                add(&self.counters.others, 1);
                return self.answer_other(request, out);
            }
        };
        wire::write_text(out, answer);
    }

    /// Appends the answer to a request over UDP, which is given with its NUL. Only `GET` has one.
    pub(crate) fn answer_udp(&mut self, datagram: &[u8], out: &mut Vec<u8>) {
        let text = datagram.split(|&byte| byte == 0).next().unwrap_or_default();
        let Some(Request::Get(key)) = wire::parse(text).filter(|_| text.len() < datagram.len())
        else {
            add(&self.counters.malformed, 1);
            return;
        };
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        let found = self.timed(|cache| cache.get(key, &mut value));
        wire::write_value(out, key, found.then_some(&value));
        self.value = value;
        add(&self.counters.gets, 1);
        add(&self.counters.hits, found.into());
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> &'static str {
        let outcome = self.timed(|cache| cache.set(key, value));
        add(&self.counters.sets, 1);
        match outcome {
            Stored::Stored => wire::STORED,
            Stored::TooLarge => {
                add(&self.counters.rejected, 1);
                wire::TOO_LARGE
            }
            Stored::NoRoom => {
                add(&self.counters.rejected, 1);
                wire::NO_ROOM
            }
        }
    }

    fn answer_other(&mut self, request: Request<'_>, out: &mut Vec<u8>) {
        match request {
            Request::MemSize(size) => {
                if self.cache.set_maxmem(size) {
                    wire::write_text(out, &format!("Cache created with maxmem of {size}.\n"));
                } else {
                    wire::write_text(out, wire::NOT_EMPTY);
                }
            }
            Request::Shutdown if self.control.allows_shutdown() => {
                wire::write_text(out, wire::SHUTDOWN);
                self.control.stop();
            }
            Request::Shutdown => wire::write_text(out, wire::NO_SHUTDOWN),
            _ => {
                let used = self.cache.space_used();
                wire::write_text(out, &head(unix_ns() / 1_000_000_000, used));
            }
        }
    }

    /// Calls the cache, and counts the processor time.
    fn timed<T>(&mut self, call: impl FnOnce(&mut dyn SmallCache) -> T) -> T {
        let start_ns = thread_cpu_ns();
        let outcome = call(&mut *self.cache);
        add(&self.counters.cache_ns, thread_cpu_ns() - start_ns);
        outcome
    }
}

/// The answer to `HEAD`, in the published form, with the time of UTC in seconds since 1970.
fn head(unix_s: u64, space_used: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix_s);
    let padded = humantime::format_rfc3339_seconds(time).to_string();
    let date = padded.replace(['T', 'Z'], " ").replace("-0", "-");
    let date = date.replace(" 0", " ").replace(":0", ":");
    let date = date.trim_end();
    format!(
        "Date: {date}\nVersion: HTTP 1.1\nAccept: text/plain\n\
         Content-Type: application/json\nSpace Used: {space_used}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_has_the_published_lines() {
        let expected = "Date: 2016-5-3 7:8:9\nVersion: HTTP 1.1\nAccept: text/plain\n\
                        Content-Type: application/json\nSpace Used: 12\n";
        assert_eq!(head(1_462_259_289, 12), expected);
    }
}
