//! One datagram received four ways over a veth pair: by a kernel socket and by an AF_XDP socket, each waiting and spinning,
//! since how a receiver waits is most of what is said of the socket that it waits at.

use std::cell::RefCell;
use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, FromArgMatches, ValueEnum};
use rustix::io::Errno;
use rustix::net::xdp::XdpStatistics;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use serde_json::{Map, Value};

use super::rounds::{Sampler, Trial, sample_arms};
use super::{Claim, Experiment, Findings, Lab, Measurement, Roles, Row, Schedule, Skip};
use crate::caveat::Caveat;
use crate::clock::in_ns;
use crate::filter;
use crate::frame::Stamp;
use crate::oneway::{self, Course, Inbox, PATIENCE, Received, Tally};
use crate::packet::udp_payload;
use crate::samples::Samples;
use crate::sys::bpf::{Attachment, Hook, Program};
use crate::sys::xsk::Xsk;
use crate::table::Table;
use crate::text::{self, Refused};
use crate::veth::{Pair, QUEUE};
use crate::wire::{Socket, wait_readable};

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "xdp",
    about: "Receive over a veth pair by kernel socket and by AF_XDP, each waiting and spinning",
    options: |command| Options::augment_args(command),
    build: |matches| Ok(Box::new(Options::from_arg_matches(matches)?)),
};

const REAL: Schedule = Schedule { rounds: 5, warmup: 100, n: 20_000, time: None };
const QUICK: Schedule = Schedule { rounds: 2, warmup: 20, n: 1_000, time: None };

/// Where datagrams go. Nobody else is in the receiver's namespace.
const PORT: u16 = 7777;

const ROLES: [&str; 2] = ["sender", "receiver"];

/// What is expected of the medians, on any host: waking up is the larger part, and that of AF_XDP is no quicker.
const WAKING_UP: f64 = 2.0;
const ABOUT: f64 = 2.0;

#[derive(Clone, Debug, Args)]
struct Options {
    /// From one datagram to the next; a bare number is ns
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = gap)]
    gap: Duration,

    /// Where the XDP program runs
    #[arg(long, value_enum, value_name = "MODE", default_value = "skb")]
    xdp_mode: Mode,
}

fn gap(text: &str) -> Result<Duration, String> {
    match text::time(text)? {
        Duration::ZERO => Err("no gap at all: the receiver would not be idle".to_owned()),
        gap => Ok(gap),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// In the network stack, as with any driver
    Skb,
    /// In the driver
    Native,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Skb => "skb",
            Mode::Native => "native",
        }
    }

    fn hook(self) -> Hook {
        match self {
            Mode::Skb => Hook::Skb,
            Mode::Native => Hook::Driver,
        }
    }
}

/// An arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    UdpBlock,
    UdpSpin,
    XdpPoll,
    XdpSpin,
}

impl Way {
    const ALL: [Way; 4] = [Way::UdpBlock, Way::UdpSpin, Way::XdpPoll, Way::XdpSpin];

    fn name(self) -> &'static str {
        match self {
            Way::UdpBlock => "udp-block",
            Way::UdpSpin => "udp-spin",
            Way::XdpPoll => "xdp-poll",
            Way::XdpSpin => "xdp-spin",
        }
    }
}

impl Experiment for Options {
    fn roles(&self) -> Roles {
        Roles::Each(&ROLES)
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let (arms, caveats) = match lab.two_cpus(ROLES) {
            Ok(cpus) => match Pair::new() {
                Ok(pair) => self.measure(&pair, Course { cpus, interval: self.gap }, lab)?,
                Err(refused) => (skip_all(&explain(refused)), Vec::new()),
            },
            Err(Skip(why)) => (skip_all(&why), Vec::new()),
        };
        let mut findings = Findings { sample: Some(oneway::SAMPLE), arms, caveats, ..Findings::default() };
        findings.summary = Map::from_iter([
            ("gap_ns".to_owned(), in_ns(self.gap).into()),
            ("xdp_mode".to_owned(), self.xdp_mode.name().into()),
        ]);
        findings.claims = claims(&findings);
        findings.tables.extend(table(&findings.arms));
        findings.caveats.extend(oneway::caveats(&findings.arms));
        Ok(findings)
    }
}

impl Options {
    fn measure(&self, pair: &Pair, course: Course, lab: &Lab<'_>) -> anyhow::Result<(Vec<Row>, Vec<Caveat>)> {
        let tap = Tap::new(pair, self.xdp_mode.hook());
        let mut receivers = Way::ALL.map(|way| Receiver { way, pair, tap: &tap, course });
        let mut samplers = receivers.each_mut().map(|receiver| receiver as &mut dyn Sampler);
        sample_arms(&mut samplers, course.fit(lab.effort.shared(REAL, QUICK)), lab)
    }
}

fn skip_all(why: &str) -> Vec<Row> {
    Way::ALL.iter().map(|way| Row::skipped(way.name(), why)).collect()
}

/// Why an arm is skipped, with what it takes where the kernel only says that it is not permitted.
fn explain(refused: Refused) -> String {
    match refused.errno {
        Errno::PERM => format!("{refused} (it takes CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF)"),
        _ => refused.to_string(),
    }
}

/// An AF_XDP socket at the receiving end, with the program that feeds it. Bound once: a queue whose socket was closed is
/// busy for some time after.
struct Tap {
    socket: RefCell<Xsk>,
    program: Program,
    hook: Hook,
}

impl Tap {
    fn new(pair: &Pair, hook: Hook) -> Result<Tap, Refused> {
        let end = &pair.receiver;
        let socket = end.run(|| Xsk::bind(end.index(), QUEUE)).map_err(Refused::to("bind an AF_XDP socket"))?;
        let program = filter::load(PORT, QUEUE, &socket)?;
        Ok(Tap { socket: RefCell::new(socket), program, hook })
    }

    fn attach(&self, pair: &Pair) -> Result<Attachment, Refused> {
        let (end, program, hook) = (&pair.receiver, &self.program, self.hook);
        end.run(|| Attachment::new(program, end.index(), hook)).map_err(Refused::to("attach an XDP program"))
    }
}

/// An arm with what it needs.
struct Receiver<'a> {
    way: Way,
    pair: &'a Pair,
    tap: &'a Result<Tap, Refused>,
    course: Course,
}

impl Sampler for Receiver<'_> {
    fn name(&self) -> &str {
        self.way.name()
    }

    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let target = self.pair.receiver.at(PORT);
        let mut outlet = self.pair.sender.run(|| connected(target)).map_err(Refused::to("open the sender's socket"))?;
        let polls = match self.way {
            Way::UdpBlock | Way::UdpSpin => {
                let spin = self.way == Way::UdpSpin;
                let socket = self.pair.receiver.run(|| bound(target, spin));
                let inbox = socket.map_err(Refused::to("open the receiver's socket"))?;
                return Ok(figures(self.course.run(trial, samples, &mut outlet, || Ok(inbox))?, None));
            }
            Way::XdpPoll => true,
            Way::XdpSpin => false,
        };
        let tap = self.tap.as_ref().map_err(|&refused| Skip(explain(refused)))?;
        let mut socket = tap.socket.try_borrow_mut().context("two arms at once")?;
        let statistics =
            |socket: &Xsk| socket.statistics().map_err(Refused::to("read the statistics of an AF_XDP socket"));
        // Nothing is left from the arm before, whose program is gone; should anything be, it is none of this one's.
        while socket.receive(|_| ()).is_some() {}
        let before = statistics(&socket)?;
        let attachment = tap.attach(self.pair).map_err(|refused| Skip(explain(refused)))?;
        let inbox = XskInbox { socket: &mut socket, port: PORT, polls };
        let tally = self.course.run(trial, samples, &mut outlet, || Ok(inbox))?;
        drop(attachment);
        Ok(figures(tally, Some((before, statistics(&socket)?))))
    }
}

/// How an AF_XDP socket is received from.
struct XskInbox<'a> {
    socket: &'a mut Xsk,
    /// The UDP port that is listened to.
    port: u16,
    /// Sleep in poll(2) when the ring is empty, instead of looking again.
    polls: bool,
}

impl Inbox for XskInbox<'_> {
    #[inline]
    fn next(&mut self) -> Result<Received, Errno> {
        let port = self.port;
        let mut look = || self.socket.receive(|frame| udp_payload(frame, port).ok().and_then(Stamp::of));
        if let Some(stamp) = look() {
            return Ok(stamp.into());
        }
        if !self.polls {
            return Ok(Received::Nothing);
        }
        match wait_readable(&*self.socket, PATIENCE) {
            Ok(_) | Err(Errno::INTR) => Ok(Received::Nothing),
            Err(errno) => Err(errno),
        }
    }
}

fn connected(target: SocketAddrV4) -> Result<Socket, Errno> {
    let socket = net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    net::connect(&socket, &target)?;
    Ok(socket.into())
}

fn bound(address: SocketAddrV4, spin: bool) -> Result<Socket, Errno> {
    let flags = if spin { SocketFlags::CLOEXEC | SocketFlags::NONBLOCK } else { SocketFlags::CLOEXEC };
    let socket = net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    net::bind(&socket, &address)?;
    Ok(socket.into())
}

/// What the kernel counts at an AF_XDP socket, by the names that it has for it.
const STATISTICS: [&str; 4] = ["rx_dropped", "rx_invalid_descs", "rx_ring_full", "rx_fill_ring_empty_descs"];

/// The counters in that order. Old kernels have not all of them.
fn counters(of: &XdpStatistics) -> [Option<u64>; STATISTICS.len()] {
    [Some(of.rx_dropped), Some(of.rx_invalid_descs), of.rx_ring_full, of.rx_fill_ring_empty_descs]
}

/// What a trial counted; of an AF_XDP socket what its counters rose by.
fn figures(tally: Tally, socket: Option<(XdpStatistics, XdpStatistics)>) -> Map<String, Value> {
    let kernels = socket.iter().flat_map(|(before, after)| {
        let rises = counters(before)
            .into_iter()
            .zip(counters(after))
            .map(|(before, after)| Some(after?.saturating_sub(before?)));
        STATISTICS.into_iter().zip(rises).filter_map(|(name, rise)| Some((name, rise?)))
    });
    let kernels = kernels.map(|(name, count)| (name.to_owned(), count.into()));
    tally.figures().into_iter().chain(kernels).collect()
}

fn claims(findings: &Findings) -> Vec<Claim> {
    let claims = [
        Claim::below(findings, "udp-spin", "udp-block", "p50", WAKING_UP),
        Claim::below(findings, "xdp-spin", "xdp-poll", "p50", WAKING_UP),
        Claim::near(findings, "xdp-poll", "udp-block", "p50", ABOUT),
        Claim::near(findings, "xdp-spin", "udp-spin", "p50", ABOUT),
        Claim::below(findings, "xdp-spin", "udp-spin", "p50", 1.0),
    ];
    claims.into_iter().flatten().collect()
}

/// What was counted, an arm a line; nothing where nothing was measured.
fn table(arms: &[Row]) -> Option<Table> {
    let names = ["sent", "lost", "foreign"].into_iter().chain(STATISTICS);
    let columns =
        ["frames", "sent", "lost", "foreign", "rx\ndropped", "rx invalid\ndescs", "rx\nring full", "fill ring\nempty"];
    let mut table = Table::new("", &columns);
    for row in arms.iter().filter(|row| row.skipped.is_none()) {
        let cell = |name| row.figures.get(name).map_or_else(|| "-".to_owned(), Value::to_string);
        table.rows.push([row.name.clone()].into_iter().chain(names.clone().map(cell)).collect());
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use super::*;
    use crate::experiment::Effort;
    use crate::veth::End;
    use crate::veth::tests::pair;

    /// A pair with an AF_XDP socket at one end, or the word that there can be none here.
    fn tapped() -> Option<(Pair, Tap)> {
        let pair = pair()?;
        match Tap::new(&pair, Hook::Skb) {
            Ok(tap) => Some((pair, tap)),
            Err(refused) => {
                refused.skip();
                None
            }
        }
    }

    fn socket(end: &End, port: u16) -> UdpSocket {
        let socket = end.run(|| Ok(UdpSocket::bind(end.at(port)).unwrap())).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket
    }

    fn size_of_next(socket: &UdpSocket) -> usize {
        socket.recv(&mut [0; 4096]).unwrap()
    }

    #[test]
    fn the_ring_gets_what_is_for_the_port_and_the_kernel_everything_else() {
        let Some((pair, tap)) = tapped() else { return };
        let sender = socket(&pair.sender, 40_000);
        let (same_port, other_port) = (socket(&pair.receiver, PORT), socket(&pair.receiver, PORT + 1));
        let send = |bytes: &[u8], port| sender.send_to(bytes, pair.receiver.at(port)).unwrap();
        let stamp = |seq| Stamp { seq, send_ns: 0 };

        let attachment = tap.attach(&pair).unwrap();
        send(&stamp(1).frame(), PORT);
        send(b"not one of ours", PORT);
        send(&stamp(2).frame(), PORT + 1);
        // In fragments, which nobody can tell the port of but the first one.
        send(&[0; 4000], PORT);
        send(&stamp(3).frame(), PORT);
        assert_eq!(size_of_next(&other_port), 64);
        assert_eq!(size_of_next(&same_port), 4000);
        let mut xsk = tap.socket.borrow_mut();
        let mut inbox = XskInbox { socket: &mut xsk, port: PORT, polls: true };
        let mut next = || (0..300).map(|_| inbox.next().unwrap()).find(|&received| received != Received::Nothing);
        assert_eq!(next(), Some(Received::Stamped(stamp(1))));
        assert_eq!(next(), Some(Received::Foreign));
        assert_eq!(next(), Some(Received::Stamped(stamp(3))));
        drop(attachment);

        // Off again, the program takes nothing.
        send(b"hello", PORT);
        assert_eq!(size_of_next(&same_port), 5);
        assert_eq!(XskInbox { socket: &mut xsk, port: PORT, polls: false }.next(), Ok(Received::Nothing));
    }

    #[test]
    fn chunks_go_round_and_what_finds_none_is_counted() {
        let Some((pair, tap)) = tapped() else { return };
        let sender = socket(&pair.sender, 40_000);
        let _attachment = tap.attach(&pair).unwrap();
        let mut xsk = tap.socket.borrow_mut();
        let send = |count: u64| {
            (0..count).for_each(|seq| {
                sender.send_to(&Stamp { seq, send_ns: 0 }.frame(), pair.receiver.at(PORT)).unwrap();
            });
        };
        let expect = |count: u64, xsk: &mut Xsk| {
            let mut inbox = XskInbox { socket: xsk, port: PORT, polls: true };
            let mut next = || (0..300).map(|_| inbox.next().unwrap()).find(|&received| received != Received::Nothing);
            (0..count).for_each(|seq| assert_eq!(next(), Some(Received::Stamped(Stamp { seq, send_ns: 0 }))));
        };
        // The rings go round several times.
        for _ in 0..5 {
            send(300);
            expect(300, &mut xsk);
        }
        let before = xsk.statistics().unwrap();
        send(600);
        // Which counter a full ring without free chunks falls to is the kernel's affair. It may take its time.
        let dropped = |xsk: &Xsk| {
            let counted = figures(Tally::default(), Some((before, xsk.statistics().unwrap())));
            STATISTICS.iter().filter_map(|name| counted[*name].as_u64()).max()
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while dropped(&xsk) < Some(88) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(dropped(&xsk), Some(88), "600 frames for 512 chunks");
        expect(512, &mut xsk);
        send(300);
        expect(300, &mut xsk);
    }

    #[test]
    fn one_cpu_is_not_enough() {
        let options = Options { gap: Duration::from_millis(1), xdp_mode: Mode::Skb };
        let (stop, effort) = (AtomicBool::new(false), Effort::default());
        let findings =
            options.run(&Lab { cpus: vec![0], effort, locked_memory: None, stop: &stop, progress: &|_| () }).unwrap();
        assert_eq!(findings.arms.iter().filter(|row| row.skipped.is_some()).count(), 4);
        assert!(findings.claims.is_empty() && findings.tables.is_empty());
    }

    #[test]
    fn what_was_counted_is_said() {
        let counted = |lost| figures(Tally { sent: 100, lost, foreign: 2, ..Tally::default() }, None);
        let row = |way: Way, lost| Row { name: way.name().to_owned(), figures: counted(lost), ..Row::default() };
        let arms = [row(Way::UdpBlock, 0), row(Way::UdpSpin, 7), Row::skipped("xdp-poll", "no")];
        let table = table(&arms).unwrap().to_string();
        let line = table.lines().last().unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["udp-spin", "100", "7", "2", "-", "-", "-", "-"]);
    }
}
