//! Patterns of paths, expanded over a host.
//!
//! `*` stands for a part of one name. Numbers stand where the kernel puts numbers (`proc/*`, `proc/irq/*`, `cpu*`, `node*`,
//! `state*`), so that `cpufreq` is no CPU. The names that a `*` matched are kept, whether something below them is copied
//! or not: that a line or an interface is listed is an answer too.

use super::{Capture, TooLarge};
use crate::reading::Reading;
use crate::root::Entry;

impl Capture<'_> {
    /// Copies what a pattern matches.
    pub(super) fn expand(&mut self, pattern: &str) -> Result<(), TooLarge> {
        // The configurations of kernels that do not run are nobody's business.
        if pattern == "boot/config-*" {
            return Ok(());
        }
        if let Some((above, below)) = pattern.split_once("/../") {
            // The folder that `..` leads out of must be there to be gone through.
            return self.expand_from("", above, &format!("/../{below}"));
        }
        self.expand_from("", pattern, "")
    }

    /// Expands `pattern` below the folder `done`, where nothing varies any more; each match then has `suffix` added.
    fn expand_from(&mut self, done: &str, pattern: &str, suffix: &str) -> Result<(), TooLarge> {
        let Some(star) = pattern.find('*') else {
            return self.matched(&joined(done, pattern), suffix);
        };
        let (literal, rest) = pattern[..star]
            .rsplit_once('/')
            .map_or(("", pattern), |(folder, _)| (folder, &pattern[folder.len() + 1..]));
        let folder = joined(done, literal);
        let (component, below) =
            rest.split_once('/').map_or((rest, None), |(component, below)| (component, Some(below)));
        if below == Some("") {
            return self.names(&folder, |entry| {
                (entry.is_dir || entry.is_link) && stands_for(&folder, component, &entry.name)
            });
        }
        self.names(&folder, |entry| below.is_some() && stands_for(&folder, component, &entry.name))?;
        for name in self.entries(&folder, component) {
            let path = joined(&folder, &name);
            match below {
                Some(below) => self.expand_from(&path, below, suffix)?,
                None => self.matched(&path, suffix)?,
            }
        }
        Ok(())
    }

    fn matched(&mut self, path: &str, suffix: &str) -> Result<(), TooLarge> {
        if let Some(folder) = path.strip_suffix('/') {
            return self.presence_of_folder(folder);
        }
        if suffix.is_empty() {
            return self.file(path);
        }
        self.presence_of_folder(path)?;
        self.file(&format!("{path}{suffix}"))
    }

    fn presence_of_folder(&mut self, path: &str) -> Result<(), TooLarge> {
        match self.root.list(path) {
            Reading::Value(_) => {
                let at = self.at(path);
                self.tree.folder(&at)
            }
            other => self.obstacle(path, &other),
        }
    }

    /// Keeps a folder and the names of those of its entries that count.
    pub(super) fn names(&mut self, folder: &str, counts: impl Fn(&Entry) -> bool) -> Result<(), TooLarge> {
        let listing = match self.root.list(folder) {
            Reading::Value(listing) => listing,
            other => return self.obstacle(folder, &other),
        };
        let at = self.at(folder);
        self.tree.folder(&at)?;
        if listing.cut {
            self.left_out.push((at, "more entries than are listed".to_owned()));
        }
        for entry in listing.entries.iter().filter(|entry| counts(entry)) {
            let path = joined(folder, &entry.name);
            let at = self.at(&path);
            // A link is followed where its target can be listed; else it is a name.
            if entry.is_dir || (entry.is_link && self.root.list(&path).value().is_some()) {
                self.tree.folder(&at)?;
            } else {
                self.tree.placeholder(&at)?;
            }
        }
        Ok(())
    }

    /// The names in a folder that a component of a pattern matches.
    pub(super) fn entries(&self, folder: &str, component: &str) -> Vec<String> {
        let listing = self.root.list(folder).value().cloned().unwrap_or_default();
        let names = listing.entries.iter().map(|entry| entry.name.clone());
        names.filter(|name| stands_for(folder, component, name)).collect()
    }
}

/// Does a component of a pattern stand for this name in this folder?
fn stands_for(folder: &str, component: &str, name: &str) -> bool {
    let Some((prefix, suffix)) = component.split_once('*') else { return component == name };
    let Some(varies) = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)) else { return false };
    let is_numbered = match prefix {
        "" => matches!(folder, "proc" | "proc/irq"),
        _ => matches!(prefix, "cpu" | "node" | "state"),
    };
    !is_numbered || (!varies.is_empty() && varies.bytes().all(|b| b.is_ascii_digit()))
}

fn joined(folder: &str, below: &str) -> String {
    match (folder, below) {
        ("", path) | (path, "") => path.to_owned(),
        _ => format!("{folder}/{below}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_where_the_kernel_puts_numbers() {
        for (folder, component, name, does) in [
            ("proc", "*", "903", true),
            ("proc", "*", "self", false),
            ("proc/irq", "*", "default_smp_affinity", false),
            ("sys/devices/system/cpu", "cpu*", "cpu12", true),
            ("sys/devices/system/cpu", "cpu*", "cpufreq", false),
            ("sys/devices/system/cpu", "cpu*", "cpu", false),
            ("sys/devices/system/cpu/cpu0/cpuidle", "state*", "state0", true),
            ("sys/class/net", "*", "enp1s0", true),
            ("proc/irq/24", "*", "eth0", true),
            ("sys/kernel/mm/transparent_hugepage", "hugepages-*", "hugepages-64kB", true),
            ("sys/kernel/mm/transparent_hugepage", "hugepages-*", "khugepaged", false),
        ] {
            assert_eq!(stands_for(folder, component, name), does, "{folder}/{component} {name}");
        }
    }
}
