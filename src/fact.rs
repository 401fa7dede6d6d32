//! Facts: what the audit knows how to read from a host, by name and type.
//!
//! Kernel knowledge lives here and policy lives in rules. A fact has a name, a type, the files that it reads and one
//! sentence; its reader returns an [`Observation`]: an answer together with the texts that it came from. Readers are
//! split in two everywhere: what to read (through a [`Host`]) and a pure parser of text.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use crate::cpuset::CpuSet;
use crate::reading::{NotUnderstood, Reading, quote};
use crate::units::{Bytes, Micros};

pub mod bench;
pub mod cgroup;
pub mod clocksource;
pub mod cmdline;
pub mod console;
pub mod cpu;
pub mod cpuidle;
pub mod guest;
mod host;
pub mod irq;
pub mod kernel;
pub mod limits;
pub mod memory;
pub mod mitigations;
pub mod net;
pub mod plan;
pub mod power;
pub mod process;
pub mod sched;
pub mod task;
pub mod timer;
pub mod topology;
pub mod vm;
pub mod watchdog;
pub mod workqueue;

pub use host::{Host, Look};

/// What kind of value a fact has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A set of CPUs.
    Cpus,
    /// One word.
    Word,
    /// A set of words.
    Words,
    /// An integer.
    Integer,
    /// A number of bytes, or unlimited.
    Bytes,
    /// Microseconds.
    Micros,
    /// True or false.
    Flag,
}

/// What the members of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// One value a CPU; a rule says which CPUs: `cpu.governor[plan.hot]`.
    Cpu,
    /// One value an interrupt line.
    Line,
}

/// The type of a fact: a kind, and for a family what its members are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// The kind of the value, or of each member's.
    pub kind: Kind,
    /// Set for a family.
    pub per: Option<Per>,
}

impl Type {
    /// As a sentence has it: `a CPU set`.
    pub fn with_article(self) -> String {
        match self.kind {
            Kind::Words if self.per.is_none() => self.to_string(),
            Kind::Bytes | Kind::Micros => self.to_string(),
            Kind::Integer => format!("an {self}"),
            Kind::Cpus | Kind::Word | Kind::Words | Kind::Flag => format!("a {self}"),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Cpus => "CPU set",
            Kind::Word => "word",
            Kind::Words => "words",
            Kind::Integer => "integer",
            Kind::Bytes => "bytes",
            Kind::Micros => "microseconds",
            Kind::Flag => "boolean",
        };
        match self.per {
            None => f.write_str(kind),
            Some(Per::Cpu) => write!(f, "{kind} per CPU"),
            Some(Per::Line) => write!(f, "{kind} per interrupt line"),
        }
    }
}

/// A value of a fact or of a family's member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// See [`Kind::Cpus`].
    Cpus(CpuSet),
    /// See [`Kind::Word`].
    Word(String),
    /// See [`Kind::Words`].
    Words(BTreeSet<String>),
    /// See [`Kind::Integer`].
    Integer(i64),
    /// See [`Kind::Bytes`].
    Bytes(Bytes),
    /// See [`Kind::Micros`].
    Micros(Micros),
    /// See [`Kind::Flag`].
    Flag(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Cpus(set) if set.is_empty() => f.write_str("no CPU"),
            Value::Cpus(set) => write!(f, "{set}"),
            Value::Word(word) => f.write_str(word),
            Value::Words(words) => write!(f, "{} words", words.len()),
            Value::Integer(n) => write!(f, "{n}"),
            Value::Bytes(bytes) => write!(f, "{bytes}"),
            Value::Micros(micros) => write!(f, "{micros}"),
            Value::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

/// Why something could not be judged: the four causes of the verdict `unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The file or folder is absent.
    NotExposed,
    /// No permission.
    Denied,
    /// Text that the reader does not understand.
    Malformed,
    /// Another error, named.
    Unreadable,
}

impl Cause {
    /// As machine formats and reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::NotExposed => "not-exposed",
            Cause::Denied => "denied",
            Cause::Malformed => "malformed",
            Cause::Unreadable => "unreadable",
        }
    }
}

/// A cause and what it befell: `sys/devices/system/cpu/isolated: malformed text "2-5,garbage"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Which of the four.
    pub cause: Cause,
    /// The file or thing that it befell.
    pub what: String,
    /// A lowercase fragment: what the operating system or the text said.
    pub reason: String,
}

impl Doubt {
    /// The doubt that an answer about `what` (a path, a fact) leaves; none if it is a value or simply unset.
    pub fn of<T>(what: &str, reading: &Reading<T>) -> Option<Self> {
        let (cause, reason) = match reading {
            Reading::Value(_) | Reading::Unset => return None,
            Reading::NotExposed => (Cause::NotExposed, "not exposed".to_owned()),
            Reading::Unreadable(obstacle) if obstacle.is_denied() => (Cause::Denied, format!("denied ({obstacle})")),
            Reading::Unreadable(obstacle) => (Cause::Unreadable, obstacle.to_string()),
            Reading::Malformed(text) => (Cause::Malformed, format!("malformed text \"{text}\"")),
        };
        Some(Self { cause, what: what.to_owned(), reason })
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.reason)
    }
}

/// A file that an answer came from, with the text read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Relative to the root.
    pub path: String,
    /// The text as quoted in reports; none when there was none to read.
    pub text: Option<String>,
    /// Why it could not be read, where it is there and could not.
    pub error: Option<String>,
}

impl Source {
    /// The source that a look at a file leaves.
    pub fn of(path: &str, reading: &Reading<String>) -> Self {
        let (text, error) = match reading {
            Reading::Value(text) => (Some(quote(text)), None),
            Reading::Malformed(text) => (Some(text.clone()), Some("not UTF-8 text".to_owned())),
            Reading::Unreadable(obstacle) => (None, Some(obstacle.to_string())),
            Reading::NotExposed | Reading::Unset => (None, None),
        };
        Self { path: path.to_owned(), text, error }
    }

    /// The source that an answer leaves whose value is not a text, or is not one to be shown.
    pub fn unread<T>(path: &str, reading: &Reading<T>) -> Self {
        Self::of(path, &reading.as_ref().map(|_| String::new()))
    }

    /// A source that stands for many files: `proc/irq/*`, `45 lines`.
    pub fn summary(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), text: Some(text), error: None }
    }
}

/// With which verdict a note belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearing {
    /// With any.
    Any,
    /// It says how a thing came to hold.
    Pass,
    /// It says how a thing came not to hold, or not to be known.
    Failure,
    /// It says why a thing is not known.
    Unknown,
}

/// What a reader of the report should know: which mechanism made it so, what the boot line asked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A lowercase fragment.
    pub text: String,
    /// Where it belongs.
    pub bearing: Bearing,
}

/// Something that could not be read and might add to a value, which is then only a lower bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// What it is, and why it could not be read.
    pub doubt: Doubt,
    /// Of a set of CPUs, those that it might add; none: any.
    pub cpus: Option<CpuSet>,
}

/// An answer and where it came from.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The answer.
    pub reading: Reading<Value>,
    /// What might add to the value; a verdict that needs the value to be complete is then unknown.
    pub gap: Option<Gap>,
    /// The files that it came from.
    pub sources: Vec<Source>,
    /// What explains it.
    pub notes: Vec<Note>,
}

/// A member of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A CPU.
    Cpu(u32),
    /// An interrupt line, with the names of its handlers.
    Line {
        /// The number under `/proc/irq`.
        irq: u32,
        /// The names of its handler folders, joined.
        handlers: String,
        /// Can it be given another affinity?
        can_be_moved: bool,
    },
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Member::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Member::Line { irq, handlers, .. } if handlers.is_empty() => write!(f, "line {irq}"),
            Member::Line { irq, handlers, .. } => write!(f, "line {irq} ({handlers})"),
        }
    }
}

/// The members of a family, with what was observed of each.
#[derive(Clone, Debug)]
pub struct Family {
    /// The members in their natural order; [`Reading::NotExposed`] when there is none.
    pub members: Reading<Vec<(Member, Rc<Observation>)>>,
    /// Files and folders that stand for the family as a whole.
    pub sources: Vec<Source>,
    /// Notes on the family as a whole.
    pub notes: Vec<Note>,
}

/// How a fact is read.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// One value.
    One(fn(&Host<'_>) -> Observation),
    /// A family by CPU: the member of one CPU.
    PerCpu(fn(&Host<'_>, u32) -> Observation),
    /// A family by interrupt line.
    PerLine(fn(&Host<'_>) -> Rc<Family>),
}

/// A row of the table of facts.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    /// `area.thing`, after the kernel's own names.
    pub name: &'static str,
    /// The kind of its value, or of each member's.
    pub kind: Kind,
    /// The files that it reads, relative to the root; none for what stands in the plan. `*` is a part of one name that
    /// varies, and below `sys/fs/cgroup` any depth. A pattern that ends in `/` is a folder of which only its being there
    /// counts. `capture` copies what these patterns match, and nothing else.
    pub files: &'static [&'static str],
    /// One sentence for the vocabulary page.
    pub about: &'static str,
    /// The reader.
    pub read: Read,
}

impl Observation {
    /// What keeps the answer from being a value: the file that it befell where the sources tell it, else the fact.
    pub fn doubt(&self, fact: &str) -> Option<Doubt> {
        let is_culprit = |source: &&Source| match &self.reading {
            Reading::NotExposed => source.text.is_none() && source.error.is_none(),
            Reading::Unreadable(obstacle) => source.error.as_ref() == Some(&obstacle.to_string()),
            Reading::Malformed(text) => source.text.as_ref() == Some(text),
            Reading::Value(_) | Reading::Unset => false,
        };
        let culprit = self.sources.iter().find(is_culprit).map_or(fact, |source| source.path.as_str());
        Doubt::of(culprit, &self.reading)
    }
}

impl Fact {
    /// Its type.
    pub fn ty(&self) -> Type {
        let per = match self.read {
            Read::One(_) => None,
            Read::PerCpu(_) => Some(Per::Cpu),
            Read::PerLine(_) => Some(Per::Line),
        };
        Type { kind: self.kind, per }
    }

    /// What it comes to on a host, read once; none for a family.
    pub fn observe(&self, host: &Host<'_>) -> Option<Rc<Observation>> {
        match self.read {
            Read::One(read) => Some(host.observe(self, read)),
            Read::PerCpu(_) | Read::PerLine(_) => None,
        }
    }

    /// What it comes to for one CPU; none unless it has a value per CPU.
    pub fn observe_at(&self, host: &Host<'_>, cpu: u32) -> Option<Observation> {
        match self.read {
            Read::PerCpu(read) => Some(read(host, cpu)),
            Read::One(_) | Read::PerLine(_) => None,
        }
    }

    /// Does it stand in the plan, or follow from it, so that an assertion about it alone says nothing of the host?
    pub fn is_of_plan(&self) -> bool {
        self.name.starts_with("plan.")
    }
}

/// All facts, by area. The single source of the vocabulary page, of did-you-mean and of `rules facts`.
static AREAS: &[&[Fact]] = &[
    plan::FACTS,
    cpu::FACTS,
    cgroup::FACTS,
    cmdline::FACTS,
    irq::FACTS,
    workqueue::FACTS,
    net::FACTS,
    watchdog::FACTS,
    timer::FACTS,
    process::FACTS,
    task::FACTS,
    cpuidle::FACTS,
    power::FACTS,
    memory::FACTS,
    vm::FACTS,
    sched::FACTS,
    kernel::FACTS,
    limits::FACTS,
    clocksource::FACTS,
    topology::FACTS,
    mitigations::FACTS,
    guest::FACTS,
    console::FACTS,
    bench::FACTS,
];

/// All facts, in the order of the vocabulary page.
pub fn facts() -> impl Iterator<Item = &'static Fact> {
    AREAS.iter().copied().flatten()
}

/// The fact of that name.
pub fn find(name: &str) -> Option<&'static Fact> {
    facts().find(|fact| fact.name == name)
}

/// A number and a noun that agrees with it.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `a, b, and 12 more`: the first `most` of some things, and how many are left out.
pub(crate) fn first_few(things: &[impl fmt::Display], most: usize) -> String {
    let mut text: Vec<String> = things.iter().take(most).map(ToString::to_string).collect();
    if things.len() > most {
        text.push(format!("and {} more", things.len() - most));
    }
    text.join(", ")
}

/// One word with blanks, newlines and NULs around it removed.
///
/// # Errors
/// No word, or more than one.
pub(crate) fn parse_word(text: &str) -> Result<String, NotUnderstood> {
    let word = trim(text);
    let is_one = !word.is_empty() && !word.contains(|c: char| c.is_ascii_whitespace() || c == '\0');
    if is_one { Ok(word.to_owned()) } else { Err(NotUnderstood) }
}

/// One line with blanks, newlines and NULs around it removed.
///
/// # Errors
/// No text, or more than one line.
pub(crate) fn parse_line(text: &str) -> Result<String, NotUnderstood> {
    let line = trim(text);
    if line.is_empty() || line.contains('\n') { Err(NotUnderstood) } else { Ok(line.to_owned()) }
}

/// A decimal integer, as sysfs and procfs print it.
pub(crate) fn parse_integer(text: &str) -> Result<i64, std::num::ParseIntError> {
    trim(text).parse()
}

/// A switch, as procfs prints those that are off or on: `0` or `1`.
///
/// # Errors
/// Any other text.
pub(crate) fn parse_switch(text: &str) -> Result<bool, NotUnderstood> {
    match trim(text) {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(NotUnderstood),
    }
}

/// Without the blanks, newlines, CRs and NULs that stand around values in the wild.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_are_area_dot_thing() {
        let mut seen = BTreeSet::new();
        for fact in facts() {
            assert!(seen.insert(fact.name), "{} twice", fact.name);
            let (area, thing) = fact.name.split_once('.').unwrap();
            for part in [area, thing] {
                let well_formed = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
                assert!(well_formed && !part.is_empty(), "{}", fact.name);
            }
        }
    }

    #[test]
    fn every_fact_of_the_host_names_its_files_and_ends_no_sentence_with_a_stop() {
        for fact in facts() {
            assert!(fact.is_of_plan() || !fact.files.is_empty(), "{} names no file", fact.name);
            assert!(fact.files.iter().all(|file| !file.starts_with('/')), "{}", fact.name);
            assert!(!fact.about.is_empty() && !fact.about.ends_with('.'), "{}", fact.name);
        }
    }

    #[test]
    fn words_and_integers() {
        assert_eq!(parse_word("performance\n"), Ok("performance".to_owned()));
        assert_eq!(parse_word("tsc \n\0"), Ok("tsc".to_owned()));
        assert_eq!(parse_word("\n"), Err(NotUnderstood));
        assert_eq!(parse_word("two words\n"), Err(NotUnderstood));
        assert_eq!(parse_integer("-1\n"), Ok(-1));
        assert!(parse_integer("1 2\n").is_err());
    }

    #[test]
    fn switches() {
        assert_eq!((parse_switch("0\n"), parse_switch("1\n")), (Ok(false), Ok(true)));
        for text in ["", "\n", "2\n", "-1\n", "on\n", "0 1\n"] {
            assert_eq!(parse_switch(text), Err(NotUnderstood), "{text:?}");
        }
    }
}
