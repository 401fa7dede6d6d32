//! The built programs, seen from outside.
//!
//! Nothing here depends on speed: deadlines are generous, and what is counted is counted by the kernel.
#![cfg(test)]

mod common;
mod costs;
mod measure;
mod noise;
mod race;
mod servers;
mod trips;
mod xdp;
