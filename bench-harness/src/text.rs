//! Texts of the operating system, and what every program here does about a reader that has gone.

use std::io;

use rustix::io::Errno;

/// The C library's text for an error, as `strerror` gives it and without the number that Rust appends.
pub fn strerror(errno: Errno) -> String {
    let code = errno.raw_os_error();
    let mut text = io::Error::from_raw_os_error(code).to_string();
    if let Some(bare) = text.strip_suffix(&format!(" (os error {code})")) {
        text.truncate(bare.len());
    }
    text
}

/// A closed pipe is no error: whoever read the output has seen enough.
pub fn unless_reader_left(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_carry_no_number() {
        assert_eq!(strerror(Errno::ADDRINUSE), "Address already in use");
        assert_eq!(strerror(Errno::CONNREFUSED), "Connection refused");
    }

    #[test]
    fn only_a_closed_pipe_is_forgiven() {
        assert!(unless_reader_left(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(unless_reader_left(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
