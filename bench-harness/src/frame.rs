//! The 64 bytes that go round, or one way. Echo servers do not look inside; the client checks what comes back, and a
//! receiver what arrives.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | `CF` |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | type: 1 (echo) or 2 (one way) |
//! | 4 | 8 | `seq`, big-endian |
//! | 12 | 8 | `send_ns`, big-endian: when it was sent one way; 0 in an echo |
//! | 20 | 44 | zero |

/// The size of a frame: one cache line, so that the copies are nothing beside the path through the kernel.
pub const FRAME_BYTES: usize = 64;

/// One frame.
pub type Frame = [u8; FRAME_BYTES];

const HEADER: [u8; 4] = [b'C', b'F', 0x01, 0x01];
const ONE_WAY: [u8; 4] = [b'C', b'F', 0x01, 0x02];

/// What a frame that goes one way says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its number, from 0.
    pub seq: u64,
    /// When it was sent, by the clock that both ends share.
    pub send_ns: u64,
}

impl Stamp {
    /// The frame that says so.
    #[inline]
    pub fn frame(self) -> Frame {
        let mut frame = [0; FRAME_BYTES];
        frame[..4].copy_from_slice(&ONE_WAY);
        frame[4..12].copy_from_slice(&self.seq.to_be_bytes());
        frame[12..20].copy_from_slice(&self.send_ns.to_be_bytes());
        frame
    }

    /// Reads what a frame says. `None`: these bytes are no frame that goes one way.
    #[inline]
    pub fn of(frame: &[u8]) -> Option<Stamp> {
        let frame: &Frame = frame.try_into().ok()?;
        let number = |at: usize| frame[at..].first_chunk().map(|&number| u64::from_be_bytes(number));
        if frame[..4] == ONE_WAY { Some(Stamp { seq: number(4)?, send_ns: number(12)? }) } else { None }
    }
}

/// The echo request number `seq`.
#[inline]
pub fn request(seq: u64) -> Frame {
    let mut frame = [0; FRAME_BYTES];
    frame[..4].copy_from_slice(&HEADER);
    frame[4..12].copy_from_slice(&seq.to_be_bytes());
    frame
}

/// Is this the echo of request `seq`? Looks at the header and the number, not at what follows.
#[inline]
pub fn is_echo_of(frame: &Frame, seq: u64) -> bool {
    frame[..4] == HEADER && frame[4..12] == seq.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layout() {
        let frame = request(0x0102_0304_0506_0708);
        assert_eq!(frame[..12], [0x43, 0x46, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(frame[12..], [0; 52]);
        let frame = Stamp { seq: 7, send_ns: 0x0102_0304_0506_0708 }.frame();
        assert_eq!(frame[..20], [0x43, 0x46, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn what_carries_no_stamp() {
        let frame = Stamp { seq: 1, send_ns: 2 }.frame();
        assert_eq!(Stamp::of(&frame[..63]), None);
        assert_eq!(Stamp::of(&[&frame[..], &[0]].concat()), None);
        assert_eq!(Stamp::of(&request(1)), None);
        assert_eq!(Stamp::of(&[]), None);
    }

    proptest! {
        #[test]
        fn a_stamp_reads_as_it_was_written(seq: u64, send_ns: u64) {
            let stamp = Stamp { seq, send_ns };
            prop_assert_eq!(Stamp::of(&stamp.frame()), Some(stamp));
        }

        #[test]
        fn only_its_own_echo_is_accepted(seq in any::<u64>(), at in 0..12usize, flip in 1..=255u8) {
            let mut frame = request(seq);
            prop_assert!(is_echo_of(&frame, seq));
            frame[at] ^= flip;
            prop_assert!(!is_echo_of(&frame, seq));
        }
    }
}
