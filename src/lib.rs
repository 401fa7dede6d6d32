//! Is this host tuned for the latency-critical process that it is about to run?
#![forbid(unsafe_code)]

pub mod cpuset;
pub mod doc;
pub mod plan;
pub mod problem;
pub mod reading;
pub mod root;
pub mod topology;
pub mod units;
