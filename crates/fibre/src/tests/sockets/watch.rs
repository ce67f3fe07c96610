//! The observer of a runtime (`Watch`): it is told of received bytes before the fibres that wait
//! for these bytes run.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::tests::configurations::{LONG, configurations};
use crate::{Builder, IoBackend, IoChoice, Semaphore, Socket, Watch};

/// An observer that records all received bytes.
#[derive(Clone, Default)]
struct Recorder {
    /// The bytes of each receive.
    all: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    /// Returns the bytes of each receive since the last call of this function.
    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.all.lock().unwrap())
    }
}

impl Watch for Recorder {
    fn received(&self, processor: usize, bytes: &[u8]) {
        // The runtime has only this processor.
        assert_eq!(processor, 0);
        self.all.lock().unwrap().push(bytes.to_vec());
    }
}

/// For each configuration, starts a runtime with a [`Recorder`] as its observer, and runs `test` in
/// a fibre of it. The runtime has only one *processor* (thread that runs fibres). If there were
/// others, they could take completions of this processor, and such completions are not reported to
/// the observer.
fn each_observed(test: impl Fn(Recorder, IoBackend) + Copy + Send + 'static) {
    for (scheduler, io_backend) in configurations() {
        let recorder = Recorder::default();
        let builder = Builder::new().processors(1).scheduler(scheduler);
        let builder = builder
            .io_backend(IoChoice::Only(io_backend))
            .watch(recorder.clone());
        // SAFETY: the fibres of this test use no `thread_local!`.
        let runtime = unsafe { builder.start() }.unwrap();
        runtime.run(move || test(recorder, io_backend));
        runtime.stop(LONG).unwrap();
    }
}

/// Creates two connected Unix sockets.
fn pair() -> (Socket<UnixStream>, Socket<UnixStream>) {
    let (near, far) = UnixStream::pair().unwrap();
    (Socket::new(near).unwrap(), Socket::new(far).unwrap())
}

/// What a [`Recorder`] is expected to contain after one receive of `bytes`. Only the I/O backend
/// *rings* reports receives.
fn expected(io_backend: IoBackend, bytes: &[u8]) -> Vec<Vec<u8>> {
    match io_backend {
        IoBackend::Rings => vec![bytes.to_vec()],
        IoBackend::Readiness => Vec::new(),
    }
}

#[test]
fn received_bytes_are_reported_before_the_fibre_runs() {
    each_observed(|recorder, io_backend| {
        let (client, server) = pair();
        let server_recorder = recorder.clone();
        let server = crate::spawn(move || {
            let mut buffer = [0; 64];
            for nth in 0..3_u8 {
                let len = server.read(&mut buffer).unwrap();
                assert_eq!(server_recorder.take(), expected(io_backend, &buffer[..len]));
                server.write_all(&[b'0' + nth; 5]).unwrap();
            }
        });
        let mut buffer = [0; 64];
        for nth in 0..3_usize {
            // Requests and answers differ in content and length.
            let request = vec![b'a'; 1 + 20 * nth];
            let len = client.exchange(&request, &mut buffer).unwrap();
            assert_eq!(buffer[..len], [b'0' + nth as u8; 5]);
            assert_eq!(recorder.take(), expected(io_backend, &buffer[..len]));
        }
        server.join().unwrap();
    });
}

/// Neither the completion of a send nor the end of a connection may be reported as a receive.
#[test]
fn nothing_is_reported_if_nothing_is_received() {
    each_observed(|recorder, _| {
        let (client, server) = pair();
        client.set_timeout(Some(Duration::from_millis(50)));
        let mut buffer = [0; 16];
        // A part of the 4 MiB is sent. The rest does not fit in the buffers of the kernel, and the
        // peer does not read, so the exchange times out.
        let result = client.exchange(&vec![b'a'; 4 << 20], &mut buffer);
        assert!(result.is_err(), "the peer has not read anything");
        assert_eq!(recorder.take(), Vec::<Vec<u8>>::new());

        let (client, other_server) = pair();
        drop((server, other_server));
        assert_eq!(client.read(&mut buffer).unwrap(), 0);
        assert_eq!(recorder.take(), Vec::<Vec<u8>>::new());
    });
}

/// An event that the test `all_receives_are_reported_before_any_fibre_runs` records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The observer was told of a received byte.
    Received(u8),
    /// The observer was told that the processor has polled.
    Polled,
    /// The fibre that waited for this byte runs.
    Runs(u8),
}

/// An observer that records events in order. The fibres of the test add events, too.
#[derive(Clone, Default)]
struct Events {
    all: Arc<Mutex<Vec<Event>>>,
}

impl Events {
    fn record(&self, event: Event) {
        self.all.lock().unwrap().push(event);
    }
}

impl Watch for Events {
    fn received(&self, _: usize, bytes: &[u8]) {
        self.record(Event::Received(bytes[0]));
    }

    fn polled(&self, _: usize, _: usize) {
        self.record(Event::Polled);
    }
}

#[test]
fn all_receives_are_reported_before_any_fibre_runs() {
    let io_backend = IoChoice::Only(IoBackend::Rings);
    let events = Events::default();
    let builder = Builder::new().processors(1).watch(events.clone());
    // SAFETY: the fibres of this test use no `thread_local!`.
    let started = unsafe { builder.io_backend(io_backend).start() };
    let Ok(runtime) = started else {
        eprintln!("skipped: io_uring cannot be used here");
        return;
    };
    let all = events.clone();
    runtime.run(move || {
        let about_to_read = Arc::new(Semaphore::new(0));
        let (peers, servers): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| {
                let (peer, server) = UnixStream::pair().unwrap();
                let (events, about_to_read) = (events.clone(), Arc::clone(&about_to_read));
                let server = crate::spawn(move || {
                    let socket = Socket::new(server).unwrap();
                    let mut buffer = [0];
                    about_to_read.release();
                    assert_eq!(socket.read(&mut buffer).unwrap(), 1);
                    events.record(Event::Runs(buffer[0]));
                });
                (peer, server)
            })
            .unzip();
        // With one processor, this fibre continues only after each server waits in its read. Then
        // no other fibre is ready, so the processor submits the reads to the kernel.
        (0..3).for_each(|_| about_to_read.acquire());
        crate::yield_to_all();
        events.all.lock().unwrap().clear();
        for (mut peer, byte) in peers.iter().zip(1..) {
            peer.write_all(&[byte]).unwrap();
        }
        servers
            .into_iter()
            .for_each(|server| server.join().unwrap());
    });
    runtime.stop(LONG).unwrap();
    // The first seven events are: three receives, in any order; the report that the processor has
    // polled; three runs, in any order.
    let mut events = all.all.lock().unwrap().clone();
    events.truncate(7);
    events[..3].sort_by_key(|event| format!("{event:?}"));
    events[4..].sort_by_key(|event| format!("{event:?}"));
    let received = [1, 2, 3].map(Event::Received);
    let runs = [1, 2, 3].map(Event::Runs);
    assert_eq!(events, [&received[..], &[Event::Polled], &runs].concat());
}
