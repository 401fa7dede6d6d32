//! Verbs at work: an entry of a rule held against a host.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::bounds::{Bounds, Compared};
use super::words;
use crate::cpuset::CpuSet;
use crate::fact::{Bearing, Cause, Doubt, Fact, Host, Member, Note, Observation, Read, Source, Value, count};
use crate::reading::Reading;
use crate::report::Offending;
use crate::rule::{Absent, Amount, Assertion, Expr, Piece, Template, Verb};

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Holds,
    Fails,
    Unknown,
}

/// An entry, judged.
#[derive(Clone, Debug)]
pub(super) struct Judgement {
    pub(super) outcome: Outcome,
    /// What holds, what does not (nothing when an `[[any]]` entry leaves it to another), or what is not known.
    pub(super) text: String,
    pub(super) wanted: String,
    pub(super) found: String,
    pub(super) offending: Offending,
    pub(super) doubt: Option<Doubt>,
    pub(super) notes: Vec<String>,
    pub(super) sources: Vec<Source>,
}

/// Judges an entry. An entry before it in its rule has failed and named the CPUs `lacking`, which the host does not have.
pub(super) fn judge(entry: &Assertion, host: &Host<'_>, lacking: &CpuSet) -> Judgement {
    let mut case = Case::new(entry, host, lacking);
    match &entry.verb {
        Verb::Within(right) => case.sets(right, "within", Bounds::within),
        Verb::Avoids(right) => case.sets(right, "avoids", Bounds::avoids),
        Verb::Is(value) => case.values(&value.to_string(), |found| found == Some(value)),
        Verb::IsNot(value) => case.values(&format!("not {value}"), |found| found != Some(value)),
        Verb::OneOf(values) => {
            let names: Vec<String> = values.iter().map(Value::to_string).collect();
            case.values(&names.join(" or "), |found| found.is_some_and(|found| values.contains(found)));
        }
        Verb::Includes(word) => case.words(word, true),
        Verb::Excludes(word) => case.words(word, false),
        Verb::AtLeast(amount) => case.amount(amount, true),
        Verb::AtMost(amount) => case.amount(amount, false),
    }
    case.close()
}

/// The value of a fact of one value.
pub(super) fn observe(fact: &Fact, host: &Host<'_>) -> Option<Rc<Observation>> {
    fact.observe(host)
}

/// A text with its placeholders filled in, as far as they are the plan's.
pub(super) fn fill(template: &Template, host: &Host<'_>, of_entry: impl Fn(&Piece) -> String) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Fact(fact) => {
            let observed = observe(fact, host);
            match observed.as_deref().map(|observation| &observation.reading) {
                Some(Reading::Value(value)) => value.to_string(),
                _ => format!("<{}>", fact.name),
            }
        }
        other => of_entry(other),
    };
    template.0.iter().map(piece).collect()
}

/// What a set operand came to.
struct Operand {
    bounds: Bounds,
    /// The first fact in it that the host does not expose.
    missing: Option<Doubt>,
    /// The first fact in it that is not known completely.
    doubt: Option<Doubt>,
}

/// One thing that an entry judges: the value of a fact, or of a family's member.
struct Item {
    member: Option<Member>,
    observation: Rc<Observation>,
}

/// An entry under judgement.
struct Case<'c, 'a> {
    entry: &'c Assertion,
    host: &'c Host<'a>,
    hot: CpuSet,
    /// CPUs that the host does not have, as an earlier entry has said in failing.
    lacking: &'c CpuSet,
    /// Members that break the entry, with what each shows.
    broken: Vec<(Option<Member>, String)>,
    offending: Offending,
    /// Members that cannot be judged.
    open: Vec<(Option<Member>, Doubt)>,
    /// What the members that hold show.
    held: Vec<(Option<Member>, String)>,
    /// Notes and sources on the subject as a whole and on the right side.
    notes: Vec<Note>,
    sources: Vec<Source>,
    /// Sources of members, kept apart: a pass of a large family names the family instead.
    of_held: Vec<Source>,
    of_others: Vec<Source>,
    /// How many members break the entry by nothing but not being exposed.
    missing: usize,
    /// What is not exposed where the entry lets that pass.
    excused: Option<String>,
    wanted: String,
    right: String,
    verb: &'static str,
}

impl<'c, 'a> Case<'c, 'a> {
    fn new(entry: &'c Assertion, host: &'c Host<'a>, lacking: &'c CpuSet) -> Self {
        Self {
            entry,
            host,
            hot: host.plan.hot_cpus(),
            lacking,
            broken: Vec::new(),
            offending: Offending::default(),
            open: Vec::new(),
            held: Vec::new(),
            notes: Vec::new(),
            sources: Vec::new(),
            of_held: Vec::new(),
            of_others: Vec::new(),
            missing: 0,
            excused: None,
            wanted: String::new(),
            right: String::new(),
            verb: "",
        }
    }

    fn keep(&mut self, observation: &Observation) {
        self.keep_notes(observation);
        for source in &observation.sources {
            if !self.sources.contains(source) {
                self.sources.push(source.clone());
            }
        }
    }

    /// What a set expression comes to.
    fn operand(&mut self, expr: &Expr, missing_is_empty: bool) -> Operand {
        match expr {
            Expr::Join(op, left, right) => {
                let left = self.operand(left, missing_is_empty);
                let right = self.operand(right, missing_is_empty);
                Operand {
                    bounds: Bounds::join(*op, &left.bounds, &right.bounds),
                    missing: left.missing.or(right.missing),
                    doubt: left.doubt.or(right.doubt),
                }
            }
            Expr::Fact(fact) | Expr::At(fact, _) => {
                let Some(observation) = observe(fact, self.host) else {
                    // Load-time checks let no family stand here.
                    return Operand { bounds: Bounds::nothing_known(), missing: None, doubt: None };
                };
                let missing = matches!(observation.reading, Reading::NotExposed);
                if missing && missing_is_empty {
                    // What explains its absence explains nothing here, where another set may do.
                    self.sources.extend(observation.sources.iter().cloned());
                    return Operand { bounds: Bounds::exactly(CpuSet::new()), missing: None, doubt: None };
                }
                self.keep(&observation);
                let doubt =
                    observation.gap.as_ref().map(|gap| gap.doubt.clone()).or_else(|| observation.doubt(fact.name));
                let bounds = Bounds::of(&observation);
                Operand { bounds, missing: doubt.clone().filter(|_| missing), doubt }
            }
        }
    }

    /// The members of the subject, or itself. None when there is nothing to judge, which is then recorded.
    fn items(&mut self) -> Option<Vec<Item>> {
        let expr = &self.entry.that;
        match expr {
            Expr::Fact(fact) => match fact.read {
                Read::One(read) => {
                    let observation = self.host.observe(fact, read);
                    self.keep(&observation);
                    Some(vec![Item { member: None, observation }])
                }
                Read::PerLine(read) => {
                    let family = read(self.host);
                    self.notes.extend(family.notes.iter().cloned());
                    self.sources.extend(family.sources.iter().cloned());
                    let whole = Observation {
                        reading: Reading::NotExposed,
                        gap: None,
                        sources: self.sources.clone(),
                        notes: Vec::new(),
                    };
                    let item = |(member, observation): &(Member, Rc<Observation>)| Item {
                        member: Some(member.clone()),
                        observation: Rc::clone(observation),
                    };
                    match &family.members {
                        Reading::Value(members) => Some(members.iter().map(item).collect()),
                        other => {
                            self.nothing(
                                Observation { reading: other.as_ref().map(|_| Value::Flag(false)), ..whole }
                                    .doubt(fact.name),
                            );
                            None
                        }
                    }
                }
                Read::PerCpu(_) => None,
            },
            Expr::At(fact, cpus) => {
                let cpus = self.operand(cpus, false);
                let Some(set) = cpus.bounds.most.filter(|most| *most == cpus.bounds.least) else {
                    self.nothing(cpus.missing.or(cpus.doubt));
                    return None;
                };
                let Read::PerCpu(read) = fact.read else { return None };
                let offline = &self.host.plan.hot_cpus() - &self.host.hot_online();
                let mut items: Vec<Item> = set
                    .iter()
                    .map(|cpu| Item { member: Some(Member::Cpu(cpu)), observation: Rc::new(read(self.host, cpu)) })
                    .collect();
                // A CPU that is offline has no folder for many things: that says nothing about it.
                let says_nothing = |item: &Item| {
                    matches!((&item.member, &item.observation.reading),
                        (Some(Member::Cpu(cpu)), Reading::NotExposed) if offline.contains(*cpu))
                };
                if !items.iter().all(says_nothing) {
                    items.retain(|item| !says_nothing(item));
                }
                if items.is_empty() {
                    let none: Reading<()> = Reading::NotExposed;
                    self.nothing(Doubt::of(&format!("{} of no CPU", fact.name), &none));
                    return None;
                }
                Some(items)
            }
            Expr::Join(..) => None,
        }
    }

    /// Nothing could be judged at all.
    fn nothing(&mut self, doubt: Option<Doubt>) {
        let doubt = doubt.unwrap_or_else(|| Doubt {
            cause: Cause::NotExposed,
            what: self.entry.that.to_string(),
            reason: "not exposed".to_owned(),
        });
        self.missing(None, doubt, &CpuSet::new());
    }

    /// A member, or the whole, that the host does not expose: what that means is the entry's to say.
    fn missing(&mut self, member: Option<Member>, doubt: Doubt, cpus: &CpuSet) {
        let is_missing = doubt.cause == Cause::NotExposed;
        match self.entry.absent {
            Absent::Fail if is_missing => {
                // A comparison of sets has its offending CPUs and its own words all the same.
                self.missing += usize::from(cpus.is_empty());
                self.breaks(member, doubt.reason, cpus);
            }
            Absent::Pass if is_missing => {
                self.excused = Some(doubt.to_string());
                self.held.push((member, doubt.reason));
            }
            _ => self.open.push((member, doubt)),
        }
    }

    fn breaks(&mut self, member: Option<Member>, shown: String, cpus: &CpuSet) {
        self.offending.cpus = &self.offending.cpus | cpus;
        match &member {
            Some(Member::Cpu(cpu)) => self.offending.cpus.insert(*cpu),
            Some(Member::Line { irq, .. }) => self.offending.lines.push(*irq),
            None => {}
        }
        self.broken.push((member, shown));
    }

    fn sets(&mut self, right: &Expr, verb: &'static str, compare: fn(&Bounds, &Bounds) -> Compared) {
        let right_operand = self.operand(right, self.entry.absent == Absent::Empty);
        self.verb = verb;
        self.right = format!("{right} {}", right_operand.bounds);
        self.wanted = format!("{verb} {}", self.right);

        let is_family = matches!(&self.entry.that, Expr::Fact(fact) if fact.ty().per.is_some())
            || matches!(&self.entry.that, Expr::At(..));
        let members: Vec<(Option<Member>, Operand)> = if is_family {
            let Some(items) = self.items() else { return };
            items.into_iter().map(|item| self.member_operand(item)).collect()
        } else {
            let that = self.entry.that.clone();
            vec![(None, self.operand(&that, false))]
        };
        for (member, left) in members {
            let missing = left.missing.clone().or_else(|| right_operand.missing.clone());
            if let (Some(doubt), Absent::Fail | Absent::Pass) = (missing, self.entry.absent) {
                self.missing(member, doubt, &left.bounds.least);
                continue;
            }
            let shown = left.bounds.to_string();
            match compare(&left.bounds, &right_operand.bounds) {
                Compared::Holds => self.held.push((member, shown)),
                // The earlier entry keeps the verdict.
                Compared::Breaks(cpus) if !cpus.is_empty() && cpus.is_subset(self.lacking) => {
                    self.held.push((member, shown));
                }
                Compared::Breaks(cpus) => {
                    let cpus = &cpus - self.lacking;
                    self.breaks(member, cpus.to_string(), &cpus);
                }
                Compared::Open => {
                    let doubt = left.doubt.or_else(|| right_operand.doubt.clone());
                    self.open.push((member, doubt.unwrap_or_else(|| unexplained(&self.entry.that))));
                }
            }
        }
    }

    fn member_operand(&mut self, item: Item) -> (Option<Member>, Operand) {
        let name = item.member.as_ref().map_or_else(|| self.entry.that.to_string(), Member::to_string);
        let doubt =
            item.observation.gap.as_ref().map(|gap| gap.doubt.clone()).or_else(|| item.observation.doubt(&name));
        let missing = doubt.clone().filter(|_| matches!(item.observation.reading, Reading::NotExposed));
        let bounds = Bounds::of(&item.observation);
        self.keep_notes(&item.observation);
        if doubt.is_some() || !bounds.least.is_disjoint(&self.hot) {
            self.of_others.extend(item.observation.sources.iter().cloned());
        } else {
            self.keep_of_held(&item.observation);
        }
        (item.member, Operand { bounds, missing, doubt })
    }

    /// `is`, `is-not`, `one-of`: a parameter that is simply not set is compared as no value.
    fn values(&mut self, wanted: &str, holds: impl Fn(Option<&Value>) -> bool) {
        wanted.clone_into(&mut self.wanted);
        let Some(items) = self.items() else { return };
        for item in items {
            let shown = words::value(&item.observation.reading);
            match &item.observation.reading {
                Reading::Value(value) => match &item.observation.gap {
                    Some(gap) => self.open(item.member, gap.doubt.clone(), &item.observation),
                    None if holds(Some(value)) => self.hold(item.member, shown, &item.observation),
                    None => self.fail(item.member, shown, &item.observation),
                },
                Reading::Unset if holds(None) => self.hold(item.member, shown, &item.observation),
                Reading::Unset => self.fail(item.member, shown, &item.observation),
                _ => self.unread(item),
            }
        }
    }

    fn words(&mut self, word: &str, wants: bool) {
        self.wanted = format!("{} {word}", if wants { "with" } else { "without" });
        let Some(items) = self.items() else { return };
        for item in items {
            let has = match &item.observation.reading {
                Reading::Value(Value::Words(words)) => words.contains(word),
                Reading::Unset => false,
                _ => {
                    self.unread(item);
                    continue;
                }
            };
            let shown = if has { word.to_owned() } else { format!("no {word}") };
            match &item.observation.gap {
                // What could not be read may be the word.
                Some(gap) if !has => self.open(item.member, gap.doubt.clone(), &item.observation),
                _ if has == wants => self.hold(item.member, shown, &item.observation),
                _ => {
                    if has {
                        self.offending.words.push(word.to_owned());
                    }
                    self.fail(item.member, shown, &item.observation);
                }
            }
        }
    }

    fn amount(&mut self, amount: &Amount, is_least: bool) {
        let wanted = match amount {
            Amount::Literal(value) => Some(value.clone()),
            Amount::Operand(expr) => self.operand_value(expr),
        };
        let Some(wanted) = wanted else {
            // Whatever the entry says of facts that are not exposed: without a measure there is nothing to hold.
            let reason = "there is nothing to compare with".to_owned();
            self.open.push((None, Doubt { cause: Cause::Unreadable, what: self.entry.that.to_string(), reason }));
            return;
        };
        self.wanted = format!("{} {wanted}", if is_least { "at least" } else { "at most" });
        self.right = wanted.to_string();
        let Some(items) = self.items() else { return };
        for item in items {
            let shown = match &item.observation.reading {
                Reading::Value(Value::Words(several)) => words::named(several),
                reading => words::value(reading),
            };
            let Reading::Value(value) = &item.observation.reading else {
                match item.observation.reading {
                    Reading::Unset => self.fail(item.member, shown, &item.observation),
                    _ => self.unread(item),
                }
                continue;
            };
            let order = magnitude(value).cmp(&magnitude(&wanted));
            if let (false, true, Value::Words(words)) = (is_least, order.is_gt(), value) {
                self.offending.words.extend(words.iter().cloned());
            }
            // A value with a gap may be more than what was read: enough stays enough, too much stays too much.
            match &item.observation.gap {
                _ if is_least && order.is_ge() => self.hold(item.member, shown, &item.observation),
                _ if !is_least && order.is_gt() => self.fail(item.member, shown, &item.observation),
                Some(gap) => self.open(item.member, gap.doubt.clone(), &item.observation),
                None if is_least => self.fail(item.member, shown, &item.observation),
                None => self.hold(item.member, shown, &item.observation),
            }
        }
    }

    /// The value of an operand that is one fact; anything but a complete value is no value.
    fn operand_value(&mut self, expr: &Expr) -> Option<Value> {
        let Expr::Fact(fact) = expr else { return None };
        let observation = observe(fact, self.host)?;
        self.keep(&observation);
        observation.reading.value().filter(|_| observation.gap.is_none()).cloned()
    }

    fn hold(&mut self, member: Option<Member>, shown: String, observation: &Observation) {
        self.keep_notes(observation);
        self.keep_of_held(observation);
        self.held.push((member, shown));
    }

    fn fail(&mut self, member: Option<Member>, shown: String, observation: &Observation) {
        self.keep_notes(observation);
        self.of_others.extend(observation.sources.iter().cloned());
        self.breaks(member, shown, &CpuSet::new());
    }

    fn open(&mut self, member: Option<Member>, doubt: Doubt, observation: &Observation) {
        self.keep_notes(observation);
        self.of_others.extend(observation.sources.iter().cloned());
        self.open.push((member, doubt));
    }

    /// A value that is not there or cannot be read.
    fn unread(&mut self, item: Item) {
        let name = self.entry.that.to_string();
        let fact = if item.member.is_some() { name.split('[').next().unwrap_or(&name) } else { &name };
        let doubt = item.observation.doubt(fact).unwrap_or_else(|| unexplained(&self.entry.that));
        self.keep_notes(&item.observation);
        self.of_others.extend(item.observation.sources.iter().cloned());
        self.missing(item.member, doubt, &CpuSet::new());
    }

    /// Sources of a member that holds: only where nothing stands for the family as a whole.
    fn keep_of_held(&mut self, observation: &Observation) {
        if self.sources.is_empty() {
            self.of_held.extend(observation.sources.iter().cloned());
        }
    }

    fn keep_notes(&mut self, observation: &Observation) {
        for note in &observation.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }

    fn close(mut self) -> Judgement {
        let outcome = match (self.broken.is_empty(), self.open.is_empty(), self.held.is_empty()) {
            (false, ..) => Outcome::Fails,
            (true, true, false) => Outcome::Holds,
            _ => Outcome::Unknown,
        };
        let found = match outcome {
            Outcome::Fails => words::grouped(&self.broken),
            Outcome::Holds => words::grouped(&self.held),
            Outcome::Unknown => words::doubts(&self.open),
        };
        let text = match outcome {
            Outcome::Holds => self.holds_text(&found),
            Outcome::Fails => self.fails_text(&found),
            Outcome::Unknown => found.clone(),
        };
        match outcome {
            Outcome::Holds if self.sources.is_empty() => self.sources.append(&mut self.of_held),
            Outcome::Holds => {}
            Outcome::Fails | Outcome::Unknown => self.sources.append(&mut self.of_others),
        }
        let mut seen = BTreeSet::new();
        self.sources.retain(|source| seen.insert((source.path.clone(), source.text.clone())));
        let doubt = self.open.into_iter().next().map(|(_, doubt)| doubt);
        Judgement {
            outcome,
            text,
            wanted: self.wanted,
            found,
            offending: self.offending,
            doubt: doubt.filter(|_| outcome == Outcome::Unknown),
            notes: self.notes.into_iter().filter(|note| bears_on(note, outcome)).map(|note| note.text).collect(),
            sources: self.sources,
        }
    }

    /// A rule's own words, with what they may name.
    fn words_of(&self, template: &Template, found: &str) -> String {
        fill(template, self.host, |piece| match piece {
            Piece::Offending => self.offending_text(),
            Piece::Wanted if !self.right.is_empty() => self.right.clone(),
            Piece::Wanted => self.wanted.clone(),
            _ => self.found_text(found),
        })
    }

    fn holds_text(&self, found: &str) -> String {
        if let Some(excuse) = self.excused.as_ref().filter(|_| self.held.len() == 1) {
            return excuse.clone();
        }
        if let Some(template) = &self.entry.holds {
            return self.words_of(template, found);
        }
        let that = &self.entry.that;
        match &self.entry.verb {
            Verb::Within(_) | Verb::Avoids(_) if self.held.len() > 1 || self.held.iter().any(|(m, _)| m.is_some()) => {
                format!(
                    "{} {} {}",
                    count(self.held.len(), "line"),
                    words::plural_verb(self.verb, self.held.len()),
                    self.right
                )
            }
            Verb::Within(_) | Verb::Avoids(_) => format!("{that} {found} {} {}", self.verb, self.right),
            Verb::Includes(_) | Verb::Excludes(_) => format!("{found} in {that}"),
            Verb::AtLeast(_) | Verb::AtMost(_) => format!("{that} {found}, {}", self.wanted),
            Verb::Is(_) | Verb::IsNot(_) | Verb::OneOf(_) => format!("{that} {found}"),
        }
    }

    fn fails_text(&self, found: &str) -> String {
        let that = self.entry.that.to_string();
        if self.missing == self.broken.len() {
            return format!("{}: {found}", that.split('[').next().unwrap_or(&that));
        }
        match &self.entry.otherwise {
            Some(template) => self.words_of(template, found),
            None => format!("{that} {found}, wanted {}", self.wanted),
        }
    }

    /// Of a set the whole of it was found, not only what broke the entry; of lines, how many there are.
    fn found_text(&self, found: &str) -> String {
        if self.held.iter().any(|(member, _)| matches!(member, Some(Member::Line { .. }))) {
            return count(self.held.len(), "line");
        }
        match (&self.entry.that, &self.entry.verb) {
            (Expr::Fact(fact), Verb::Within(_) | Verb::Avoids(_)) => observe(fact, self.host)
                .map_or_else(|| found.to_owned(), |observation| words::value(&observation.reading)),
            _ => found.to_owned(),
        }
    }

    fn offending_text(&self) -> String {
        let is_by_line = self.broken.iter().any(|(member, _)| matches!(member, Some(Member::Line { .. })));
        if is_by_line || !matches!(self.entry.verb, Verb::Within(_) | Verb::Avoids(_)) {
            return words::grouped(&self.broken);
        }
        if self.offending.cpus.is_empty() { words::grouped(&self.broken) } else { self.offending.cpus.to_string() }
    }
}

fn bears_on(note: &Note, outcome: Outcome) -> bool {
    match note.bearing {
        Bearing::Any => true,
        Bearing::Pass => outcome == Outcome::Holds,
        Bearing::Failure => outcome != Outcome::Holds,
        Bearing::Unknown => outcome == Outcome::Unknown,
    }
}

fn unexplained(that: &Expr) -> Doubt {
    Doubt { cause: Cause::Unreadable, what: that.to_string(), reason: "cannot be judged".to_owned() }
}

/// A number to compare by; the kinds are the same on both sides, which load-time checks see to.
fn magnitude(value: &Value) -> i128 {
    match value {
        Value::Integer(n) => i128::from(*n),
        Value::Bytes(bytes) => i128::from(bytes.0),
        Value::Micros(micros) => i128::from(micros.0),
        Value::Words(words) => words.len() as i128,
        Value::Cpus(_) | Value::Word(_) | Value::Flag(_) => 0,
    }
}
