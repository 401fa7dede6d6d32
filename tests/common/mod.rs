//! What the tests share: running the built program, scrubbing what it prints, and trees of hosts.
#![allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    reason = "each test uses a part of them, and what cannot go on has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use quietcore::audit::audit;
use quietcore::fact::Host;
use quietcore::output::{self, Detail, Format, Style};
use quietcore::plan::Plan;
use quietcore::report::{Finding, Report, Verdict};
use quietcore::root::Root;
use quietcore::rule::RuleSet;
use tempfile::TempDir;

/// The top of the package, where relative paths of tests begin.
pub(crate) const TOP: &str = env!("CARGO_MANIFEST_DIR");

/// A run of the program that takes longer hangs. Loaded hosts are slow, so this is no measure of speed.
const TIMEOUT: Duration = Duration::from_secs(60);

// ---- running the program -----------------------------------------------------------------------------------------

/// A run of the program, prepared.
pub(crate) struct Run {
    command: Command,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Done {
    /// The exit code; none when a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// The program with these arguments: an empty environment, nothing to read, started in the package's top.
pub(crate) fn quietcore<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    Run::of(Command::new(env!("CARGO_BIN_EXE_quietcore"))).args(args)
}

impl Run {
    /// Another program, run the same way.
    pub(crate) fn of(mut command: Command) -> Self {
        // No NO_COLOR, CLICOLOR_FORCE, TERM, COLUMNS, RUST_BACKTRACE: a test says itself what it is about.
        command.env_clear().current_dir(TOP).stdin(Stdio::null());
        Self { command }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it in another folder: reports then show short relative paths.
    pub(crate) fn cwd(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Runs it with standard output going elsewhere; `out` is then empty.
    pub(crate) fn out_to(mut self, out: impl Into<Stdio>) -> Done {
        finish(self.command.stdout(out).stderr(Stdio::piped()).spawn().expect("the program starts"))
    }

    pub(crate) fn done(self) -> Done {
        self.out_to(Stdio::piped())
    }
}

fn finish(child: Child) -> Done {
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(TIMEOUT) else {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        panic!("still running after {TIMEOUT:?}");
    };
    let output = output.expect("its output can be read");
    let text = |bytes| String::from_utf8(bytes).expect("prints UTF-8");
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Done {
    /// The answer of a run that must end with this code and without a diagnostic.
    #[track_caller]
    pub(crate) fn answer(self, code: i32) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(code), ""), "{}", self.out);
        self.out
    }

    /// The diagnostic of a run that must end with exit code 2, its answer empty.
    #[track_caller]
    pub(crate) fn refusal(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{}", self.err);
        assert!(!self.err.trim().is_empty(), "says nothing");
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

// ---- scrubbing ---------------------------------------------------------------------------------------------------

/// A text for a snapshot, in this order:
///
/// 1. temporary folders become `[DIR]`: they go first, since the package may itself lie in one;
/// 2. the package's top becomes `[TOP]`;
/// 3. the elapsed time of a summary, `; 12.3 ms` at a line's end or broken over two, becomes `; [ELAPSED]`;
/// 4. the version, `quietcore 1.2.3`, becomes `quietcore [VERSION]`.
pub(crate) fn scrub(text: &str, temporary: &[&Path]) -> String {
    let mut text = text.to_owned();
    for dir in temporary {
        text = text.replace(&dir.display().to_string(), "[DIR]");
    }
    text = text.replace(TOP, "[TOP]");
    let version = concat!("quietcore ", env!("CARGO_PKG_VERSION"));
    without_elapsed(&text).replace(version, "quietcore [VERSION]")
}

/// The summary is broken at blanks like any other text, and so may the time be.
fn without_elapsed(text: &str) -> String {
    let mut scrubbed = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("ms\n") {
        let (before, after) = rest.split_at(at);
        let number_end = before.trim_end();
        let head = number_end.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_elapsed = number_end.len() < before.len()
            && number_end[head.len()..].parse::<f64>().is_ok()
            && head.trim_end().ends_with(';');
        let kept = if is_elapsed { [head.trim_end(), " [ELAPSED]"] } else { [before, "ms"] };
        scrubbed.extend(kept);
        rest = &after["ms".len()..];
    }
    scrubbed + rest
}

/// Are there escape codes in the text?
pub(crate) fn has_escapes(text: &str) -> bool {
    text.contains('\u{1b}')
}

// ---- audits through the library ----------------------------------------------------------------------------------

static BUILTIN: LazyLock<RuleSet> = LazyLock::new(|| RuleSet::builtin().expect("built-in rules load"));

/// The built-in rules, loaded once.
pub(crate) fn builtin() -> &'static RuleSet {
    &BUILTIN
}

/// Judges a folder by some rules for the plan of this text.
pub(crate) fn audit_dir(root: &Path, plan: &Plan, rules: &RuleSet) -> Report {
    let root = Root::open(root).expect("the root opens");
    audit(rules, &Host::new(&root, plan), false)
}

/// Judges a tree by the built-in rules.
pub(crate) fn audit_tree(tree: &Tree) -> Report {
    let laid = tree.lay();
    audit_dir(&laid.root, &tree.parsed_plan(), builtin())
}

/// A folder of `fixtures/`, judged by the built-in rules. The test runs in the package's top, and the paths stay relative.
pub(crate) fn audit_fixture(name: &str) -> Report {
    let folder = Path::new("fixtures").join(name);
    let plan = Plan::load(&folder.join("plan.toml")).expect("the fixture's plan is one");
    audit_dir(&folder.join("root"), &plan, builtin())
}

/// Every fixture: `tuned`, `one/thp`, …
pub(crate) fn fixtures() -> Vec<String> {
    let mut names = Vec::new();
    for entry in walkdir::WalkDir::new("fixtures").sort_by_file_name() {
        let entry = entry.expect("fixtures can be listed");
        if entry.file_name() == "plan.toml" {
            let folder = entry.path().parent().and_then(|folder| folder.strip_prefix("fixtures").ok());
            names.push(folder.expect("below fixtures").display().to_string());
        }
    }
    names
}

/// The verdict of every rule.
pub(crate) fn verdicts(report: &Report) -> BTreeMap<String, Verdict> {
    report.findings.iter().map(|finding| (finding.rule.clone(), finding.verdict())).collect()
}

/// The rules that have this verdict.
pub(crate) fn having(report: &Report, verdict: Verdict) -> BTreeSet<String> {
    report.findings.iter().filter(|finding| finding.verdict() == verdict).map(|finding| finding.rule.clone()).collect()
}

/// The finding of a rule.
#[track_caller]
pub(crate) fn finding<'r>(report: &'r Report, rule: &str) -> &'r Finding {
    report.findings.iter().find(|finding| finding.rule == rule).unwrap_or_else(|| panic!("no finding of {rule}"))
}

/// A finding without its texts: the verdict, the cause of an unknown one, and what broke the rule.
/// `fail cpus 4-5`, `fail lines 30,31`, `fail words irqbalance`, `unknown denied`.
pub(crate) fn gist(finding: &Finding) -> String {
    let mut gist = finding.verdict().name().to_owned();
    if let Some(cause) = finding.cause() {
        gist = format!("{gist} {}", cause.name());
    }
    let offending = &finding.evidence().offending;
    if !offending.cpus.is_empty() {
        gist = format!("{gist} cpus {}", offending.cpus);
    }
    if !offending.lines.is_empty() {
        let lines: Vec<String> = offending.lines.iter().map(u32::to_string).collect();
        gist = format!("{gist} lines {}", lines.join(","));
    }
    if !offending.words.is_empty() {
        gist = format!("{gist} words {}", offending.words.join(","));
    }
    gist
}

/// A report as a format writes it, without escape codes and times.
pub(crate) fn written(report: &Report, format: Format) -> String {
    let mut plain = anstream::StripStream::new(Vec::new());
    let style = Style { detail: Detail::Normal, width: 80, elapsed: None };
    output::write(report, format, style, &mut plain).expect("a vector takes everything");
    String::from_utf8(plain.into_inner()).expect("reports are UTF-8")
}

// ---- trees -------------------------------------------------------------------------------------------------------

pub(crate) const CMDLINE: &str = "proc/cmdline";
pub(crate) const OSRELEASE: &str = "proc/sys/kernel/osrelease";
pub(crate) const LIMITS: &str = "proc/self/limits";
pub(crate) const DEFAULT_MASK: &str = "proc/irq/default_smp_affinity";
pub(crate) const RT_RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
pub(crate) const RT_PERIOD: &str = "proc/sys/kernel/sched_rt_period_us";
pub(crate) const CPU: &str = "sys/devices/system/cpu";
pub(crate) const ISOLATED: &str = "sys/devices/system/cpu/isolated";
pub(crate) const NOHZ_FULL: &str = "sys/devices/system/cpu/nohz_full";
pub(crate) const ONLINE: &str = "sys/devices/system/cpu/online";
pub(crate) const POSSIBLE: &str = "sys/devices/system/cpu/possible";
pub(crate) const PRESENT: &str = "sys/devices/system/cpu/present";
pub(crate) const DRIVER: &str = "sys/devices/system/cpu/cpuidle/current_driver";
pub(crate) const THP: &str = "sys/kernel/mm/transparent_hugepage";
pub(crate) const FAIR_SERVER: &str = "sys/kernel/debug/sched/fair_server";

/// How many CPUs [`Tree::tuned`] has.
pub(crate) const CPUS: u32 = 16;

/// Its plan.
pub(crate) const PLAN: &str = "\
realtime = false
locked-memory = \"1GiB\"

[hot]
w0 = 2
w1 = 3
w2 = 4
w3 = 5
";

/// Its plan with `realtime = true`.
pub(crate) const REALTIME_PLAN: &str = "realtime = true\nlocked-memory = \"1GiB\"\n[hot]\nw = \"2-5\"\n";

/// Its boot line, without the parameters that a case replaces.
pub(crate) const CAPPED: &str = "intel_idle.max_cstate=1 processor.max_cstate=1";

/// A host in the making: files below its root, and a plan.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) plan: String,
}

/// A tree on disk. It goes away with this.
#[derive(Debug)]
pub(crate) struct Laid {
    pub(crate) dir: TempDir,
    /// `root` in it.
    pub(crate) root: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// No file at all, with the plan of the tuned tree.
    pub(crate) fn empty() -> Self {
        Self { files: BTreeMap::new(), plan: PLAN.to_owned() }
    }

    /// 16 CPUs, one node, no SMT, Linux 6.1, tuned by boot line for the hot CPUs 2-5; one interrupt line, 24 on CPU 0.
    pub(crate) fn tuned() -> Self {
        let mut tree = Self::empty()
            .boot(&format!("isolcpus=managed_irq,domain,2-5 nohz_full=2-5 rcu_nocbs=2-5 irqaffinity=0-1,6-15 {CAPPED}"))
            .with(OSRELEASE, "6.1.0\n")
            .with("proc/version", "Linux version 6.1.0\n")
            .with("proc/1/comm", "systemd\n")
            .with("proc/812/comm", "sshd\n")
            .with(DEFAULT_MASK, "ffc3\n")
            .line(24, "eth0", "0", "0")
            .limit("unlimited", "unlimited")
            .with(RT_RUNTIME, "950000\n")
            .with(RT_PERIOD, "1000000\n")
            .with(ONLINE, "0-15\n")
            .with(POSSIBLE, "0-15\n")
            .with(PRESENT, "0-15\n")
            .with("sys/devices/system/cpu/offline", "\n")
            .with(ISOLATED, "2-5\n")
            .with(NOHZ_FULL, "2-5\n")
            .with(DRIVER, "intel_idle\n")
            .with("sys/devices/system/node/node0/cpulist", "0-15\n")
            .thp("always [madvise] never\n")
            .with(&format!("{THP}/defrag"), "always defer defer+madvise [madvise] never\n");
        for cpu in 0..CPUS {
            let file = |name: &str| format!("{CPU}/cpu{cpu}/{name}");
            if cpu > 0 {
                tree = tree.with(&file("online"), "1\n");
            }
            tree = tree
                .with(&file("topology/core_id"), format!("{cpu}\n"))
                .with(&file("topology/physical_package_id"), "0\n")
                .with(&file("topology/thread_siblings_list"), format!("{cpu}\n"))
                .with(&file("cpufreq/scaling_governor"), "performance\n")
                .state(cpu, 0, "POLL", 0, "0")
                .state(cpu, 1, "C1", 1, "0");
        }
        tree
    }

    /// Adds or replaces a file.
    pub(crate) fn with(mut self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.files.insert(path.to_owned(), text.as_ref().to_owned());
        self
    }

    /// Removes a file, or a folder with what it holds. It must be there.
    pub(crate) fn without(mut self, path: &str) -> Self {
        let folder = format!("{path}/");
        let before = self.files.len();
        self.files.retain(|file, _| file != path && !file.starts_with(&folder));
        assert!(self.files.len() < before, "no {path} to remove");
        self
    }

    /// Replaces the boot line by `BOOT_IMAGE=/vmlinuz ro LINE`.
    pub(crate) fn boot(self, line: &str) -> Self {
        self.with(CMDLINE, format!("BOOT_IMAGE=/vmlinuz ro {line}\n"))
    }

    /// Adds tables to `capture.toml`.
    pub(crate) fn capture(self, tables: &str) -> Self {
        self.with("capture.toml", format!("schema = 1\n{tables}\n"))
    }

    /// Reading these files gives this errno.
    pub(crate) fn errors(self, paths: &[&str], errno: &str) -> Self {
        let rows: Vec<String> = paths.iter().map(|path| format!("\"{path}\" = \"{errno}\"")).collect();
        self.capture(&format!("[errors]\n{}", rows.join("\n")))
    }

    /// These files may not be read.
    pub(crate) fn denied(self, paths: &[&str]) -> Self {
        self.errors(paths, "EACCES")
    }

    /// Replaces the plan.
    pub(crate) fn plan(mut self, text: &str) -> Self {
        text.clone_into(&mut self.plan);
        self
    }

    /// An interrupt line with a handler, by lists.
    pub(crate) fn line(self, irq: u32, handler: &str, affinity: &str, effective: &str) -> Self {
        self.dead_line(irq, affinity, effective).with(&format!("proc/irq/{irq}/{handler}/.keep"), "")
    }

    /// An interrupt line without a handler.
    pub(crate) fn dead_line(self, irq: u32, affinity: &str, effective: &str) -> Self {
        self.with(&format!("proc/irq/{irq}/smp_affinity_list"), format!("{affinity}\n"))
            .with(&format!("proc/irq/{irq}/effective_affinity_list"), format!("{effective}\n"))
    }

    /// `Max locked memory`.
    pub(crate) fn limit(self, soft: &str, hard: &str) -> Self {
        let head = "Limit                     Soft Limit           Hard Limit           Units     \n";
        self.with(LIMITS, format!("{head}Max locked memory         {soft:<20} {hard:<20} bytes     \n"))
    }

    /// The top level of transparent huge pages.
    pub(crate) fn thp(self, choice: &str) -> Self {
        self.with(&format!("{THP}/enabled"), choice)
    }

    /// An idle state of a CPU.
    pub(crate) fn state(self, cpu: u32, state: u32, name: &str, latency: u32, disable: &str) -> Self {
        let file = |what: &str| format!("{CPU}/cpu{cpu}/cpuidle/state{state}/{what}");
        self.with(&file("name"), format!("{name}\n"))
            .with(&file("latency"), format!("{latency}\n"))
            .with(&file("disable"), format!("{disable}\n"))
    }

    /// C6 with its 133 us on every CPU.
    pub(crate) fn deep(mut self) -> Self {
        for cpu in 0..CPUS {
            self = self.state(cpu, 2, "C6", 133, "0");
        }
        self
    }

    /// No idle driver and no idle states.
    pub(crate) fn without_states(mut self) -> Self {
        for cpu in 0..CPUS {
            self = self.without(&format!("{CPU}/cpu{cpu}/cpuidle"));
        }
        self.without(DRIVER)
    }

    /// SMT: CPU c and c + 8 share a core.
    pub(crate) fn smt(mut self) -> Self {
        for cpu in 0..CPUS / 2 {
            for thread in [cpu, cpu + 8] {
                let folder = format!("{CPU}/cpu{thread}/topology");
                self = self
                    .with(&format!("{folder}/thread_siblings_list"), format!("{cpu},{}\n", cpu + 8))
                    .with(&format!("{folder}/core_id"), format!("{cpu}\n"));
            }
        }
        self
    }

    /// A CPU that is switched off: out of `online`, without topology and idle states, alone on its core.
    pub(crate) fn offline(mut self, cpus: &[u32]) -> Self {
        let online: quietcore::cpuset::CpuSet = (0..CPUS).filter(|cpu| !cpus.contains(cpu)).collect();
        self = self.with(ONLINE, format!("{online}\n"));
        for cpu in cpus {
            for folder in ["topology", "cpuidle"] {
                self = self.without(&format!("{CPU}/cpu{cpu}/{folder}"));
            }
            self = self.with(&format!("{CPU}/cpu{cpu}/online"), "0\n");
            let partner = if *cpu < CPUS / 2 { cpu + 8 } else { cpu - 8 };
            let siblings = format!("{CPU}/cpu{partner}/topology/thread_siblings_list");
            if self.files.contains_key(&siblings) {
                self = self.with(&siblings, format!("{partner}\n"));
            }
        }
        self
    }

    pub(crate) fn parsed_plan(&self) -> Plan {
        Plan::parse("plan.toml", &self.plan).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// Writes `plan.toml` and `root/` into a new folder.
    pub(crate) fn lay(&self) -> Laid {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = dir.path().join("root");
        fs::create_dir(&root).expect("an empty folder takes another");
        let mut laid = Laid { dir, root, files: BTreeMap::new() };
        laid.lay(self);
        laid
    }
}

impl Laid {
    /// Makes it another tree. Only what differs is written, for a tree has some two hundred files.
    pub(crate) fn lay(&mut self, tree: &Tree) {
        fs::write(self.dir.path().join("plan.toml"), &tree.plan).expect("the plan is written");
        for path in self.files.keys().filter(|path| !tree.files.contains_key(*path)) {
            let path = self.root.join(path);
            fs::remove_file(&path).expect("a file is removed");
            let folders = path.ancestors().skip(1).take_while(|folder| *folder != self.root);
            // Those that are empty now; the first that is not ends it.
            let _ = folders.map(fs::remove_dir).find(Result::is_err);
        }
        for (path, bytes) in tree.files.iter().filter(|(path, bytes)| self.files.get(*path) != Some(bytes)) {
            let path = self.root.join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a folder is made");
            fs::write(path, bytes).expect("a file is written");
        }
        self.files.clone_from(&tree.files);
    }

    /// The program with these arguments, in the folder that holds `plan.toml` and `root`.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        quietcore(args).cwd(self.dir.path())
    }

    /// `check --plan plan.toml --root root` with further arguments.
    pub(crate) fn check(&self, more: &[&str]) -> Run {
        self.run(&["check", "--plan", "plan.toml", "--root", "root"]).args(more)
    }
}
