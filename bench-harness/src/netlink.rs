//! As much of rtnetlink(7) as it takes to make a device and to ask about one: requests, and what the kernel answers.
//!
//! Numbers are in the byte order of the machine, as netlink has them.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::net::{recv, send, socket_with};

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLMSG_ERROR: u16 = 2;

/// The header of every message: its length, its type, flags, a number of the sender's choice and its port.
const HEADER_BYTES: usize = 16;
const ALIGNMENT: usize = 4;

/// The kernel answers at once; a minute of silence is a kernel that will not.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request, or a part of one.
#[derive(Debug)]
#[must_use]
pub struct Message(Vec<u8>);

impl Message {
    /// A request of type `kind` with `flags`, that begins with the fixed part which goes with the type.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
        Message(bytes).raw(fixed)
    }

    /// Adds an attribute.
    pub fn attribute(self, kind: u16, value: &[u8]) -> Message {
        self.nest(kind, |message| message.raw(value))
    }

    /// Adds an attribute that consists of what `fill` adds.
    pub fn nest(mut self, kind: u16, fill: impl FnOnce(Message) -> Message) -> Message {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        let mut filled = fill(self).0;
        // No attribute here is longer than some words; the kernel refuses one that claims to be.
        let length = u16::try_from(filled.len() - start).unwrap_or(u16::MAX);
        filled[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        filled.resize(filled.len().next_multiple_of(ALIGNMENT), 0);
        Message(filled)
    }

    /// Adds bytes that have no header.
    pub fn raw(mut self, bytes: &[u8]) -> Message {
        self.0.extend(bytes);
        self
    }

    fn numbered(mut self, number: u32) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&number.to_ne_bytes());
        self.0
    }
}

/// A connection to the part of the kernel that configures one network namespace.
#[derive(Debug)]
pub struct Route {
    socket: OwnedFd,
    number: u32,
}

impl Route {
    /// Connects to the calling thread's network namespace.
    pub fn open() -> Result<Route, Errno> {
        // Without a protocol this is `NETLINK_ROUTE`, whose number is 0.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(Route { socket, number: 0 })
    }

    /// Makes a request and waits until the kernel has done as it says. Returns the message that came before the
    /// acknowledgement, if one did: the answer to a question, without its header.
    pub fn request(&mut self, message: Message) -> Result<Vec<u8>, Errno> {
        self.number = self.number.wrapping_add(1);
        send(&self.socket, &message.numbered(self.number), SendFlags::empty())?;
        let mut answer = Vec::new();
        let mut buffer = vec![0; 32 << 10];
        loop {
            let received = match recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((count, _)) => &buffer[..count],
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            for reply in replies(received) {
                match reply? {
                    Reply { number, .. } if number != self.number => {}
                    Reply { kind: NLMSG_ERROR, body, .. } => return acknowledged(body).map(|()| answer),
                    Reply { body, .. } => answer = body.to_vec(),
                }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Reply<'a> {
    kind: u16,
    number: u32,
    body: &'a [u8],
}

/// The messages of a datagram. What does not add up is `EBADMSG`, and the end.
fn replies(mut rest: &[u8]) -> impl Iterator<Item = Result<Reply<'_>, Errno>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let reply = first_reply(&mut rest);
        if reply.is_none() {
            rest = &[];
        }
        Some(reply.ok_or(Errno::BADMSG))
    })
}

fn first_reply<'a>(rest: &mut &'a [u8]) -> Option<Reply<'a>> {
    let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk()?)).ok()?;
    let header = rest.get(..HEADER_BYTES)?;
    let kind = u16::from_ne_bytes(*header[4..].first_chunk()?);
    let number = u32::from_ne_bytes(*header[8..].first_chunk()?);
    let body = rest.get(HEADER_BYTES..length)?;
    *rest = rest.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    Some(Reply { kind, number, body })
}

/// What an acknowledgement says: 0, or the number of an error, negated.
fn acknowledged(body: &[u8]) -> Result<(), Errno> {
    match body.first_chunk().map(|&code| i32::from_ne_bytes(code)) {
        Some(0) => Ok(()),
        Some(code @ -4095..0) => Err(Errno::from_raw_os_error(-code)),
        _ => Err(Errno::BADMSG),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn a_literal_request() {
        let message =
            Message::new(16, 0x600, &[0xaa; 4]).attribute(3, b"abc").nest(18, |m| m.attribute(1, &[7]).raw(&[9]));
        #[rustfmt::skip]
        assert_eq!(message.numbered(5), [
            44, 0, 0, 0, 16, 0, 0x05, 0x06, 5, 0, 0, 0, 0, 0, 0, 0,
            0xaa, 0xaa, 0xaa, 0xaa,
            7, 0, 3, 0, b'a', b'b', b'c', 0,
            13, 0, 18, 0, 5, 0, 1, 0, 7, 0, 0, 0, 9, 0, 0, 0,
        ]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn literal_replies() {
        #[rustfmt::skip]
        let datagram = [
            18, 0, 0, 0, 16, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0,
            20, 0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        let replies: Vec<_> = replies(&datagram).map(Result::unwrap).collect();
        let error = Reply { kind: NLMSG_ERROR, number: 6, body: &[0xff; 4] };
        assert_eq!(replies, [Reply { kind: 16, number: 5, body: &[1, 2] }, error]);
        assert_eq!(acknowledged(replies[1].body), Err(Errno::PERM));
    }

    #[test]
    fn acknowledgements() {
        assert_eq!(acknowledged(&[0; 20]), Ok(()));
        assert_eq!(acknowledged(&(-17i32).to_ne_bytes()), Err(Errno::EXIST));
        for nonsense in [&[][..], &[0; 3], &1i32.to_ne_bytes(), &(-5000i32).to_ne_bytes(), &i32::MIN.to_ne_bytes()] {
            assert_eq!(acknowledged(nonsense), Err(Errno::BADMSG));
        }
    }

    proptest! {
        /// Above all it comes to an end.
        #[test]
        fn anything_is_read_without_a_panic(datagram in prop::collection::vec(0..64u8, 0..300)) {
            let count = replies(&datagram).count();
            prop_assert!(count <= datagram.len() / HEADER_BYTES + 1);
        }
    }

    #[test]
    fn a_question_is_answered() {
        const RTM_GETLINK: u16 = 18;
        // Everybody may ask about the loopback device, where there is netlink at all.
        let mut route = match Route::open() {
            Ok(route) => route,
            Err(errno) => return println!("skipped: no netlink: {errno}"),
        };
        let mut about = [0; 16];
        about[4..8].copy_from_slice(&1i32.to_ne_bytes());
        let answer = route.request(Message::new(RTM_GETLINK, 0, &about)).unwrap();
        assert_eq!(answer[4..8], 1i32.to_ne_bytes());
        about[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
        assert_eq!(route.request(Message::new(RTM_GETLINK, 0, &about)), Err(Errno::NODEV));
    }
}
