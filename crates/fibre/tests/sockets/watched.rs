//! What has come is shown before those it is for run.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fibre::{Builder, Kind, Socket, Watch, Wire};

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
    fn came(&self, processor: usize, bytes: &[u8]) {
        assert_eq!(processor, 0);
        self.all.lock().unwrap().push(bytes.to_vec());
    }
}

/// On one processor: nobody else takes anything out.
fn watched(test: impl Fn(Shown, Kind) + Copy + Send + 'static) {
    for (scheduler, kind) in kinds() {
        let shown = Shown::default();
        let builder = Builder::new().processors(1).scheduler(scheduler);
        let builder = builder.wire(Wire::Only(kind)).watch(shown.clone());
        let runtime = builder.start().unwrap();
        runtime.run(move || test(shown, kind));
        runtime.stop(LONG).unwrap();
    }
}

fn pair() -> (Socket<UnixStream>, Socket<UnixStream>) {
    let (one, other) = UnixStream::pair().unwrap();
    (Socket::new(one).unwrap(), Socket::new(other).unwrap())
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
                let expected = match kind {
                    Kind::Rings => vec![room[..len].to_vec()],
                    Kind::Readiness => Vec::new(),
                };
                assert_eq!(its_shown.take(), expected);
                server.write_all(&[b'0' + nth; 5]).unwrap();
            }
        });
        let mut room = [0; 64];
        for nth in 0..3_usize {
            let question = vec![b'a'; 1 + 20 * nth];
            let len = asker.exchange(&question, &mut room).unwrap();
            assert_eq!(room[..len], [b'0' + nth as u8; 5]);
            let expected = match kind {
                Kind::Rings => vec![room[..len].to_vec()],
                Kind::Readiness => Vec::new(),
            };
            assert_eq!(shown.take(), expected);
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
        let lost = asker.exchange(b"who is there?", &mut room);
        assert!(matches!(lost, Err(_) | Ok(0)), "{lost:?}");
        assert_eq!(shown.take(), Vec::<Vec<u8>>::new());
    });
}
