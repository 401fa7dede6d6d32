//! The client as built: its texts, and the servers that it must not trust.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use crate::common::{self, Server, app, run};
use quietcore_bench::frame::FRAME_BYTES;
use quietcore_bench::summary::Summary;

fn measure(target: impl std::fmt::Display, n: u32, warmup: u32) -> Command {
    let mut command = app();
    command.args(["measure", "--target", &target.to_string()]);
    command.args(["--n", &n.to_string(), "--warmup", &warmup.to_string()]);
    command
}

/// A server that treats its one connection as `behave` says.
fn stub(behave: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || behave(listener.accept().unwrap().0));
    address
}

fn request(peer: &mut TcpStream) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    peer.read_exact(&mut frame).unwrap();
    frame
}

#[test]
fn the_whole_output() {
    for server in Server::all() {
        let (code, out, err) = run(measure(server.address(), 200, 50).args(["--tag", "t 1"]));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{}", server.hello);
        let mut lines = out.lines();
        let head = format!("app: measure target={} n=200 warmup=50", server.address());
        assert_eq!(lines.next(), Some(head.as_str()));
        let figures = lines.next().unwrap().strip_prefix("app: percentiles_ns tag=t 1 ").unwrap();
        let value = |name: &str| {
            let word = figures.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap();
            word.to_owned()
        };
        let names = ["p50", "p90", "p99", "p99.9", "min", "max"];
        let [p50, p90, p99, p99_9, min, max] = names.map(|name| value(name).parse::<u64>().unwrap());
        assert!(0 < min && [min, p50, p90, p99, p99_9, max].is_sorted(), "{figures}");
        assert_eq!(value("n"), "200");
        assert_eq!(value("mean").split_once('.').unwrap().1.len(), 2);
        assert_eq!(lines.next(), Some("app: table"));
        for name in [&names[..], &["mean"]].concat() {
            assert_eq!(lines.next(), Some(format!("  {name:<6} {} ns", value(name)).as_str()));
        }
        assert_eq!(lines.next(), None);
    }
}

#[test]
fn defaults() {
    let server = Server::naive();
    let (code, out, _) = run(app().args(["measure", "--n", "1", "--target", &server.address().to_string()]));
    assert_eq!(code, Some(0));
    assert!(out.contains(" n=1 warmup=200\n") && out.contains("percentiles_ns tag=- p50="), "{out}");
}

#[test]
fn requests_are_numbered_from_the_warm_up_and_one_is_in_flight() {
    let address = stub(|mut peer| {
        for seq in 0..5_u64 {
            let frame = request(&mut peer);
            assert_eq!(frame[..4], *b"CF\x01\x01");
            assert_eq!(frame[4..12], seq.to_be_bytes());
            assert_eq!(frame[12..], [0; 52]);
            peer.set_nonblocking(true).unwrap();
            assert!(peer.read(&mut [0; 1]).is_err(), "a second request came before the first answer");
            peer.set_nonblocking(false).unwrap();
            peer.write_all(&frame).unwrap();
        }
        assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    });
    assert_eq!(run(&mut measure(address, 3, 2)).0, Some(0));
}

#[test]
fn what_is_not_an_address() {
    for host in ["notanip", "localhost", "", "127.1", "0127.0.0.1", "::1", "127.0.0.1:80"] {
        let (code, out, err) = run(&mut measure(format!("{host}:9999"), 5, 0));
        assert_eq!((code, out.as_str()), (Some(1), ""));
        assert_eq!(err, format!("app: error: {host}: not an IPv4 address\n"));
    }
}

#[test]
fn nobody_listens() {
    let port = common::free_port();
    let (code, _, err) = run(&mut measure(format!("127.0.0.1:{port}"), 5, 0));
    assert_eq!(code, Some(1));
    assert_eq!(err, format!("app: error: connect 127.0.0.1:{port}: Connection refused\n"));
}

#[test]
fn wrong_echoes() {
    // Any byte of the header or the number; `seq` 1 in the third one is a stale answer.
    for (at, iteration) in [(0, 0), (3, 1), (11, 2)] {
        let address = stub(move |mut peer| {
            for turn in 0.. {
                let mut frame = request(&mut peer);
                if turn == iteration {
                    frame[at] ^= 1;
                }
                peer.write_all(&frame).unwrap();
                if turn == iteration {
                    let _ = peer.read(&mut [0; 1]);
                    return;
                }
            }
        });
        let (code, _, err) = run(&mut measure(address, 5, 0));
        assert_eq!(code, Some(1));
        assert_eq!(err, format!("app: error: measure: malformed/mismatched echo at iteration {iteration}\n"));
    }
}

#[test]
fn closed_connections() {
    type Behave = fn(TcpStream);
    let behaviours: [(Behave, u32); 4] = [
        (drop, 0),
        // Closed after one good answer.
        (
            |mut peer| {
                let frame = request(&mut peer);
                peer.write_all(&frame).unwrap();
                request(&mut peer);
            },
            1,
        ),
        // Half an answer.
        (
            |mut peer| {
                let frame = request(&mut peer);
                peer.write_all(&frame[..30]).unwrap();
            },
            0,
        ),
        // Closed with the request unread, which is a reset.
        (
            |mut peer| {
                let frame = request(&mut peer);
                peer.write_all(&frame).unwrap();
                peer.read_exact(&mut [0; 10]).unwrap();
            },
            1,
        ),
    ];
    for (behave, iteration) in behaviours {
        let (code, _, err) = run(&mut measure(stub(behave), 5, 0));
        assert_eq!(code, Some(1));
        assert_eq!(err, format!("app: error: measure: connection closed at iteration {iteration}\n"));
    }
}

#[test]
fn an_answer_in_pieces_is_an_answer() {
    let address = stub(|mut peer| {
        peer.set_nodelay(true).unwrap();
        for _ in 0..3 {
            for piece in request(&mut peer).chunks(25) {
                peer.write_all(piece).unwrap();
                thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    });
    assert_eq!(run(&mut measure(address, 3, 0)).0, Some(0));
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let server = Server::naive();
    let mut child = measure(server.address(), 50, 0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let status = common::wait(&mut child);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((status.code(), err.as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_one() {
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    let server = Server::naive();
    let (code, _, err) = run(measure(server.address(), 5, 0).stdout(full));
    assert_eq!((code, err.as_str()), (Some(1), "app: error: stdout: No space left on device\n"));
}

#[test]
fn more_samples_than_memory() {
    let (code, _, err) = run(app().args(["measure", "--target", "127.0.0.1:9", "--n", "9223372036854775807"]));
    assert_eq!(code, Some(1));
    assert_eq!(err, "app: error: measure: no memory for 9223372036854775807 samples\n");
}

#[test]
fn percentiles_of_one_sample() {
    let server = Server::naive();
    let (_, out, _) = run(&mut measure(server.address(), 1, 0));
    let figure = |name: &str| -> u64 {
        out.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap().parse().unwrap()
    };
    let summary = Summary::of(&[figure("p50")]).unwrap();
    assert_eq!((summary.p99_9, summary.min, summary.max), (figure("p99.9"), figure("min"), figure("max")));
}
