//! The servers as built: their texts, their manners with rude peers, and how they end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::{self, Server, app, last_cpu, run, signal, wait};
use quietcore_bench::frame::FRAME_BYTES;
use quietcore_bench::witness;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;

/// What the contract allows, and a second for a host that does something else meanwhile.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// One echo, to see that a server serves.
fn served(peer: &mut TcpStream) {
    let frame: Vec<u8> = (0..64).collect();
    peer.write_all(&frame).unwrap();
    let mut answer = [0; FRAME_BYTES];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(answer, frame[..]);
}

#[test]
fn first_lines() {
    let pin = last_cpu();
    let [naive, blocking, spinning] = Server::all();
    assert_eq!(naive.hello, format!("app: naive listening on 0.0.0.0:{}", naive.port));
    let fast = |server: &Server, mode| {
        format!("app: fastpath listening on 0.0.0.0:{} pinned-cpu={pin} busy-poll={mode}", server.port)
    };
    assert_eq!(blocking.hello, fast(&blocking, "off"));
    assert_eq!(spinning.hello, fast(&spinning, "on"));
}

#[test]
fn the_kernel_says_where_they_run() {
    let [naive, blocking, spinning] = Server::all();
    let own = witness::allowed_cpus(std::process::id()).unwrap();
    assert_eq!(witness::allowed_cpus(naive.child.id()).unwrap(), own);
    for server in [blocking, spinning] {
        assert_eq!(witness::allowed_cpus(server.child.id()).unwrap().as_slice(), [last_cpu()]);
    }
}

#[test]
fn usage_is_three_lines() {
    let usage = "usage: app fastpath --port P --pin CPU [--busy-poll]\n       app naive --port P\n       \
                 app measure --target HOST:PORT --n N [--warmup W] [--tag TAG]\n";
    for args in [&[][..], &["frobnicate"], &["naive", "--port", "+80"], &["fastpath", "--port", "9", "--pin", ""]] {
        assert_eq!(run(app().args(args)), (Some(2), String::new(), usage.to_owned()), "{args:?}");
    }
}

#[test]
fn a_cpu_that_is_not_there() {
    let cpu = u64::from(last_cpu()) + 50;
    let said = run(app().args(["fastpath", "--port", "9", "--pin", &cpu.to_string()]));
    let error = format!("app: error: cpu {cpu} out of range (0..{})\n", last_cpu());
    assert_eq!(said, (Some(1), String::new(), error));
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let pin = last_cpu().to_string();
    let error = format!("app: error: bind 0.0.0.0:{port}: Address already in use\n");
    for args in [&["naive"][..], &["fastpath", "--pin", &pin]] {
        let said = run(app().args(args).args(["--port", &port]));
        assert_eq!(said, (Some(1), String::new(), error.clone()));
    }
}

#[test]
fn rude_peers_end_their_own_connection_only() {
    for server in Server::all() {
        // Half a frame, then nothing more.
        let mut half = server.connect();
        half.write_all(&[1; 30]).unwrap();
        half.shutdown(Shutdown::Write).unwrap();
        assert_eq!(half.read(&mut [0; 64]).unwrap(), 0, "half a frame was answered");
        // A whole frame, then a reset instead of a goodbye.
        let mut reset = server.connect();
        reset.write_all(&[2; FRAME_BYTES]).unwrap();
        set_socket_linger(&reset, Some(Duration::ZERO)).unwrap();
        drop(reset);
        // Many frames that nobody reads the echo of.
        let mut deaf = server.connect();
        deaf.write_all(&[3; 50 * FRAME_BYTES]).unwrap();
        drop(deaf);
        // A connection and not a word.
        drop(server.connect());
        // A frame in two pieces is a frame.
        let mut slow = server.connect();
        slow.set_nodelay(true).unwrap();
        slow.write_all(&[4; 10]).unwrap();
        thread::sleep(Duration::from_millis(20));
        slow.write_all(&[4; 54]).unwrap();
        let mut answer = [0; FRAME_BYTES];
        slow.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [4; FRAME_BYTES]);
        drop(slow);
        served(&mut server.connect());
    }
}

#[test]
fn the_next_peer_waits_for_its_turn() {
    for server in Server::all() {
        let mut first = server.connect();
        served(&mut first);
        let mut second = server.connect();
        second.write_all(&[5; FRAME_BYTES]).unwrap();
        served(&mut first);
        drop(first);
        second.read_exact(&mut [0; FRAME_BYTES]).unwrap();
    }
}

/// Ends a server with each signal, in the state that `enter` brings it to, and keeps what `enter` returns meanwhile.
fn ends_well<T>(enter: impl Fn(&Server) -> T) {
    for with in [Signal::TERM, Signal::INT] {
        for mut server in Server::all() {
            let kept = enter(&server);
            let (took, code, said) = server.stop(with);
            let name = server.hello.split(' ').nth(1).unwrap();
            assert_eq!((code, said), (Some(0), format!("app: {name} shutting down\n")), "{}", server.hello);
            assert!(took < STOPS_WITHIN, "{}: {took:?}", server.hello);
            drop(kept);
        }
    }
}

#[test]
fn ends_while_idle() {
    ends_well(|_| ());
}

#[test]
fn ends_with_a_silent_peer() {
    ends_well(|server| {
        let mut peer = server.connect();
        served(&mut peer);
        peer
    });
}

#[test]
fn ends_with_half_a_frame_in_hand() {
    ends_well(|server| {
        let mut peer = server.connect();
        served(&mut peer);
        peer.write_all(&[6; 30]).unwrap();
        peer
    });
}

#[test]
fn ends_with_a_peer_that_does_not_listen() {
    ends_well(|server| {
        let mut peer = server.connect();
        peer.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        // Until both directions are full: the server then hangs in its own write.
        while peer.write(&[7; 64 * FRAME_BYTES]).is_ok() {}
        peer
    });
}

#[test]
fn ends_with_a_peer_that_never_pauses() {
    ends_well(|server| {
        let peer = server.connect();
        let (mut up, mut down) = (peer.try_clone().unwrap(), peer);
        let talk = thread::spawn(move || while up.write_all(&[8; FRAME_BYTES]).is_ok() {});
        let listen = thread::spawn(move || while down.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {});
        (talk, listen)
    });
}

#[test]
fn a_second_signal_changes_nothing() {
    for mut server in Server::all() {
        let mut peer = server.connect();
        served(&mut peer);
        signal(&server.child, Signal::TERM);
        let (_, code, said) = server.stop(Signal::TERM);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.ends_with(" shutting down\n") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_blocked_signal_is_heard() {
    // A shell that ignores SIGTERM and SIGINT passes that on to what it starts.
    let port = common::free_port().to_string();
    let script = "trap '' TERM INT; exec \"$0\" naive --port \"$1\"";
    let program = env!("CARGO_BIN_EXE_quietcore-echo");
    let mut child = std::process::Command::new("sh")
        .args(["-c", script, program, &port])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(common::line(child.stderr.as_mut().unwrap()).contains("listening"));
    signal(&child, Signal::TERM);
    assert_eq!(wait(&mut child).code(), Some(0));
}

#[test]
fn nobody_reads_the_messages() {
    for mut server in Server::all() {
        drop(server.child.stderr.take());
        signal(&server.child, Signal::PIPE);
        served(&mut server.connect());
        signal(&server.child, Signal::TERM);
        assert_eq!(wait(&mut server.child).code(), Some(0), "the last message has no reader");
    }
}

#[test]
fn busy_polling_neither_sleeps_nor_faults() {
    if last_cpu() == 0 {
        // Client and server would take turns on one CPU, a time slice a message.
        return;
    }
    let server = Server::fastpath(true);
    let mut peer = server.connect();
    peer.set_nodelay(true).unwrap();
    (0..300).for_each(|_| served(&mut peer));
    let before = witness::counters(server.child.id()).unwrap();
    (0..2_000).for_each(|_| served(&mut peer));
    let counted = witness::counters(server.child.id()).unwrap().since(before);
    assert!(counted.voluntary_switches <= 3, "{counted:?}");
    assert_eq!(counted.page_faults, 0, "{counted:?}");
}
