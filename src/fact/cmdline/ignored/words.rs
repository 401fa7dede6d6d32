//! Settings with a few values, each with the file that shows what became of it.

use super::{Boot, Fate, huge};
use crate::fact::cmdline::{Param, kernel_bool, kernel_integer};
use crate::fact::{clocksource, cpuidle, memory, parse_integer, parse_word};
use crate::reading::{Reading, quote};

pub(super) const SMT_CONTROL: &str = "sys/devices/system/cpu/smt/control";
pub(super) const NUMA_BALANCING: &str = "proc/sys/kernel/numa_balancing";
pub(super) const INTEL_PSTATE: &str = "sys/devices/system/cpu/intel_pstate/status";

pub(super) const INTEL_MAX_CSTATE: &str = "intel_idle.max_cstate";
pub(super) const ACPI_MAX_CSTATE: &str = "processor.max_cstate";

/// From this version on `mitigations=` takes vectors of attack after a comma.
const ATTACK_VECTORS_SINCE: (u32, u32) = (6, 17);

pub(super) fn nohz(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    boot.value(at, "on or off", kernel_bool).map_or_else(|fate| fate, |_| Fate::Taken)
}

pub(super) fn idle(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    // Words of other architectures are not judged.
    let known =
        |text: &str| matches!(text, "poll" | "halt" | "nomwait" | "wfi" | "yield" | "nop").then(|| text.to_owned());
    // Polling sticks: what comes later does not end it.
    let polls = |param: &Param| param.value.as_deref() == Some("poll");
    let word = match boot.value(at, "poll, halt or nomwait", known) {
        _ if polls(boot.param(at)) => "poll".to_owned(),
        Ok(_) if boot.line.all("idle").any(polls) => {
            return Fate::ignored("idle=poll stands on the line too, and sticks");
        }
        Ok(word) => word,
        Err(fate) => return fate,
    };
    let driver = boot.look.read_if_there(cpuidle::DRIVER).parse(parse_word);
    match (word.as_str(), driver.value().map(String::as_str)) {
        ("poll" | "halt", Some(driver)) if driver != "none" => {
            Fate::Ignored(format!("the idle driver is {} all the same", quote(driver)))
        }
        ("nomwait", Some("intel_idle")) => Fate::ignored("the idle driver is intel_idle all the same"),
        ("poll" | "halt", Some(_)) => Fate::Shown,
        _ => Fate::Taken,
    }
}

pub(super) fn cpuidle_off(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    match boot.value(at, "a number", kernel_integer) {
        Err(fate) => fate,
        Ok(0) => Fate::Taken,
        Ok(_) if boot.look.read_if_there(cpuidle::DRIVER) == Reading::NotExposed => Fate::Shown,
        Ok(_) => Fate::Ignored(format!("{} is there, so that idle states are in use", cpuidle::DRIVER)),
    }
}

pub(super) fn max_cstate(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let n = match boot.value(at, "a number", kernel_integer) {
        Ok(n) => n,
        Err(fate) => return fate,
    };
    let is_intel = boot.param(at).is(INTEL_MAX_CSTATE);
    let driver = match boot.look.read_if_there(cpuidle::DRIVER).parse(parse_word) {
        Reading::Value(driver) => driver,
        // No driver, and nothing to cap.
        Reading::NotExposed => return Fate::Taken,
        other => return Fate::open(cpuidle::DRIVER, &other),
    };
    let other = if is_intel { ACPI_MAX_CSTATE } else { INTEL_MAX_CSTATE };
    let caps_other = boot.line.integer(other).is_some_and(|(_, n)| is_intel || n > 0);
    match (driver.as_str(), is_intel) {
        ("intel_idle", true) if n == 0 => Fate::ignored("the idle driver is intel_idle all the same"),
        ("intel_idle", true) | ("acpi_idle", false) => Fate::Shown,
        (_, true) if n == 0 => Fate::Shown,
        // A line that names both is meant for whichever driver comes.
        ("none" | "haltpoll", _) => Fate::Taken,
        ("intel_idle" | "acpi_idle", _) if caps_other => Fate::Taken,
        ("intel_idle" | "acpi_idle", _) => Fate::Ignored(format!("the idle driver is {driver}, which heeds {other}")),
        (driver, _) => Fate::Ignored(format!("the idle driver is {}, which does not heed it", quote(driver))),
    }
}

pub(super) fn transparent_hugepage(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let known = |text: &str| matches!(text, "always" | "madvise" | "never").then(|| text.to_owned());
    let word = match boot.value(at, "always, madvise or never", known) {
        Ok(word) => word,
        Err(fate) => return fate,
    };
    match boot.look.read(memory::THP_ENABLED).parse(memory::parse_choice) {
        Reading::Value(shown) => changed(&word, &shown, memory::THP_ENABLED),
        Reading::NotExposed if word == "never" => Fate::Taken,
        Reading::NotExposed if boot.look.host.root.exists(memory::MM).value().is_some() => {
            Fate::ignored("this kernel was built without transparent huge pages, or is a real-time one")
        }
        other => Fate::open(memory::THP_ENABLED, &other),
    }
}

/// What was asked for against what is shown now.
fn changed(asked: &str, shown: &str, path: &str) -> Fate {
    if asked == shown {
        Fate::Shown
    } else {
        Fate::Ignored(format!("{path} is {}: it was changed since", quote(shown)))
    }
}

pub(super) fn huge_pages(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    if boot.huge_pages.is_none() {
        boot.huge_pages = Some(huge::replay(&mut boot.look, boot.line));
    }
    let fates = boot.huge_pages.iter().flatten();
    fates.filter(|(place, _)| *place == at).map(|(_, fate)| fate.clone()).next().unwrap_or(Fate::Unjudged)
}

pub(super) fn nosmt(boot: &mut Boot<'_, '_>, _at: usize) -> Fate {
    match boot.look.read(SMT_CONTROL).parse(parse_word) {
        Reading::Value(control) => match control.as_str() {
            "off" | "forceoff" => Fate::Shown,
            "notsupported" | "notimplemented" => Fate::Taken,
            control => Fate::Ignored(format!("{SMT_CONTROL} is {}: SMT was switched on since", quote(control))),
        },
        other => Fate::open(SMT_CONTROL, &other),
    }
}

pub(super) fn mitigations(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let knows_vectors = boot.version.is_none_or(|version| version >= ATTACK_VECTORS_SINCE);
    let known = |text: &str| is_mitigations(text, knows_vectors).then(|| text.to_owned());
    let wanted = if knows_vectors {
        "off, auto, or auto,nosmt, and then vectors of attack such as no_user_user"
    } else {
        "off, auto, or auto,nosmt (vectors of attack from Linux 6.17 on)"
    };
    boot.value(at, wanted, known).map_or_else(|fate| fate, |_| Fate::Taken)
}

fn is_mitigations(text: &str, knows_vectors: bool) -> bool {
    const VECTORS: [&str; 5] = ["no_cross_thread", "no_guest_guest", "no_guest_host", "no_user_kernel", "no_user_user"];
    let rest = ["auto,nosmt", "auto", "off"].into_iter().find_map(|word| text.strip_prefix(word));
    let vectors = match rest {
        Some("") => return true,
        Some(rest) => rest.strip_prefix(','),
        None => None,
    };
    knows_vectors && vectors.is_some_and(|vectors| vectors.split(',').all(|vector| VECTORS.contains(&vector)))
}

pub(super) fn numa_balancing(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let known = |text: &str| [("enable", true), ("disable", false)].into_iter().find(|(word, _)| *word == text);
    let on = match boot.value(at, "enable or disable", known) {
        Ok((_, on)) => on,
        Err(fate) => return fate,
    };
    match boot.look.read(NUMA_BALANCING).parse(parse_integer) {
        Reading::Value(mode) if (mode != 0) == on => Fate::Shown,
        Reading::Value(mode) => Fate::Ignored(format!("{NUMA_BALANCING} is {mode}: it was changed since")),
        Reading::NotExposed if !on => Fate::Taken,
        other => Fate::open(NUMA_BALANCING, &other),
    }
}

pub(super) fn intel_pstate(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    const WORDS: &[&str] = &[
        "active",
        "passive",
        "disable",
        "force",
        "hwp_only",
        "no_cas",
        "no_hwp",
        "per_cpu_perf_limits",
        "support_acpi_ppc",
    ];
    let text = boot.param(at).value.as_deref().unwrap_or_default();
    if !WORDS.contains(&text) {
        return Fate::Ignored(format!(
            "the kernel passes over a value that it does not know: it takes {}",
            WORDS.join(", ")
        ));
    }
    // Each word switches something of its own; only the mode shows.
    let mode = match text {
        "active" | "passive" => text,
        "disable" => "off",
        _ => return Fate::Taken,
    };
    match boot.look.read_if_there(INTEL_PSTATE).parse(parse_word) {
        Reading::Value(status) => changed(mode, &status, INTEL_PSTATE),
        Reading::NotExposed if mode == "off" => Fate::Shown,
        Reading::NotExposed => Fate::Unjudged,
        other => Fate::open(INTEL_PSTATE, &other),
    }
}

pub(super) fn clock_source(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let name = match boot.value(at, "a name", |text| (!text.is_empty()).then(|| text.to_owned())) {
        Ok(name) => name,
        Err(fate) => return fate,
    };
    match boot.look.read(clocksource::CURRENT).parse(parse_word) {
        Reading::Value(current) if current == name => Fate::Shown,
        Reading::Value(current) => {
            let current = quote(&current);
            Fate::Ignored(format!(
                "the clock source is {current}: the kernel has none of that name, or found it unstable"
            ))
        }
        other => Fate::open(clocksource::CURRENT, &other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_mitigations() {
        for (text, old, new) in [
            ("off", true, true),
            ("auto,nosmt", true, true),
            ("auto,no_user_user,no_guest_host", false, true),
            ("auto,nosmt,no_cross_thread", false, true),
            ("auto,no_nothing", false, false),
            ("autox", false, false),
            ("none", false, false),
        ] {
            assert_eq!((is_mitigations(text, false), is_mitigations(text, true)), (old, new), "{text}");
        }
    }
}
