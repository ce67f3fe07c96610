//! Other addresses for a frame, whatever its opcode: a translation of network addresses.

use super::addresses::{Addresses, Ip};
use super::error::PacketError;
use super::icrc;
use super::layout::{BTH_LEN, ETHERNET_LEN, ICRC_LEN, IPV6_LEN, UDP_LEN};
use super::packet::{datagram_of, transport_of};

/// Bytes of all headers from that of IP to the BTH.
const HEADERS_LEN_MAX: usize = IPV6_LEN + UDP_LEN + BTH_LEN;

/// Replaces the headers below the transport by those for `addresses`, and repairs the ICRC by the
/// difference: it stays as right or as wrong as it was. Also for datagrams and other packets that
/// [`super::Packet`] refuses. Bytes after the packet are left as they are.
///
/// # Errors
/// The frame is not of RoCEv2, or of the other version of IP. It is not changed then.
pub fn readdress(frame: &mut [u8], addresses: &Addresses) -> Result<(), PacketError> {
    let (is_ipv4, datagram) = datagram_of(frame)?;
    if is_ipv4 != matches!(addresses.ip, Ip::V4(_)) {
        return Err(PacketError::Ip);
    }
    let transport_len = transport_of(&frame[datagram.clone()])?.len();
    if transport_len < BTH_LEN + ICRC_LEN {
        return Err(PacketError::Length);
    }
    let bth_end = datagram.start + UDP_LEN + BTH_LEN;
    let icrc_offset = datagram.end - ICRC_LEN;
    let headers = ETHERNET_LEN..bth_end;
    let mut old = [0; HEADERS_LEN_MAX];
    let old = &mut old[..headers.len()];
    old.copy_from_slice(&frame[headers.clone()]);
    addresses.emit(frame, transport_len);
    let mut new = [0; HEADERS_LEN_MAX];
    let new = &mut new[..headers.len()];
    new.copy_from_slice(&frame[headers]);
    icrc::mask(old, is_ipv4);
    icrc::mask(new, is_ipv4);
    let mut bytes = [0; ICRC_LEN];
    bytes.copy_from_slice(&frame[icrc_offset..][..ICRC_LEN]);
    let icrc = u32::from_le_bytes(bytes);
    let repaired = icrc::repair(icrc, old, new, icrc_offset - bth_end);
    frame[icrc_offset..][..ICRC_LEN].copy_from_slice(&repaired.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Aeth, Body, Bth, Datagram, Ethernet, Ipv4, Psn, Repr, Syndrome, Transport};

    fn between(source: u8, target: u8, udp_source: u16) -> Addresses {
        Addresses {
            ethernet: Ethernet {
                source: [2, 0, 0, 0, 0, source],
                target: [2, 0, 0, 0, 0, target],
            },
            ip: Ip::V4(Ipv4::between([127, 0, 0, source], [127, 9, 0, target])),
            udp_source,
        }
    }

    #[test]
    fn packets_and_datagrams_are_what_they_were_between_other_hosts() {
        let (old, mut new) = (between(1, 2, 4791), between(3, 4, 0xc001));
        if let Ip::V4(ip) = &mut new.ip {
            (ip.tos, ip.ttl, ip.identification) = (3, 9, 77);
        }
        let aeth = Aeth {
            syndrome: Syndrome::UNLIMITED,
            msn: 7,
        };
        let mut packet = Repr {
            addresses: old,
            transport: Transport {
                bth: Bth::new(5, Psn::new(6)),
                body: Body::Acknowledge { aeth },
            },
        };
        let mut frame = Vec::new();
        packet.emit(&mut frame).unwrap();
        readdress(&mut frame, &new).unwrap();
        packet.addresses = new;
        assert_eq!(Repr::parse(&frame), Ok(packet));

        let mut datagram = Datagram {
            addresses: old,
            qpn: 2,
            source_qpn: 3,
            queue_key: 4,
            payload: b"seven b",
        };
        datagram.emit(&mut frame).unwrap();
        readdress(&mut frame, &new).unwrap();
        datagram.addresses = new;
        assert_eq!(Datagram::parse(&frame), Ok(datagram));
    }

    #[test]
    fn a_corrupted_packet_stays_corrupted_and_others_stay_unchanged() {
        let datagram = Datagram {
            addresses: between(1, 2, 4791),
            qpn: 2,
            source_qpn: 3,
            queue_key: 4,
            payload: b"four",
        };
        let mut frame = Vec::new();
        datagram.emit(&mut frame).unwrap();
        let last = frame.len() - 6;
        frame[last] ^= 1;
        readdress(&mut frame, &between(3, 4, 4791)).unwrap();
        assert_eq!(Datagram::parse(&frame), Err(PacketError::Icrc));

        let mut short = frame[..ETHERNET_LEN + 20].to_vec();
        let before = short.clone();
        let refused = readdress(&mut short, &between(3, 4, 4791));
        assert_eq!(refused, Err(PacketError::Truncated));
        assert_eq!(short, before);
    }
}
