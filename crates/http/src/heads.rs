//! The heads of requests on one connection, as they arrive.

use crate::host_names::HostNames;
use crate::limits::HEAD_TIME_MAX_NS;
use crate::request::{Parsed, Rejection, Request};

/// A parsed head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared<'i> {
    /// A request.
    Request(Request<'i>),
    /// The connection ends here.
    Rejected(Rejection),
}

/// What is known of the input behind the requests of a connection.
#[derive(Debug)]
pub struct Heads {
    /// How long a head may take to arrive, in nanoseconds.
    time_max_ns: u64,
    /// Longest body of a request in bytes.
    body_max: usize,
    hosts: HostNames,
    /// Whether the input behind the prepared requests is the beginning of a head.
    is_incomplete: bool,
    /// When the first bytes of an incomplete head were seen. `None` if all heads are complete.
    since_ns: Option<u64>,
}

/// What follows the requests that were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// Nothing, or the beginning of a head: more input is needed.
    Input,
    /// Heads that were not parsed.
    Requests,
}

impl Default for Heads {
    fn default() -> Self {
        Self::new(HEAD_TIME_MAX_NS)
    }
}

impl Heads {
    /// The heads of a new connection. Each may take `time_max_ns` nanoseconds to arrive.
    #[must_use]
    pub fn new(time_max_ns: u64) -> Self {
        Self {
            time_max_ns,
            body_max: 0,
            hosts: HostNames::default(),
            is_incomplete: false,
            since_ns: None,
        }
    }

    /// The same for requests with a body of at most `body_max` bytes. It belongs to the head, and
    /// both together may take the time of a head.
    #[must_use]
    pub fn with_body_max(self, body_max: usize) -> Self {
        Self { body_max, ..self }
    }

    /// The same for requests to one of these hosts. Others are rejected.
    #[must_use]
    pub fn with_hosts(self, hosts: HostNames) -> Self {
        Self { hosts, ..self }
    }

    /// Parses the complete heads at the front of `input`, at most `max`, and appends them to
    /// `requests`. Returns how many it appended. A head after which the connection is to be closed
    /// is the last.
    pub fn prepare<'i>(
        &mut self,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Prepared<'i>>,
    ) -> usize {
        self.is_incomplete = false;
        let (mut count, mut at) = (0, 0);
        while count < max && at < input.len() {
            let prepared = match Request::parse_with_body(&input[at..], self.body_max) {
                Parsed::Incomplete => {
                    self.is_incomplete = true;
                    break;
                }
                Parsed::Request(request) if !self.hosts.contain(request.host) => {
                    Prepared::Rejected(Rejection::UnknownHost)
                }
                Parsed::Request(request) => Prepared::Request(request),
                Parsed::Rejected(rejection) => Prepared::Rejected(rejection),
            };
            requests.push(prepared);
            count += 1;
            match prepared {
                Prepared::Request(request) if request.is_persistent => at += request.len,
                // Nothing after it is answered.
                _ => break,
            }
        }
        count
    }

    /// Forgets what the last [`prepare`](Self::prepare) found behind the requests, because they are
    /// not all answered.
    pub fn discard(&mut self) {
        self.is_incomplete = false;
    }

    /// Begins to answer a request: its head has arrived.
    pub fn begin(&mut self) {
        self.since_ns = None;
    }

    /// When the head that has begun has to be complete, in nanoseconds. `None` if none has begun.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let since_ns = self.since_ns?;
        Some(since_ns.saturating_add(self.time_max_ns))
    }

    /// Returns what `rest`, the input behind the answered requests, is.
    ///
    /// # Errors
    /// [`Rejection::HeadTooSlow`], if it is the beginning of a head that has taken too long.
    pub fn pending(&mut self, rest: &[u8], now_ns: u64) -> Result<Pending, Rejection> {
        if !self.is_incomplete {
            return Ok(match rest.is_empty() {
                true => Pending::Input,
                false => Pending::Requests,
            });
        }
        // Empty lines before a head do not begin it: some clients send one after a request.
        if rest.iter().any(|byte| !matches!(byte, b'\r' | b'\n')) {
            let since_ns = *self.since_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) > self.time_max_ns {
                return Err(Rejection::HeadTooSlow);
            }
        }
        Ok(Pending::Input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_drips_in_has_the_time_of_its_head() {
        let mut heads = Heads::new(10).with_body_max(100);
        let mut input = b"PUT /cache/a HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n".to_vec();
        for now_ns in 1..=11 {
            input.push(b'x');
            assert_eq!(heads.prepare(&input, 1, &mut Vec::new()), 0);
            assert_eq!(
                heads.pending(&input, now_ns),
                Ok(Pending::Input),
                "{now_ns}"
            );
        }
        heads.prepare(&input, 1, &mut Vec::new());
        assert_eq!(heads.pending(&input, 12), Err(Rejection::HeadTooSlow));
    }
}
