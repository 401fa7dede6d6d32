//! The request that no CPU sleeps so deeply that it takes long to wake up (`/dev/cpu_dma_latency`, see the kernel's
//! `pm_qos_interface`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

/// The device.
pub const DEVICE: &str = "/dev/cpu_dma_latency";

/// Opens the device for reading and writing, which adds a request for the default, and that is no limit: nothing changes
/// until a number is written.
pub fn open() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(DEVICE)
}

/// A request. It holds for the whole host and for everybody on it, until this is dropped or the process ends in whatever way:
/// the kernel takes it back with the descriptor.
#[derive(Debug)]
pub struct Request {
    /// Kept open: the request lives as long as the descriptor.
    _device: File,
    /// What was requested before, by whomever, in microseconds; 2 000 000 000 is nobody.
    pub before_us: i32,
}

impl Request {
    /// Asks that waking up takes at most `us` microseconds; with 0 an idle CPU polls.
    pub fn hold(us: i32) -> io::Result<Request> {
        let mut device = open()?;
        let mut before = [0; 4];
        device.read_exact(&mut before)?;
        // Four bytes of the host's order: a text would be taken for hexadecimal digits.
        device.write_all(&us.to_ne_bytes())?;
        Ok(Request { _device: device, before_us: i32::from_ne_bytes(before) })
    }
}

/// What idles the CPUs, as the kernel calls it; `none` is the architecture's default, which heeds no request.
pub fn idle_driver() -> Option<String> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is requested of the host now.
    fn requested() -> i32 {
        let mut bytes = [0; 4];
        open().unwrap().read_exact(&mut bytes).unwrap();
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn a_request_holds_until_it_is_dropped() {
        // Long enough to make no difference to anybody, and not what anybody asks for.
        const US: i32 = 1_999_999_937;
        match Request::hold(US) {
            Ok(request) if request.before_us > US => {
                // Somebody may ask for less meanwhile.
                assert!(requested() <= US);
                drop(request);
                assert_ne!(requested(), US);
            }
            Ok(request) => println!("skipped: somebody else asks for {} us", request.before_us),
            Err(error) => println!("skipped: {DEVICE}: {error}"),
        }
    }
}
