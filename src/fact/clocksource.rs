//! What the kernel counts time by.
//!
//! Sources: Documentation/timers/timekeeping.rst, Documentation/admin-guide/kernel-parameters.txt (clocksource, tsc),
//! kernel/time/clocksource.c and arch/x86/kernel/tsc.c of Linux 6.12.

use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read};
use crate::reading::Reading;

/// The name of the clock source in use.
pub(super) const CURRENT: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

pub(super) const FACTS: &[Fact] = &[Fact {
    name: "clocksource.current",
    kind: Kind::Word,
    files: &[CURRENT, AVAILABLE],
    about: "the clock source in use: tsc, arch_sys_counter, kvm-clock, hpet, acpi_pm and others",
    read: Read::One(current),
}];

fn current(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let current = look.read(CURRENT).parse(super::parse_word);
    if current.value().is_some_and(|name| name != "tsc")
        && let Reading::Value(available) = look.read_if_there(AVAILABLE)
    {
        // Once the kernel has found it unstable, it is not offered any more.
        if available.split_ascii_whitespace().any(|name| name == "tsc") {
            look.note_failure("tsc is available");
        } else {
            look.note_failure(
                "tsc is not available: the kernel found it unstable, or the CPU has none that it can use",
            );
        }
    }
    look.word(current)
}
