//! The caches that execute the same operations.

use std::collections::HashMap;
use std::net::SocketAddr;

use datagrams::ReplyLimit;
use datagrams::fuzzing::{Exchanges, reply_of};
use session::CacheWorker;

use super::form::{Form, key_in_line};
use super::meaning::{self, Meaning};
use super::operation::Operation;
use crate::peer::{ClientId, ModelPeer, Peer, Received, SessionPeer, cache_service};

const NS_PER_S: u64 = 1_000_000_000;
/// A CAS that no item has.
const UNKNOWN_CAS: u64 = u64::MAX;

pub(super) struct Caches {
    /// A model that receives every operation as text, never quiet: it says what has to happen.
    reference: Cache,
    others: Vec<Cache>,
}

/// A cache, and the form in which it receives the operations.
struct Cache {
    name: &'static str,
    form: Form,
    carrier: Carrier,
    /// The CAS that was remembered last for a key.
    cas: HashMap<&'static [u8], u64>,
}

enum Carrier {
    /// The client sends operations. Another sends text, which shows the items.
    Stream(Box<dyn Peer>, ClientId),
    Datagrams(Box<Exchanges<CacheWorker>>, u64),
}

impl Caches {
    pub(super) fn new() -> Self {
        let session = || Box::new(SessionPeer::new(true).unwrap()) as Box<dyn Peer>;
        let model = || Box::new(ModelPeer::new()) as Box<dyn Peer>;
        let mut others = Vec::new();
        for form in Form::ALL {
            others.push(Cache::new("a session", form, Carrier::stream(session())));
            others.push(Cache::new("the model", form, Carrier::stream(model())));
        }
        let service = cache_service().unwrap();
        let exchanges = Exchanges::new(&service, ReplyLimit::default()).unwrap();
        let carrier = Carrier::Datagrams(Box::new(exchanges), 0);
        others.push(Cache::new("a datagram", Form::Text, carrier));
        Self {
            reference: Cache::new("the reference", Form::Text, Carrier::stream(model())),
            others,
        }
    }

    pub(super) fn tick(&mut self, seconds: u64) {
        for cache in self.others.iter_mut().chain([&mut self.reference]) {
            match &mut cache.carrier {
                Carrier::Stream(peer, _) => peer.tick(seconds).unwrap(),
                Carrier::Datagrams(_, now_ns) => *now_ns += seconds * NS_PER_S,
            }
        }
    }

    /// What the reply has to say.
    pub(super) fn expected(&mut self, operation: &Operation) -> Meaning {
        self.reference.execute(&operation.loud())
    }

    /// Sends an operation to all caches. Returns what each replies, and the form in which it has
    /// received the operation, which of datagrams depends on `number`.
    pub(super) fn replies(
        &mut self,
        operation: &Operation,
        number: usize,
    ) -> Vec<(&'static str, Form, Meaning)> {
        let mut replies = Vec::with_capacity(self.others.len());
        for cache in &mut self.others {
            if matches!(cache.carrier, Carrier::Datagrams(..)) {
                cache.form = Form::ALL[number % Form::ALL.len()];
            }
            let meaning = cache.execute(operation);
            replies.push((cache.name, cache.form, meaning));
        }
        replies
    }

    /// Deletes the item that a value was to replace which is too large.
    pub(super) fn delete_old(&mut self, operation: &Operation) {
        let Operation::Store { key, .. } = *operation else {
            return;
        };
        let delete = Operation::Delete {
            key,
            compares: false,
            quiet: false,
        };
        for cache in self.others.iter_mut().chain([&mut self.reference]) {
            cache.execute(&delete);
        }
    }

    /// Compares the items of a key.
    ///
    /// # Panics
    /// They differ.
    pub(super) fn compare_items(&mut self, key: &[u8]) {
        let expected = self.reference.item(key);
        for cache in &mut self.others {
            let (name, form, item) = (cache.name, cache.form, cache.item(key));
            let shown =
                |item: &[u8]| String::from_utf8_lossy(&item[..item.len().min(100)]).into_owned();
            assert!(
                item == expected,
                "{name}, {form:?}: {key:?} is {:?} instead of {:?}",
                shown(&item),
                shown(&expected)
            );
        }
    }
}

impl Cache {
    fn new(name: &'static str, form: Form, carrier: Carrier) -> Self {
        Self {
            name,
            form,
            carrier,
            cas: HashMap::new(),
        }
    }

    /// Sends an operation, and returns what the reply says.
    fn execute(&mut self, operation: &Operation) -> Meaning {
        let cas = operation.compared().and_then(|key| self.cas.get(key));
        let request = self
            .form
            .write(operation, cas.copied().unwrap_or(UNKNOWN_CAS));
        let reply = self.carrier.exchange(&request);
        let (meaning, cas) = meaning::read(self.form, operation, &reply);
        if let Operation::Get {
            key, learns: true, ..
        } = operation
        {
            match cas {
                Some(cas) => self.cas.insert(key, cas),
                None => self.cas.remove(key),
            };
        }
        meaning
    }

    /// The reply that shows an item: its value, flags, time to live, and whether it was read.
    fn item(&mut self, key: &[u8]) -> Vec<u8> {
        let (key, mark) = key_in_line(key);
        let request = [b"mg ", key, mark, b" t f s h v\r\n"].concat();
        if let Carrier::Stream(peer, client) = &mut self.carrier {
            *client = peer.connect().unwrap();
        }
        self.carrier.exchange(&request)
    }
}

impl Carrier {
    fn stream(mut peer: Box<dyn Peer>) -> Self {
        let client = peer.connect().unwrap();
        Self::Stream(peer, client)
    }

    fn exchange(&mut self, request: &[u8]) -> Vec<u8> {
        match self {
            Self::Stream(peer, client) => {
                peer.send(*client, request).unwrap();
                let mut reply = Vec::new();
                while let Received::Bytes(bytes) = peer.receive(*client).unwrap() {
                    reply.extend(bytes);
                }
                reply
            }
            Self::Datagrams(exchanges, now_ns) => {
                let peer = SocketAddr::from(([127, 0, 0, 1], 1));
                let datagram = [&[0, 7, 0, 0, 0, 1, 0, 0], request].concat();
                let replies = exchanges.answer(*now_ns, peer, &[&datagram]);
                reply_of(&datagram, &replies[0])
            }
        }
    }
}
