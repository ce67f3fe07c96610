//! What has come is shown before those it is for run.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fibre::{Builder, IoBackend, IoChoice, Socket, Watch};

use crate::each::{LONG, kinds};

#[derive(Clone, Default)]
struct Shown {
    all: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Shown {
    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.all.lock().unwrap())
    }
}

impl Watch for Shown {
    fn received(&self, processor: usize, bytes: &[u8]) {
        assert_eq!(processor, 0);
        self.all.lock().unwrap().push(bytes.to_vec());
    }
}

/// On one processor: nobody else takes anything out.
fn watched(test: impl Fn(Shown, IoBackend) + Copy + Send + 'static) {
    for (scheduler, kind) in kinds() {
        let shown = Shown::default();
        let builder = Builder::new().processors(1).scheduler(scheduler);
        let builder = builder
            .io_backend(IoChoice::Only(kind))
            .watch(shown.clone());
        let runtime = builder.start().unwrap();
        runtime.run(move || test(shown, kind));
        runtime.stop(LONG).unwrap();
    }
}

fn pair() -> (Socket<UnixStream>, Socket<UnixStream>) {
    let (one, other) = UnixStream::pair().unwrap();
    (Socket::new(one).unwrap(), Socket::new(other).unwrap())
}

/// What is shown of what has come.
fn seen(kind: IoBackend, bytes: &[u8]) -> Vec<Vec<u8>> {
    match kind {
        IoBackend::Rings => vec![bytes.to_vec()],
        IoBackend::Readiness => Vec::new(),
    }
}

#[test]
fn what_has_come_is_shown_first() {
    watched(|shown, kind| {
        let (asker, server) = pair();
        let its_shown = shown.clone();
        let serves = fibre::spawn(move || {
            let mut room = [0; 64];
            for nth in 0..3_u8 {
                let len = server.read(&mut room).unwrap();
                assert_eq!(its_shown.take(), seen(kind, &room[..len]));
                server.write_all(&[b'0' + nth; 5]).unwrap();
            }
        });
        let mut room = [0; 64];
        for nth in 0..3_usize {
            let question = vec![b'a'; 1 + 20 * nth];
            let len = asker.exchange(&question, &mut room).unwrap();
            assert_eq!(room[..len], [b'0' + nth as u8; 5]);
            assert_eq!(shown.take(), seen(kind, &room[..len]));
        }
        serves.join().unwrap();
    });
}

/// How much was sent is no length of what has come, nor is the peer's end anything.
#[test]
fn nothing_is_shown_where_nothing_has_come() {
    watched(|shown, _| {
        let (asker, server) = pair();
        asker.set_timeout(Some(Duration::from_millis(50)));
        let mut room = [0; 16];
        let lost = asker.exchange(&vec![b'a'; 4 << 20], &mut room);
        assert!(lost.is_err(), "nobody took it");
        assert_eq!(shown.take(), Vec::<Vec<u8>>::new());

        let (asker, other) = pair();
        drop((server, other));
        assert_eq!(asker.read(&mut room).unwrap(), 0);
        assert_eq!(shown.take(), Vec::<Vec<u8>>::new());
    });
}

/// What has happened, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Received(u8),
    Polled,
    Runs(u8),
}

#[derive(Clone, Default)]
struct Events {
    all: Arc<Mutex<Vec<Event>>>,
}

impl Events {
    fn note(&self, event: Event) {
        self.all.lock().unwrap().push(event);
    }
}

impl Watch for Events {
    fn received(&self, _: usize, bytes: &[u8]) {
        self.note(Event::Received(bytes[0]));
    }

    fn polled(&self, _: usize, _: usize) {
        self.note(Event::Polled);
    }
}

#[test]
fn all_that_has_come_is_shown_before_any_of_it_runs() {
    let io_backend = IoChoice::Only(IoBackend::Rings);
    let events = Events::default();
    let builder = Builder::new().processors(1).watch(events.clone());
    let Ok(runtime) = builder.io_backend(io_backend).start() else {
        eprintln!("skipped: io_uring cannot be used here");
        return;
    };
    let all = events.clone();
    runtime.run(move || {
        let (peers, servers): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| {
                let (peer, server) = UnixStream::pair().unwrap();
                let events = events.clone();
                let serves = fibre::spawn(move || {
                    let socket = Socket::new(server).unwrap();
                    let mut room = [0];
                    assert_eq!(socket.read(&mut room).unwrap(), 1);
                    events.note(Event::Runs(room[0]));
                });
                (peer, serves)
            })
            .unzip();
        // They wait in the kernel by then.
        fibre::sleep(Duration::from_millis(20)).unwrap();
        events.all.lock().unwrap().clear();
        for (mut peer, byte) in peers.iter().zip(1..) {
            peer.write_all(&[byte]).unwrap();
        }
        servers
            .into_iter()
            .for_each(|serves| serves.join().unwrap());
    });
    runtime.stop(LONG).unwrap();
    let mut events = all.all.lock().unwrap().clone();
    events.truncate(7);
    events[..3].sort_by_key(|event| format!("{event:?}"));
    events[4..].sort_by_key(|event| format!("{event:?}"));
    let received = [1, 2, 3].map(Event::Received);
    let runs = [1, 2, 3].map(Event::Runs);
    assert_eq!(events, [&received[..], &[Event::Polled], &runs].concat());
}
