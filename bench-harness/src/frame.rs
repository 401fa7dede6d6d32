//! The 64 bytes that go round. Servers do not look inside; the client checks what comes back.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | `CF` |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | type, 1 (echo) |
//! | 4 | 8 | `seq`, big-endian |
//! | 12 | 8 | `send_ns`, big-endian; the client writes 0 |
//! | 20 | 44 | zero |

/// The size of a frame: one cache line, so that the copies are nothing beside the path through the kernel.
pub const FRAME_BYTES: usize = 64;

/// One frame.
pub type Frame = [u8; FRAME_BYTES];

const HEADER: [u8; 4] = [b'C', b'F', 0x01, 0x01];

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
    }

    proptest! {
        #[test]
        fn only_its_own_echo_is_accepted(seq in any::<u64>(), at in 0..12usize, flip in 1..=255u8) {
            let mut frame = request(seq);
            prop_assert!(is_echo_of(&frame, seq));
            frame[at] ^= flip;
            prop_assert!(!is_echo_of(&frame, seq));
        }
    }
}
