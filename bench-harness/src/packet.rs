//! What lies in a frame that an AF_XDP socket received: no kernel has looked at it.
//!
//! Checksums are not verified. On a veth pair the sender leaves that of UDP to a device that does not exist, so that the
//! frame arrives with a part of it only.

use thiserror::Error;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;

const ETHERTYPE_IPV4: u16 = 0x0800;
const PROTOCOL_UDP: u8 = 17;

/// More fragments follow, or this is not the first one: the bits of the word that also holds "do not fragment".
const FRAGMENT: u16 = 0x3fff;

/// Why a frame is none of ours.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Foreign {
    /// It ends before a header does, or before a header says that it should.
    #[error("truncated")]
    Truncated,
    /// Another protocol than IPv4 in the Ethernet frame; so is a VLAN tag.
    #[error("not IPv4")]
    NotIpv4,
    /// A header contradicts itself.
    #[error("malformed")]
    Malformed,
    /// A part of a datagram.
    #[error("a fragment")]
    Fragment,
    /// Another protocol than UDP in the IPv4 packet.
    #[error("not UDP")]
    NotUdp,
    /// A datagram for somebody else.
    #[error("another port")]
    OtherPort,
}

/// The payload of an Ethernet frame that carries a whole IPv4 datagram to UDP `port`.
///
/// Options of IPv4 are skipped. What Ethernet appends to a short frame is no part of the payload.
#[inline]
pub fn udp_payload(frame: &[u8], port: u16) -> Result<&[u8], Foreign> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET_BYTES).ok_or(Foreign::Truncated)?;
    if word(ethernet, 12) != Some(ETHERTYPE_IPV4) {
        return Err(Foreign::NotIpv4);
    }
    let &version_and_length = packet.first().ok_or(Foreign::Truncated)?;
    if version_and_length >> 4 != 4 {
        return Err(Foreign::NotIpv4);
    }
    let header_bytes = usize::from(version_and_length & 0xf) * 4;
    if header_bytes < IPV4_BYTES {
        return Err(Foreign::Malformed);
    }
    let header = packet.get(..header_bytes).ok_or(Foreign::Truncated)?;
    if header[9] != PROTOCOL_UDP {
        return Err(Foreign::NotUdp);
    }
    if word(header, 6).is_none_or(|word| word & FRAGMENT != 0) {
        return Err(Foreign::Fragment);
    }
    let total_bytes = word(header, 2).map_or(0, usize::from);
    if total_bytes < header_bytes + UDP_BYTES {
        return Err(Foreign::Malformed);
    }
    let datagram = packet.get(header_bytes..total_bytes).ok_or(Foreign::Truncated)?;
    if word(datagram, 2) != Some(port) {
        return Err(Foreign::OtherPort);
    }
    let datagram_bytes = word(datagram, 4).map_or(0, usize::from);
    if datagram_bytes < UDP_BYTES {
        return Err(Foreign::Malformed);
    }
    datagram.get(UDP_BYTES..datagram_bytes).ok_or(Foreign::Truncated)
}

/// The 16 bits in network order at `offset`.
#[inline]
fn word(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|&word| u16::from_be_bytes(word))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    const PORT: u16 = 7777;

    /// A frame to UDP `port`. The length of `options` must be a multiple of 4, and at most 40.
    pub(crate) fn frame(options: &[u8], port: u16, payload: &[u8]) -> Vec<u8> {
        let header_bytes = u8::try_from(20 + options.len()).unwrap();
        let datagram_bytes = u16::try_from(8 + payload.len()).unwrap();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
        frame.extend([0x40 | (header_bytes / 4), 0]);
        frame.extend((u16::from(header_bytes) + datagram_bytes).to_be_bytes());
        frame.extend([0, 7, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend(options);
        frame.extend([0x9c, 0x40]);
        frame.extend(port.to_be_bytes());
        frame.extend(datagram_bytes.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame
    }

    /// As a packet capture shows it: 192.0.2.1:40000 to 192.0.2.2:7777, "hello", padded to 60 bytes.
    #[rustfmt::skip]
    const LITERAL: [u8; 60] = [
        0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00,
        0x45, 0x00, 0x00, 0x21, 0x00, 0x07, 0x40, 0x00, 0x40, 0x11, 0xb6, 0xc1,
        0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00, 0x02, 0x02,
        0x9c, 0x40, 0x1e, 0x61, 0x00, 0x0d, 0x7d, 0x5c, b'h', b'e', b'l', b'l', b'o',
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn a_literal_frame() {
        assert_eq!(udp_payload(&LITERAL, PORT), Ok(&b"hello"[..]));
        assert_eq!(udp_payload(&LITERAL, 7778), Err(Foreign::OtherPort));
        assert_eq!(udp_payload(&[], PORT), Err(Foreign::Truncated));
    }

    /// The literal frame with some bytes replaced.
    fn spoilt(changes: &[(usize, u8)]) -> Result<Vec<u8>, Foreign> {
        let mut frame = LITERAL;
        for &(at, byte) in changes {
            frame[at] = byte;
        }
        udp_payload(&frame, PORT).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_is_none_of_ours() {
        let arp = [(12, 0x08), (13, 0x06)];
        assert_eq!(spoilt(&arp), Err(Foreign::NotIpv4));
        let vlan = [(12, 0x81), (13, 0x00)];
        assert_eq!(spoilt(&vlan), Err(Foreign::NotIpv4));
        assert_eq!(spoilt(&[(14, 0x65)]), Err(Foreign::NotIpv4));
        assert_eq!(spoilt(&[(14, 0x44)]), Err(Foreign::Malformed));
        assert_eq!(spoilt(&[(23, 6)]), Err(Foreign::NotUdp));
        assert_eq!(spoilt(&[(20, 0x20)]), Err(Foreign::Fragment));
        assert_eq!(spoilt(&[(21, 0x01)]), Err(Foreign::Fragment));
        let shorter_than_its_headers = [(17, 27)];
        assert_eq!(spoilt(&shorter_than_its_headers), Err(Foreign::Malformed));
        let longer_than_the_frame = [(17, 47)];
        assert_eq!(spoilt(&longer_than_the_frame), Err(Foreign::Truncated));
        let datagram_shorter_than_its_header = [(39, 7)];
        assert_eq!(spoilt(&datagram_shorter_than_its_header), Err(Foreign::Malformed));
        let datagram_longer_than_its_packet = [(39, 14)];
        assert_eq!(spoilt(&datagram_longer_than_its_packet), Err(Foreign::Truncated));
        let options_longer_than_the_packet = [(14, 0x4f)];
        assert_eq!(spoilt(&options_longer_than_the_packet), Err(Foreign::Truncated));
    }

    #[test]
    fn an_empty_payload_is_one() {
        assert_eq!(udp_payload(&frame(&[], PORT, b""), PORT), Ok(&b""[..]));
    }

    proptest! {
        #[test]
        fn anything_is_parsed_without_a_panic(frame in prop::collection::vec(any::<u8>(), 0..200), port: u16) {
            let _ = udp_payload(&frame, port);
        }

        /// Random bytes hardly ever get past the Ethernet header; these do.
        #[test]
        fn a_damaged_frame_is_parsed_without_a_panic(
            options in 0..=10usize,
            payload in prop::collection::vec(any::<u8>(), 0..80),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            end in any::<prop::sample::Index>(),
        ) {
            let mut frame = frame(&vec![1; options * 4], PORT, &payload);
            for (at, byte) in damage {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            frame.truncate(end.index(frame.len() + 1));
            if let Ok(found) = udp_payload(&frame, PORT) {
                prop_assert!(found.len() <= frame.len().saturating_sub(42));
            }
        }

        #[test]
        fn options_and_padding_are_no_payload(
            options in 0..=10usize,
            payload in prop::collection::vec(any::<u8>(), 0..80),
            padding in prop::collection::vec(any::<u8>(), 0..50),
            port: u16,
        ) {
            let mut frame = frame(&vec![1; options * 4], port, &payload);
            let whole = frame.len();
            frame.extend(padding);
            prop_assert_eq!(udp_payload(&frame, port), Ok(payload.as_slice()));
            prop_assert_eq!(udp_payload(&frame[..whole - 1], port), Err(Foreign::Truncated));
        }
    }
}
