//! Properties that hold for any input bytes. The fuzz target checks them, and the tests check them
//! on the committed corpus.

use crate::connect::Message;
use crate::pcap::Reader;
use crate::wire::{Datagram, Opcode, Packet, Psn, Repr};

/// Maximum number of frames of one capture that are checked.
const FRAMES_MAX: usize = 64;

/// Checks the parsers on arbitrary bytes, as a frame and as a capture of frames: nothing panics, a
/// parsed packet survives being written and parsed again, and every setter leaves the ICRC as right
/// or as wrong as it was.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_packets(input: &[u8]) {
    check_frame(input);
    if let Ok(reader) = Reader::new(input) {
        for record in reader.take(FRAMES_MAX).flatten() {
            check_frame(record.frame);
        }
    }
}

fn check_frame(frame: &[u8]) {
    check_datagram(frame);
    let Ok(packet) = Packet::new_checked(frame) else {
        assert!(Repr::parse(frame).is_err());
        return;
    };
    // Fuzzers do not find checksums, so they are put right here.
    let mut sealed = packet.frame().to_vec();
    let icrc_offset = sealed.len() - 4;
    sealed[icrc_offset..].copy_from_slice(&packet.computed_icrc().to_le_bytes());
    check_setters(&packet, &sealed);
    let Ok(repr) = Repr::parse(&sealed) else {
        assert!(Packet::new_checked(&sealed).is_ok_and(|sealed| sealed.verify().is_err()));
        return;
    };
    let mut written = Vec::new();
    assert_eq!(repr.emit(&mut written), Ok(()));
    assert_eq!(written.len(), sealed.len());
    assert_eq!(Repr::parse(&written), Ok(repr));
}

/// Sets every field to the complement of what is there, in the frame as it came and sealed.
fn check_setters(packet: &Packet<&[u8]>, sealed: &[u8]) {
    let error = packet.icrc() ^ packet.computed_icrc();
    for (frame, error) in [(packet.frame(), error), (sealed, 0)] {
        let mut frame = frame.to_vec();
        let Ok(mut view) = Packet::new_checked(frame.as_mut_slice()) else {
            panic!("the bytes after a packet decide whether it is one");
        };
        view.set_qpn(!view.qpn());
        view.set_psn(Psn::new(!view.psn().number()));
        view.set_udp_source(!view.addresses().udp_source);
        let atomic = view.atomic_eth().map(|atomic| atomic.address);
        if let Some(address) = view.reth().map(|reth| reth.address).or(atomic) {
            assert!(view.set_address(!address));
        }
        if view.opcode() == Opcode::CompareSwap {
            let compare = view.atomic_eth().map_or(0, |atomic| !atomic.compare);
            assert!(view.set_compare(compare));
            assert_eq!(
                view.atomic_eth().map(|atomic| atomic.compare),
                Some(compare)
            );
        }
        if let Some(aeth) = view.aeth() {
            assert!(view.set_msn(!aeth.msn));
        }
        if let Some(original) = view.original() {
            assert!(view.set_original(!original));
        }
        assert_eq!(view.icrc() ^ view.computed_icrc(), error);
        assert_eq!(view.qpn(), !packet.qpn() & 0xff_ffff);
        assert_eq!(view.payload(), packet.payload());
    }
}

fn check_datagram(frame: &[u8]) {
    if let Ok(datagram) = Datagram::parse(frame) {
        let mut written = Vec::new();
        assert_eq!(datagram.emit(&mut written), Ok(()));
        assert_eq!(Datagram::parse(&written), Ok(datagram));
    }
    if let Some(message) = Message::parse(frame) {
        assert_eq!(Message::parse(&message.emit()), Some(message));
    }
}
