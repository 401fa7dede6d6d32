//! How fast CPUs are kept: what the hardware is told to prefer, and how far frequencies may move.
//!
//! Sources: Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst, amd-pstate.rst, intel_epb.rst and
//! intel_uncore_frequency_scaling.rst, drivers/cpufreq/cpufreq.c, drivers/cpufreq/intel_pstate.c,
//! arch/x86/kernel/cpu/intel_epb.c and drivers/platform/x86/intel/uncore-frequency of Linux 6.12.

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read, Value};
use crate::reading::{NotUnderstood, Obstacle, Reading};

const NO_TURBO: &str = "sys/devices/system/cpu/intel_pstate/no_turbo";
const MIN_PERF: &str = "sys/devices/system/cpu/intel_pstate/min_perf_pct";
const BOOST: &str = "sys/devices/system/cpu/cpufreq/boost";
const UNCORE: &str = "sys/devices/system/cpu/intel_uncore_frequency";

/// The highest number of `energy_perf_bias`, which has four bits.
const WEAKEST_BIAS: i64 = 15;

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "cpufreq.energy_preference",
        kind: Kind::Word,
        files: &[
            "sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
            "sys/devices/system/cpu/cpu*/cpufreq/scaling_driver",
        ],
        about: "what a CPU that chooses its own frequency prefers (EPP): performance, balance_performance, balance_power, power or a number up to 255; 0 is performance",
        read: Read::PerCpu(energy_preference),
    },
    Fact {
        name: "cpu.energy_perf_bias",
        kind: Kind::Integer,
        files: &["sys/devices/system/cpu/cpu*/power/energy_perf_bias"],
        about: "the hint to an Intel CPU between performance (0) and saving energy (15)",
        read: Read::PerCpu(energy_perf_bias),
    },
    Fact {
        name: "cpufreq.span",
        kind: Kind::Integer,
        files: &[
            "sys/devices/system/cpu/cpu*/cpufreq/scaling_min_freq",
            "sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq",
            "sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq",
            "sys/devices/system/cpu/cpu*/cpufreq/scaling_driver",
        ],
        about: "how far the frequency of a CPU may move, in kHz: from scaling_min_freq to scaling_max_freq",
        read: Read::PerCpu(span),
    },
    Fact {
        name: "intel_pstate.min_perf_pct",
        kind: Kind::Integer,
        files: &[MIN_PERF],
        about: "the floor under the frequency of all CPUs that intel_pstate drives, in percent of their highest one",
        read: Read::One(min_perf_pct),
    },
    Fact {
        name: "cpufreq.turbo",
        kind: Kind::Flag,
        files: &[NO_TURBO, BOOST, "sys/devices/system/cpu/cpu*/cpufreq/boost"],
        about: "whether a CPU may run above its base frequency for as long as heat and current allow",
        read: Read::PerCpu(turbo),
    },
    Fact {
        name: "uncore.span",
        kind: Kind::Integer,
        files: &[
            "sys/devices/system/cpu/intel_uncore_frequency/*/min_freq_khz",
            "sys/devices/system/cpu/intel_uncore_frequency/*/max_freq_khz",
            "sys/devices/system/cpu/intel_uncore_frequency/*/package_id",
            "sys/devices/system/cpu/cpu*/topology/physical_package_id",
        ],
        about: "how far the frequency of caches, mesh and memory controllers may move, in kHz: the most among the packages of hot CPUs",
        read: Read::One(uncore_span),
    },
];

fn energy_preference(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let reading = look.read(&format!("{folder}/energy_performance_preference")).parse(parse_preference);
    if reading == Reading::NotExposed {
        // Not kept as a source: it is not what cannot be seen.
        match host.text(&format!("{folder}/scaling_driver")).parse(super::parse_word) {
            Reading::Value(driver) => look.note_unknown(format!(
                "the frequency driver is {driver}: without hardware-managed frequencies there is no such preference"
            )),
            _ => look.note_unknown("virtual machine?"),
        }
    }
    look.word(reading)
}

/// A word, or a raw number that is none of those which have one; 0 is what `performance` writes.
///
/// # Errors
/// Neither.
fn parse_preference(text: &str) -> Result<String, NotUnderstood> {
    let word = super::parse_word(text)?;
    if word.bytes().all(|b| b.is_ascii_digit()) {
        let number: u8 = word.parse().map_err(|_| NotUnderstood)?;
        return Ok(if number == 0 { "performance".to_owned() } else { number.to_string() });
    }
    let is_known =
        matches!(word.as_str(), "default" | "performance" | "balance_performance" | "balance_power" | "power");
    if is_known { Ok(word) } else { Err(NotUnderstood) }
}

fn energy_perf_bias(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let path = format!("sys/devices/system/cpu/cpu{cpu}/power/energy_perf_bias");
    let reading = look.read(&path).parse(parse_bias);
    if reading == Reading::NotExposed {
        look.note_unknown("only Intel CPUs have it, and Linux shows it from 5.2 on");
    }
    look.answer(reading.map(Value::Integer))
}

/// # Errors
/// No number of four bits.
fn parse_bias(text: &str) -> Result<i64, NotUnderstood> {
    let bias = super::parse_integer(text).map_err(|_| NotUnderstood)?;
    if (0..=WEAKEST_BIAS).contains(&bias) { Ok(bias) } else { Err(NotUnderstood) }
}

/// A frequency in kHz, as cpufreq prints it: 0 is that of a driver which knows none.
///
/// # Errors
/// No number, or none above 0.
fn parse_khz(text: &str) -> Result<i64, NotUnderstood> {
    match super::parse_integer(text) {
        Ok(khz) if khz > 0 => Ok(khz),
        _ => Err(NotUnderstood),
    }
}

/// The lower and the upper end of a range in kHz, from two files.
fn range(look: &mut Look<'_, '_>, lowest: &str, highest: &str) -> Reading<(i64, i64)> {
    let low = look.read(lowest).parse(parse_khz);
    let high = look.read(highest).parse(parse_khz);
    low.and_then(|low| {
        high.and_then(|high| {
            // Two reads of a policy that changes in between, or a file that is not the kernel's.
            if low > high { Reading::Malformed(format!("{low} above {high}")) } else { Reading::Value((low, high)) }
        })
    })
}

fn span(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let reading = range(&mut look, &format!("{folder}/scaling_min_freq"), &format!("{folder}/scaling_max_freq"));
    match reading {
        Reading::Value((low, high)) => {
            look.note_failure(format!("scaling_min_freq {low}, scaling_max_freq {high}"));
            let hardware = look.read_if_there(&format!("{folder}/cpuinfo_max_freq")).parse(parse_khz);
            if let Reading::Value(most) = hardware
                && high < most
            {
                look.note(format!("kept below what the CPU can: scaling_max_freq {high} of {most}"));
            } else {
                look.note_pass(format!("at {high} kHz"));
            }
        }
        Reading::NotExposed if host.text(&format!("{folder}/scaling_driver")) == Reading::NotExposed => {
            look.note_unknown("virtual machine?");
        }
        _ => {}
    }
    look.answer(reading.map(|(low, high)| Value::Integer(high - low)))
}

fn min_perf_pct(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(MIN_PERF).parse(super::parse_integer);
    look.answer(reading.map(Value::Integer))
}

/// Two switches of the whole host, by driver, and from 6.11 on one of each policy: each of them can forbid it.
fn turbo(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let own = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/boost");
    let no_turbo = match look.read_if_there(NO_TURBO) {
        // intel_pstate is there and switched off: another driver decides.
        Reading::Unreadable(Obstacle::Errno(Errno::AGAIN)) => Reading::NotExposed,
        text => text.parse(super::parse_switch).map(|forbids| !forbids),
    };
    let switches = [
        (NO_TURBO, no_turbo),
        (BOOST, look.read_if_there(BOOST).parse(super::parse_switch)),
        (own.as_str(), look.read_if_there(&own).parse(super::parse_switch)),
    ];
    if let Some((path, _)) = switches.iter().find(|(_, allows)| *allows == Reading::Value(false)) {
        let name = if *path == NO_TURBO { "intel_pstate/no_turbo is 1" } else { "cpufreq/boost is 0" };
        look.note_pass(name);
        return look.answer(Reading::Value(Value::Flag(false)));
    }
    // One that cannot be read may forbid it.
    let mut reading = Reading::NotExposed;
    for (_, allows) in switches {
        match (allows, &reading) {
            (Reading::NotExposed, _) | (Reading::Value(_), Reading::Unreadable(_) | Reading::Malformed(_)) => {}
            (allows, _) => reading = allows,
        }
    }
    if reading == Reading::NotExposed {
        let _ = (look.read(NO_TURBO), look.read(BOOST));
        look.note_unknown(
            "neither intel_pstate/no_turbo nor cpufreq/boost: a virtual machine, or the firmware decides",
        );
    }
    look.answer(reading.map(Value::Flag))
}

/// A folder is a die (`package_01_die_00`) or, with TPMI, a cluster in one (`uncore04`, with a file `package_id`).
fn uncore_span(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let listing = match look.list(UNCORE) {
        Reading::Value(listing) => listing,
        other => {
            if other == Reading::NotExposed {
                look.note_unknown(
                    "the driver intel_uncore_frequency is not there: a virtual machine, another CPU, or not loaded",
                );
            }
            return look.answer(other.map(|_| Value::Flag(false)));
        }
    };
    let packages = packages_of_hot_cpus(host);
    let mut most: Option<i64> = None;
    let is_part = |name: &&str| name.starts_with("package_") || name.starts_with("uncore");
    for name in listing.entries.iter().map(|entry| entry.name.as_str()).filter(is_part) {
        let folder = format!("{UNCORE}/{name}");
        let package = package_of_name(name).or_else(|| {
            look.read_if_there(&format!("{folder}/package_id")).parse(super::parse_integer).value().copied()
        });
        if let (Some(package), Some(packages)) = (package, &packages)
            && !packages.contains(&package)
        {
            continue;
        }
        match range(&mut look, &format!("{folder}/min_freq_khz"), &format!("{folder}/max_freq_khz")) {
            Reading::Value((low, high)) => {
                if low < high {
                    look.note_failure(format!("{name}: {low} to {high} kHz"));
                }
                most = Some(most.unwrap_or(0).max(high - low));
            }
            other => {
                look.gap(&folder, &other);
                most = Some(most.unwrap_or(0));
            }
        }
    }
    look.answer(most.map_or(Reading::NotExposed, |most| Reading::Value(Value::Integer(most))))
}

/// `package_01_die_00` is of package 1.
fn package_of_name(name: &str) -> Option<i64> {
    name.strip_prefix("package_")?.split('_').next()?.parse().ok()
}

/// The packages that hot CPUs are in; nothing unless it is known of all of them.
fn packages_of_hot_cpus(host: &Host<'_>) -> Option<BTreeSet<i64>> {
    let package = |cpu: u32| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        host.text(&path).parse(super::parse_integer).value().copied().filter(|package| *package >= 0)
    };
    host.hot_online().iter().map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_preferences_are_words_or_numbers() {
        assert_eq!(parse_preference("performance\n").as_deref(), Ok("performance"));
        assert_eq!(parse_preference("balance_performance \n").as_deref(), Ok("balance_performance"));
        assert_eq!(parse_preference("0\n").as_deref(), Ok("performance"));
        assert_eq!(parse_preference("64\n").as_deref(), Ok("64"));
        for text in ["", "256\n", "-1\n", "fast\n", "performance power\n"] {
            assert_eq!(parse_preference(text), Err(NotUnderstood), "{text:?}");
        }
    }

    #[test]
    fn biases_and_frequencies() {
        assert_eq!(parse_bias("6\n"), Ok(6));
        assert_eq!(parse_bias("16\n"), Err(NotUnderstood));
        assert_eq!(parse_bias("performance\n"), Err(NotUnderstood));
        assert_eq!(parse_khz("3200000\n"), Ok(3_200_000));
        assert_eq!(parse_khz("0\n"), Err(NotUnderstood));
        assert_eq!(parse_khz("<unknown>\n"), Err(NotUnderstood));
        assert_eq!(package_of_name("package_01_die_00"), Some(1));
        assert_eq!(package_of_name("uncore01"), None);
    }
}
