//! A host as the readers of facts see it: a root, a plan, and each text read once.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::cmdline::BootLine;
use super::kernel::Release;
use super::process::Processes;
use super::{Bearing, Doubt, Fact, Family, Gap, Note, Observation, Source, Value};
use crate::cpuset::CpuSet;
use crate::plan::Plan;
use crate::reading::{Reading, quote};
use crate::root::{Listing, Root};

/// A host under audit for a plan. Every file is read once, so that all rules judge the same text.
pub struct Host<'a> {
    /// Where the files are.
    pub root: &'a Root,
    /// What the host is to run.
    pub plan: &'a Plan,
    texts: RefCell<HashMap<String, Reading<String>>>,
    lines: OnceCell<Rc<Family>>,
    processes: OnceCell<Reading<Processes>>,
    observations: RefCell<BTreeMap<&'static str, Rc<Observation>>>,
    boot_line: OnceCell<Reading<BootLine>>,
    release: OnceCell<Option<Release>>,
    possible: OnceCell<Option<CpuSet>>,
}

impl<'a> Host<'a> {
    /// A host that nothing has been read from yet.
    pub fn new(root: &'a Root, plan: &'a Plan) -> Self {
        Self {
            root,
            plan,
            texts: RefCell::default(),
            lines: OnceCell::new(),
            processes: OnceCell::new(),
            observations: RefCell::default(),
            boot_line: OnceCell::new(),
            release: OnceCell::new(),
            possible: OnceCell::new(),
        }
    }

    /// The text of a file, read at the first call.
    pub fn text(&self, path: &str) -> Reading<String> {
        if let Some(reading) = self.texts.borrow().get(path) {
            return reading.clone();
        }
        let reading = self.root.read(path);
        self.texts.borrow_mut().insert(path.to_owned(), reading.clone());
        reading
    }

    /// Reads a fact of one value, once.
    pub fn observe(&self, fact: &Fact, read: fn(&Host<'_>) -> Observation) -> Rc<Observation> {
        if let Some(observation) = self.observations.borrow().get(fact.name) {
            return Rc::clone(observation);
        }
        let observation = Rc::new(read(self));
        self.observations.borrow_mut().insert(fact.name, Rc::clone(&observation));
        observation
    }

    /// The live interrupt lines, read once.
    pub(crate) fn lines(&self) -> Rc<Family> {
        Rc::clone(self.lines.get_or_init(|| Rc::new(super::irq::read_lines(self))))
    }

    /// The processes that can be seen, read once.
    pub(super) fn processes(&self) -> &Reading<Processes> {
        self.processes.get_or_init(|| Processes::read(self))
    }

    /// The boot line, parsed once.
    pub fn boot_line(&self) -> &Reading<BootLine> {
        self.boot_line.get_or_init(|| self.text(super::cmdline::PATH).parse(BootLine::parse))
    }

    /// The kernel's version, if it is readable.
    pub fn release(&self) -> Option<Release> {
        *self.release.get_or_init(|| self.text(super::kernel::OSRELEASE).parse(Release::parse).value().copied())
    }

    /// The CPUs of a kernel list file.
    pub fn cpus(&self, path: &str) -> Reading<CpuSet> {
        self.text(path).parse(CpuSet::parse_list)
    }

    /// The possible CPUs, or nothing where the host does not say.
    pub fn possible(&self) -> Option<CpuSet> {
        self.possible_once().cloned()
    }

    fn possible_once(&self) -> Option<&CpuSet> {
        self.possible.get_or_init(|| self.cpus(super::cpu::POSSIBLE).value().cloned()).as_ref()
    }

    /// A set without the CPUs that cannot exist here: masks are wider than the host.
    pub fn within_possible(&self, set: CpuSet) -> CpuSet {
        match self.possible_once() {
            Some(possible) if !set.is_subset(possible) => &set & possible,
            _ => set,
        }
    }

    /// The hot CPUs that exist and are online, as far as the host shows: what all rules but `isolated` judge.
    pub fn hot_online(&self) -> CpuSet {
        let hot = self.within_possible(self.plan.hot_cpus());
        match super::cpu::offline_among(self, &hot).value() {
            Some(offline) => &hot - offline,
            None => hot,
        }
    }
}

/// A look at a host on behalf of one fact: reads, and remembers what was read.
pub struct Look<'h, 'a> {
    /// The host looked at.
    pub host: &'h Host<'a>,
    sources: Vec<Source>,
    notes: Vec<Note>,
    gap: Option<Gap>,
}

impl<'h, 'a> Look<'h, 'a> {
    /// Begins a look.
    pub fn at(host: &'h Host<'a>) -> Self {
        Self { host, sources: Vec::new(), notes: Vec::new(), gap: None }
    }

    /// Reads a file and keeps it as a source.
    pub fn read(&mut self, path: &str) -> Reading<String> {
        let reading = self.host.text(path);
        self.source(Source::of(path, &reading));
        reading
    }

    /// Reads a file, and keeps it as a source only if it is there.
    pub fn read_if_there(&mut self, path: &str) -> Reading<String> {
        let reading = self.host.text(path);
        if reading != Reading::NotExposed {
            self.source(Source::of(path, &reading));
        }
        reading
    }

    /// Lists a folder; keeps it as a source unless it could be listed, since then its files are.
    pub fn list(&mut self, path: &str) -> Reading<Rc<Listing>> {
        let listing = self.host.root.list(path);
        if listing.value().is_none() {
            self.source(Source::unread(path, &listing));
        }
        listing
    }

    /// Keeps a source.
    pub fn source(&mut self, source: Source) {
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// Keeps a note for the report, whatever the verdict.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(Note { text: text.into(), bearing: Bearing::Any });
    }

    /// Keeps a note on how a thing came to hold.
    pub fn note_pass(&mut self, text: impl Into<String>) {
        self.notes.push(Note { text: text.into(), bearing: Bearing::Pass });
    }

    /// Keeps a note on how a thing came not to hold.
    pub fn note_failure(&mut self, text: impl Into<String>) {
        self.notes.push(Note { text: text.into(), bearing: Bearing::Failure });
    }

    /// Keeps a note on why a thing is not known.
    pub fn note_unknown(&mut self, text: impl Into<String>) {
        self.notes.push(Note { text: text.into(), bearing: Bearing::Unknown });
    }

    /// Records that `what` could add to the value and cannot be judged. The first such doubt is the one reported.
    pub fn gap<T>(&mut self, what: &str, reading: &Reading<T>) {
        if let Some(doubt) = Doubt::of(what, reading) {
            self.doubt(doubt, None);
        }
    }

    /// Records a doubt, as [`Look::gap`] does; of a set of CPUs, those that it might add.
    pub fn doubt(&mut self, doubt: Doubt, cpus: Option<CpuSet>) {
        self.gap = Some(match self.gap.take() {
            None => Gap { doubt, cpus },
            Some(first) => {
                let cpus = first.cpus.zip(cpus).map(|(those, these)| &those | &these);
                Gap { doubt: first.doubt, cpus }
            }
        });
    }

    /// Is there a gap already?
    pub fn has_gap(&self) -> bool {
        self.gap.is_some()
    }

    /// Ends the look with the answer.
    pub fn answer(self, reading: Reading<Value>) -> Observation {
        Observation { reading, gap: self.gap, sources: self.sources, notes: self.notes }
    }

    /// Ends the look with a set of CPUs.
    pub fn cpus(self, reading: Reading<CpuSet>) -> Observation {
        self.answer(reading.map(Value::Cpus))
    }

    /// Ends the look with a word.
    pub fn word(self, reading: Reading<String>) -> Observation {
        self.answer(reading.map(Value::Word))
    }
}

/// A quotation for a note: the text in backquotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", quote(text))
}
