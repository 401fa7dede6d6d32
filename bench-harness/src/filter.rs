//! The XDP program in front of an AF_XDP socket.

use std::os::fd::{AsFd, AsRawFd};

use crate::sys::bpf::{Instruction, SocketMap};

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

/// A program that sends unfragmented IPv4 datagrams to UDP `port` to the socket that `sockets` holds for their queue, and
/// passes everything else on to the kernel: ARP goes on working. So do datagrams while there is no socket.
///
/// It looks only as far as it must: what it lets through is parsed again (`packet`).
pub fn redirect_udp(port: u16, sockets: &SocketMap) -> Vec<Instruction> {
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
