//! Idle states: how deep a hot CPU may sleep, and each mechanism that caps it.
//!
//! Sources: Documentation/admin-guide/pm/cpuidle.rst and intel_idle.rst, Documentation/power/pm_qos_interface.rst,
//! drivers/idle/intel_idle.c and drivers/acpi/processor_idle.c of Linux 6.12.

use super::cmdline;
use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read, Value};
use crate::reading::{NotUnderstood, Obstacle, Reading, quote};
use crate::units::Micros;

const DRIVER: &str = "sys/devices/system/cpu/cpuidle/current_driver";
const DMA_LATENCY: &str = "dev/cpu_dma_latency";

/// What `/dev/cpu_dma_latency` reads when nobody asks for anything (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_REQUEST: i32 = 2_000_000_000;

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "cpuidle.max_cstate",
        kind: Kind::Integer,
        files: &[cmdline::PATH, DRIVER],
        about: "the deepest C-state that the boot line allows the idle driver in use; without a driver, what it allows both",
        read: Read::One(max_cstate),
    },
    Fact {
        name: "cpuidle.latency",
        kind: Kind::Micros,
        files: &[
            DRIVER,
            "sys/devices/system/cpu/cpu*/cpuidle/state*/latency",
            "sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
            "sys/devices/system/cpu/cpu*/cpuidle/state*/name",
        ],
        about: "the exit latency of the deepest enabled idle state of a CPU",
        read: Read::PerCpu(latency),
    },
    Fact {
        name: "cpuidle.qos",
        kind: Kind::Micros,
        files: &[DMA_LATENCY, "sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us", DRIVER],
        about: "the wake-up latency that a PM QoS request holds a CPU to; unset when nobody asks or no driver heeds it",
        read: Read::PerCpu(qos),
    },
];

fn word(text: &str) -> Reading<String> {
    super::parse_word(text).map_or_else(|NotUnderstood| Reading::Malformed(quote(text)), Reading::Value)
}

/// `intel_idle.max_cstate` means something to intel_idle and `processor.max_cstate` to acpi_idle; 0 sends intel_idle
/// away, so that acpi_idle takes over, and is 1 to acpi_idle. Which one drives is not shown where there is no driver (or
/// it cannot be read): then only a line that caps both is a cap.
fn max_cstate(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let _ = look.read(cmdline::PATH);
    let driver = look.read(DRIVER).and_then(|text| word(&text));
    let reading = host.boot_line().as_ref().and_then(|line| {
        let intel = line.integer("intel_idle.max_cstate");
        let acpi = line.integer("processor.max_cstate").map(|(param, n)| (param, n.max(1)));
        let cap = match driver.value().map(String::as_str) {
            Some("intel_idle") => {
                intel.filter(|(_, n)| *n >= 1).map(|(param, n)| (format!("{param} under intel_idle"), n))
            }
            Some("acpi_idle") => acpi.map(|(param, n)| (format!("{param} under acpi_idle"), n)),
            Some("none") | None => match (intel, acpi) {
                (Some((a, intel)), Some((b, acpi))) if intel >= 0 => {
                    Some((format!("{a} {b}: whichever driver comes"), intel.max(acpi)))
                }
                _ => None,
            },
            Some(_) => None,
        };
        match cap {
            Some((note, n)) => {
                look.note(format!("{note} (boot line)"));
                Reading::Value(n)
            }
            None => match cmdline::cut(host) {
                Some(_) => Reading::Unreadable(Obstacle::Other("boot line may have been cut".to_owned())),
                None => Reading::Unset,
            },
        }
    });
    look.answer(reading.map(Value::Integer))
}

fn latency(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let driver = look.read_if_there(DRIVER).and_then(|text| word(&text));
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let states = look.list(&folder).map(|listing| {
        let is_state = |name: &str| {
            name.strip_prefix("state").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let mut names: Vec<String> =
            listing.entries.into_iter().map(|e| e.name).filter(|name| is_state(name)).collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    });
    let reading = states.and_then(|states| {
        if states.is_empty() {
            return Reading::NotExposed;
        }
        if driver.value().is_some_and(|driver| driver == "haltpoll") {
            let why = "the states of haltpoll are a guest's: what the host does on a halt does not show";
            return Reading::Unreadable(Obstacle::Other(why.to_owned()));
        }
        deepest(&mut look, &folder, &states)
    });
    look.answer(reading.map(Value::Micros))
}

/// The deepest of the states that are not disabled. One that cannot be judged leaves a gap.
fn deepest(look: &mut Look<'_, '_>, folder: &str, states: &[String]) -> Reading<Micros> {
    let mut deepest: Option<(u64, String)> = None;
    for state in states {
        let file = |name: &str| format!("{folder}/{state}/{name}");
        let disabled = look.read_if_there(&file("disable")).parse(super::parse_integer);
        match disabled {
            Reading::Value(0) | Reading::NotExposed | Reading::Unset => {}
            Reading::Value(_) => continue,
            other => look.gap(&file("disable"), &other),
        }
        let latency = look.read(&file("latency")).parse(|text| super::trim(text).parse::<u64>());
        match latency {
            Reading::Value(latency) if deepest.as_ref().is_none_or(|(most, _)| latency >= *most) => {
                deepest = Some((latency, file("name")));
            }
            Reading::Value(_) => {}
            other => look.gap(&file("latency"), &other),
        }
    }
    match deepest {
        Some((latency, name)) => {
            let name = look.host.text(&name).and_then(|text| word(&text));
            look.note(format!("{} {latency} us", name.value().map_or("deepest enabled state", String::as_str)));
            Reading::Value(Micros(latency))
        }
        None if look.has_gap() => Reading::Value(Micros(0)),
        None => Reading::Unreadable(Obstacle::Other("every idle state is disabled".to_owned())),
    }
}

fn qos(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let driver = look.read_if_there(DRIVER).and_then(|text| word(&text));
    match driver.value().map(String::as_str) {
        Some("none") | None if matches!(driver, Reading::Value(_) | Reading::NotExposed) => {
            // Without a driver the CPU's default idle routine runs, which heeds no request.
            return look.answer(Reading::Unset);
        }
        None => return look.answer(driver.map(Value::Word)),
        Some(_) => {}
    }
    let path = format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
    let own = look.read_if_there(&path).parse(resume_latency);
    let global = host.root.read_s32(DMA_LATENCY);
    let global_request = match &global {
        Reading::Value(NO_REQUEST) => None,
        Reading::Value(micros) => u64::try_from(*micros).ok(),
        _ => None,
    };
    if let Some(micros) = global_request {
        look.source(super::Source::summary(DMA_LATENCY, micros.to_string()));
        look.note(format!("a request of {micros} us on /dev/cpu_dma_latency, as long as its holder runs"));
    }
    let own_request = own.value().copied().flatten();
    if let Some(micros) = own_request {
        look.note(format!("pm_qos_resume_latency_us of {micros} us on CPU {cpu}"));
    }
    let wanted = host.plan.max_wakeup_latency.unwrap_or(super::plan::DEFAULT_MAX_WAKEUP_LATENCY);
    let request = own_request.into_iter().chain(global_request).min();
    let reading = match request {
        Some(micros) if micros <= wanted.0 => Reading::Value(Micros(micros)),
        _ => match (own, global) {
            // The request that cannot be seen may be the stricter one.
            (own @ (Reading::Unreadable(_) | Reading::Malformed(_)), _) => own.map(|_| Micros(0)),
            (_, global @ (Reading::Unreadable(_) | Reading::Malformed(_))) => {
                look.source(super::Source::of(DMA_LATENCY, &global.as_ref().map(|_| String::new())));
                global.map(|_| Micros(0))
            }
            _ => request.map_or(Reading::Unset, |micros| Reading::Value(Micros(micros))),
        },
    };
    look.answer(reading.map(Value::Micros))
}

/// `pm_qos_resume_latency_us`: 0 is no constraint, `n/a` tolerates no latency at all.
fn resume_latency(text: &str) -> Result<Option<u64>, NotUnderstood> {
    match super::trim(text) {
        "n/a" => Ok(Some(0)),
        "0" => Ok(None),
        number => number.parse().map(Some).map_err(|_| NotUnderstood),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverted_values_of_pm_qos_resume_latency() {
        assert_eq!(resume_latency("0\n"), Ok(None));
        assert_eq!(resume_latency("n/a\n"), Ok(Some(0)));
        assert_eq!(resume_latency("100\n"), Ok(Some(100)));
        assert_eq!(resume_latency("none\n"), Err(NotUnderstood));
        assert_eq!(resume_latency("-1\n"), Err(NotUnderstood));
    }
}
