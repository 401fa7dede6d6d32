//! Two network namespaces with a cable between them: a veth pair, an end in each.
//!
//! Neither the namespaces nor the pair have a name that anybody else sees. They are gone when the last descriptor that
//! belongs to them is closed, which the kernel sees to when the process ends, however it ends: nothing can be left over,
//! and nothing of the host is touched.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::netlink::{Message, Route};
use crate::sys::netns::Namespace;
use crate::text::Refused;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWNEIGH: u16 = 28;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_LOCAL: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

const AF_INET: u8 = 2;
const IFF_UP: u32 = 0x1;
const IFF_RUNNING: u32 = 0x40;
const NUD_PERMANENT: u16 = 0x80;

/// The only receive queue of either end: with more of them a frame might arrive at one that nobody looks at.
pub const QUEUE: u32 = 0;

/// The number of either end in its namespace. Asked for, since then nobody needs to look it up; high enough, since some
/// drivers put a device of theirs into every new namespace.
const INDEX: u32 = 1000;

/// How long the kernel may take to notice that a cable is plugged in at both ends, and how often it is asked.
const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(1);

/// An end, as the other one needs to know it.
#[derive(Debug)]
struct Card {
    name: &'static str,
    mac: [u8; 6],
    /// Of the addresses that are kept for documentation: no route of the namespace leads elsewhere.
    ip: Ipv4Addr,
}

const SENDER: Card = Card { name: "sender", mac: [2, 0, 0, 0, 0, 1], ip: Ipv4Addr::new(192, 0, 2, 1) };
const RECEIVER: Card = Card { name: "receiver", mac: [2, 0, 0, 0, 0, 2], ip: Ipv4Addr::new(192, 0, 2, 2) };
const PREFIX_BITS: u8 = 24;

/// One end of the cable, and the namespace that it is in.
#[derive(Debug)]
pub struct End {
    namespace: Namespace,
    card: &'static Card,
}

impl End {
    /// Does `work` in a thread that is in this end's namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T, Errno> + Send) -> Result<T, Errno> {
        self.namespace.run(work)
    }

    /// The number of its device there.
    pub fn index(&self) -> u32 {
        INDEX
    }

    /// A port at its address.
    pub fn at(&self, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.card.ip, port)
    }
}

/// Both ends, with addresses, up, and each knowing the other: nobody needs ARP.
#[derive(Debug)]
pub struct Pair {
    /// Where packets come from.
    pub sender: End,
    /// Where they arrive.
    pub receiver: End,
}

impl Pair {
    /// Makes one. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub fn new() -> Result<Pair, Refused> {
        let namespace = || Namespace::new().map_err(Refused::to("make a network namespace"));
        let sender = End { namespace: namespace()?, card: &SENDER };
        let receiver = End { namespace: namespace()?, card: &RECEIVER };
        sender.run(|| plug(&receiver.namespace)).map_err(Refused::to("make a veth pair"))?;
        for (end, other) in [(&sender, &receiver), (&receiver, &sender)] {
            end.run(|| configure(end.card, other.card)).map_err(Refused::to("configure a veth pair"))?;
        }
        for end in [&sender, &receiver] {
            end.run(wait_until_running).map_err(Refused::to("bring up a veth pair"))?;
        }
        Ok(Pair { sender, receiver })
    }
}

/// Makes the pair: one end here, the other one there.
fn plug(there: &Namespace) -> Result<(), Errno> {
    let end = |message: Message, card: &Card| {
        message
            .attribute(IFLA_IFNAME, &[card.name.as_bytes(), b"\0"].concat())
            .attribute(IFLA_ADDRESS, &card.mac)
            .attribute(IFLA_NUM_TX_QUEUES, &1u32.to_ne_bytes())
            .attribute(IFLA_NUM_RX_QUEUES, &1u32.to_ne_bytes())
    };
    let message = Message::new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ifinfomsg(0));
    let message = end(message, &SENDER).nest(IFLA_LINKINFO, |info| {
        info.attribute(IFLA_INFO_KIND, b"veth").nest(IFLA_INFO_DATA, |data| {
            data.nest(VETH_INFO_PEER, |peer| {
                let peer = end(peer.raw(&ifinfomsg(0)), &RECEIVER);
                peer.attribute(IFLA_NET_NS_FD, &there.as_fd().as_raw_fd().to_ne_bytes())
            })
        })
    });
    Route::open()?.request(message).map(drop)
}

/// Gives this end its address, tells it who is at the other one, and brings it up.
fn configure(own: &Card, other: &Card) -> Result<(), Errno> {
    let mut route = Route::open()?;
    let index = INDEX.to_ne_bytes();
    let ifaddrmsg = [&[AF_INET, PREFIX_BITS, 0, 0], index.as_slice()].concat();
    let address = Message::new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &ifaddrmsg);
    route.request(address.attribute(IFA_LOCAL, &own.ip.octets()))?;
    route.request(Message::new(RTM_NEWLINK, 0, &ifinfomsg(IFF_UP)))?;
    // A neighbour is forgotten when its device goes down, and refused while it is.
    let ndmsg = [&[AF_INET, 0, 0, 0], index.as_slice(), &NUD_PERMANENT.to_ne_bytes(), &[0, 0]].concat();
    let neighbour = Message::new(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL, &ndmsg);
    route.request(neighbour.attribute(NDA_DST, &other.ip.octets()).attribute(NDA_LLADDR, &other.mac)).map(drop)
}

/// Until then the kernel throws away what is sent.
fn wait_until_running() -> Result<(), Errno> {
    let mut route = Route::open()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let link = route.request(Message::new(RTM_GETLINK, 0, &ifinfomsg(0)))?;
        let flags = link.get(8..).and_then(<[u8]>::first_chunk).map(|&flags| u32::from_ne_bytes(flags));
        match flags {
            Some(flags) if flags & IFF_RUNNING != 0 => return Ok(()),
            Some(_) if Instant::now() < deadline => thread::sleep(TICK),
            Some(_) => return Err(Errno::TIMEDOUT),
            None => return Err(Errno::BADMSG),
        }
    }
}

/// The fixed part of messages about the device of this end: `flags` are to be set, the others stay.
fn ifinfomsg(flags: u32) -> [u8; 16] {
    let mut message = [0; 16];
    message[4..8].copy_from_slice(&INDEX.to_ne_bytes());
    message[8..12].copy_from_slice(&flags.to_ne_bytes());
    message[12..16].copy_from_slice(&flags.to_ne_bytes());
    message
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// A pair, or the word that there can be none here.
    pub(crate) fn pair() -> Option<Pair> {
        match Pair::new() {
            Ok(pair) => Some(pair),
            Err(refused) => {
                refused.skip();
                None
            }
        }
    }

    #[test]
    fn a_datagram_goes_from_one_end_to_the_other() {
        let Some(pair) = pair() else { return };
        let open = |end: &End| end.run(|| Ok(UdpSocket::bind(end.at(7777)).unwrap())).unwrap();
        let (from, to) = (open(&pair.sender), open(&pair.receiver));
        to.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        from.send_to(b"hello", pair.receiver.at(7777)).unwrap();
        let mut buffer = [0; 16];
        let (count, source) = to.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..count], source), (&b"hello"[..], pair.sender.at(7777).into()));
    }
}
