//! Memory: huge pages that appear by themselves, and what the process may lock.
//!
//! Sources: Documentation/admin-guide/mm/transhuge.rst, mm/huge_memory.c and mm/mlock.c of Linux 6.12, getrlimit(2),
//! capabilities(7), user_namespaces(7).

use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read, Value};
use crate::reading::{NotUnderstood, Reading, quote};
use crate::units::Bytes;

pub(super) const MM: &str = "sys/kernel/mm";
const THP: &str = "sys/kernel/mm/transparent_hugepage";
/// The mode of transparent huge pages for all sizes that have none of their own.
pub(super) const THP_ENABLED: &str = "sys/kernel/mm/transparent_hugepage/enabled";
pub(super) const LIMITS: &str = "proc/self/limits";
pub(super) const STATUS: &str = "proc/self/status";
pub(super) const UID_MAP: &str = "proc/self/uid_map";

/// `CAP_IPC_LOCK` of include/uapi/linux/capability.h: a process that holds it may lock any amount.
const CAP_IPC_LOCK: u32 = 14;

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "thp.enabled",
        kind: Kind::Word,
        files: &[THP_ENABLED, "sys/kernel/mm/transparent_hugepage/hugepages-*/enabled", "sys/kernel/mm/"],
        about: "the effective mode of anonymous transparent huge pages (always, madvise, never): per-size files override the top level; never where the kernel has none",
        read: Read::One(thp_enabled),
    },
    Fact {
        name: "thp.defrag",
        kind: Kind::Word,
        files: &["sys/kernel/mm/transparent_hugepage/defrag"],
        about: "whether a page fault stalls to make a huge page (always, defer, defer+madvise, madvise, never)",
        read: Read::One(thp_defrag),
    },
    Fact {
        name: "limits.memlock",
        kind: Kind::Bytes,
        files: &[LIMITS, STATUS, UID_MAP],
        about: "what the audit's own process may lock: its soft limit, or anything with CAP_IPC_LOCK in the initial user namespace",
        read: Read::One(memlock),
    },
];

/// The bracketed word of a choice: `always [madvise] never`.
///
/// # Errors
/// Not exactly one word in brackets.
pub(crate) fn parse_choice(text: &str) -> Result<String, NotUnderstood> {
    let chosen = |word: &&str| word.starts_with('[') && word.ends_with(']') && word.len() > 2;
    let mut words = text.split(|c: char| c.is_ascii_whitespace() || c == '\0').filter(chosen);
    match (words.next(), words.next()) {
        (Some(word), None) => Ok(word[1..word.len() - 1].to_owned()),
        _ => Err(NotUnderstood),
    }
}

fn thp_enabled(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let listing = match look.list(THP) {
        Reading::Value(listing) => listing,
        Reading::NotExposed => {
            let answer = host.root.exists(MM).map(|()| {
                look.note("this kernel has no transparent huge pages");
                "never".to_owned()
            });
            return look.word(answer);
        }
        other => return look.word(other.map(|_| String::new())),
    };
    let top = look.read(THP_ENABLED).parse(parse_choice);
    let mut sizes: Vec<&str> =
        listing.entries.iter().map(|entry| entry.name.as_str()).filter(|name| name.starts_with("hugepages-")).collect();
    sizes.sort_by_key(|name| (name.len(), *name));

    let mut modes = Vec::new();
    for size in sizes {
        let path = format!("{THP}/{size}/enabled");
        let own = look.read_if_there(&path).parse(parse_choice);
        match own.value().map(String::as_str) {
            // Sizes below the smallest that anonymous memory can have lack the file.
            None if own == Reading::NotExposed => {}
            Some("inherit") => modes.push((size.to_owned(), top.clone())),
            _ => modes.push((size.to_owned(), own)),
        }
    }
    if modes.is_empty() {
        return look.word(top.and_then(|mode| known_mode(&mode)));
    }
    let effective = modes
        .iter()
        .map(|(_, mode)| mode.clone().and_then(|mode| known_mode(&mode)))
        .max_by_key(strength)
        .unwrap_or(Reading::NotExposed);
    if effective != top {
        let decisive: Vec<&str> =
            modes.iter().filter(|(_, mode)| *mode == effective).map(|(size, _)| size.as_str()).collect();
        let shown = super::Doubt::of("", &effective)
            .map_or_else(|| effective.value().cloned().unwrap_or_default(), |doubt| doubt.reason);
        let top = top.value().map_or("not readable", String::as_str);
        look.note(format!("the top level is {top}, but {} decides: {shown}", list_of(&decisive)));
    }
    look.word(effective)
}

/// A few names, and how many more there are.
fn list_of(names: &[&str]) -> String {
    match names {
        [] => "no size".to_owned(),
        [one] => (*one).to_owned(),
        [one, rest @ ..] => format!("{one} (and {} more)", rest.len()),
    }
}

fn known_mode(mode: &str) -> Reading<String> {
    if matches!(mode, "always" | "madvise" | "never") {
        Reading::Value(mode.to_owned())
    } else {
        Reading::Malformed(quote(mode))
    }
}

/// `always` decides whatever the others say; below it, one that cannot be judged might be `always`.
fn strength(mode: &Reading<String>) -> u8 {
    match mode.value().map(String::as_str) {
        Some("always") => 3,
        None => 2,
        Some("madvise") => 1,
        Some(_) => 0,
    }
}

fn thp_defrag(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(&format!("{THP}/defrag")).parse(parse_choice);
    look.word(reading)
}

fn memlock(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.host.text(LIMITS).parse(|text| parse_limit(text, "Max locked memory"));
    if matches!(reading, Reading::Malformed(_)) {
        look.note_unknown("no row `Max locked memory` with two values");
    }
    let shown = reading.value().map(|limit| format!("Max locked memory {} bytes", limit.values()));
    match shown {
        Some(shown) => look.source(super::Source::summary(LIMITS, shown)),
        None => look.source(super::Source::of(LIMITS, &host.text(LIMITS))),
    }
    let reading = reading.and_then(|limit| {
        look.note(format!("limit of the audit's own process: {}", limit_text(limit)));
        if limit.soft == Bytes::UNLIMITED {
            return Reading::Value(limit.soft);
        }
        if let Reading::Value(true) = holds(&mut look, CAP_IPC_LOCK) {
            match is_in_initial_user_namespace(&mut look) {
                Reading::Value(true) => {
                    look.note("CAP_IPC_LOCK lifts it; a service without the capability will feel it");
                    return Reading::Value(Bytes::UNLIMITED);
                }
                Reading::Value(false) => look.note("CAP_IPC_LOCK of a user namespace does not lift it"),
                other => look.gap(UID_MAP, &other),
            }
        }
        Reading::Value(limit.soft)
    });
    look.answer(reading.map(Value::Bytes))
}

/// Both numbers in plain bytes, as `/proc` has them.
fn limit_text(limit: Limit) -> String {
    let plain = |bytes: Bytes| if bytes == Bytes::UNLIMITED { bytes.to_string() } else { bytes.0.to_string() };
    if limit.hard > limit.soft {
        format!("{} bytes (the hard limit allows {})", plain(limit.soft), plain(limit.hard))
    } else if limit.soft == Bytes::UNLIMITED {
        plain(limit.soft)
    } else {
        format!("{} bytes", plain(limit.soft))
    }
}

/// A row of `/proc/PID/limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// What is in force.
    pub(super) soft: Bytes,
    /// How far the process may raise it.
    pub(super) hard: Bytes,
}

impl Limit {
    /// Both numbers as the row has them, without its unit.
    pub(super) fn values(self) -> String {
        let plain = |bytes: Bytes| if bytes == Bytes::UNLIMITED { bytes.to_string() } else { bytes.0.to_string() };
        format!("{} {}", plain(self.soft), plain(self.hard))
    }
}

/// Finds a row by its name and reads its two values; names hold blanks, so that only the rest of the row is split.
///
/// # Errors
/// No such row, or values that are neither `unlimited` nor decimal.
pub(super) fn parse_limit(text: &str, name: &str) -> Result<Limit, NotUnderstood> {
    let row = text.lines().find_map(|line| line.strip_prefix(name)).ok_or(NotUnderstood)?;
    let mut values = row.split_ascii_whitespace();
    let mut value = || match values.next() {
        Some("unlimited") => Ok(Bytes::UNLIMITED),
        Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => {
            number.parse().map(Bytes).map_err(|_| NotUnderstood)
        }
        _ => Err(NotUnderstood),
    };
    Ok(Limit { soft: value()?, hard: value()? })
}

/// Does the process hold a capability, by its number? Without a status file the limit alone decides; one that cannot be read or
/// understood leaves a gap.
pub(super) fn holds(look: &mut Look<'_, '_>, capability: u32) -> Reading<bool> {
    let status = look.host.text(STATUS);
    let effective = status.clone().parse(|text| parse_capabilities(text, "CapEff"));
    match &effective {
        Reading::Value(bits) => look.source(super::Source::summary(STATUS, format!("CapEff {bits:016x}"))),
        Reading::NotExposed => {}
        other => {
            look.source(super::Source::of(STATUS, &status));
            look.gap(STATUS, other);
        }
    }
    effective.map(|bits| bits & (1 << capability) != 0)
}

/// A capability set of `/proc/PID/status`, in hex.
fn parse_capabilities(text: &str, name: &str) -> Result<u64, NotUnderstood> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).ok_or(NotUnderstood)?;
    u64::from_str_radix(super::trim(value), 16).map_err(|_| NotUnderstood)
}

/// Is the process in the initial user namespace, where capabilities lift the limits of the kernel?
pub(super) fn is_in_initial_user_namespace(look: &mut Look<'_, '_>) -> Reading<bool> {
    look.read(UID_MAP).parse(parse_uid_map)
}

/// Is it the map of the initial user namespace: the identity over all ids?
///
/// # Errors
/// Text that is no map.
fn parse_uid_map(text: &str) -> Result<bool, NotUnderstood> {
    let numbers: Vec<u64> =
        text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(|_| NotUnderstood)?;
    if numbers.is_empty() || !numbers.len().is_multiple_of(3) {
        return Err(NotUnderstood);
    }
    Ok(numbers == [0, 0, u64::from(u32::MAX)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bracketed_choices() {
        assert_eq!(parse_choice("always [madvise] never\n").as_deref(), Ok("madvise"));
        assert_eq!(parse_choice("[always] madvise never").as_deref(), Ok("always"));
        assert_eq!(parse_choice("always defer defer+madvise [madvise] never\n").as_deref(), Ok("madvise"));
        assert_eq!(parse_choice("always [inherit] madvise never\n\0").as_deref(), Ok("inherit"));
        for text in
            ["\n\nasdf fda asdfdsaf\n", "", "always madvise never", "[always] [never]", "[] never", "always [mad vise]"]
        {
            assert_eq!(parse_choice(text), Err(NotUnderstood), "{text:?}");
        }
    }

    #[test]
    fn rows_of_limits() {
        let limit = |text: &str| parse_limit(text, "Max locked memory").map(Limit::values);
        let header = "Limit                     Soft Limit           Hard Limit           Units     \n";
        let row = |values: &str| {
            format!(
                "{header}Max cpu time              unlimited            unlimited            seconds   \nMax locked memory         {values}\n"
            )
        };
        assert_eq!(limit(&row("65536                65536                bytes     ")).as_deref(), Ok("65536 65536"));
        assert_eq!(limit(&row("8388608              unlimited            bytes")).as_deref(), Ok("8388608 unlimited"));
        assert_eq!(
            limit(&row("unlimited            unlimited            bytes     ")).as_deref(),
            Ok("unlimited unlimited")
        );
        for bad in [header.to_owned(), String::new(), row("-1 -1 bytes"), row("8M 8M bytes"), row("8388608")] {
            assert_eq!(limit(&bad), Err(NotUnderstood), "{bad:?}");
        }
    }

    #[test]
    fn user_namespaces_and_capabilities() {
        assert_eq!(parse_uid_map("         0          0 4294967295\n"), Ok(true));
        assert_eq!(parse_uid_map("         0       1000          1\n"), Ok(false));
        assert_eq!(parse_uid_map("0 0 1\n1 100000 65536\n"), Ok(false));
        assert_eq!(parse_uid_map("\n"), Err(NotUnderstood));
        assert_eq!(parse_uid_map("junk"), Err(NotUnderstood));
        assert_eq!(parse_capabilities("Name:\tx\nCapEff:\t0000000000004000\n", "CapEff"), Ok(1 << CAP_IPC_LOCK));
        assert_eq!(parse_capabilities("Name:\tx\n", "CapEff"), Err(NotUnderstood));
    }
}
