//! The store that a measuring loop writes into: allocated and touched before the loop, so that the loop neither
//! allocates nor faults.

use std::collections::TryReserveError;

/// Durations of one trial, in nanoseconds, in the order in which they were taken.
#[derive(Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// A store for `capacity` samples, every page of it already mapped.
    pub fn with_capacity(capacity: usize) -> Result<Samples, TryReserveError> {
        let mut store = Vec::new();
        store.try_reserve_exact(capacity)?;
        // Not zero: a zeroed allocation may be left to the kernel's zero page, to be faulted in by the loop.
        store.resize(capacity, u64::MAX);
        store.clear();
        Ok(Samples(store))
    }

    /// Adds one sample. Allocates only beyond the capacity that was asked for.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.push(ns);
    }

    /// Forgets the samples and keeps the store.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The samples in the order in which they were taken.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_its_store() {
        let mut samples = Samples::with_capacity(3).unwrap();
        let store = samples.0.as_ptr();
        for ns in [3, 1, 2] {
            samples.record(ns);
        }
        assert_eq!(samples.as_slice(), [3, 1, 2]);
        samples.clear();
        samples.record(7);
        assert_eq!(samples.as_slice(), [7]);
        assert_eq!(samples.0.as_ptr(), store);
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(Samples::with_capacity(usize::MAX / 8).is_err());
    }
}
