//! What the kernel does against vulnerabilities of the CPU.
//!
//! Sources: Documentation/ABI/testing/sysfs-devices-system-cpu (vulnerabilities), Documentation/admin-guide/hw-vuln,
//! arch/x86/kernel/cpu/bugs.c of Linux 5.10, 6.1 and 6.18.

use std::collections::BTreeSet;

use super::host::{Look, quoted};
use super::{Doubt, Fact, Host, Kind, Observation, Read, Source, Value, cmdline};
use crate::reading::{Obstacle, Reading, quote};

const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";

pub(super) const FACTS: &[Fact] = &[Fact {
    name: "cpu.mitigations",
    kind: Kind::Words,
    files: &["sys/devices/system/cpu/vulnerabilities/*", cmdline::PATH],
    about: "the vulnerabilities of the CPU, by the names of their files, against which a mitigation is in force",
    read: Read::One(mitigations),
}];

/// What a file says of its vulnerability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotAffected,
    /// Against it something is done, which may take time.
    Mitigated,
    /// Against it nothing is done, or not enough.
    Vulnerable,
    /// The kernel does not know: in a guest.
    Unknown,
}

/// The texts have grown: some are about KVM, and what a CPU without virtualisation or with it switched off needs no
/// mitigation for costs nothing.
fn parse_state(text: &str) -> Option<State> {
    let text = super::trim(text);
    let of_kvm = text.strip_prefix("KVM: ");
    let text = of_kvm.unwrap_or(text);
    let begins = |word: &str| text.starts_with(word);
    if begins("Not affected") {
        Some(State::NotAffected)
    } else if begins("Mitigation:") {
        let is_moot = of_kvm.is_some() && (text.ends_with("VMX unsupported") || text.ends_with("VMX disabled"));
        Some(if is_moot { State::NotAffected } else { State::Mitigated })
    } else if begins("Vulnerable") || begins("Processor vulnerable") {
        Some(State::Vulnerable)
    } else if begins("Unknown") {
        Some(State::Unknown)
    } else {
        None
    }
}

fn mitigations(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let listing = look.list(VULNERABILITIES);
    let reading = listing.and_then(|listing| {
        let names: Vec<&String> =
            listing.entries.iter().filter(|entry| !entry.is_dir).map(|entry| &entry.name).collect();
        if names.is_empty() {
            look.source(Source::unread(VULNERABILITIES, &Reading::<()>::NotExposed));
            return Reading::NotExposed;
        }
        let mut mitigated = BTreeSet::new();
        let mut vulnerable = Vec::new();
        for name in &names {
            let path = format!("{VULNERABILITIES}/{name}");
            let text = host.text(&path);
            let state = text
                .clone()
                .and_then(|text| parse_state(&text).map_or_else(|| Reading::Malformed(quote(&text)), Reading::Value));
            if state != Reading::Value(State::NotAffected) {
                look.source(Source::of(&path, &text));
            }
            match state {
                Reading::Value(State::NotAffected) => {}
                Reading::Value(State::Mitigated) => {
                    mitigated.insert(quote(name));
                }
                Reading::Value(State::Vulnerable) => vulnerable.push(quote(name)),
                Reading::Value(State::Unknown) => {
                    let told =
                        Obstacle::Other(format!("the kernel says {}", quote(text.value().map_or("", String::as_str))));
                    look.gap::<()>(&path, &Reading::Unreadable(told));
                }
                other => {
                    if let Some(doubt) = Doubt::of(&path, &other) {
                        look.doubt(doubt, None);
                    }
                }
            }
        }
        look.source(Source::summary(VULNERABILITIES, format!("{} files", names.len())));
        if !vulnerable.is_empty() {
            look.note(format!("vulnerable: {}", vulnerable.join(", ")));
        }
        note_switched_off(&mut look, host, &mitigated);
        Reading::Value(mitigated)
    });
    look.answer(reading.map(Value::Words))
}

/// `mitigations=off` covers those that there were when the kernel was made.
fn note_switched_off(look: &mut Look<'_, '_>, host: &Host<'_>, mitigated: &BTreeSet<String>) {
    let Reading::Value(line) = host.boot_line() else { return };
    let last = line.all("mitigations").last();
    if let Some(off) = last.filter(|param| param.value.as_deref() == Some("off") && !mitigated.is_empty()) {
        look.note_failure(format!("{} on the boot line leaves these", quoted(&off.to_string())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_say() {
        for (text, want) in [
            ("Not affected\n", Some(State::NotAffected)),
            ("Mitigation: usercopy/swapgs barriers and __user pointer sanitization\n", Some(State::Mitigated)),
            ("KVM: Mitigation: Split huge pages\n", Some(State::Mitigated)),
            ("KVM: Mitigation: VMX unsupported\n", Some(State::NotAffected)),
            ("KVM: Vulnerable\n", Some(State::Vulnerable)),
            (
                "Vulnerable: Clear CPU buffers attempted, no microcode; SMT Host state unknown\n",
                Some(State::Vulnerable),
            ),
            ("Processor vulnerable\n", Some(State::Vulnerable)),
            ("Unknown: running under hypervisor", Some(State::Unknown)),
            ("\n", None),
            ("mitigated\n", None),
        ] {
            assert_eq!(parse_state(text), want, "{text:?}");
        }
    }
}
