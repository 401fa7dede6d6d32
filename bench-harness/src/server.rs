//! An echo server as a child: started where it belongs, known to listen, and gone in every case.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::cpus::CpuList;
use crate::experiment::Interrupted;
use crate::sys::child;
use crate::wire::wait_readable;

/// How long a server may take to say that it listens. Generous: a loaded host is no error.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// How long a server may take to stop; the contract says a second. How often it is looked at meanwhile.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
const STOP_TICK: Duration = Duration::from_millis(5);

/// How often the stop flag is looked at while nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// How many ports are tried: another program may take one between our finding it and the server's binding it.
const PORT_ATTEMPTS: u32 = 5;

/// The program beside this one that holds the servers.
pub fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let path = own.with_file_name("quietcore-echo");
    ensure!(path.is_file(), "{} is missing: it is installed beside this program", path.display());
    Ok(path)
}

/// Which server to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `naive`.
    Naive,
    /// `fastpath --busy-poll`.
    Fastpath {
        /// Where it pins itself.
        cpu: u32,
    },
}

/// A running server. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    target: SocketAddrV4,
    /// Kept open: a server whose messages go nowhere is not the program that is measured elsewhere.
    messages: ChildStderr,
}

impl Server {
    /// Starts a server on a free port, restricted to `cpu` before it runs where one is given, and waits until it
    /// listens. Must be called from the main thread, with which the server dies.
    pub fn start(program: &Path, kind: Kind, cpu: Option<u32>, stop: &AtomicBool) -> anyhow::Result<Server> {
        let mut taken = String::new();
        for _ in 0..PORT_ATTEMPTS {
            match Server::try_start(program, kind, cpu, stop)? {
                Ok(server) => return Ok(server),
                Err(message) => taken = message,
            }
        }
        bail!("no port for a server after {PORT_ATTEMPTS} attempts: {taken}")
    }

    /// The inner error is a port that was taken meanwhile.
    fn try_start(
        program: &Path,
        kind: Kind,
        cpu: Option<u32>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Result<Server, String>> {
        let port = free_port().context("cannot find a free port")?;
        let mut command = Command::new(program);
        match kind {
            Kind::Naive => command.arg("naive"),
            Kind::Fastpath { cpu } => command.args(["fastpath", "--busy-poll", "--pin", &cpu.to_string()]),
        };
        command.args(["--port", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = child::spawn(&mut command, cpu.map(CpuList::from)).with_context(|| match cpu {
            Some(cpu) => format!("cannot start {} on CPU {cpu}", program.display()),
            None => format!("cannot start {}", program.display()),
        })?;
        // From here on the guard owns the child: every way out below ends it.
        let messages = child.stderr.take().ok_or_else(|| anyhow!("a server without its stderr"));
        let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let mut server = match messages {
            Ok(messages) => Server { child, target, messages },
            Err(error) => {
                end(&mut child);
                return Err(error);
            }
        };
        let line = server.first_line(stop)?;
        if line.contains(" listening on ") {
            Ok(Ok(server))
        } else if line.contains("Address already in use") {
            Ok(Err(line))
        } else {
            bail!("a server did not start: {line}")
        }
    }

    fn first_line(&mut self, stop: &AtomicBool) -> anyhow::Result<String> {
        let deadline = Instant::now() + START_PATIENCE;
        let mut line = Vec::new();
        loop {
            if stop.load(Ordering::Relaxed) {
                bail!(Interrupted);
            }
            ensure!(Instant::now() < deadline, "a server said nothing for {} s", START_PATIENCE.as_secs());
            match wait_readable(&self.messages, TICK) {
                Ok(true) => {}
                Ok(false) | Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno).context("cannot hear a server"),
            }
            let mut byte = [0];
            match self.messages.read(&mut byte) {
                Ok(0) => break,
                Ok(_) if byte == *b"\n" => break,
                Ok(_) => line.extend(byte),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot hear a server"),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// The process, for the kernel to testify about.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub fn target(&self) -> SocketAddrV4 {
        self.target
    }

    /// Ends it at once; whoever is connected sees the connection close.
    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Asks it to stop, and expects it to do so as the contract says.
    pub fn stop(mut self) -> anyhow::Result<()> {
        match self.request_stop()? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("a server that was asked to stop ended with {status}"),
            None => bail!("a server that was asked to stop did not within {} s", STOP_PATIENCE.as_secs()),
        }
    }

    /// `None` is a server that is still there.
    fn request_stop(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("cannot stop a server")?;
        let deadline = Instant::now() + STOP_PATIENCE;
        loop {
            let status = self.child.try_wait().context("cannot watch a server")?;
            if status.is_some() || Instant::now() > deadline {
                return Ok(status);
            }
            thread::sleep(STOP_TICK);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills and reaps. Neither fails for a child of ours that was not waited for, and both are harmless after that.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr()?.port())
}
