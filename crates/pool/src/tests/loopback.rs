//! All parts over UDP sockets of the loopback interface, in threads.

use std::fs::File;
use std::path::Path;
use std::thread::JoinHandle;

use sys::clock::monotonic_ns;
use sys::poll::Waker;
use sys::shared_memory::SharedMemory;

use crate::layout;
use crate::port::{Port, UDP_PORT};
use crate::process::{ClientPort, NodeMemory, run_metadata, run_node};
use crate::{
    Action, Client, ClientConfig, MemoryNode, Metadata, MetadataConfig, NewItem, Operation,
    Outcome, Station,
};

const MEMORY_LEN: u64 = 8 << 20;
const PATIENCE_NS: u64 = 30_000_000_000;

/// A part in a thread, which is stopped when this is dropped.
struct Running {
    stop: std::sync::Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new(run: impl FnOnce(&Waker) + Send + 'static) -> Self {
        let stop = std::sync::Arc::new(Waker::new().unwrap());
        let waker = stop.clone();
        let thread = std::thread::spawn(move || run(waker.as_ref()));
        let thread = Some(thread);
        Self { stop, thread }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An address of this test process: others may run at the same time.
fn ip(last: u8) -> [u8; 4] {
    let process = std::process::id();
    [
        127,
        100 + (process % 100) as u8,
        (process / 100 % 250) as u8,
        last,
    ]
}

fn start_node(path: &Path, seed: u64) -> Running {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path).unwrap();
    let mut memory = NodeMemory(SharedMemory::of_file(file, MEMORY_LEN).unwrap());
    layout::format(&mut memory, MEMORY_LEN, 1 << 16).unwrap();
    let mut port = Port::loopback(ip(1)).unwrap();
    Running::new(move |stop| {
        let mut node = MemoryNode::new(port.station(), MEMORY_LEN, seed);
        run_node(&mut node, &mut memory, &mut port, stop).unwrap();
    })
}

fn start_metadata(seed: u64) -> Running {
    let mut port = Port::loopback(ip(2)).unwrap();
    let node = Station::of_ip(ip(1), UDP_PORT);
    Running::new(move |stop| {
        let config = MetadataConfig::new(port.station(), node, seed);
        let mut metadata = Metadata::new(config);
        run_metadata(&mut metadata, &mut port, stop).unwrap();
        assert_eq!(metadata.error(), None);
    })
}

fn client(last: u8) -> ClientPort {
    let port = Port::loopback(ip(last)).unwrap();
    let metadata = Station::of_ip(ip(2), UDP_PORT);
    let config = ClientConfig::new(port.station(), metadata, last.into());
    ClientPort::new(Client::new(config), port).unwrap()
}

fn call(it: &mut ClientPort, key: &str, action: Action) -> Outcome {
    let key = key.as_bytes().to_vec();
    let operation = Operation { key, action };
    it.client.submit(monotonic_ns(), 1, operation).unwrap();
    let end_ns = monotonic_ns() + PATIENCE_NS;
    loop {
        if let Some(completion) = it.client.take_completion() {
            return completion.result.unwrap();
        }
        assert!(monotonic_ns() < end_ns, "no answer");
        it.turn(end_ns).unwrap();
    }
}

fn set(it: &mut ClientPort, key: &str, value: &str) {
    let item = NewItem {
        value: value.into(),
        ..NewItem::default()
    };
    let outcome = call(it, key, Action::Set(item));
    assert!(matches!(outcome, Outcome::Stored(_)), "{outcome:?}");
}

fn get(it: &mut ClientPort, key: &str) -> Option<String> {
    match call(it, key, Action::Get) {
        Outcome::Found(item) => Some(String::from_utf8(item.content.value).unwrap()),
        Outcome::Missing => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_survive_the_end_of_every_process() {
    let path = std::env::temp_dir().join(format!("pool-{}", std::process::id()));
    let node = start_node(&path, 1);
    let metadata = start_metadata(2);
    let mut first = client(10);
    for number in 0..200 {
        set(
            &mut first,
            &format!("key{number}"),
            &"v".repeat(number * 20),
        );
    }
    // The node ends while a client and the metadata service use it, then everything.
    drop(node);
    let node = start_node(&path, 3);
    let mut second = client(11);
    for number in 0..200 {
        let expected = "v".repeat(number * 20);
        assert_eq!(get(&mut first, &format!("key{number}")), Some(expected));
    }
    set(&mut second, "key7", "another");
    assert_eq!(get(&mut first, "key7"), Some("another".into()));
    drop((first, second, metadata, node));
    let _node = start_node(&path, 4);
    let _metadata = start_metadata(5);
    let mut third = client(12);
    assert_eq!(get(&mut third, "key7"), Some("another".into()));
    assert_eq!(get(&mut third, "key199"), Some("v".repeat(199 * 20)));
    assert_eq!(get(&mut third, "none"), None);
    std::fs::remove_file(&path).unwrap();
}
