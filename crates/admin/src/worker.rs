//! The admin pages as a service of a runtime.

use std::fmt;
use std::sync::Arc;

use http::{HostNames, Prepared};
use service::{NoCompletion, NoPin, Output, Progress, Tickets};

use crate::connection::HttpSession;
use crate::source::Source;

/// Sent to a connection above the limit.
const REJECTION: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 42\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    \r\n\
    too many connections to the admin address\n";

/// The admin pages.
#[derive(Clone)]
pub struct AdminService {
    source: Arc<dyn Source>,
    hosts: HostNames,
}

impl AdminService {
    /// Pages with the figures of `source`.
    #[must_use]
    pub fn new(source: Arc<dyn Source>) -> Self {
        let hosts = HostNames::default();
        Self { source, hosts }
    }

    /// The same for requests to a host with one of these names ([`HostNames`]).
    #[must_use]
    pub fn with_host_names(self, names: &[String]) -> Self {
        Self {
            hosts: HostNames::new(names),
            ..self
        }
    }
}

impl fmt::Debug for AdminService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminService").finish_non_exhaustive()
    }
}

impl service::Service for AdminService {
    type Worker = AdminWorker;

    fn worker(&self) -> AdminWorker {
        AdminWorker {
            source: Arc::clone(&self.source),
            hosts: self.hosts.clone(),
            now_ns: 0,
            page: Vec::new(),
        }
    }

    fn rejection(&self) -> &'static [u8] {
        REJECTION
    }
}

/// A worker of the admin pages.
pub struct AdminWorker {
    pub(crate) source: Arc<dyn Source>,
    hosts: HostNames,
    /// The time of the burst.
    pub(crate) now_ns: u64,
    /// The body of the current reply. Its length has to be known before its head is written.
    pub(crate) page: Vec<u8>,
}

impl fmt::Debug for AdminWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminWorker").finish_non_exhaustive()
    }
}

impl service::Worker for AdminWorker {
    type Session = HttpSession;
    type Request<'i> = Prepared<'i>;
    type Pin = NoPin;
    type Completion = NoCompletion;

    fn open(&self) -> HttpSession {
        HttpSession::new(self.hosts.clone())
    }

    fn begin_burst(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    fn prepare<'i>(
        &self,
        session: &mut HttpSession,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Prepared<'i>>,
    ) -> usize {
        session.prepare(input, max, requests)
    }

    fn answer(
        &mut self,
        session: &mut HttpSession,
        requests: &[Prepared<'_>],
        input: &[u8],
        _: Tickets<'_, NoCompletion>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        session.answer(requests, input, self, out)
    }

    fn reset(&mut self) {
        self.page = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rejection_states_its_length() {
        let text = std::str::from_utf8(REJECTION).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let expected = format!("Content-Length: {}", body.len());
        assert!(head.lines().any(|line| line == expected), "{expected}");
    }
}
