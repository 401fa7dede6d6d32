//! Socket options that `rustix` does not know: those of busy polling.

use std::os::fd::{AsFd, AsRawFd};

use libc::{SO_BUSY_POLL, SO_INCOMING_NAPI_ID, SOL_SOCKET, c_int, socklen_t};
use rustix::io::Errno;

use super::check;

/// Lets a receive that finds nothing poll the device's queue for so many microseconds, before it sleeps or gives up
/// (`SO_BUSY_POLL`, see socket(7)).
///
/// Some kernels answer `EPERM` to a caller without CAP_NET_ADMIN where that is more than before, Linux 6.18 does not; `ENOPROTOOPT` from a kernel without
/// CONFIG_NET_RX_BUSY_POLL.
pub fn set_busy_poll(socket: impl AsFd, microseconds: u32) -> Result<(), Errno> {
    set(socket, SO_BUSY_POLL, c_int::try_from(microseconds).map_err(|_| Errno::INVAL)?)
}

/// The NAPI instance that the socket's last packet came from (`SO_INCOMING_NAPI_ID`); 0 where it came from none that could
/// be polled, or where none came.
///
/// `ENOPROTOOPT` from a kernel without CONFIG_NET_RX_BUSY_POLL.
pub fn incoming_napi_id(socket: impl AsFd) -> Result<u32, Errno> {
    Ok(get(socket, SO_INCOMING_NAPI_ID)?.cast_unsigned())
}

/// The size of an int, on every Linux.
const SIZE: socklen_t = 4;

fn set(socket: impl AsFd, option: c_int, value: c_int) -> Result<(), Errno> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads `SIZE` bytes of an initialised
    // integer that outlives the call.
    check(unsafe { libc::setsockopt(fd, SOL_SOCKET, option, (&raw const value).cast(), SIZE) })
}

fn get(socket: impl AsFd, option: c_int) -> Result<c_int, Errno> {
    let fd = socket.as_fd().as_raw_fd();
    let (mut value, mut size) = (0, SIZE);
    // SAFETY: as above; the kernel writes at most `size` bytes into `value`, which has as many, and the number of them into
    // `size`. Any bytes are an integer.
    check(unsafe { libc::getsockopt(fd, SOL_SOCKET, option, (&raw mut value).cast(), &raw mut size) })?;
    if size == SIZE { Ok(value) } else { Err(Errno::INVAL) }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    fn socket() -> UdpSocket {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
    }

    #[test]
    fn what_is_set_is_read_back() {
        let socket = socket();
        match set_busy_poll(&socket, 1) {
            Ok(()) => assert_eq!(get(&socket, SO_BUSY_POLL), Ok(1)),
            Err(errno) => println!("skipped: SO_BUSY_POLL: {errno}"),
        }
        assert_eq!(set_busy_poll(&socket, u32::MAX), Err(Errno::INVAL));
    }

    #[test]
    fn nothing_came_yet() {
        match incoming_napi_id(socket()) {
            Ok(id) => assert_eq!(id, 0),
            Err(errno) => println!("skipped: SO_INCOMING_NAPI_ID: {errno}"),
        }
    }

    #[test]
    fn what_is_no_socket() {
        let (pipe, _) = std::io::pipe().unwrap();
        assert_eq!(set_busy_poll(&pipe, 1), Err(Errno::NOTSOCK));
        assert_eq!(incoming_napi_id(&pipe), Err(Errno::NOTSOCK));
    }
}
