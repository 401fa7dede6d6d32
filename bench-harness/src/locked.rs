//! The whole process locked into memory, for a while.

use quietcore::units::Bytes;
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{Resource, getrlimit};

use crate::text::strerror;

/// What is mapped, and will be, is locked until this is dropped. Nothing else in this program locks memory, so that
/// unlocking all of it puts back what was; pages that were populated meanwhile stay.
#[derive(Debug)]
pub struct Locked(());

impl Locked {
    /// Everything populated at once, now and when it is mapped: what a latency-critical process asks for.
    pub fn populated() -> Result<Locked, Errno> {
        Locked::by(MlockAllFlags::empty())
    }

    /// Everything locked when it is touched: the same permission is needed, and nothing is populated.
    pub fn on_fault() -> Result<Locked, Errno> {
        Locked::by(MlockAllFlags::ONFAULT)
    }

    fn by(how: MlockAllFlags) -> Result<Locked, Errno> {
        mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | how)?;
        Ok(Locked(()))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Needs no permission, and fails for no reason that applies.
        let _ = munlockall();
    }
}

/// What this process may lock, `RLIMIT_MEMLOCK`. `CAP_IPC_LOCK` lifts it.
pub fn limit() -> Bytes {
    getrlimit(Resource::Memlock).current.map_or(Bytes::UNLIMITED, Bytes)
}

/// Why `call` did not lock.
pub fn refusal(call: &str, errno: Errno) -> String {
    format!("{call}: {}; RLIMIT_MEMLOCK is {}, and CAP_IPC_LOCK lifts it", strerror(errno), limit())
}
