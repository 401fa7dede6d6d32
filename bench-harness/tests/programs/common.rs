//! What the tests of the built programs share. Deadlines are generous: they tell a hang from a slow host.

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use roxmltree::{Document, ParsingOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Long enough for anything that will happen at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The echo program, invoked as `app`.
pub(crate) fn app() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quietcore-echo"));
    command.arg0("/somewhere/app").stdin(Stdio::null());
    command
}

/// The bench program.
pub(crate) fn bench() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quietcore-bench"));
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end: exit code, stdout, stderr.
pub(crate) fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A page as a document; it has a type, and nothing is declared in that.
pub(crate) fn parsed(html: &str) -> Document<'_> {
    Document::parse_with_options(html, ParsingOptions { allow_dtd: true, ..ParsingOptions::default() }).unwrap()
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap().local_addr().unwrap().port()
}

/// The CPUs online in the system, highest last.
pub(crate) fn last_cpu() -> u32 {
    quietcore_bench::cpus::online().unwrap().highest().unwrap()
}

/// Waits until a child has as many threads: what it does before it makes them is done.
pub(crate) fn wait_for_threads(child: &mut Child, count: usize) {
    while fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count() < count {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it had {count} threads");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a child that has not been waited for.
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits for a child, and panics instead of hanging.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("still running");
}

/// A running echo server, killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    /// Its first line on stderr.
    pub(crate) hello: String,
}

impl Server {
    /// Starts `app ARGS --port P` on a free port and waits for its first line.
    pub(crate) fn start(args: &[&str]) -> Server {
        loop {
            let port = free_port();
            let mut child =
                app().args(args).args(["--port", &port.to_string()]).stderr(Stdio::piped()).spawn().unwrap();
            let hello = line(child.stderr.as_mut().unwrap());
            let server = Server { child, port, hello };
            // Tests run beside each other, and another one may have been quicker.
            if !server.hello.contains("Address already in use") {
                return server;
            }
        }
    }

    pub(crate) fn naive() -> Server {
        Server::start(&["naive"])
    }

    pub(crate) fn fastpath(busy_poll: bool) -> Server {
        let cpu = last_cpu().to_string();
        let args = ["fastpath", "--pin", &cpu, "--busy-poll"];
        Server::start(&args[..if busy_poll { 4 } else { 3 }])
    }

    /// One of each discipline.
    pub(crate) fn all() -> [Server; 3] {
        [Server::naive(), Server::fastpath(false), Server::fastpath(true)]
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let peer = TcpStream::connect(self.address()).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.set_write_timeout(Some(PATIENCE)).unwrap();
        peer
    }

    /// Sends `with`, and returns how long the server took to end, and what it said since its first line.
    pub(crate) fn stop(&mut self, with: Signal) -> (Duration, Option<i32>, String) {
        let start = Instant::now();
        signal(&self.child, with);
        let status = wait(&mut self.child);
        let took = start.elapsed();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (took, status.code(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads up to a line break, byte by byte so that nothing behind it is lost.
pub(crate) fn line(from: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match from.read(&mut byte) {
            Ok(0) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.extend(byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8(line).unwrap()
}

/// Runs a measurement as a smoke test, and returns its report.
pub(crate) fn quick(args: &[&str]) -> Value {
    let (code, out, err) = run(bench().args(args).args(["--ungated", "--quick", "--format", "json"]));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}: {out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["measurement"], args[0]);
    report
}

/// The arms of a report, all of which are expected: those that were measured.
pub(crate) fn measured(report: &Value, expected: &[&str]) -> Vec<Value> {
    let arms = report["arms"].as_array().unwrap();
    let names: Vec<_> = arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, expected);
    let (skipped, measured): (Vec<_>, Vec<_>) = arms.iter().cloned().partition(|arm| arm["skipped"].is_string());
    for arm in skipped {
        println!("{}: skipped: {}", arm["name"], arm["skipped"]);
        assert_eq!(arm.as_object().unwrap().len(), 2, "{arm}");
    }
    measured
}
