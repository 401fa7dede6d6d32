//! Idle states: how deep a hot CPU may sleep, and each mechanism that caps it.
//!
//! Sources: Documentation/admin-guide/pm/cpuidle.rst and intel_idle.rst, Documentation/power/pm_qos_interface.rst,
//! drivers/idle/intel_idle.c and drivers/acpi/processor_idle.c of Linux 6.12.

use super::cmdline;
use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read, Value};
use crate::reading::{NotUnderstood, Obstacle, Reading, quote};
use crate::units::Micros;

pub(super) const DRIVER: &str = "sys/devices/system/cpu/cpuidle/current_driver";
/// The device that PM QoS requests are made on: four bytes, a signed number of microseconds.
pub(crate) const DMA_LATENCY: &str = "dev/cpu_dma_latency";

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
            "sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
            DMA_LATENCY,
        ],
        about: "the exit latency of the deepest idle state that a CPU may enter: enabled, and within a PM QoS request where a driver heeds one",
        read: Read::PerCpu(latency),
    },
];

/// `intel_idle.max_cstate` means something to intel_idle and `processor.max_cstate` to acpi_idle; 0 sends intel_idle
/// away, so that acpi_idle takes over, and is 1 to acpi_idle. Which one drives is not shown where there is no driver (or
/// it cannot be read): then only a line that caps both is a cap.
fn max_cstate(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let _ = look.read(cmdline::PATH);
    let driver = look.read(DRIVER).parse(super::parse_word);
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
        if let Some((note, n)) = cap {
            look.note(format!("{note} (boot line)"));
            return Reading::Value(n);
        }
        let given: Vec<String> = [intel, acpi].into_iter().flatten().map(|(param, _)| param.to_string()).collect();
        if !given.is_empty() {
            let driver = driver.value().map_or("not shown", String::as_str);
            look.note_failure(format!("{} caps nothing here: the idle driver is {driver}", given.join(" ")));
        }
        cmdline::not_found(line, &mut look)
    });
    look.answer(reading.map(Value::Integer))
}

fn latency(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let driver = look.read_if_there(DRIVER).parse(super::parse_word);
    let request = request(&mut look, &driver, cpu);
    let states = states(&mut look, cpu);
    let wanted = host.plan.max_wakeup_latency.unwrap_or(super::plan::DEFAULT_MAX_WAKEUP_LATENCY).0;
    // A request that is strict enough by itself keeps the CPU there, whatever its states are.
    if let Request::Of { micros, by } = &request
        && *micros <= wanted
    {
        look.note(by.clone());
        return look.answer(Reading::Value(Value::Micros(Micros(*micros))));
    }
    let reading = states.and_then(|states| {
        if states.is_empty() {
            return Reading::NotExposed;
        }
        if driver.value().is_some_and(|driver| driver == "haltpoll") {
            let why = "the states of haltpoll are a guest's: what the host does on a halt does not show";
            return Reading::Unreadable(Obstacle::Other(why.to_owned()));
        }
        deepest(&mut look, &states, &request, wanted)
    });
    look.answer(reading.map(Value::Micros))
}

/// An idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// As the driver calls it: `C1E`.
    pub name: String,
    /// What waking from it takes, in microseconds.
    pub latency: Reading<u64>,
    /// Whether it may be entered.
    pub enabled: Reading<bool>,
    /// Its folder, relative to the root: the CPU's, and `stateN` in it.
    pub folder: String,
}

/// The idle states of a CPU, the shallowest first.
pub fn states_of(host: &Host<'_>, cpu: u32) -> Reading<Vec<State>> {
    states(&mut Look::at(host), cpu)
}

/// The name of the driver that puts CPUs to sleep; `none` where there is none.
pub fn driver(host: &Host<'_>) -> Reading<String> {
    host.text(DRIVER).parse(super::parse_word)
}

fn states(look: &mut Look<'_, '_>, cpu: u32) -> Reading<Vec<State>> {
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let listing = look.list(&folder);
    listing.map(|listing| {
        listing.numbers("state").into_iter().map(|state| State::read(look, format!("{folder}/state{state}"))).collect()
    })
}

impl State {
    fn read(look: &mut Look<'_, '_>, folder: String) -> Self {
        let enabled = match look.read_if_there(&format!("{folder}/disable")).parse(super::parse_integer) {
            Reading::NotExposed => Reading::Value(true),
            disable => disable.map(|disable| disable == 0),
        };
        let latency = look.read(&format!("{folder}/latency")).parse(|text| super::trim(text).parse::<u64>());
        // Names hold blanks: `haltpoll idle`.
        let name = look.host.text(&format!("{folder}/name"));
        let name = name.value().map_or_else(|| "deepest state".to_owned(), |name| quote(name));
        Self { name, latency, enabled, folder }
    }
}

/// The latency of the deepest state that may be entered: enabled, and within the request where there is one.
///
/// A state of which that is not known counts as entered where the plan allows it anyway, and leaves a gap where not.
fn deepest(look: &mut Look<'_, '_>, states: &[State], request: &Request, wanted: u64) -> Reading<Micros> {
    let limit = if let Request::Of { micros, .. } = request { *micros } else { u64::MAX };
    let mut entered: Option<(u64, &str)> = None;
    let mut open: Option<(String, Reading<()>)> = None;
    for state in states.iter().filter(|state| state.enabled != Reading::Value(false)) {
        let latency = match &state.latency {
            Reading::Value(latency) => *latency,
            other => {
                open.get_or_insert((format!("{}/latency", state.folder), other.as_ref().map(|_| ())));
                continue;
            }
        };
        if latency > limit {
            continue;
        }
        if state.enabled.value().is_none() && latency > wanted {
            open.get_or_insert((format!("{}/disable", state.folder), state.enabled.as_ref().map(|_| ())));
            continue;
        }
        if entered.is_none_or(|(most, _)| latency >= most) {
            entered = Some((latency, &state.name));
        }
    }
    let (latency, name) = entered.unwrap_or((0, "no state"));
    if latency <= wanted
        && let Some((path, reading)) = open
    {
        look.gap(&path, &reading);
        return Reading::Value(Micros(latency));
    }
    if entered.is_none() {
        return Reading::Unreadable(Obstacle::Other("every idle state is disabled".to_owned()));
    }
    look.note(format!("{name} {latency} us"));
    match request {
        Request::Of { by, .. } => look.note(by.clone()),
        // What cannot be seen may hold the CPU above its deep states.
        Request::Unseen(path, reading) if latency > wanted => {
            look.gap(path, reading);
            return Reading::Value(Micros(0));
        }
        Request::Unseen(..) | Request::None => {}
    }
    Reading::Value(Micros(latency))
}

/// A PM QoS request on the wake-up latency of a CPU.
enum Request {
    /// Nobody asks, or nobody heeds it.
    None,
    /// The strictest one that can be seen, in microseconds, and who asks for it.
    Of { micros: u64, by: String },
    /// None that can be seen, and one that cannot.
    Unseen(String, Reading<()>),
}

/// Without a driver the CPU's default idle routine runs, which heeds no request.
fn request(look: &mut Look<'_, '_>, driver: &Reading<String>, cpu: u32) -> Request {
    match driver {
        Reading::Value(driver) if driver != "none" => {}
        Reading::Value(_) | Reading::NotExposed | Reading::Unset => return Request::None,
        other => return Request::Unseen(DRIVER.to_owned(), other.as_ref().map(|_| ())),
    }
    let path = format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
    let own = look.read_if_there(&path).parse(resume_latency);
    let global = look.host.root.read_s32(DMA_LATENCY);
    let by_all = match &global {
        Reading::Value(NO_REQUEST) => None,
        Reading::Value(micros) => u64::try_from(*micros).ok(),
        _ => None,
    };
    if let Some(micros) = by_all {
        look.source(super::Source::summary(DMA_LATENCY, micros.to_string()));
    }
    let by_all = by_all.map(|micros| {
        (micros, format!("a request of {micros} us on /dev/cpu_dma_latency, for as long as its holder runs"))
    });
    let by_own = own.value().copied().flatten().map(|micros| {
        let shown = if micros == 0 { "n/a".to_owned() } else { micros.to_string() };
        (micros, format!("pm_qos_resume_latency_us is {shown}"))
    });
    if let Some((micros, by)) = by_all.into_iter().chain(by_own).min() {
        return Request::Of { micros, by };
    }
    match (own, global) {
        (own @ (Reading::Unreadable(_) | Reading::Malformed(_)), _) => Request::Unseen(path, own.map(|_| ())),
        (_, global @ (Reading::Unreadable(_) | Reading::Malformed(_))) => {
            look.source(super::Source::unread(DMA_LATENCY, &global));
            Request::Unseen(DMA_LATENCY.to_owned(), global.map(|_| ()))
        }
        _ => Request::None,
    }
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
