//! Is this host tuned for the latency-critical process that it is about to run?
#![forbid(unsafe_code)]

pub mod audit;
pub mod capture;
pub mod cli;
pub mod command;
pub mod cpuset;
pub mod doc;
pub mod exit;
pub mod fact;
pub mod fix;
pub mod output;
pub mod plan;
pub mod preflight;
pub mod problem;
pub mod reading;
pub mod report;
pub mod root;
pub mod rule;
pub mod schema;
pub mod topology;
pub mod units;
pub mod waiver;
