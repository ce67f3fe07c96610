//! Hosts and the devices that join them: the server in the middle, and a device pair to each
//! client. With a link, two pairs to each client, joined by the relay in a namespace of its own:
//!
//! ```text
//!   server              relay                  client 3
//!   client3 ═══════ server3 ─▶ client3 ═══════ server
//!                          ◀─
//! ```

use std::net::Ipv4Addr;

use sys::namespace::NetworkNamespace;
use sys::packet::{PacketSocket, disable_offloads};

use super::error::Error;
use super::host::Host;
use super::relay::{Relay, RelayRecord};
use super::{Layout, Link};
use crate::limits;

/// The server's address. RFC 5737 reserves it and those of the clients for documentation, so no
/// real host has them.
const SERVER_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// A client's device towards the server.
const TO_SERVER: &str = "server";

/// A server's host, and clients' hosts that are joined to it. They end when this value and the
/// processes on them have ended.
#[derive(Debug)]
pub struct Star {
    /// Dropped first: it needs the devices.
    relay: Option<Relay>,
    server: Host,
    clients: Vec<Host>,
}

impl Star {
    pub(super) fn open(
        layout: &Layout,
        server_cpus: &[usize],
        client_cpus: &[usize],
    ) -> Result<Self, Error> {
        let server = Host::new("the server's host".to_owned(), SERVER_IP)?;
        server.ip(&format!("address add {SERVER_IP}/32 dev lo"))?;
        let middle = match &layout.link {
            Some(link) => Some((
                Host::new("the relay".to_owned(), Ipv4Addr::UNSPECIFIED)?,
                link,
            )),
            None => None,
        };
        let mut clients = Vec::new();
        let mut sockets = Vec::new();
        for wire in (0..layout.clients).map(Wire::new) {
            let name = format!("client host {}", wire.number);
            let client = Host::new(name, wire.client_ip)?;
            client.use_all_ports()?;
            match &middle {
                None => wire.join(&server, &client)?,
                Some((relay, _)) => {
                    sockets.push(wire.join_by_relay(&server, relay, &client)?);
                }
            }
            wire.configure(&server, &client)?;
            steer(server.namespace(), &wire.to_client, server_cpus)?;
            steer(client.namespace(), TO_SERVER, client_cpus)?;
            clients.push(client);
        }
        // The relay's namespace ends with its sockets.
        let relay = match middle {
            Some((_, link)) => Some(start_relay(sockets, link, server_cpus, client_cpus)?),
            None => None,
        };
        Ok(Self {
            relay,
            server,
            clients,
        })
    }

    /// The server's host.
    #[must_use]
    pub fn server(&self) -> &Host {
        &self.server
    }

    /// The clients' hosts.
    #[must_use]
    pub fn clients(&self) -> &[Host] {
        &self.clients
    }

    pub(super) fn has_relay(&self) -> bool {
        self.relay.is_some()
    }

    pub(super) fn take_relay_record(&self) -> Result<Option<RelayRecord>, Error> {
        self.relay.as_ref().map(Relay::take_record).transpose()
    }
}

/// Names and addresses of the connection between the server and one client.
struct Wire {
    number: u8,
    /// The server's device towards the client.
    to_client: String,
    server_ip: Ipv4Addr,
    client_ip: Ipv4Addr,
    server_mac: String,
    client_mac: String,
}

impl Wire {
    fn new(number: u8) -> Self {
        assert!(number < limits::CLIENT_HOSTS);
        // A network of four addresses for each client, from another range for documentation.
        let [server_ip, client_ip] =
            [1, 2].map(|offset| Ipv4Addr::new(198, 51, 100, number * 4 + offset));
        Self {
            number,
            to_client: format!("client{number}"),
            server_ip,
            client_ip,
            server_mac: format!("02:00:00:00:01:{number:02x}"),
            client_mac: format!("02:00:00:00:02:{number:02x}"),
        }
    }

    /// Joins the two hosts by a device pair.
    fn join(&self, server: &Host, client: &Host) -> Result<(), Error> {
        let Self { to_client, .. } = self;
        let there = client.namespace().path();
        let there = there.display();
        server.ip(&format!(
            "link add {to_client} type veth peer name {TO_SERVER} netns {there}"
        ))
    }

    /// Joins each host to the relay by a device pair. Returns the relay's sockets towards the
    /// server and the client.
    fn join_by_relay(
        &self,
        server: &Host,
        relay: &Host,
        client: &Host,
    ) -> Result<[PacketSocket; 2], Error> {
        let Self {
            to_client, number, ..
        } = self;
        let relay_server = format!("{TO_SERVER}{number}");
        let there = relay.namespace().path();
        let there = there.display();
        server.ip(&format!(
            "link add {to_client} type veth peer name {relay_server} netns {there}"
        ))?;
        client.ip(&format!(
            "link add {TO_SERVER} type veth peer name {to_client} netns {there}"
        ))?;
        for (host, device) in [(server, to_client.as_str()), (client, TO_SERVER)] {
            let namespace = host.namespace();
            let disabled = namespace.run(|| disable_offloads(device));
            let disabled = disabled.and_then(|disabled| disabled);
            disabled.map_err(Error::system("disable the offloads of a device"))?;
        }
        relay.ip(&format!(
            "link set {relay_server} up\nlink set {to_client} up"
        ))?;
        let open = |device: &str| {
            let buffer = limits::RELAY_RECEIVE_BUFFER;
            let opened = relay
                .namespace()
                .run(|| PacketSocket::open(device, buffer))
                .and_then(|opened| opened);
            opened.map_err(Error::system("open a packet socket"))
        };
        Ok([open(&relay_server)?, open(to_client)?])
    }

    /// Gives both devices their addresses. The hosts know each other's hardware address, so the
    /// link carries, and a relay loses, no address resolution, whose retry takes a second.
    fn configure(&self, server: &Host, client: &Host) -> Result<(), Error> {
        let Self {
            to_client,
            server_ip,
            client_ip,
            server_mac,
            client_mac,
            ..
        } = self;
        let end = |device: &str, own_ip, own_mac: &str, ip, mac: &str| {
            format!(
                "link set {device} address {own_mac}\n\
                 address add {own_ip}/30 dev {device}\n\
                 link set {device} up\n\
                 neighbour add {ip} lladdr {mac} dev {device} nud permanent\n"
            )
        };
        server.ip(&end(
            to_client, server_ip, server_mac, client_ip, client_mac,
        ))?;
        let client_end = end(TO_SERVER, client_ip, client_mac, server_ip, server_mac);
        client.ip(&format!("{client_end}route add default via {server_ip}"))
    }
}

fn steer(namespace: &NetworkNamespace, device: &str, cpus: &[usize]) -> Result<(), Error> {
    if cpus.is_empty() {
        return Ok(());
    }
    let steered = namespace.steer_receives(device, cpus);
    steered.map_err(Error::system(
        "steer what a device receives to its host's processors",
    ))
}

/// Starts the relay on a processor that neither server nor clients use or, if there is none, on
/// those of the clients: there it delays the clients' work, not the server's, which is measured.
fn start_relay(
    sockets: Vec<[PacketSocket; 2]>,
    link: &Link,
    server_cpus: &[usize],
    client_cpus: &[usize],
) -> Result<Relay, Error> {
    let what = "start the relay";
    let allowed = sys::thread::allowed_cpus().map_err(Error::system(what))?;
    let is_free = |cpu: &usize| !server_cpus.contains(cpu) && !client_cpus.contains(cpu);
    let mut cpus: Vec<usize> = allowed.into_iter().filter(is_free).collect();
    if cpus.is_empty() {
        cpus = client_cpus.to_vec();
    }
    Relay::start(sockets, link, cpus).map_err(Error::system(what))
}
