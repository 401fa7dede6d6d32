//! What tuning is worth, in numbers that can be trusted: the echo programs that quietcore gates, and the measurements
//! around them.
//!
//! Two binaries share this library. `quietcore-echo` is the smallest honest model of a latency-critical process: a
//! server that does what a tuned process does ([`echo::fast`]), its opposite ([`echo::naive`]), and a client
//! ([`measure`]). `quietcore-bench` starts them under control, reads what the kernel says about them, and reports.
//!
//! All times are nanoseconds of `CLOCK_MONOTONIC`; a round trip is the full round trip, never half of it.
#![deny(unsafe_code)]

pub mod caveat;
pub mod clock;
pub mod counter;
pub mod cpus;
pub mod echo;
pub mod environment;
pub mod experiment;
pub mod filter;
pub mod frame;
pub mod gaps;
pub mod gate;
pub mod invocation;
pub mod lab;
pub mod latency;
pub mod load;
pub mod locked;
pub mod measure;
pub mod netlink;
pub mod oneway;
pub mod options;
pub mod packet;
pub mod page;
pub mod picture;
pub mod report;
pub mod samples;
pub mod server;
pub mod session;
pub mod summary;
pub mod sys;
pub mod table;
pub mod text;
pub mod threads;
pub mod trips;
pub mod veth;
pub mod wait;
pub mod wire;
pub mod witness;
