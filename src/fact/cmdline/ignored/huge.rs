//! `hugepages=`, `hugepagesz=` and `default_hugepagesz=`, whose order counts.
//!
//! Source: `hugepages_setup`, `hugepagesz_setup` and `default_hugepagesz_setup` in mm/hugetlb.c of Linux 5.8 and newer.

use std::collections::BTreeSet;

use super::{Fate, Look};
use crate::fact::cmdline::{BootLine, Param};
use crate::fact::host::quoted;
use crate::reading::Reading;

const FOLDER: &str = "sys/kernel/mm/hugepages";
/// How many pages of each size there are.
pub(super) const COUNTS: &str = "sys/kernel/mm/hugepages/hugepages-*/nr_hugepages";

/// The default size of x86-64 and of arm64 with pages of 4 KiB, in KiB.
const USUAL_DEFAULT: u64 = 2048;

/// What a count of pages is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// The default size, which the line may yet name.
    Default,
    /// So many KiB.
    Kib(u64),
}

/// What is to be found out of each occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The kernel takes it.
    Taken,
    /// So many pages of a size are asked for; none of a default size that is not known.
    Count(Option<u64>, u64),
    /// It is not taken, or not as it was meant.
    Ignored(String),
}

/// What becomes of each occurrence of the three parameters, by its place on the line.
pub(super) fn replay(look: &mut Look<'_, '_>, line: &BootLine) -> Vec<(usize, Fate)> {
    let listing = look.list(FOLDER);
    let sizes = listing.as_ref().map(|listing| {
        let kib = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
        listing.entries.iter().filter_map(|entry| kib(&entry.name)).collect::<BTreeSet<u64>>()
    });
    let fates = order(line, sizes.value()).into_iter().map(|(at, order)| {
        let fate = match order {
            Order::Ignored(why) => Fate::Ignored(why),
            Order::Taken if sizes.value().is_some() => Fate::Shown,
            Order::Taken => Fate::open(FOLDER, &sizes),
            Order::Count(None, _) => Fate::Taken,
            Order::Count(Some(kib), wanted) => counted(look, kib, wanted),
        };
        (at, fate)
    });
    fates.collect()
}

fn counted(look: &mut Look<'_, '_>, kib: u64, wanted: u64) -> Fate {
    let path = format!("{FOLDER}/hugepages-{kib}kB/nr_hugepages");
    match look.read(&path).parse(|text| crate::fact::trim(text).parse::<u64>()) {
        Reading::Value(there) if there >= wanted => Fate::Shown,
        Reading::Value(there) => Fate::Ignored(format!(
            "there are {there} pages of {kib} kB: memory ran short, or they were given back since"
        )),
        other => Fate::open(&path, &other),
    }
}

/// The occurrences in their order, on a kernel that has these sizes (none: not known).
fn order(line: &BootLine, sizes: Option<&BTreeSet<u64>>) -> Vec<(usize, Order)> {
    let mut found: Vec<(usize, Order)> = Vec::new();
    let default = default_size(line, sizes);
    let mut seen: Vec<u64> = Vec::new();
    let mut has_default = false;
    // The last size that was taken, and the one that was refused since.
    let mut last = Size::Default;
    let mut refused_size: Option<&Param> = None;
    let mut counted: Option<Size> = None;
    for (at, param) in line.params().iter().enumerate() {
        let value = param.value.as_deref().unwrap_or_default();
        let order = if param.is("hugepages") {
            // A size that was refused takes one count with it, and no more.
            match (refused_size.take(), count(value)) {
                (Some(size), _) => {
                    Order::Ignored(format!("it follows {}, which the kernel refuses", quoted(&size.to_string())))
                }
                (_, None) => {
                    Order::Ignored("the kernel refuses the value: it takes a number, or one a node".to_owned())
                }
                (None, Some(_)) if counted == Some(last) => {
                    Order::Ignored("it is given twice without hugepagesz= between, and the first counts".to_owned())
                }
                (None, Some(n)) => {
                    counted = Some(last);
                    match last {
                        Size::Default => Order::Count(default, n),
                        Size::Kib(kib) => Order::Count(Some(kib), n),
                    }
                }
            }
        } else if param.is("hugepagesz") || param.is("default_hugepagesz") {
            let is_default = param.is("default_hugepagesz");
            let taken = match size(value, sizes) {
                Ok(_) if is_default && has_default => Err("it is given twice, and the first counts".to_owned()),
                Ok(kib) if !is_default && seen.contains(&kib) => {
                    Err("the size is given twice, and the first counts".to_owned())
                }
                other => other,
            };
            match taken {
                Err(why) => {
                    refused_size = Some(param);
                    Order::Ignored(why)
                }
                Ok(kib) => {
                    refused_size = None;
                    last = Size::Kib(kib);
                    if is_default {
                        has_default = true;
                    } else {
                        seen.push(kib);
                    }
                    without_a_count(line, at, is_default)
                }
            }
        } else {
            continue;
        };
        found.push((at, order));
    }
    found
}

/// A count that stands before its size counts pages of the default size, and of the size that was meant there are none.
fn without_a_count(line: &BootLine, at: usize, is_default: bool) -> Order {
    let params = line.params();
    let is_size = |param: &&Param| param.is("hugepagesz") || param.is("default_hugepagesz");
    let follows = params.iter().skip(at + 1).take_while(|param| !is_size(param)).any(|param| param.is("hugepages"));
    let before = params.iter().take(at).rev().take_while(|param| !is_size(param)).find(|param| param.is("hugepages"));
    let is_first = !params.iter().take(at).any(|param| is_size(&param));
    match before {
        Some(count) if !is_default && !follows && is_first => Order::Ignored(format!(
            "no hugepages= follows it, and {} before it counts pages of the default size",
            quoted(&count.to_string())
        )),
        _ => Order::Taken,
    }
}

fn default_size(line: &BootLine, sizes: Option<&BTreeSet<u64>>) -> Option<u64> {
    let named =
        line.all("default_hugepagesz").find_map(|param| size(param.value.as_deref().unwrap_or_default(), sizes).ok());
    named.or_else(|| Some(USUAL_DEFAULT).filter(|usual| sizes.is_some_and(|sizes| sizes.contains(usual))))
}

/// A size in KiB that the host has, as far as that is known.
///
/// # Errors
/// Why it is none.
fn size(value: &str, sizes: Option<&BTreeSet<u64>>) -> Result<u64, String> {
    let kib = kib(value).ok_or_else(|| "the kernel refuses the value: it takes a size such as 1G".to_owned())?;
    match sizes {
        Some(sizes) if !sizes.contains(&kib) => {
            let known: Vec<String> = sizes.iter().map(|size| format!("{size} kB")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(format!("this host has no huge pages of that size: it has {known}"))
        }
        _ => Ok(kib),
    }
}

/// `memparse`: a number with a letter for its unit, here in KiB; less than that is no size of a page.
fn kib(value: &str) -> Option<u64> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let shift = match unit.chars().next().map(|c| c.to_ascii_lowercase()) {
        None => return (number >= 1024).then_some(number / 1024),
        Some('k') => 0,
        Some('m') => 10,
        Some('g') => 20,
        Some('t') => 30,
        Some(_) => return None,
    };
    number.checked_mul(1 << shift).filter(|kib| *kib > 0)
}

/// How many pages are asked for: a number, or from 5.16 on one a node (`0:2,1:2`).
fn count(value: &str) -> Option<u64> {
    let number = |text: &str| text.parse::<u64>().ok();
    if !value.contains(':') {
        return number(value);
    }
    value.split(',').map(|part| part.split_once(':').and_then(|(node, n)| number(node).and(number(n)))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Vec<String> {
        let sizes = BTreeSet::from([2048, 1_048_576]);
        let line = BootLine::parse(line).unwrap();
        let shown = |order: Order| match order {
            Order::Taken => "taken".to_owned(),
            Order::Count(kib, n) => format!("{n} of {}", kib.unwrap_or_default()),
            Order::Ignored(why) => why.split(':').next().unwrap_or_default().to_owned(),
        };
        order(&line, Some(&sizes)).into_iter().map(|(at, order)| format!("{at} {}", shown(order))).collect()
    }

    #[test]
    fn a_count_is_for_the_size_before_it() {
        assert_eq!(shown("hugepages=512 hugepagesz=1G hugepages=4"), ["0 512 of 2048", "1 taken", "2 4 of 1048576"]);
        assert_eq!(shown("default_hugepagesz=1G hugepages=4"), ["0 taken", "1 4 of 1048576"]);
        assert_eq!(shown("hugepages=4 default_hugepagesz=1G"), ["0 4 of 1048576", "1 taken"]);
        assert_eq!(
            shown("default_hugepagesz=1G hugepagesz=1G hugepages=0:2,1:2"),
            ["0 taken", "1 taken", "2 4 of 1048576"]
        );
        assert_eq!(
            shown("hugepages=4 hugepagesz=1G"),
            ["0 4 of 2048", "1 no hugepages= follows it, and `hugepages=4` before it counts pages of the default size"]
        );
    }

    #[test]
    fn what_the_kernel_does_not_take() {
        assert_eq!(
            shown("hugepagesz=3M hugepages=4"),
            ["0 this host has no huge pages of that size", "1 it follows `hugepagesz=3M`, which the kernel refuses"]
        );
        assert_eq!(
            shown("hugepages=4 hugepages=8"),
            ["0 4 of 2048", "1 it is given twice without hugepagesz= between, and the first counts"]
        );
        assert_eq!(
            shown("hugepagesz=2M hugepages=4 hugepagesz=2M hugepages=8")[2],
            "2 the size is given twice, and the first counts"
        );
        assert_eq!(
            shown("default_hugepagesz=1G default_hugepagesz=2M")[1],
            "1 it is given twice, and the first counts"
        );
        assert_eq!(
            shown("default_hugepagesz=2M default_hugepagesz=1G hugepages=2 hugepages=4")[2..],
            ["2 it follows `default_hugepagesz=1G`, which the kernel refuses", "3 4 of 2048"]
        );
        assert_eq!(shown("hugepages=many"), ["0 the kernel refuses the value"]);
        assert_eq!(shown("hugepagesz"), ["0 the kernel refuses the value"]);
    }

    #[test]
    fn sizes() {
        assert_eq!(kib("1G"), Some(1 << 20));
        assert_eq!(kib("2M"), Some(2048));
        assert_eq!(kib("64k"), Some(64));
        assert_eq!(kib("2097152"), Some(2048));
        for none in ["", "G", "0", "1X", "99999999999T"] {
            assert_eq!(kib(none), None, "{none}");
        }
    }
}
