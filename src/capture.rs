//! What an audit reads of a host, copied: a tree that audits to the same report, for any plan.
//!
//! The patterns in the table of facts say what is read; they are expanded over a [`Root`], which alone opens files of the
//! host. A file becomes a file with the same bytes, links are followed, and of a folder whose entries count the names are
//! kept. What a file cannot hold (an error, a mode, the value of a device) goes to `capture.toml`. What concerns others
//! than the audit stays behind, as `private` says.

mod pattern;
mod private;
mod tree;
mod write;

use std::collections::BTreeSet;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

pub use self::private::Replaced;
pub use self::tree::{TooLarge, Tree};
pub use self::write::{Target, TargetError, WriteError};

use self::private::{Keep, Privacy};
use crate::fact::{self, cgroup, cmdline, cpuidle, kernel, limits, process, vm};
use crate::reading::{Obstacle, Reading};
use crate::root::Root;
use crate::topology;

/// The node's name, which is looked for in what is copied and not copied itself.
const HOSTNAME: &str = "proc/sys/kernel/hostname";

/// A host as far as an audit reads it.
#[derive(Debug)]
pub struct Captured {
    /// Its files and folders, `capture.toml` among them where there is something to record.
    pub tree: Tree,
    /// The errors that are recorded.
    pub errors: Errors,
    /// What was replaced for privacy, and where.
    pub replaced: Replaced,
    /// What a reader should look through before the tree is passed on, as sentences without a full stop.
    pub look_through: Vec<String>,
    /// What a tree cannot hold, so that it audits differently there: a path and why.
    pub left_out: Vec<(String, String)>,
}

/// Errors that reading a host gave and a tree gives again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// All of them.
    pub recorded: usize,
    /// Those for want of permission: root would have read more.
    pub denied: usize,
}

/// Copies what facts, the topology and `plan suggest` read of a host.
///
/// # Errors
/// More than any host has: see [`TooLarge`].
pub fn capture(root: &Root, keeps_hostname: bool) -> Result<Captured, TooLarge> {
    let node = if keeps_hostname { None } else { root.read(HOSTNAME).value().cloned() };
    let mut capture = Capture {
        root,
        boot_line: root.read(cmdline::PATH).value().cloned(),
        tree: Tree::default(),
        privacy: Privacy::of_node(node.as_deref()),
        denied: BTreeSet::new(),
        left_out: Vec::new(),
    };
    let patterns = fact::facts().flat_map(|fact| fact.files).chain(topology::FILES).copied();
    for pattern in patterns.collect::<BTreeSet<_>>() {
        match pattern.strip_prefix(cgroup::CGROUPS).and_then(|below| below.strip_prefix("/*/")) {
            Some(name) => capture.control_groups(name)?,
            None => capture.expand(pattern)?,
        }
    }
    capture.kernel_config()?;
    capture.cpus_of_nodes()?;
    capture.finish()
}

struct Capture<'r> {
    root: &'r Root,
    boot_line: Option<String>,
    tree: Tree,
    privacy: Privacy,
    denied: BTreeSet<String>,
    left_out: Vec<(String, String)>,
}

impl Capture<'_> {
    /// Copies a file as far as it may be kept.
    fn file(&mut self, path: &str) -> Result<(), TooLarge> {
        if path == cpuidle::DMA_LATENCY {
            self.device(path);
            return Ok(());
        }
        if path.ends_with("/smp_affinity") && self.root.writable(path) == Some(false) {
            let at = self.at(path);
            self.tree.records.read_only(at);
        }
        let keep = Keep::of(path);
        match keep {
            Keep::Nothing => return Ok(()),
            Keep::Presence => return self.presence(path),
            Keep::BannedCpus if !self.is_irqbalance(path) => return Ok(()),
            _ => {}
        }
        let bytes = match keep {
            Keep::FirstLine(_) => self.root.read_start(path),
            _ => self.root.read_bytes(path),
        };
        match bytes {
            Reading::Value(bytes) => {
                let at = self.at(path);
                let bytes = self.privacy.text(&at, keep.reduce(bytes, self.boot_line.as_deref()));
                self.tree.file(&at, bytes)
            }
            other => self.obstacle(path, &other),
        }
    }

    /// What reading gave instead of a value: recorded, where the tree can give it again.
    fn obstacle<T>(&mut self, path: &str, reading: &Reading<T>) -> Result<(), TooLarge> {
        let Reading::Unreadable(obstacle) = reading else { return Ok(()) };
        let at = self.at(path);
        let is_recorded = match obstacle {
            Obstacle::Errno(errno) => self.tree.records.error(at.clone(), *errno),
            Obstacle::Other(_) => false,
        };
        if is_recorded {
            if obstacle.is_denied() {
                self.denied.insert(at.clone());
            }
            // It is there, and so it is in the listing of its folder.
            return if self.root.exists(path).value().is_some() { self.tree.placeholder(&at) } else { Ok(()) };
        }
        if self.root.list(path).value().is_some() {
            return self.tree.folder(&at);
        }
        self.left_out.push((at, obstacle.to_string()));
        Ok(())
    }

    /// Of a file of which only its being there counts, that.
    fn presence(&mut self, path: &str) -> Result<(), TooLarge> {
        match self.root.exists(path) {
            Reading::Value(()) => {
                let at = self.at(path);
                self.tree.placeholder(&at)
            }
            other => self.obstacle(path, &other),
        }
    }

    fn device(&mut self, path: &str) {
        let at = self.at(path);
        match self.root.read_s32(path) {
            Reading::Value(value) => self.tree.records.s32(at, value),
            Reading::Unreadable(Obstacle::Errno(errno)) if self.tree.records.error(at.clone(), errno) => {
                if Obstacle::Errno(errno).is_denied() {
                    self.denied.insert(at);
                }
            }
            Reading::Unreadable(why) => self.left_out.push((at, why.to_string())),
            Reading::NotExposed | Reading::Unset | Reading::Malformed(_) => {}
        }
    }

    /// Does this file in `/proc/PID` belong to irqbalance?
    fn is_irqbalance(&self, path: &str) -> bool {
        let comm = path.rsplit_once('/').map(|(folder, _)| self.root.read_bytes(&format!("{folder}/comm")));
        comm.as_ref()
            .and_then(Reading::value)
            .is_some_and(|comm| comm.trim_ascii_end() == process::IRQBALANCE.as_bytes())
    }

    /// A file of every control group that the audit walks through, or of those of its own process, and the groups
    /// themselves.
    fn control_groups(&mut self, name: &str) -> Result<(), TooLarge> {
        let own = limits::own_folders(self.root);
        let walked = if limits::OWN_FILES.contains(&name) { Vec::new() } else { cgroup::walk(self.root).folders };
        for folder in walked.into_iter().chain(own).collect::<BTreeSet<_>>() {
            self.names(&folder, |_| false)?;
            self.file(&format!("{folder}/{name}"))?;
        }
        Ok(())
    }

    /// The configuration of the running kernel, as far as facts read it. Not by its pattern, which would copy those of
    /// other kernels too.
    fn kernel_config(&mut self) -> Result<(), TooLarge> {
        let release = self.root.read(kernel::OSRELEASE).parse(fact::parse_word);
        match release.value().and_then(|release| kernel::config_path(release)) {
            Some(path) => self.file(&path),
            None => Ok(()),
        }
    }

    /// The CPUs in the folders of nodes that say in no file which they have: a tree that came to be without either.
    fn cpus_of_nodes(&mut self) -> Result<(), TooLarge> {
        let folder = "sys/devices/system/node";
        for node in self.entries(folder, "node*") {
            let node = format!("{folder}/{node}");
            let is_told =
                ["cpulist", "cpumap"].iter().any(|file| self.root.exists(&format!("{node}/{file}")).value().is_some());
            if !is_told {
                self.expand(&format!("{node}/cpu*/"))?;
            }
        }
        Ok(())
    }

    /// Where a path of the host is in the tree: `..` taken out, which in a tree without links is a matter of spelling,
    /// and private names replaced.
    fn at(&mut self, path: &str) -> String {
        let mut components: Vec<&str> = Vec::new();
        for component in path.split('/') {
            if component == ".." {
                components.pop();
            } else {
                components.push(component);
            }
        }
        self.privacy.path(&components.join("/"))
    }

    fn finish(mut self) -> Result<Captured, TooLarge> {
        if process::is_unmarked_container(self.root) {
            self.tree.records.container();
        }
        let mut look_through = self.boot_line.as_deref().map_or_else(Vec::new, private::look_through);
        let named_by_address =
            self.entries(topology::NET, "*").into_iter().filter(|name| private::is_named_by_address(name));
        look_through.extend(named_by_address.map(|name| format!("interface {name} has its MAC address for a name")));
        let errors = Errors { recorded: self.tree.records.errors().len(), denied: self.denied.len() };
        // An error of a folder covers what lies below: right where nothing below can be read, which is not so for a
        // folder that may be gone through and not listed.
        let hidden = self.tree.hidden().map(|path| (path, "lies in a folder that cannot be listed".to_owned()));
        self.left_out.extend(hidden.collect::<Vec<_>>());
        self.tree.finish()?;
        Ok(Captured { tree: self.tree, errors, replaced: self.privacy.replaced, look_through, left_out: self.left_out })
    }
}

impl Keep {
    /// What is kept of a file's bytes, on a host with this boot line.
    fn reduce(self, bytes: Vec<u8>, boot_line: Option<&str>) -> Vec<u8> {
        match self {
            Keep::Whole => bytes,
            Keep::Nothing | Keep::Presence => Vec::new(),
            Keep::TaskFlags => private::task_flags_of(&bytes),
            Keep::Lines(names) => private::lines_of(&bytes, names),
            Keep::FirstLine(name) => {
                private::lines_of(&bytes, &[name]).split_inclusive(|&b| b == b'\n').next().unwrap_or_default().to_vec()
            }
            Keep::OfBootLine => private::variables_on(boot_line, &bytes),
            Keep::BannedCpus => private::variables_of(&bytes, &process::BANNED_VARIABLES),
            Keep::DefaultRoutes => private::default_routes_of(&bytes),
            Keep::Swaps => vm::reduce_swaps(&String::from_utf8_lossy(&bytes)).into_bytes(),
            Keep::Config => kernel::reduce_config(&String::from_utf8_lossy(&bytes)).into_bytes(),
            // What is no gzip of a text is none in the tree either.
            Keep::CompressedConfig => match kernel::decompress_config(&bytes) {
                Reading::Value(config) => compressed(&kernel::reduce_config(&config)).unwrap_or(bytes),
                _ => bytes,
            },
        }
    }
}

/// A gzip of a text, without a time in it.
fn compressed(text: &str) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).ok()?;
    encoder.finish().ok()
}
