//! The XDP program in front of an AF_XDP socket.

use std::os::fd::{AsFd, AsRawFd};

use crate::sys::bpf::{Instruction, Program, SocketMap};
use crate::sys::xsk::Xsk;
use crate::text::Refused;

/// Registers: `R0` holds results, `R1` to `R5` are arguments, `R6` survives a call.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const R6: u8 = 6;

// Instructions, as their class, source and operation add up to them.
const LOAD_8: u8 = 0x71;
const LOAD_16: u8 = 0x69;
const LOAD_32: u8 = 0x61;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_IMMEDIATE: u8 = 0x07;
const AND_IMMEDIATE: u8 = 0x57;
const SHIFT_LEFT_IMMEDIATE: u8 = 0x67;
const JUMP_IF_GREATER: u8 = 0x2d;
const JUMP_IF_LESS_IMMEDIATE: u8 = 0xa5;
const JUMP_IF_NOT_IMMEDIATE: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The source "register" of [`LOAD_IMMEDIATE_64`] that makes its constant the descriptor of a map.
const MAP_DESCRIPTOR: u8 = 1;
const BPF_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

/// `struct xdp_md`: where it says where the frame begins and ends, and which queue it came from.
const MD_DATA: i16 = 0;
const MD_DATA_END: i16 = 4;
const MD_RX_QUEUE_INDEX: i16 = 16;

const ETHERNET_BYTES: i16 = 14;

/// A program under construction. Whatever it does not want it passes on, by a jump to its last two instructions.
#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    to_pass: Vec<usize>,
}

impl Assembler {
    fn emit(&mut self, code: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        let registers = Instruction::registers(destination, source);
        self.code.push(Instruction { code, registers, offset, immediate });
    }

    /// `to = *(from + offset)`, in the byte order of the machine.
    fn load(&mut self, width: u8, to: u8, from: u8, offset: i16) {
        self.emit(width, to, from, offset, 0);
    }

    /// `to = from`
    fn copy(&mut self, to: u8, from: u8) {
        self.emit(MOVE, to, from, 0, 0);
    }

    /// `to = to OPERATION value`
    fn compute(&mut self, operation: u8, to: u8, value: i32) {
        self.emit(operation, to, 0, 0, value);
    }

    /// Passes the frame on if `register CONDITION value`.
    fn pass_if(&mut self, condition: u8, register: u8, value: i32) {
        self.to_pass.push(self.code.len());
        self.emit(condition, register, 0, 0, value);
    }

    /// Passes the frame on unless `bytes` bytes lie at `R2`: the verifier wants to see this before they are read. `R3` is
    /// the end of the frame.
    fn pass_unless_long_enough(&mut self, bytes: i32) {
        self.copy(R4, R2);
        self.compute(ADD_IMMEDIATE, R4, bytes);
        self.to_pass.push(self.code.len());
        self.emit(JUMP_IF_GREATER, R4, R3, 0, 0);
    }

    fn finish(mut self) -> Vec<Instruction> {
        let end = self.code.len();
        for at in self.to_pass {
            // Counted from the instruction after the jump. No program here comes near the end of an i16.
            self.code[at].offset = i16::try_from(end - at - 1).unwrap_or(i16::MAX);
        }
        let pass = Instruction { code: MOVE_IMMEDIATE, registers: R0, offset: 0, immediate: XDP_PASS };
        let exit = Instruction { code: EXIT, registers: 0, offset: 0, immediate: 0 };
        self.code.extend([pass, exit]);
        self.code
    }
}

/// A 16-bit constant as a load of these two bytes gives it.
fn network_order(word: u16) -> i32 {
    i32::from(word.to_be())
}

/// Has the kernel verify and load a program that sends unfragmented IPv4 datagrams to UDP `port` from receive queue `queue`
/// to `socket`, and passes everything else on: ARP goes on working. Needs CAP_BPF and CAP_NET_ADMIN.
///
/// It looks only as far as it must: what it lets through is parsed again ([`crate::packet`]).
pub fn load(port: u16, queue: u32, socket: &Xsk) -> Result<Program, Refused> {
    let sockets = SocketMap::new(queue + 1).map_err(Refused::to("make a map of AF_XDP sockets"))?;
    sockets.insert(queue, socket.as_fd()).map_err(Refused::to("map an AF_XDP socket"))?;
    Program::load(&redirect_udp(port, &sockets)).map_err(Refused::to("load an XDP program"))
}

fn redirect_udp(port: u16, sockets: &SocketMap) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.load(LOAD_32, R2, R1, MD_DATA);
    program.load(LOAD_32, R3, R1, MD_DATA_END);
    program.pass_unless_long_enough(i32::from(ETHERNET_BYTES) + 20);
    program.load(LOAD_16, R5, R2, 12);
    program.pass_if(JUMP_IF_NOT_IMMEDIATE, R5, network_order(0x0800));
    program.load(LOAD_8, R5, R2, ETHERNET_BYTES + 9);
    program.pass_if(JUMP_IF_NOT_IMMEDIATE, R5, 17);
    program.load(LOAD_16, R5, R2, ETHERNET_BYTES + 6);
    program.compute(AND_IMMEDIATE, R5, network_order(0x3fff));
    program.pass_if(JUMP_IF_NOT_IMMEDIATE, R5, 0);
    // The version, and the length of the header in words of 4 bytes.
    program.load(LOAD_8, R5, R2, ETHERNET_BYTES);
    program.copy(R0, R5);
    program.compute(AND_IMMEDIATE, R0, 0xf0);
    program.pass_if(JUMP_IF_NOT_IMMEDIATE, R0, 0x40);
    program.compute(AND_IMMEDIATE, R5, 0x0f);
    program.pass_if(JUMP_IF_LESS_IMMEDIATE, R5, 5);
    program.compute(SHIFT_LEFT_IMMEDIATE, R5, 2);
    // From here on R2 is where the frame begins, moved by the length of the IPv4 header.
    program.emit(ADD, R2, R5, 0, 0);
    program.pass_unless_long_enough(i32::from(ETHERNET_BYTES) + 8);
    program.load(LOAD_16, R5, R2, ETHERNET_BYTES + 2);
    program.pass_if(JUMP_IF_NOT_IMMEDIATE, R5, network_order(port));
    // The constant of this one takes the place of two instructions.
    program.emit(LOAD_IMMEDIATE_64, R1, MAP_DESCRIPTOR, 0, sockets.as_fd().as_raw_fd());
    program.emit(0, 0, 0, 0, 0);
    program.load(LOAD_32, R2, R6, MD_RX_QUEUE_INDEX);
    program.compute(MOVE_IMMEDIATE, R3, XDP_PASS);
    program.compute(CALL, R0, BPF_REDIRECT_MAP);
    program.emit(EXIT, 0, 0, 0, 0);
    program.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;
    use rustix::io::Errno;

    use super::*;
    use crate::packet::tests::frame;
    use crate::packet::{Foreign, udp_payload};
    use crate::veth::{QUEUE, tests::pair};

    const PORT: u16 = 7777;
    const XDP_REDIRECT: u32 = 4;

    /// The program as the kernel runs it against the parser, which knows nothing of it: on whole frames with some bytes
    /// replaced, cut off at any place the kernel lets a frame be.
    #[test]
    fn the_program_takes_what_the_parser_takes() {
        let Some(pair) = pair() else { return };
        let socket = pair.receiver.run(|| Xsk::bind(pair.receiver.index(), QUEUE));
        let loaded = socket.map_err(Refused::to("bind an AF_XDP socket")).and_then(|socket| {
            let program = load(PORT, QUEUE, &socket)?;
            Ok((program, socket))
        });
        let (program, _socket) = match loaded {
            Ok(loaded) => loaded,
            Err(refused) => return refused.skip(),
        };
        let header_byte = prop_oneof![12..16usize, 16..24usize, 34..40usize];
        let flip = prop_oneof![any::<u8>(), (0..8u8).prop_map(|bit| 1 << bit)];
        let damage = prop::collection::vec((header_byte, flip), 0..3);
        let frames = (0..=10usize, prop::collection::vec(any::<u8>(), 0..80), damage, 14..200usize, any::<bool>());
        // Failures are not kept: they would need to know this file's place.
        TestRunner::new(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })
            .run(&frames, |(options, payload, damage, end, other_port)| {
                let mut frame = frame(&vec![1; options * 4], if other_port { PORT ^ 0x100 } else { PORT }, &payload);
                for (at, flip) in damage {
                    frame[at] ^= flip;
                }
                frame.truncate(end);
                let verdict = match program.verdict(&frame) {
                    Ok(verdict) => verdict,
                    // Kernels differ in how short a frame they let through at all.
                    Err(Errno::INVAL) => return Ok(()),
                    Err(errno) => return Err(TestCaseError::fail(errno.to_string())),
                };
                let taken = verdict == XDP_REDIRECT;
                match udp_payload(&frame, PORT) {
                    Ok(_) => prop_assert!(taken),
                    // The program does not look at lengths beyond those it needs to find the port.
                    Err(Foreign::Truncated | Foreign::Malformed) => {}
                    Err(why) => prop_assert!(!taken, "{}", why),
                }
                Ok(())
            })
            .unwrap();
    }
}
