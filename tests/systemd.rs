//! Services behind the audit, under a real systemd: what the README promises of `ExecStartPre=` and of the gate.
//!
//! systemd runs as PID 1 of namespaces of its own, over a root that shows the host's and keeps what is written in memory
//! (`systemd/boot.sh`); the units are in `systemd/etc`. Where the host cannot do that, the test says why and passes. Nothing
//! of the host is written but an empty cgroup and a temporary folder, which go when the machine goes. All its processes end
//! with the test, even with one that is killed; only then do the cgroup and the folder stay.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Done, Run, has_escapes, scrub};
use quietcore::plan::Plan;
use rustix::process::{Resource, getrlimit};
use serde_json::Value;
use tempfile::TempDir;

/// Something that takes longer hangs. It takes a second or two, and much more on a loaded host.
const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const PROGRAMS: &[&str] =
    &["setpriv", "unshare", "nsenter", "mount", "umount", "pivot_root", "systemctl", "journalctl", "systemd-notify"];
const SYSTEMD: &[&str] = &["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];
const NAMESPACES: &[&str] = &["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"];

/// Into the cgroup $0, and then what is left of the arguments.
const ENTER: &str = r#"echo 0 >"$0/cgroup.procs" && exec "$@""#;
const BOOT: &str = include_str!("systemd/boot.sh");

/// What the units of `systemd/etc` run as the audit, and the memory that their plan `memlock.toml` locks.
const AUDIT: &[&str] = &[
    "/usr/bin/quietcore",
    "check",
    "--plan",
    "/etc/quietcore/plan.toml",
    "--root",
    "/etc/quietcore/host",
    "--packs",
    "base",
    "--quiet",
];
const LOCKED: u64 = 2 << 20;

// ---- the machine -------------------------------------------------------------------------------------------------

/// A cgroup of its own. It goes away with this, once nothing runs in it.
struct Cgroup(PathBuf);

impl Cgroup {
    /// In the cgroup of this process, where version 2 has it.
    fn new(name: &str) -> Result<Self, String> {
        let within = fs::read_to_string("/proc/self/cgroup").map_err(|why| format!("/proc/self/cgroup: {why}"))?;
        let within = within.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("no cgroup of version 2")?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|why| format!("mountinfo: {why}"))?;
        // `ID PARENT MAJOR:MINOR ROOT POINT … - TYPE …`
        let mut mounts = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
        let whole = mounts.find_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [_, _, _, "/", point, ..] => Some(point),
            _ => None,
        });
        let top = whole.ok_or("cgroups of version 2 are not mounted")?;
        let path = Path::new(top).join(within).join(name);
        fs::create_dir(&path).map_err(|why| format!("cannot make the cgroup {}: {why}", path.display()))?;
        Ok(Self(path))
    }

    /// Removes it from its leaves on. What still runs in it is in the way.
    fn remove(&self) -> bool {
        let entries = walkdir::WalkDir::new(&self.0).contents_first(true).into_iter().filter_map(Result::ok);
        for entry in entries.filter(|entry| entry.file_type().is_dir()) {
            let _ = fs::remove_dir(entry.path());
        }
        !self.0.exists()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = wait_for(|| self.remove().then_some(()));
    }
}

/// A systemd that runs. Dropped, it and all that it started are killed.
struct Machine {
    /// `unshare`, whose end is the end of the namespaces.
    unshare: Child,
    /// systemd, as the host counts.
    pid: u32,
    // Removed in this order, after the processes.
    cgroup: Cgroup,
    _scratch: TempDir,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

impl Machine {
    /// Boots, or says why this host cannot.
    fn boot(plan: &str) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("needs root".to_owned());
        }
        let systemd = SYSTEMD.iter().find(|path| Path::new(path).exists()).ok_or("systemd is not installed")?;
        let installed = |program: &str| PATH.split(':').any(|dir| Path::new(dir).join(program).exists());
        if let Some(program) = PROGRAMS.iter().find(|program| !installed(program)) {
            return Err(format!("{program} is not installed"));
        }
        let scratch = tempfile::tempdir().unwrap();
        let said = scratch.path().join("said");
        let output = File::create(&said).unwrap();
        let root = scratch.path().join("root");
        fs::create_dir(&root).unwrap();
        let unique = scratch.path().file_name().unwrap().display();
        let cgroup = Cgroup::new(&format!("quietcore-test{unique}"))?;

        let mut command = Command::new("setpriv");
        // It does not outlive the thread that runs the test.
        command.args(["--pdeathsig", "KILL", "sh", "-c", ENTER]).arg(&cgroup.0);
        command.arg("unshare").args(NAMESPACES).args(["--fork", "--kill-child=KILL", "sh", "-c", BOOT, "boot.sh"]);
        command.arg(&root).arg(systemd).arg(env!("CARGO_BIN_EXE_quietcore"));
        command.args(["fixtures", "tests/systemd/etc"].map(|path| Path::new(common::TOP).join(path))).arg(plan);
        command.env_clear().envs([("PATH", PATH), ("LC_ALL", "C")]).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let unshare = command.spawn().map_err(|why| format!("cannot run setpriv: {why}"))?;
        let mut machine = Self { unshare, pid: 0, cgroup, _scratch: scratch };

        let said = || fs::read_to_string(&said).unwrap_or_default();
        let up = wait_for(|| {
            let said = said();
            machine.pid = said.lines().find_map(|line| line.strip_prefix("pid ")?.parse().ok()).unwrap_or_default();
            let up = machine.pid != 0 && Path::new(&format!("/proc/{}/root/run/systemd/private", machine.pid)).exists();
            let ended = machine.unshare.try_wait().is_ok_and(|status| status.is_some());
            (up || ended).then_some(up)
        });
        if up != Some(true) {
            let end = machine.unshare.try_wait().ok().flatten().map_or("hangs".to_owned(), |status| status.to_string());
            return Err(format!("systemd does not come up, {end}: {}", said().trim().replace('\n', "; ")));
        }
        let booted = machine.inside(&["systemctl", "start", "test.target"]);
        if booted.code != Some(0) {
            return Err(format!("systemd does not start journald: {}", booted.err.trim()));
        }
        Ok(machine)
    }

    /// Runs a program inside.
    fn inside(&self, command: &[&str]) -> Done {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &self.pid.to_string()]).args(NAMESPACES).args(["--root", "--wd", "--"]).args(command);
        Run::of(nsenter).env("PATH", PATH).env("LC_ALL", "C").done()
    }

    /// Has systemd start a unit: does it say that it did?
    fn start(&self, unit: &str) -> bool {
        let done = self.inside(&["systemctl", "start", unit]);
        assert!(matches!(done.code, Some(0 | 1)), "{unit}: {}", done.err);
        done.code == Some(0)
    }

    fn property(&self, unit: &str, name: &str) -> String {
        self.inside(&["systemctl", "show", "--value", "--property", name, unit]).answer(0).trim().to_owned()
    }

    /// `ActiveState Result ExecMainStatus`, and has the main process ever run?
    fn state(&self, unit: &str) -> (String, bool) {
        const NAMES: [&str; 4] = ["ActiveState", "Result", "ExecMainStatus", "ExecMainPID"];
        let shown = self.inside(&["systemctl", "show", "--property", &NAMES.join(","), unit]).answer(0);
        let value = |name: &str| {
            let mut pairs = shown.lines().filter_map(|line| line.split_once('='));
            pairs.find_map(|(key, value)| (key == name).then_some(value)).unwrap()
        };
        let [state, result, status, pid] = NAMES.map(value);
        (format!("{state} {result} {status}"), pid != "0")
    }

    /// The file of the main process's folder in /proc.
    fn main_process(&self, unit: &str, file: &str) -> String {
        let pid = self.property(unit, "MainPID");
        self.inside(&["cat", &format!("/proc/{pid}/{file}")]).answer(0)
    }

    /// What the processes of a unit wrote: its lines, and who wrote each.
    fn journal(&self, unit: &str) -> Vec<(String, String)> {
        self.inside(&["journalctl", "--sync"]).answer(0);
        // In JSON, which hides no escape code.
        let args = ["journalctl", "--unit", unit, "--output", "json", "_TRANSPORT=stdout"];
        let lines = self.inside(&args).answer(0);
        let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.map(|entry| (text(&entry["MESSAGE"]), text(&entry["_PID"]))).collect()
    }

    /// The lines of [`Machine::journal`].
    fn log(&self, unit: &str) -> Vec<String> {
        self.journal(unit).into_iter().map(|(line, _)| line).collect()
    }

    /// Exchanges the tree that the units judge.
    fn tune(&self, fixture: &str) {
        let tree = format!("/run/fixtures/{fixture}/root");
        self.inside(&["ln", "-sfn", &tree, "/etc/quietcore/host"]).answer(0);
    }
}

/// A field of the journal. What is not printable comes as numbers.
fn text(field: &Value) -> String {
    if let Value::Array(bytes) = field {
        let bytes = bytes.iter().map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap()).collect();
        return String::from_utf8(bytes).unwrap();
    }
    field.as_str().unwrap().to_owned()
}

/// Asks until there is an answer.
fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let answer = ask();
        if answer.is_some() || began.elapsed() > DEADLINE {
            return answer;
        }
        sleep(PAUSE);
    }
}

// ---- the test ----------------------------------------------------------------------------------------------------

/// What a unit's log holds when the audit has run once, as that prints it now: less empty lines, which the journal drops.
fn audited(machine: &Machine, code: i32) -> Vec<String> {
    let report = machine.inside(AUDIT).answer(code);
    scrubbed(&report.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>())
}

fn scrubbed(log: &[String]) -> Vec<String> {
    // A line of a log has lost its end, by which the elapsed time is known.
    log.iter().map(|line| scrub(&format!("{line}\n"), &[]).trim_end().to_owned()).collect()
}

/// A plan for the fixtures whose cold role is on a CPU of this machine.
fn plan() -> Result<(String, usize), String> {
    let text = fs::read_to_string("fixtures/tuned/plan.toml").unwrap();
    assert_eq!(text, fs::read_to_string("fixtures/mistuned/plan.toml").unwrap());
    let housekeeping = Plan::parse("plan.toml", &text).unwrap().housekeeping.unwrap();
    let mine = rustix::thread::sched_getaffinity(None).unwrap();
    let mut cpus = housekeeping.iter().filter_map(|cpu| usize::try_from(cpu).ok());
    let cpu = cpus.find(|cpu| mine.is_set(*cpu)).ok_or("none of the CPUs is one that the plan keeps house on")?;
    assert!(text.contains("logger = 28\n"), "{text}");
    Ok((text.replace("logger = 28\n", &format!("logger = {cpu}\n")), cpu))
}

#[test]
fn services_start_on_a_tuned_host_alone() {
    let booted = plan().and_then(|(plan, cpu)| Ok((Machine::boot(&plan)?, cpu)));
    let (machine, cpu) = match booted {
        Ok(booted) => booted,
        Err(why) => return skipped(&why),
    };
    let refused = audited(&machine, 1);
    a_failed_audit_refuses_the_start(&machine, &refused);
    a_refused_gate_runs_no_command(&machine, &refused);
    some_settings_are_no_gate(&machine, &refused);
    a_restarting_service_is_refused_to_its_limit(&machine);

    machine.tune("tuned");
    let passed = audited(&machine, 0);
    the_same_unit_starts_after_the_fix(&machine, &passed);
    the_gate_becomes_the_command(&machine, &passed, cpu);
    the_limit_of_the_unit_is_judged(&machine);

    let cgroup = machine.cgroup.0.clone();
    drop(machine);
    assert!(!cgroup.exists(), "left behind: {}", cgroup.display());
}

/// Says so past the harness, which shows what a test prints only when it fails.
fn skipped(why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes());
}

fn a_failed_audit_refuses_the_start(machine: &Machine, refused: &[String]) {
    assert!(!machine.start("feed.service"));
    assert_eq!(machine.state("feed.service"), ("failed exit-code 0".to_owned(), false));
    let log = machine.log("feed.service");
    assert!(log.iter().any(|line| line.starts_with("x FAIL     siblings ")), "{log:#?}");
    assert!(log.last().unwrap().starts_with("FAIL: "), "{log:#?}");
    assert!(!log.iter().any(|line| has_escapes(line)), "{log:?}");
    // All of the report, and once: a service that restarts on-abnormal is not tried again.
    assert_eq!(scrubbed(&log), refused);
}

fn the_same_unit_starts_after_the_fix(machine: &Machine, passed: &[String]) {
    let before = machine.log("feed.service");
    assert!(machine.start("feed.service"));
    assert_eq!(machine.state("feed.service"), ("active success 0".to_owned(), true));
    let want = [&scrubbed(&before)[..], passed, &["the feed runs".to_owned()]].concat();
    // It is started before it has written.
    let _ = wait_for(|| (machine.log("feed.service").len() >= want.len()).then_some(()));
    assert_eq!(scrubbed(&machine.log("feed.service")), want);
}

fn a_refused_gate_runs_no_command(machine: &Machine, refused: &[String]) {
    assert!(!machine.start("gate.service"));
    // The gate is the main process, and its exit code the service's.
    assert_eq!(machine.state("gate.service"), ("failed exit-code 1".to_owned(), true));
    assert_eq!(scrubbed(&machine.log("gate.service")), refused);
}

fn the_gate_becomes_the_command(machine: &Machine, passed: &[String], cpu: usize) {
    // The unit is one that its command tells systemd to be ready: that works for the main process and what it starts.
    assert!(machine.start("gate.service"));
    assert_eq!(machine.state("gate.service"), ("active success 0".to_owned(), true));
    let comm = wait_for(|| Some(machine.main_process("gate.service", "comm")).filter(|comm| comm != "sh\n"));
    assert_eq!(comm.as_deref(), Some("sleep\n"));
    let (summary, auditor) = machine.journal("gate.service").pop().unwrap();
    assert_eq!(scrubbed(&[summary]), passed);
    assert_eq!(auditor, machine.property("gate.service", "MainPID"));
    let status = machine.main_process("gate.service", "status");
    assert!(status.contains(&format!("\nCpus_allowed_list:\t{cpu}\n")), "{status}");
    // `IgnoreSIGPIPE=` is on unless a unit says otherwise, and the gate hands that on.
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() >> 12 & 1, 1, "{status}");
}

fn some_settings_are_no_gate(machine: &Machine, refused: &[String]) {
    assert!(machine.start("ignored.service"));
    assert_eq!(machine.state("ignored.service"), ("active success 0".to_owned(), true));
    // systemd forgets such a unit; its log tells what ran.
    assert!(machine.start("condition.service"));
    assert_eq!(machine.property("condition.service", "ActiveState"), "inactive");
    assert_eq!(scrubbed(&machine.log("condition.service")), refused);
}

fn a_restarting_service_is_refused_to_its_limit(machine: &Machine) {
    assert!(!machine.start("restarted.service"));
    let refusals = || machine.log("restarted.service").iter().filter(|line| line.starts_with("FAIL: ")).count();
    let given_up = || machine.property("restarted.service", "ActiveState") == "failed" && refusals() == 3;
    assert!(wait_for(|| given_up().then_some(())).is_some(), "refused {} times", refusals());
    assert!(!machine.state("restarted.service").1);
}

fn the_limit_of_the_unit_is_judged(machine: &Machine) {
    assert!(!machine.start("memlock-low.service"));
    assert_eq!(machine.state("memlock-low.service"), ("failed exit-code 0".to_owned(), false));
    let log = machine.log("memlock-low.service").join(" ");
    assert!(log.contains("may lock 1 MiB, the plan wants 2 MiB") && log.contains("1048576 bytes"), "{log}");

    // With the prefix `+` the limit is not the unit's, nor is the user.
    let hard = getrlimit(Resource::Memlock).maximum;
    if hard.is_some_and(|hard| hard < LOCKED) {
        return skipped("the host's own limit of locked memory is too low for a unit to pass");
    }
    assert!(machine.start("memlock-plus.service"));
    assert!(machine.start("memlock-high.service"));
    assert_eq!(machine.state("memlock-high.service"), ("active success 0".to_owned(), true));
}
