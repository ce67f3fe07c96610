use std::task::Waker;

use service::{ConnectionId, OpenTickets, Service as _, Worker as _};

use super::super::items::{Changed, Condition, FoundItem};
use super::super::{DocumentService, ItemService, WallClock};
use super::*;
use crate::{FileSet, SystemDisk};

/// A cache whose items are all in slower memory. They cannot be read there.
struct ColdItems;

impl Items for ColdItems {
    fn begin_burst(&mut self, _: u64) {}

    fn end_burst(&mut self) {}

    fn online(&mut self) {}

    fn offline(&mut self) {}

    fn maintain(&mut self, _: u64, _: usize) -> bool {
        false
    }

    fn needs_maintenance_thread(&self) -> bool {
        false
    }

    fn reset(&mut self) {}

    fn must_fetch(&mut self, _: &[u8]) -> bool {
        true
    }

    fn fetch(&mut self, key: &[u8], _: Box<dyn FetchReply>) {
        panic!("there is no ticket for {key:?}");
    }

    fn restore(&mut self, _: Fetched) -> bool {
        false
    }

    fn read(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<FoundItem> {
        None
    }

    fn write(&mut self, _: &[u8], _: &[u8], condition: Condition, _: Option<u32>) -> Changed {
        assert_eq!(condition, Condition::None, "the item is needed");
        Changed::Done(Some(1))
    }

    fn delete(&mut self, _: &[u8], condition: Condition) -> Changed {
        assert!(
            !matches!(condition, Condition::Cas(_)),
            "the item is needed"
        );
        Changed::Done(None)
    }
}

/// The status with which a request is answered on a connection that gets no ticket.
fn status_without_ticket(head: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    let files = FileSet::blocking(SystemDisk::open(root.path()).unwrap());
    let clock = WallClock {
        monotonic_ns: 0,
        unix_ns: 0,
    };
    let items = ItemService {
        worker: Arc::new(|| Box::new(ColdItems)),
        wake_maintenance: Arc::new(|| ()),
        value_max: 100,
    };
    let service = DocumentService::new(files, clock).with_items(Some(items));
    let mut worker = service.worker();
    let mut session = worker.open();
    let (mut mailbox, mut open) = (None, OpenTickets::default());
    let mut tickets = Tickets {
        mailbox: &mut mailbox,
        waker: Waker::noop(),
        connection: ConnectionId {
            slot: 0,
            generation: 0,
        },
        open: &mut open,
    };
    let held: Vec<_> = std::iter::from_fn(|| tickets.issue(0)).collect();
    assert!(!held.is_empty());
    let input = format!("{head}Host: x\r\n\r\n");
    let (mut requests, mut out) = (Vec::new(), Output::default());
    assert_eq!(session.prepare(input.as_bytes(), 1, &mut requests), 1);
    worker.answer(&mut session, &requests, input.as_bytes(), tickets, &mut out);
    let reply = String::from_utf8(out.as_bytes().unwrap().to_vec()).unwrap();
    reply["HTTP/1.1 ".len()..][..3].to_owned()
}

#[test]
fn an_item_for_which_there_is_no_ticket_is_not_taken_for_absent() {
    for (head, status) in [
        ("GET /cache/k HTTP/1.1\r\n", "503"),
        ("HEAD /cache/k HTTP/1.1\r\n", "503"),
        ("PUT /cache/k HTTP/1.1\r\nIf-Match: *\r\n", "503"),
        ("PUT /cache/k HTTP/1.1\r\nIf-None-Match: *\r\n", "503"),
        ("DELETE /cache/k HTTP/1.1\r\nIf-Match: \"1\"\r\n", "503"),
        // They do not depend on the bytes of the item.
        ("PUT /cache/k HTTP/1.1\r\n", "204"),
        ("DELETE /cache/k HTTP/1.1\r\nIf-Match: *\r\n", "204"),
    ] {
        assert_eq!(status_without_ticket(head), status, "{head}");
    }
}
