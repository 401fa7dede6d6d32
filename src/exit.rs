//! Exit codes. They are part of the interface: scripts and units decide by them.

/// Every required rule passed, was waived or does not apply; unknown ones are reported and let pass.
pub const PASSED: u8 = 0;
/// At least one required rule failed.
pub const FAILED: u8 = 1;
/// A mistake in the command line, the plan, a rule file or a waiver file: nothing was audited.
pub const USAGE: u8 = 2;
/// With `--strict` only: nothing failed, but a required rule could not be judged.
pub const UNKNOWN: u8 = 3;
/// An internal error; never a pass.
pub const INTERNAL: u8 = 4;

/// The command behind a gate is there and cannot be run: what POSIX shells give.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command behind a gate was not found: what POSIX shells give.
pub const NOT_FOUND: u8 = 127;

/// The table of exit codes, as the help and the README have it.
pub const TABLE: &[(u8, &str)] = &[
    (PASSED, "every required rule passed, was waived or does not apply (unknown ones are reported and let pass)"),
    (FAILED, "at least one required rule failed"),
    (USAGE, "usage, plan, rule-file or waiver-file error; nothing was audited"),
    (UNKNOWN, "`--strict` only: nothing failed, but a required rule could not be judged"),
    (INTERNAL, "internal error; never a pass"),
];

/// The worst of some codes: an internal error, a mistake, a failure, an unknown verdict under `--strict`, a pass.
pub fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    const WORST_FIRST: [u8; 5] = [INTERNAL, USAGE, FAILED, UNKNOWN, PASSED];
    // A code that is not in the list is an internal error, like the first that is.
    let rank = |code: &u8| WORST_FIRST.iter().position(|other| other == code).unwrap_or(0);
    codes.into_iter().min_by_key(rank).unwrap_or(PASSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_worse_than_a_failure_and_that_than_an_unknown() {
        assert_eq!(worst([]), PASSED);
        assert_eq!(worst([PASSED, UNKNOWN, PASSED]), UNKNOWN);
        assert_eq!(worst([UNKNOWN, FAILED]), FAILED);
        assert_eq!(worst([FAILED, USAGE, UNKNOWN]), USAGE);
        assert_eq!(worst([USAGE, INTERNAL]), INTERNAL);
    }
}
