//! A connected socket as both ends use it, and the calls that make one.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

/// Bytes in and out, as `recv` and `send` give them: short counts, `EAGAIN`, `EINTR` and all.
///
/// A trait, so that a test can count the calls or play a peer. Its users are generic over it and pay nothing for that.
pub trait Wire {
    /// Reads what there is, at most `buffer.len()` bytes; 0 is the end of the stream.
    fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Errno>;
    /// Writes what fits.
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno>;
}

/// A connected socket, TCP or UDP.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl From<OwnedFd> for Socket {
    fn from(connected: OwnedFd) -> Socket {
        Socket(connected)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Wire for Socket {
    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        net::recv(&self.0, buffer, RecvFlags::empty()).map(|(count, _)| count)
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        net::send(&self.0, bytes, SendFlags::NOSIGNAL)
    }
}

impl Socket {
    /// Takes the next connection of a non-blocking `listener`. `flags` go to `accept4`; close-on-exec is always on.
    pub fn accept(listener: &OwnedFd, flags: SocketFlags) -> Result<Socket, Errno> {
        net::accept_with(listener, flags | SocketFlags::CLOEXEC).map(Socket)
    }

    /// Sends small messages at once instead of collecting them (`TCP_NODELAY`), or not.
    pub fn set_nodelay(&self, at_once: bool) -> Result<(), Errno> {
        sockopt::set_tcp_nodelay(&self.0, at_once)
    }

    /// Lets a blocking `recv` or `send` give up each `patience`, with `EAGAIN`: a signal that arrives just before the
    /// call sleeps interrupts nothing, and a stop flag would go unseen for as long as the peer is silent.
    pub fn set_patience(&self, patience: Duration) -> Result<(), Errno> {
        sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, Some(patience))?;
        sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Send, Some(patience))
    }

    /// Connects to `target`, with `TCP_NODELAY` on.
    pub fn connect(target: SocketAddrV4) -> Result<Socket, Errno> {
        let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        match net::connect(&socket, &target) {
            Ok(()) => {}
            // An interrupted connect goes on without us; a second call would only say so.
            Err(Errno::INTR) => wait_connected(&socket)?,
            Err(errno) => return Err(errno),
        }
        let socket = Socket(socket);
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    /// Two UDP sockets on loopback, connected to each other: neither gets anything from anybody else.
    pub fn udp_pair() -> Result<(Socket, Socket), Errno> {
        let bound = || {
            let socket = net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
            Ok::<_, Errno>(socket)
        };
        let (a, b) = (bound()?, bound()?);
        net::connect(&a, &net::getsockname(&b)?)?;
        net::connect(&b, &net::getsockname(&a)?)?;
        Ok((Socket(a), Socket(b)))
    }

    /// Makes `recv` and `send` return `EAGAIN` where they would wait.
    pub fn set_nonblocking(&self) -> Result<(), Errno> {
        let flags = rustix::fs::fcntl_getfl(&self.0)?;
        rustix::fs::fcntl_setfl(&self.0, flags | rustix::fs::OFlags::NONBLOCK)
    }
}

fn wait_connected(socket: &OwnedFd) -> Result<(), Errno> {
    loop {
        match poll(&mut [PollFd::new(socket, PollFlags::OUT)], None) {
            Ok(_) => return sockopt::socket_error(socket)?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Waits until `fd` is readable or `patience` is over; says whether it is readable.
pub fn wait_readable(fd: impl AsFd, patience: Duration) -> Result<bool, Errno> {
    let patience = patience.try_into().map_err(|_| Errno::INVAL)?;
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience)).map(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_go_from_one_to_the_other() {
        let (mut a, mut b) = Socket::udp_pair().unwrap();
        b.set_nonblocking().unwrap();
        assert_eq!(b.recv(&mut [0; 8]), Err(Errno::AGAIN));
        a.set_patience(Duration::from_millis(1)).unwrap();
        assert_eq!(a.recv(&mut [0; 8]), Err(Errno::AGAIN));
        assert_eq!(a.send(b"there"), Ok(5));
        let mut buffer = [0; 8];
        assert!(wait_readable(&b, Duration::from_secs(30)).unwrap());
        assert_eq!(b.recv(&mut buffer), Ok(5));
        assert_eq!(&buffer[..5], b"there");
    }
}
