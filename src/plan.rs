//! The plan: which CPUs are hot, which ones stay idle beside them, and what the process needs.
//!
//! A plan that is wrong in itself is refused here, every mistake at once. What is wrong for one host only (a CPU that it
//! lacks, two roles on one core) is a finding of the audit and not looked at.

use std::ops::Range;
use std::path::Path;

use crate::cpuset::{BootGrammar, CpuSet, ListError, MAX_CPU};
use crate::doc::{self, LoadError, Spanned, Table, Value};
use crate::problem::{FileProblems, Problem};
use crate::schema;
use crate::units::{Bytes, Micros, UnitError};

use keys::KEYS;

mod keys;

pub use keys::json_schema;

/// A plan without contradictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The interface that the hot path serves.
    pub nic: Option<String>,
    /// Do hot threads run under `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE`?
    pub realtime: bool,
    /// What the process will lock.
    pub locked_memory: Option<Bytes>,
    /// The deepest idle state allowed on hot CPUs, by its exit latency.
    pub max_wakeup_latency: Option<Micros>,
    /// Siblings that stay idle. `None`: those that the host's topology shows; the empty set is an explicit "none".
    pub idle: Option<CpuSet>,
    /// The CPUs that do everything else. `None`: all the rest.
    pub housekeeping: Option<CpuSet>,
    /// The hot roles in the order of the text: at least one, none without CPUs, no CPU in two of them.
    pub hot: Vec<Role>,
    /// The cold roles in the order of the text. They may share CPUs with each other and with housekeeping.
    pub cold: Vec<Role>,
    /// Ids of rules that this plan raises to required, with their places in `text`. Whether there are such rules is not
    /// checked here.
    pub require: Vec<Spanned<String>>,
    /// The rules that this plan drops, none of which it requires. Whether there are such rules is not checked here.
    pub skip: Vec<Skipped>,
    /// The file's path as the user gave it, or what stands for it.
    pub name: String,
    /// The text that the plan was read from, for problems that are found later.
    pub text: String,
}

/// A rule that a plan drops.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    /// Its id, with its place in the plan's text.
    pub id: Spanned<String>,
    /// Why; none where the plan lists ids alone.
    pub reason: Option<String>,
}

/// A thread, or a group of them, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name on the left of `feed = 21`.
    pub name: String,
    /// Its CPUs: at least one.
    pub cpus: CpuSet,
}

impl Plan {
    /// Reads a plan file.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        doc::load(path, Self::parse)
    }

    /// Reads a plan from its text; `name` is what problems call the file.
    pub fn parse(name: &str, text: &str) -> Result<Self, FileProblems> {
        let mut problems = Vec::new();
        let Some(table) = doc::parse(text, &mut problems) else {
            return Err(FileProblems { name: name.to_owned(), text: text.to_owned(), problems });
        };
        let mut reader = Reader { text, problems, places: Vec::new() };
        let plan = reader.plan(name, table);
        FileProblems::unless_empty(name, text, reader.problems)?;
        Ok(plan)
    }

    /// The CPUs of all hot roles.
    pub fn hot_cpus(&self) -> CpuSet {
        union(&self.hot)
    }

    /// The CPUs of all cold roles.
    pub fn cold_cpus(&self) -> CpuSet {
        union(&self.cold)
    }

    /// The hot or cold role of that name.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.hot.iter().chain(&self.cold).find(|role| role.name == name)
    }
}

fn union(roles: &[Role]) -> CpuSet {
    roles.iter().fold(CpuSet::new(), |all, role| &all | &role.cpus)
}

/// Would Linux take this as the name of an interface (`dev_valid_name`)? It would take control characters too, which no
/// administrator means and a terminal obeys.
pub fn is_interface_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() < 16
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control())
}

/// May a role have this name? The plan's own keys are kept, because in TOML a key belongs to the header above it:
/// `idle = "29"` below `[hot]` would become a hot role.
pub fn is_role_name(name: &str) -> bool {
    !name.is_empty() && !keys::is_key(name) && !name.contains(char::is_control)
}

/// What a set of CPUs is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Hot,
    Cold,
    Idle,
    Housekeeping,
}

impl Use {
    /// May a CPU not be in both?
    fn excludes(self, other: Use) -> bool {
        use Use::{Cold, Housekeeping};
        // Cold work and housekeeping share; whatever else meets one of these is a contradiction.
        !matches!((self, other), (Cold | Housekeeping, Cold | Housekeeping))
    }
}

/// A set of CPUs and where the plan gives it.
struct Place {
    what: String,
    /// The name, if it is a role's.
    role: Option<String>,
    purpose: Use,
    cpus: Spanned<CpuSet>,
}

struct Reader<'a> {
    text: &'a str,
    problems: Vec<Problem>,
    places: Vec<Place>,
}

impl Reader<'_> {
    fn plan(&mut self, name: &str, mut table: Table) -> Plan {
        let plan = Plan {
            nic: self.nic(&mut table),
            realtime: table.take_bool("realtime", &mut self.problems).is_some_and(|yes| yes.value),
            locked_memory: self.locked_memory(&mut table),
            max_wakeup_latency: self.max_wakeup_latency(&mut table),
            idle: self.set(&mut table, "idle", Use::Idle),
            housekeeping: self.set(&mut table, "housekeeping", Use::Housekeeping),
            hot: self.hot(&mut table),
            cold: self.cold(&mut table),
            require: table.take_strings("require", &mut self.problems).map(|ids| ids.value).unwrap_or_default(),
            skip: self.skip(&mut table),
            name: name.to_owned(),
            text: self.text.to_owned(),
        };
        self.contradictions(&plan);
        table.finish(&schema::names(KEYS), &mut self.problems);
        self.overlaps();
        plan
    }

    fn nic(&mut self, table: &mut Table) -> Option<String> {
        let nic = table.take_string("nic", &mut self.problems)?;
        if !is_interface_name(&nic.value) {
            let message = format!("`{}` is not the name of an interface", nic.value);
            let problem = Problem::new(nic.span, message, "no interface has this name");
            self.problems.push(problem.help("write one of the names that `ip link` shows"));
            return None;
        }
        Some(nic.value)
    }

    fn locked_memory(&mut self, table: &mut Table) -> Option<Bytes> {
        let size = table.take_value("locked-memory")?;
        match &size.value {
            Value::Integer(bytes) => {
                let bytes = u64::try_from(*bytes).ok();
                if bytes.is_none() {
                    self.problems.push(Problem::new(size.span, "a size cannot be negative", "below zero"));
                }
                bytes.map(Bytes)
            }
            Value::String(text) => self.unit(text.parse(), size.span, "not a size"),
            other => {
                let problem = doc::wrong_type(size.span, "a size", other);
                self.problems.push(problem.help("write a number and a unit in quotes: \"1GiB\""));
                None
            }
        }
    }

    fn max_wakeup_latency(&mut self, table: &mut Table) -> Option<Micros> {
        let time = table.take_value("max-wakeup-latency")?;
        if let Value::String(text) = &time.value {
            return self.unit(text.parse(), time.span, "not a time");
        }
        let problem = doc::wrong_type(time.span, "a time", &time.value);
        self.problems.push(problem.help("write a number and a unit in quotes: \"2us\""));
        None
    }

    fn unit<T>(&mut self, parsed: Result<T, UnitError>, span: Range<usize>, label: &str) -> Option<T> {
        parsed.map_err(|error| self.problems.push(Problem::new(span, error.to_string(), label).help(error.help()))).ok()
    }

    /// `skip = ["id"]`, or a table of ids and reasons.
    fn skip(&mut self, table: &mut Table) -> Vec<Skipped> {
        let Some(skip) = table.take_value("skip") else { return Vec::new() };
        match skip.value {
            Value::Array(items) => items.into_iter().filter_map(|item| self.skipped(item)).collect(),
            Value::Table(reasons) => {
                reasons.into_entries().into_iter().filter_map(|(id, reason)| self.skipped_for(id, reason)).collect()
            }
            other => {
                let problem = doc::wrong_type(skip.span, "an array of rule ids, or a table", &other);
                self.problems.push(problem.help("write skip = [\"id\"], or [skip] with id = \"reason\" lines"));
                Vec::new()
            }
        }
    }

    fn skipped(&mut self, id: Spanned<Value>) -> Option<Skipped> {
        match id.value {
            Value::String(value) => Some(Skipped { id: Spanned { value, span: id.span }, reason: None }),
            other => {
                self.problems.push(doc::wrong_type(id.span, "a string", &other));
                None
            }
        }
    }

    fn skipped_for(&mut self, id: Spanned<String>, reason: Spanned<Value>) -> Option<Skipped> {
        match reason.value {
            Value::String(text) if text.trim().is_empty() => {
                let problem = Problem::new(reason.span, "the reason is empty", "nothing here");
                self.problems.push(problem.help("say in a few words why the rule is not judged"));
                None
            }
            Value::String(text) => Some(Skipped { id, reason: Some(text) }),
            other => {
                let problem = doc::wrong_type(reason.span, "a reason", &other);
                self.problems.push(problem.help(format!("write {} = \"why it is not judged\"", id.value)));
                None
            }
        }
    }

    /// Reports the rules that the plan both requires and drops.
    fn contradictions(&mut self, plan: &Plan) {
        for skipped in &plan.skip {
            if let Some(required) = plan.require.iter().find(|id| id.value == skipped.id.value) {
                let message = format!("`{}` is both required and dropped", required.value);
                let problem = Problem::new(skipped.id.span.clone(), message, "dropped here");
                let problem = problem.also(required.span.clone(), "required here");
                self.problems.push(problem.help("take it out of `require` or of `skip`"));
            }
        }
    }

    /// A set at the top of the plan, where the empty one is an answer.
    fn set(&mut self, table: &mut Table, key: &str, purpose: Use) -> Option<CpuSet> {
        let cpus = self.cpus(table.take_value(key)?)?;
        let set = cpus.value.clone();
        self.places.push(Place { what: format!("`{key}`"), role: None, purpose, cpus });
        Some(set)
    }

    fn hot(&mut self, table: &mut Table) -> Vec<Role> {
        let help = "give each hot thread a role and a CPU, `feed = 21`";
        if !table.has("hot") {
            let problem = Problem::new(table.header(), "[hot] is missing", "no table of hot roles");
            self.problems.push(problem.help(format!("add [hot] and {help}")));
        }
        let Some(hot) = table.take_table("hot", &mut self.problems) else { return Vec::new() };
        if hot.is_empty() {
            self.problems.push(Problem::new(hot.header(), "[hot] is empty", "no role").help(help));
        }
        self.roles(hot, Use::Hot)
    }

    fn cold(&mut self, table: &mut Table) -> Vec<Role> {
        table.take_table("cold", &mut self.problems).map(|cold| self.roles(cold, Use::Cold)).unwrap_or_default()
    }

    fn roles(&mut self, table: Table, purpose: Use) -> Vec<Role> {
        let mut roles = Vec::new();
        let header = if purpose == Use::Hot { "[hot]" } else { "[cold]" };
        for (name, value) in table.into_entries() {
            if !is_role_name(&name.value) {
                let (message, help) = if keys::is_key(&name.value) {
                    let message = format!("`{}` is a key of the plan, not a role", name.value);
                    (message, "move it above the first [header], or rename the role")
                } else {
                    ("this cannot be the name of a role".to_owned(), "write a name")
                };
                let problem = Problem::new(name.span, message, format!("this belongs to {header}"));
                self.problems.push(problem.help(help));
                continue;
            }
            let what = format!("`{}` in {header}", name.value);
            if let Some(first) = self.places.iter().find(|place| place.role.as_ref() == Some(&name.value)) {
                let problem =
                    Problem::new(name.span, format!("role `{}` is given twice", name.value), "given again here");
                let problem = problem.also(first.cpus.span.clone(), "given first here");
                self.problems.push(problem.help("rename one of them, or keep one of them"));
            }
            let Some(cpus) = self.cpus(value) else { continue };
            if cpus.value.is_empty() {
                let message = format!("role `{}` has no CPU", name.value);
                self.problems
                    .push(Problem::new(cpus.span, message, "an empty list").help("write a CPU, or remove the role"));
                continue;
            }
            roles.push(Role { name: name.value.clone(), cpus: cpus.value.clone() });
            self.places.push(Place { what, role: Some(name.value), purpose, cpus });
        }
        roles
    }

    /// A CPU or a list of them; every item that is none is a problem of its own.
    fn cpus(&mut self, value: Spanned<Value>) -> Option<Spanned<CpuSet>> {
        let span = value.span.clone();
        let cpus = match &value.value {
            Value::Integer(cpu) => {
                let cpu = u32::try_from(*cpu).ok().filter(|cpu| *cpu <= MAX_CPU);
                if cpu.is_none() {
                    let message = format!("`{}` is not the number of a CPU", &self.text[value.span]);
                    self.problems.push(Problem::new(span.clone(), message, "no such CPU"));
                }
                CpuSet::from_iter([cpu?])
            }
            Value::String(list) => self.list(list, &span)?,
            other => {
                let problem = doc::wrong_type(span, "a CPU or a list of CPUs", other);
                self.problems.push(problem.help("write a number, `21`, or a list in quotes, `\"2-5,8\"`"));
                return None;
            }
        };
        Some(Spanned { value: cpus, span })
    }

    fn list(&mut self, list: &str, span: &Range<usize>) -> Option<CpuSet> {
        let before = self.problems.len();
        let mut set = CpuSet::new();
        for item in list.split([',', ' ']).filter(|item| !item.is_empty()) {
            match parse_item(item) {
                Ok(cpus) => set = &set | &cpus,
                Err((message, help)) => {
                    let start = item.as_ptr().addr() - list.as_ptr().addr();
                    let at = doc::inner(self.text, span.clone(), start..start + item.len());
                    self.problems.push(Problem::new(at, message, "in this list").help(help));
                }
            }
        }
        (self.problems.len() == before).then_some(set)
    }

    /// Reports the CPUs that are in two sets which exclude each other, at the later of the two.
    fn overlaps(&mut self) {
        self.places.sort_by_key(|place| place.cpus.span.start);
        for (index, later) in self.places.iter().enumerate() {
            for earlier in self.places[..index].iter().filter(|earlier| later.purpose.excludes(earlier.purpose)) {
                let both = &later.cpus.value & &earlier.cpus.value;
                if both.is_empty() {
                    continue;
                }
                let (noun, verb) = if both.len() == 1 { ("CPU", "is") } else { ("CPUs", "are") };
                let message = format!("{noun} {both} {verb} in both {} and {}", earlier.what, later.what);
                let problem = Problem::new(later.cpus.span.clone(), message, format!("{noun} {both} here"))
                    .also(earlier.cpus.span.clone(), "and here")
                    .help(format!("take {noun} {both} out of one of them"));
                self.problems.push(problem);
            }
        }
    }
}

/// One item of a list: `8`, `2-5` or `2-20:1/2`. An error is a message and a help.
fn parse_item(item: &str) -> Result<CpuSet, (String, String)> {
    let grammar = BootGrammar { last: None, strides: true, n: false, all: false };
    let depends_on_host = item.contains('N') || item.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("all"));
    if depends_on_host {
        let message = format!("`{item}` depends on the host");
        return Err((message, "write the numbers: a plan means the same CPUs wherever it is read".to_owned()));
    }
    // The kernel ends a list at a newline and drops what follows. Here nothing is dropped.
    if item.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err((
            format!("`{}` is not a CPU number or range", item.escape_debug()),
            "write it on one line".to_owned(),
        ));
    }
    CpuSet::parse_boot_list(item, grammar).map_err(|error| {
        let help = match &error {
            ListError::Backwards(range) => {
                let mut ends: Vec<&str> = range.split(['-', ':']).take(2).collect();
                ends.reverse();
                format!("write `{}`", ends.join("-"))
            }
            ListError::OutOfRange { .. } => "write the number of a CPU that there can be".to_owned(),
            ListError::BadStride(_) => "write `2-20:1/2` for every second CPU from 2 to 20".to_owned(),
            ListError::NotACpu(_) | ListError::NotHex(_) | ListError::TooManyStrides(_) => {
                "write CPUs as the kernel does: `2-5,8`".to_owned()
            }
        };
        (error.to_string(), help)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"
nic = "ens1f0"
realtime = true
locked-memory = "1GiB"
max-wakeup-latency = "1us"
idle = "29-31"
housekeeping = "0-20,24-28"
require = ["smt"]
skip = ["epb"]
[hot]
feed = 21
strategy = "22"
gateway = "23"
[cold]
logger = 28
"#;

    #[test]
    fn a_whole_plan_is_read_in_its_order() {
        let plan = Plan::parse("plan.toml", GOOD).unwrap();
        assert_eq!(plan.nic.as_deref(), Some("ens1f0"));
        assert!(plan.realtime);
        assert_eq!(plan.locked_memory, Some(Bytes(1 << 30)));
        assert_eq!(plan.max_wakeup_latency, Some(Micros(1)));
        assert_eq!(plan.idle.as_ref().unwrap().to_string(), "29-31");
        assert_eq!(plan.housekeeping.as_ref().unwrap().to_string(), "0-20,24-28");
        assert_eq!(plan.hot.iter().map(|role| role.name.as_str()).collect::<Vec<_>>(), ["feed", "strategy", "gateway"]);
        assert_eq!(plan.hot_cpus().to_string(), "21-23");
        assert_eq!(plan.cold_cpus().to_string(), "28");
        assert_eq!(plan.role("logger").unwrap().cpus.to_string(), "28");
        assert_eq!(&plan.text[plan.require[0].span.clone()], "\"smt\"");
        assert_eq!(&plan.text[plan.skip[0].id.span.clone()], "\"epb\"");
    }

    #[test]
    fn rules_are_dropped_with_a_reason_or_without_one() {
        let skipped = |text: &str| {
            let plan = Plan::parse("p", text).unwrap();
            plan.skip.into_iter().map(|skipped| (skipped.id.value, skipped.reason)).collect::<Vec<_>>()
        };
        let (epb, swap) = ("epb".to_owned(), "swap".to_owned());
        assert_eq!(skipped("skip = [\"epb\", \"swap\"]\n[hot]\na = 1\n"), [(epb.clone(), None), (swap.clone(), None)]);
        let reasons = "[hot]\na = 1\n[skip]\nswap = \"zram only\"\nepb = \"not here\"\n";
        let wanted = [(swap, Some("zram only".to_owned())), (epb, Some("not here".to_owned()))];
        assert_eq!(skipped(reasons), wanted);
        assert_eq!(skipped("skip = []\n[hot]\na = 1\n"), []);
    }

    #[test]
    fn what_a_plan_leaves_out_is_open() {
        let plan = Plan::parse("p", "[hot]\na = 1\n").unwrap();
        assert_eq!((plan.nic, plan.realtime, plan.locked_memory, plan.idle), (None, false, None, None));
        let plan = Plan::parse("p", "idle = \"\"\nlocked-memory = 4096\n[hot]\na = \"2-20:1/2 30,,31\"\n").unwrap();
        assert_eq!(plan.idle, Some(CpuSet::new()));
        assert_eq!(plan.locked_memory, Some(Bytes(4096)));
        assert_eq!(plan.hot_cpus().to_string(), "2,4,6,8,10,12,14,16,18,20,30-31");
    }

    /// Each mistake alone: the text, its place, and words that the rendering must hold.
    #[test]
    fn each_mistake_is_named_with_its_place_and_a_remedy() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("isolate = \"1\"\n[hot]\na = 1\n", "1:1", &["unknown key `isolate`", "the keys here are nic"]),
            ("hosekeeping = \"1\"\n[hot]\na = 1\n", "1:1", &["did you mean `housekeeping`?"]),
            ("locked_memory = 1\n[hot]\na = 1\n", "1:1", &["did you mean `locked-memory`?"]),
            ("", "1:1", &["[hot] is missing", "add [hot]"]),
            ("nic = \"e\"\n", "1:1", &["[hot] is missing"]),
            ("nic = \"e\"\n[hot]\n", "2:1", &["[hot] is empty", "feed = 21"]),
            ("hot = 2\n", "1:7", &["expected a table, found an integer"]),
            ("[hot\n", "1:", &["not TOML"]),
            ("[hot]\na = \"3-1\"\n", "2:6", &["range `3-1` runs backwards", "write `1-3`"]),
            ("[hot]\na = \"1,x,3\"\n", "2:8", &["`x` is not a CPU number or range", "2-5,8"]),
            ("[hot]\na = \"0x6\"\n", "2:6", &["`0x6` is not a CPU number or range"]),
            ("[hot]\na = \"1-\"\n", "2:6", &["`1-`"]),
            ("[hot]\na = \"4-N\"\n", "2:6", &["`4-N` depends on the host", "write the numbers"]),
            ("[hot]\na = \"All\"\n", "2:6", &["`All` depends on the host"]),
            ("[hot]\na = \"1-9:0/0\"\n", "2:6", &["not a usable stride"]),
            ("[hot]\na = \"99999999999\"\n", "2:6", &["CPU 99999999999 is beyond"]),
            ("[hot]\na = \"2\\n3\"\n", "2:5", &["`2\\n3` is not a CPU"]),
            ("[hot]\na = \"\"\"2\n3\"\"\"\n", "2:5", &["on one line"]),
            ("[hot]\na = -1\n", "2:5", &["`-1` is not the number of a CPU"]),
            ("[hot]\na = 70000\n", "2:5", &["`70000`"]),
            ("[hot]\na = [1, 2]\n", "2:5", &["expected a CPU or a list of CPUs, found an array", "\"2-5,8\""]),
            ("[hot]\na = true\n", "2:5", &["found a boolean"]),
            ("[hot]\na = \"\"\n", "2:5", &["role `a` has no CPU"]),
            ("[hot]\na = 1\na = 2\n", "3:1", &["`a` is given twice", "keep one of them"]),
            ("[hot]\na = 1\n[hot]\nb = 2\n", "3:2", &["`hot` is given twice"]),
            ("[hot]\na = 1\n[cold]\na = 2\n", "4:1", &["role `a` is given twice", "given first here"]),
            ("[hot]\na = 1\nidle = \"2\"\n", "3:1", &["`idle` is a key of the plan, not a role", "above the first"]),
            ("[hot]\n\"\" = 1\n", "2:1", &["cannot be the name of a role"]),
            ("idle = \"2\"\n[hot]\na = 2\n", "3:5", &["CPU 2 is in both `idle` and `a` in [hot]", "1 | idle"]),
            ("[hot]\na = \"2-5\"\nb = \"4-9\"\n", "3:5", &["CPUs 4-5 are in both `a` in [hot] and `b` in [hot]"]),
            ("[hot]\na = 2\n[cold]\nb = 2\n", "4:5", &["`a` in [hot] and `b` in [cold]"]),
            ("housekeeping = \"0-3\"\n[hot]\na = 2\n", "3:5", &["`housekeeping` and `a` in [hot]"]),
            ("housekeeping = \"0-3\"\nidle = \"3\"\n[hot]\na = 9\n", "2:8", &["`housekeeping` and `idle`"]),
            ("idle = \"3\"\n[hot]\na = 9\n[cold]\nb = 3\n", "5:5", &["`idle` and `b` in [cold]"]),
            ("locked-memory = \"1 GiX\"\n[hot]\na = 2\n", "1:17", &["`GiX` is not a unit of size", "GiB"]),
            ("locked-memory = -1\n[hot]\na = 2\n", "1:17", &["cannot be negative"]),
            ("locked-memory = 1.5\n[hot]\na = 2\n", "1:17", &["expected a size, found a float"]),
            ("max-wakeup-latency = 2\n[hot]\na = 2\n", "1:22", &["expected a time, found an integer", "\"2us\""]),
            ("max-wakeup-latency = \"5ns\"\n[hot]\na = 2\n", "1:22", &["finer than a microsecond"]),
            ("realtime = \"yes\"\n[hot]\na = 2\n", "1:12", &["expected a boolean, found a string"]),
            ("nic = \"a/b\"\n[hot]\na = 2\n", "1:7", &["`a/b` is not the name of an interface", "ip link"]),
            ("require = [1]\n[hot]\na = 2\n", "1:12", &["expected a string, found an integer"]),
            ("skip = [1]\n[hot]\na = 2\n", "1:9", &["expected a string, found an integer"]),
            ("skip = \"smt\"\n[hot]\na = 2\n", "1:8", &["expected an array of rule ids, or a table", "[\"id\"]"]),
            ("[hot]\na = 2\n[skip]\nsmt = \" \"\n", "4:7", &["the reason is empty"]),
            ("[hot]\na = 2\n[skip]\nsmt = true\n", "4:7", &["expected a reason, found a boolean", "smt = "]),
            (
                "require = [\"smt\"]\nskip = [\"smt\"]\n[hot]\na = 2\n",
                "2:9",
                &["`smt` is both required and dropped", "required here"],
            ),
        ];
        for (text, place, words) in cases {
            let problems = Plan::parse("plan.toml", text).expect_err(text);
            let out = problems.to_string();
            assert_eq!(problems.problems.len(), 1, "{out}");
            assert!(out.contains(&format!("plan.toml:{place}")), "{place} in\n{out}");
            for word in *words {
                assert!(out.contains(word), "{word} in\n{out}");
            }
            assert!(out.lines().all(|line| line.chars().count() <= 79), "{out}");
        }
    }

    #[test]
    fn all_mistakes_come_at_once() {
        let text =
            "isolate = 1\nrealtime = 1\nlocked-memory = \"x\"\nidle = \"2,y,z\"\n[hot]\na = 3\na = 4\nb = 3\n[cold]\n";
        let problems = Plan::parse("plan.toml", text).unwrap_err().problems;
        assert_eq!(problems.len(), 7, "{problems:#?}");
    }

    #[test]
    fn cold_roles_and_housekeeping_may_share() {
        assert!(Plan::parse("p", "housekeeping = \"0-3\"\n[hot]\na = 9\n[cold]\nb = 3\nc = 3\n").is_ok());
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "(\\[hot\\]\n|idle = |a = |b = |\"|[0-9N,:/-]{1,4}|\n|\\[|\\]|.){0,20}") {
            if let Err(problems) = Plan::parse("p", &text) {
                prop_assert!(!problems.problems.is_empty());
                prop_assert!(problems.render(true).contains("p:"));
            }
        }
    }
}
