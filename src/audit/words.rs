//! What was found, in words.

use std::collections::{BTreeSet, HashMap};

use crate::cpuset::CpuSet;
use crate::fact::{Doubt, Member, Value, count};
use crate::reading::Reading;

/// How many members of a family a text names before it counts the rest.
const NAMED: usize = 6;

/// How many groups are shown before the rest is counted: a host has thousands of lines, and each may show another thing.
const GROUPS: usize = 12;

/// `CPUs 21-23: not exposed`: members that show the same stand together.
pub(super) fn grouped(shown: &[(Option<Member>, String)]) -> String {
    let mut groups: Vec<(&str, CpuSet, Vec<&Member>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (member, text) in shown {
        let at = *places.entry(text).or_insert(groups.len());
        if at == groups.len() {
            groups.push((text, CpuSet::new(), Vec::new()));
        }
        match member {
            Some(Member::Cpu(cpu)) => groups[at].1.insert(*cpu),
            Some(line @ Member::Line { .. }) => groups[at].2.push(line),
            None => {}
        }
    }
    let rest = groups.len().saturating_sub(GROUPS);
    let mut texts = Vec::new();
    for (text, cpus, lines) in groups.into_iter().take(GROUPS) {
        if cpus.is_empty() && lines.is_empty() {
            texts.push(text.to_owned());
        } else if cpus.is_empty() {
            let rest = lines.len().saturating_sub(NAMED);
            let mut named = lines.into_iter().take(NAMED).map(Member::to_string).collect::<Vec<_>>().join(", ");
            if rest > 0 {
                named = format!("{named} and {rest} more");
            }
            texts.push(format!("{named} on {text}"));
        } else {
            texts.push(format!("{text} on {}", cpu_names(&cpus)));
        }
    }
    if rest > 0 {
        texts.push(format!("{rest} more"));
    }
    texts.join("; ")
}

/// What is not known, and why: members of which the same is not known stand together behind the first one's file.
pub(super) fn doubts(open: &[(Option<Member>, Doubt)]) -> String {
    let mut groups: Vec<(&Doubt, Vec<&Member>)> = Vec::new();
    for (member, doubt) in open {
        match groups.iter_mut().find(|(first, _)| first.reason == doubt.reason && member.is_some()) {
            Some((_, members)) => members.extend(member),
            None => groups.push((doubt, member.iter().collect())),
        }
    }
    let text = |(doubt, members): (&Doubt, Vec<&Member>)| {
        let cpus: CpuSet =
            members.iter().filter_map(|m| if let Member::Cpu(cpu) = m { Some(*cpu) } else { None }).collect();
        match members.len() {
            0 | 1 => doubt.to_string(),
            n if cpus.is_empty() => format!("{doubt} ({} in all)", count(n, "line")),
            _ => format!("{doubt} ({})", cpu_names(&cpus)),
        }
    };
    groups.into_iter().map(text).collect::<Vec<_>>().join("; ")
}

fn cpu_names(cpus: &CpuSet) -> String {
    format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" })
}

/// One line avoids, two lines avoid.
pub(super) fn plural_verb(verb: &str, n: usize) -> &str {
    if n == 1 { verb } else { verb.strip_suffix('s').unwrap_or(verb) }
}

/// Words that are counted: as many as a sentence bears, and how many there are beside.
pub(super) fn named(words: &BTreeSet<String>) -> String {
    match words.len().saturating_sub(NAMED) {
        0 if words.is_empty() => "none".to_owned(),
        0 => words.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        rest => {
            format!("{} and {rest} more", words.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", "))
        }
    }
}

pub(super) fn value(reading: &Reading<Value>) -> String {
    match reading {
        Reading::Value(value) => value.to_string(),
        Reading::Unset => "unset".to_owned(),
        other => Doubt::of("", other).map(|doubt| doubt.reason).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(irq: u32) -> Member {
        Member::Line { irq, handlers: "eth0".to_owned(), can_be_moved: true }
    }

    #[test]
    fn members_that_show_the_same_stand_together() {
        let cpu = |cpu| Some(Member::Cpu(cpu));
        let shown =
            [(cpu(2), "powersave".to_owned()), (cpu(3), "ondemand".to_owned()), (cpu(4), "powersave".to_owned())];
        assert_eq!(grouped(&shown), "powersave on CPUs 2,4; ondemand on CPU 3");
        assert_eq!(grouped(&[(None, "always".to_owned())]), "always");
        assert_eq!(
            grouped(&[(Some(line(5)), "2".to_owned()), (Some(line(7)), "2".to_owned())]),
            "line 5 (eth0), line 7 (eth0) on 2"
        );
        let many: Vec<_> = (0..20).map(|irq| (Some(line(irq)), "2".to_owned())).collect();
        assert!(grouped(&many).ends_with("line 5 (eth0) and 14 more on 2"));
        let various: Vec<_> = (0..20).map(|irq| (Some(line(irq)), irq.to_string())).collect();
        assert!(grouped(&various).ends_with("; line 11 (eth0) on 11; 8 more"), "{}", grouped(&various));
    }

    #[test]
    fn words_are_named_and_counted() {
        let words = |n: usize| named(&(0..n).map(|i| format!("w{i}")).collect());
        assert_eq!((words(0), words(2)), ("none".to_owned(), "w0, w1".to_owned()));
        assert!(words(9).ends_with("w5 and 3 more"));
    }

    #[test]
    fn numbers_and_verbs_agree() {
        assert_eq!(format!("{} {}", count(1, "line"), plural_verb("avoids", 1)), "1 line avoids");
        assert_eq!(format!("{} {}", count(2, "line"), plural_verb("avoids", 2)), "2 lines avoid");
    }
}
