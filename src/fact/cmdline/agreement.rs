//! Whether the lists of the boot line agree with each other, and with the CPUs that there are.

use super::housekeeping::{Asked, Feature};
use super::ignored::by_reason;
use super::{BOOT_CPU, BootLine, Param, Refusal, cut_obstacle, look, not_found};
use crate::cpuset::{BootGrammar, CpuSet, ListError};
use crate::fact::host::Look;
use crate::fact::{Doubt, Host, Observation, Value, cpu};
use crate::reading::{Reading, quote};

/// The parameters whose values are lists of CPUs.
const LISTS: [&str; 4] = ["isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"];

/// The CPUs that a parameter names, together with what else on the line says the same.
struct Named {
    /// As the line has it.
    name: &'static str,
    cpus: CpuSet,
}

/// CPUs that one of `isolcpus=`, `nohz_full=` and `rcu_nocbs=` names and another does not. One that is not on the line says
/// nothing.
pub(super) fn divided(host: &Host<'_>) -> Observation {
    let (mut look, line) = look(host);
    let reading = line.and_then(|line| {
        let named = lists(&mut look, line);
        note_what_is_named(&mut look, &named);
        let all = named.iter().fold(CpuSet::new(), |all, named| &all | &named.cpus);
        let of_each = named.iter().fold(all.clone(), |of_each, named| &of_each & &named.cpus);
        if line.may_be_cut() {
            look.gap::<()>(super::PATH, &Reading::Unreadable(cut_obstacle(line)));
        }
        Reading::Value(&all - &of_each)
    });
    look.cpus(reading)
}

fn lists(look: &mut Look<'_, '_>, line: &BootLine) -> Vec<Named> {
    let grammar = BootGrammar::newest(super::grammar(look.host).last);
    let mut named: Vec<Named> = Vec::new();
    let mut add = |name: &'static str, cpus: &CpuSet| match named.iter_mut().find(|named| named.name == name) {
        Some(named) => named.cpus = &named.cpus | cpus,
        None => named.push(Named { name, cpus: cpus.clone() }),
    };
    for param in line.params() {
        let asked = match Asked::of(param, grammar, None) {
            // The kernel refuses such a list; which CPUs were meant shows all the same.
            Some(Err(Refusal::List(ListError::OutOfRange { .. }))) => {
                Asked::of(param, BootGrammar { last: None, ..grammar }, None)
            }
            asked => asked,
        };
        match asked {
            None => {}
            Some(Ok(asked)) => {
                let names = [(Feature::Domain, "isolcpus="), (Feature::Tick, "nohz_full=")];
                for (_, name) in names.into_iter().filter(|(feature, _)| asked.features.contains(feature)) {
                    add(name, &asked.cpus);
                }
            }
            Some(Err(_)) => not_understood(look, param),
        }
    }
    if let Some(param) = line.all("rcu_nocbs").last() {
        match param.value.as_deref().map_or_else(|| Ok(CpuSet::new()), |value| listed(value, grammar)) {
            Ok(mut cpus) => {
                // What is tickless is offloaded too.
                if let Some(tickless) = named.iter().find(|named| named.name == "nohz_full=") {
                    cpus = &cpus | &tickless.cpus;
                }
                named.push(Named { name: "rcu_nocbs=", cpus });
            }
            Err(_) => not_understood(look, param),
        }
    }
    named
}

/// A list, also one that names CPUs which there cannot be.
fn listed(value: &str, grammar: BootGrammar) -> Result<CpuSet, ListError> {
    CpuSet::parse_boot_list(value, grammar).or_else(|error| match error {
        ListError::OutOfRange { .. } => CpuSet::parse_boot_list(value, BootGrammar { last: None, ..grammar }),
        error => Err(error),
    })
}

fn not_understood(look: &mut Look<'_, '_>, param: &Param) {
    let malformed: Reading<()> = Reading::Malformed(quote(param.value.as_deref().unwrap_or_default()));
    look.gap(&quote(&param.name), &malformed);
}

fn note_what_is_named(look: &mut Look<'_, '_>, named: &[Named]) {
    let shown = |named: &Named| format!("{} {}", named.name, Value::Cpus(named.cpus.clone()));
    match named {
        [] => look.note_pass("none of isolcpus=, nohz_full= and rcu_nocbs= is on the boot line"),
        named => look.note(named.iter().map(shown).collect::<Vec<_>>().join(", ")),
    }
}

/// The CPUs that `irqaffinity=` leaves interrupts on: those of the last occurrence, and the boot CPU.
pub(super) fn irqaffinity(host: &Host<'_>) -> Observation {
    let (mut look, line) = look(host);
    let reading = line.and_then(|line| {
        let Some(param) = line.all("irqaffinity").filter(|param| param.value.is_some()).last() else {
            return not_found(line, &mut look);
        };
        let grammar = super::grammar(host);
        match CpuSet::parse_boot_list(param.value.as_deref().unwrap_or_default(), grammar) {
            Ok(mut cpus) => {
                if !cpus.contains(BOOT_CPU) {
                    look.note_failure("the kernel adds the boot CPU to irqaffinity=");
                }
                cpus.insert(BOOT_CPU);
                Reading::Value(cpus)
            }
            Err(_) => Reading::Malformed(quote(&param.to_string())),
        }
    });
    look.cpus(reading)
}

/// CPUs that the lists name by number and that this host lacks.
pub(super) fn absent(host: &Host<'_>) -> Observation {
    let (mut look, line) = look(host);
    let present = look.read(cpu::PRESENT).parse(CpuSet::parse_list);
    let reading = line.and_then(|line| {
        let mut absent = CpuSet::new();
        let mut found = Vec::new();
        for param in line.params().iter().filter(|param| LISTS.iter().any(|name| param.is(name))) {
            let named = named_by_number(param);
            if named.is_empty() {
                continue;
            }
            match &present {
                Reading::Value(present) => {
                    let lacking = &named - present;
                    if !lacking.is_empty() {
                        let noun = if lacking.len() == 1 { "CPU" } else { "CPUs" };
                        found.push((param.to_string(), format!("{noun} {lacking}")));
                    }
                    absent = &absent | &lacking;
                }
                other => {
                    if let Some(doubt) = Doubt::of(cpu::PRESENT, other) {
                        look.doubt(doubt, Some(named));
                    }
                }
            }
        }
        for (params, cpus) in by_reason(&found) {
            look.note_failure(format!("{cpus} in {params}"));
        }
        Reading::Value(absent)
    });
    look.cpus(reading)
}

/// The numbers in a list. `all`, `N` and what follows from them fit every host; flags are none.
fn named_by_number(param: &Param) -> CpuSet {
    let is_region = |region: &&str| region.starts_with(|c: char| c.is_ascii_digit()) && !region.contains('N');
    let regions = param.value.as_deref().unwrap_or_default().split([',', ' ']).filter(is_region);
    let unbounded = BootGrammar::newest(None);
    regions
        .filter_map(|region| CpuSet::parse_boot_list(region, unbounded).ok())
        .fold(CpuSet::new(), |all, one| &all | &one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_lists() {
        let named = |text: &str| named_by_number(BootLine::parse(text).unwrap().params().first().unwrap()).to_string();
        assert_eq!(named("isolcpus=managed_irq,domain,2-3,6-7"), "2-3,6-7");
        assert_eq!(named("rcu_nocbs=all"), "");
        assert_eq!(named("nohz_full=2-N"), "");
        assert_eq!(named("nohz_full=1-7:1/2"), "1,3,5,7");
        assert_eq!(named("nohz_full=7-4,x,9"), "9");
        assert_eq!(named("isolcpus"), "");
    }
}
