//! What `quietcore fix` prints, and that it is what it claims to be: a boot line, a shell script, units, a profile.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use quietcore::exit;
use tempfile::TempDir;

const BIN: &str = env!("CARGO_BIN_EXE_quietcore");

fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    Command::new(BIN).arg("fix").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn answer<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    let output = run(args);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(i32::from(exit::PASSED)), ""));
    text(&output.stdout)
}

fn of_fixture(fixture: &str, form: &str) -> String {
    answer([
        "--plan",
        &format!("fixtures/{fixture}/plan.toml"),
        "--root",
        &format!("fixtures/{fixture}/root"),
        "--as",
        form,
    ])
}

/// A tree made for a test.
struct Tree(TempDir);

impl Tree {
    /// 8 CPUs, hot 2-3 with siblings 6-7, of a kernel of that release, booted with that line.
    fn new(release: &str, cmdline: &str) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.write("plan.toml", "idle = \"6-7\"\n[hot]\nfeed = \"2-3\"\n");
        tree.root("proc/sys/kernel/osrelease", &format!("{release}\n"));
        tree.root("proc/cmdline", &format!("{cmdline}\n"));
        tree.root("proc/1/comm", "init\n");
        tree.root("sys/devices/system/cpu/online", "0-7\n");
        tree.root("sys/devices/system/cpu/possible", "0-7\n");
        tree.root("sys/devices/system/cpu/present", "0-7\n");
        tree.root("sys/devices/system/cpu/isolated", "\n");
        tree.root("sys/devices/system/cpu/nohz_full", "\n");
        tree.root("proc/irq/default_smp_affinity", "ff\n");
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn root(&self, path: &str, text: &str) {
        self.write(&format!("root/{path}"), text);
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn fix(&self, more: &[&str]) -> String {
        let (plan, root) = (self.path("plan.toml"), self.path("root"));
        let args = ["--plan", plan.to_str().unwrap(), "--root", root.to_str().unwrap()];
        answer(args.iter().chain(more))
    }

    /// The boot line that comes out.
    fn line(&self) -> String {
        commands(&self.fix(&["--as", "cmdline"]))
    }
}

/// What is no comment.
fn commands(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_forms_for_the_fixtures() {
    for fixture in ["mistuned", "laptop", "bare", "tuned"] {
        for form in ["cmdline", "runtime", "systemd", "tuned"] {
            insta::assert_snapshot!(format!("{form}@{fixture}"), of_fixture(fixture, form));
        }
    }
}

/// In the empty tree ten of the eleven base rules fail or are unknown: each form has a word on each.
#[test]
fn every_form_speaks_of_every_failure() {
    for form in ["cmdline", "runtime", "systemd", "tuned"] {
        let told = of_fixture("bare", form);
        for (id, ..) in &quietcore::rule::builtin::FILES[..quietcore::rule::builtin::BASE] {
            let is_told = told.lines().any(|line| line.starts_with('#') && line.contains(id));
            assert!(is_told || *id == "rt_throttle", "{form} says nothing of {id}: {told}");
        }
    }
}

#[test]
fn all_forms_behind_each_other() {
    let all = answer(["--plan", "fixtures/mistuned/plan.toml", "--root", "fixtures/mistuned/root"]);
    for form in ["cmdline", "runtime", "systemd", "tuned"] {
        assert!(
            all.contains(&format!("######## quietcore fix --as {form}\n\n{}", of_fixture("mistuned", form).trim_end()))
        );
    }
}

#[test]
fn the_boot_line_of_mistuned() {
    let line = commands(&of_fixture("mistuned", "cmdline"));
    assert_eq!(
        line,
        "BOOT_IMAGE=/boot/vmlinuz-6.1.119 root=/dev/mapper/vg0-root ro isolcpus=managed_irq,domain,21-23,29-31 quiet \
         nohz_full=21-23 rcu_nocbs=21-23 irqaffinity=0-20,24-28 intel_idle.max_cstate=1 processor.max_cstate=1 \
         transparent_hugepage=madvise cpufreq.default_governor=performance"
    );
}

#[test]
fn what_is_not_ours_on_the_line_stays_as_it_is() {
    let tree = Tree::new(
        "6.12.0",
        r#"BOOT_IMAGE=/v root=UUID=1-2 console=ttyS0 dyndbg="file a.c +p" "x=y z" quiet -- -s "b c""#,
    );
    let line = tree.line();
    assert!(
        line.starts_with(r#"BOOT_IMAGE=/v root=UUID=1-2 console=ttyS0 dyndbg="file a.c +p" "x=y z" quiet isolcpus="#),
        "{line}"
    );
    assert!(line.ends_with(r#" -- -s "b c""#), "{line}");
}

#[test]
fn what_contradicts_goes() {
    let tree = Tree::new("6.12.0", "ro isolcpus=2 quiet isolcpus=3 nohz=off nohz-full=2 nohz_full=1-5 rcu_nocbs x");
    assert!(
        tree.line().starts_with(
            "ro isolcpus=managed_irq,domain,2-3,6-7 quiet nohz_full=2-3 rcu_nocbs=2-3 x irqaffinity=0-1,4-5"
        ),
        "{}",
        tree.line()
    );
    let told = tree.fix(&["--as", "cmdline"]);
    for edit in ["remove isolcpus=3", "remove nohz=off", "remove nohz_full=1-5", "change rcu_nocbs to rcu_nocbs=2-3"] {
        assert!(told.contains(&format!("#   {edit}\n")), "{edit}: {told}");
    }
}

#[test]
fn a_mask_that_is_in_force_is_left_alone() {
    let tree = Tree::new("6.12.0", "ro nohz=off nohz_full=2-3,5");
    tree.root("sys/devices/system/cpu/nohz_full", "2-3,5\n");
    let line = tree.line();
    assert!(line.starts_with("ro nohz_full=2-3,5 isolcpus="), "{line}");
    assert!(!line.contains("rcu_nocbs") && !line.contains("nohz=off"), "{line}");
}

#[test]
fn older_kernels_get_what_they_understand() {
    // managed_irq voids the parameter before 5.6; to 5.17 both parameters share one mask.
    let line = Tree::new("5.4.0", "ro").line();
    assert!(line.starts_with("ro isolcpus=2-3,6-7 nohz_full=2-3,6-7 rcu_nocbs=2-3"), "{line}");
    assert!(!line.contains("default_governor"), "{line}");
    let line = Tree::new("5.10.0", "ro").line();
    assert!(line.starts_with("ro isolcpus=managed_irq,domain,2-3,6-7 nohz_full=2-3,6-7 "), "{line}");
    let line = Tree::new("5.18.0", "ro").line();
    assert!(line.starts_with("ro isolcpus=managed_irq,domain,2-3,6-7 nohz_full=2-3 "), "{line}");
    // One that is in force is replaced with the other, or the second would be refused.
    let tree = Tree::new("5.10.0", "ro isolcpus=2-3,6-7,1");
    tree.root("sys/devices/system/cpu/isolated", "1-3,6-7\n");
    assert!(tree.line().starts_with("ro isolcpus=managed_irq,domain,2-3,6-7 nohz_full=2-3,6-7 "), "{}", tree.line());
}

#[test]
fn a_tick_that_an_old_flag_had_stopped_stays_stopped() {
    let tree = Tree::new("6.12.0", "ro isolcpus=nohz,domain,2-3");
    tree.root("sys/devices/system/cpu/isolated", "2-3\n");
    tree.root("sys/devices/system/cpu/nohz_full", "2-3\n");
    let line = tree.line();
    assert!(line.starts_with("ro isolcpus=managed_irq,domain,2-3,6-7 nohz_full=2-3"), "{line}");
}

#[test]
fn no_cpu_is_named_that_cannot_be() {
    let tree = Tree::new("6.12.0", "ro");
    tree.write("plan.toml", "idle = \"6,40\"\nhousekeeping = \"1,4-5,7,50\"\n[hot]\nfeed = \"0,2,30\"\n");
    let told = tree.fix(&["--as", "cmdline"]);
    let line = commands(&told);
    assert!(
        line.starts_with("ro isolcpus=managed_irq,domain,0,2,6 nohz_full=2 rcu_nocbs=0,2 irqaffinity=1,4-5,7 "),
        "{line}"
    );
    assert!(told.contains("The plan's CPUs 30 are not possible on this host and are left out."), "{told}");
    assert!(told.contains("CPU 0 is hot and boots: the kernel never stops its tick"), "{told}");
    for form in ["runtime", "systemd", "tuned"] {
        let told = commands(&tree.fix(&["--as", form]));
        assert!(!told.contains("30") && !told.contains("40") && !told.contains("50\n"), "{told}");
    }
}

#[test]
fn a_plan_for_no_cpu_of_this_host_names_none() {
    let tree = Tree::new("6.12.0", "ro");
    tree.write("plan.toml", "idle = \"\"\n[hot]\nfeed = \"30\"\n");
    tree.root("proc/77/comm", "irqbalance\n");
    for form in ["cmdline", "runtime", "systemd", "tuned"] {
        let told = commands(&tree.fix(&["--as", form]));
        for word in [
            "isolcpus=",
            "nohz_full=",
            "rcu_nocbs=",
            "CPUAffinity=",
            "cpuset.cpus",
            "isolated_cores=",
            "BANNED",
            "banned",
        ] {
            assert!(!told.contains(word), "{form}: {told}");
        }
    }
}

#[test]
fn siblings_that_are_offline_or_waived_stay_out_of_the_list() {
    let tree = Tree::new("6.12.0", "ro");
    tree.root("sys/devices/system/cpu/online", "0-6\n");
    assert!(tree.line().starts_with("ro isolcpus=managed_irq,domain,2-3,6 "), "{}", tree.line());

    tree.root("sys/devices/system/cpu/online", "0-7\n");
    tree.write(
        "waivers.toml",
        "[[waiver]]\nrule = \"siblings\"\nreason = \"r\"\nowner = \"o\"\nexpires = 9999-12-31\n",
    );
    let waivers = tree.path("waivers.toml");
    let told = tree.fix(&["--as", "cmdline", "--waivers", waivers.to_str().unwrap()]);
    assert!(commands(&told).starts_with("ro isolcpus=managed_irq,domain,2-3 "), "{told}");
    assert!(told.contains("# siblings is waived and left as it is.\n"), "{told}");
}

#[test]
fn a_line_without_end_is_told() {
    let told = Tree::new("6.12.0", &format!("ro {}", "x".repeat(2044))).fix(&["--as", "cmdline"]);
    assert!(told.contains("may have been cut"), "{told}");
    assert!(told.contains("are more than x86 and arm64 take"), "{told}");
}

/// Every script that is printed is one that a POSIX shell can read, and it says no to a user without rights.
#[test]
fn the_script_is_a_script() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fix.sh");
    for fixture in ["mistuned", "laptop", "bare", "tuned"] {
        let script = of_fixture(fixture, "runtime");
        assert!(script.starts_with("#!/bin/sh\n") && script.ends_with("\nexit \"$failed\"\n"), "{script}");
        fs::write(&path, &script).unwrap();
        let output = Command::new("sh").arg("-n").arg(&path).output().unwrap();
        assert!(output.status.success(), "{fixture}: {}", text(&output.stderr));
    }
}

/// Runs a script with every path led into a folder, and without its check for root.
fn run_in(tree: &Tree, script: &str) -> Output {
    let into = tree.path("target");
    let script = script.replace(" /sys/", &format!(" {}/sys/", into.display()));
    let script = script.replace(" /proc/", &format!(" {}/proc/", into.display()));
    let script = script.replace("=/sys/", &format!("={}/sys/", into.display()));
    let script = script.replace("[ \"$(id -u)\" -eq 0 ] || { echo \"needs root\" >&2; exit 1; }\n", "");
    assert!(!script.contains(" /sys/") && !script.contains(" /proc/"), "{script}");
    tree.write("fix.sh", &script);
    Command::new("sh").arg(tree.path("fix.sh")).env_clear().output().unwrap()
}

#[test]
fn the_script_writes_what_it_says_and_goes_on_after_a_refusal() {
    let tree = Tree::new("6.12.0", "ro");
    for (irq, mask) in [(10, "0-7"), (11, "2"), (12, "0-1")] {
        tree.root(&format!("proc/irq/{irq}/smp_affinity_list"), &format!("{mask}\n"));
        tree.root(&format!("proc/irq/{irq}/dev{irq}/.keep"), "");
        tree.write(&format!("target/proc/irq/{irq}/smp_affinity_list"), "");
    }
    tree.write("target/proc/irq/default_smp_affinity", "");
    tree.write("target/sys/fs/cgroup/cgroup.subtree_control", "");
    tree.write("target/sys/fs/cgroup/quietcore/cpuset.cpus", "");
    for file in ["enabled", "defrag"] {
        tree.write(&format!("target/sys/kernel/mm/transparent_hugepage/{file}"), "");
    }
    // The folder of CPU 7 is not there: that write fails.
    tree.write("target/sys/devices/system/cpu/cpu6/online", "1\n");
    let output = run_in(&tree, &tree.fix(&["--as", "runtime"]));
    let wrote =
        |path: &str| fs::read_to_string(tree.path("target").join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(wrote("sys/devices/system/cpu/cpu6/online"), "0\n");
    assert_eq!(wrote("proc/irq/default_smp_affinity"), "33\n");
    assert_eq!(wrote("proc/irq/10/smp_affinity_list"), "0-1,4-5\n");
    assert_eq!(wrote("proc/irq/11/smp_affinity_list"), "0-1,4-5\n");
    assert_eq!(wrote("proc/irq/12/smp_affinity_list"), "0-1\n");
    assert_eq!(wrote("sys/kernel/mm/transparent_hugepage/defrag"), "madvise\n");
    assert_eq!(wrote("sys/fs/cgroup/quietcore/cpuset.cpus"), "2-3\n");
    assert_eq!(wrote("sys/fs/cgroup/quietcore/cpuset.cpus.partition"), "isolated\n");
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.lines().any(|line| line.starts_with("failed: 0 > ") && line.ends_with("/cpu7/online")), "{told}");
}

#[test]
fn the_order_of_the_script() {
    let tree = Tree::new("6.12.0", "ro");
    tree.write("plan.toml", "realtime = true\nidle = \"6-7\"\n[hot]\nfeed = \"2-3\"\n");
    tree.root("proc/sys/kernel/sched_rt_runtime_us", "950000\n");
    tree.root("proc/sys/kernel/sched_rt_period_us", "1000000\n");
    tree.root("sys/kernel/debug/sched/fair_server/cpu2/runtime", "50000000\n");
    tree.root("proc/77/comm", "irqbalance\n");
    tree.root("proc/irq/10/smp_affinity_list", "0-7\n");
    let script = tree.fix(&["--as", "runtime"]);
    let mut last = 0;
    for part in [
        "put 0 /sys/devices/system/cpu/cpu7/online",
        "systemctl stop irqbalance",
        "put 33 /proc/irq/default_smp_affinity",
        "put 0-1,4-5 /proc/irq/10/smp_affinity_list",
        "put -1 /proc/sys/kernel/sched_rt_runtime_us",
        "put 0 /sys/kernel/debug/sched/fair_server/cpu3/runtime",
        "put isolated \"$group/cpuset.cpus.partition\"",
    ] {
        let at = script.find(part).unwrap_or_else(|| panic!("no {part}: {script}"));
        assert!(at > last, "{part}: {script}");
        last = at;
    }
}

/// A host under audit may have been prepared to have its names read: none of them becomes a command.
#[test]
fn names_of_the_host_stay_in_comments() {
    let tree = Tree::new("6.12.0", "ro \"a\u{7}b\" $(reboot)");
    tree.root("proc/irq/10/smp_affinity_list", "0-7\n");
    tree.root("proc/irq/10/x\ntouch pwned\n/.keep", "");
    tree.root("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    tree.root("sys/kernel/mm/transparent_hugepage/hugepages-$(reboot)kB/enabled", "[always] inherit madvise never\n");
    tree.write("plan.toml", "[hot]\n\"feed; reboot\" = \"2-3\"\n");
    for form in ["runtime", "systemd", "tuned", "cmdline"] {
        let told = tree.fix(&["--as", form]);
        for line in told.lines() {
            let command = if line.starts_with('#') { "" } else { line.split(" # ").next().unwrap_or_default() };
            let is_running_line = form == "cmdline";
            assert!(is_running_line || !command.contains("reboot"), "{form}: {line}");
            assert!(!line.starts_with("touch"), "{form}: {line}");
            assert!(!line.contains(char::is_control), "{form}: {line:?}");
        }
    }
}

#[test]
fn rules_of_others_speak_for_themselves() {
    let tree = Tree::new("6.12.0", "ro");
    tree.root("sys/kernel/mm/transparent_hugepage/enabled", "[madvise] always never\n");
    tree.root("sys/kernel/mm/transparent_hugepage/defrag", "[madvise] always never\n");
    let rule = |title: &str| {
        format!(
            "schema = 1\ntitle = \"{title}\"\nlevel = \"advised\"\nwhy = \"w\"\n[fix]\nruntime = \"do {{plan.hot}} now\"\n\
             persistent = \"do it for good\"\nboot = \"own=param\"\n[[assert]]\nthat = \"thp.enabled\"\nis = \"never\"\n"
        )
    };
    tree.write("rules/mine.toml", &rule("mine"));
    // One that takes the place of a built-in rule wants something else than that one.
    tree.write("rules/thp.toml", &rule("never"));
    let rules = tree.path("rules");
    for (form, own) in [
        ("cmdline", "own=param"),
        ("runtime", "do 2-3 now"),
        ("systemd", "do it for good"),
        ("tuned", "do it for good"),
    ] {
        let told = tree.fix(&["--as", form, "--rules", rules.to_str().unwrap()]);
        for id in ["mine", "thp"] {
            let said =
                format!("\n# {id}, advised against: thp.enabled madvise, wanted never\n#   the rule says: {own}\n");
            assert!(told.contains(&said), "{form}: {told}");
        }
        assert!(!commands(&told).contains("madvise") && !commands(&told).contains("own=param"), "{form}: {told}");
    }
}

#[test]
fn mistakes_are_usage_errors() {
    for args in [
        &["--as", "cmdline"][..],
        &["--plan", "fixtures/tuned/plan.toml", "--as", "grub"],
        &["--plan", "fixtures/none.toml"],
        &["--plan", "fixtures/tuned/plan.toml", "--root", "fixtures/none"],
        &["--plan", "fixtures/tuned/plan.toml", "--waivers", "fixtures/none.toml"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(i32::from(exit::USAGE)), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn help_has_examples() {
    let help = answer(["--help"]);
    assert!(help.contains("quietcore fix --plan plan.toml --as runtime > fix.sh"), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 79), "{help}");
}

/// The files of `--as systemd`, by the paths that they begin with.
fn files(text: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("# /etc/systemd/system/") {
            files.push((path.to_owned(), String::new()));
        } else if let Some((_, text)) = files.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    files
}

/// `systemd-analyze verify` exits 0 for what it merely warns of: whatever it says is a failure.
fn verify(dir: &Path, unit: &str) -> String {
    let mut command = Command::new("systemd-analyze");
    command
        .args(["verify", "--man=no", "--recursive-errors=no", unit])
        .env("SYSTEMD_UNIT_PATH", format!("{}:", dir.display()));
    let output = command.current_dir(dir).output().unwrap();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Is there a systemd-analyze that is silent of a good unit, and is not of a bad one?
fn can_verify() -> Result<(), String> {
    if let Err(error) = Command::new("systemd-analyze").arg("--version").output() {
        return Err(format!("systemd-analyze does not run: {error}"));
    }
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        verify(dir.path(), name)
    };
    let good = of("good.service", "[Service]\nExecStart=/bin/true\n");
    if !good.is_empty() {
        return Err(format!("systemd-analyze verify complains of a good unit: {good}"));
    }
    let bad = of("bad.service", "[Service]\nExecStart=/bin/true\nNoSuchKey=1\n");
    if bad.is_empty() { Err("systemd-analyze verify takes any unit for good".to_owned()) } else { Ok(()) }
}

#[test]
fn systemd_has_nothing_to_say_of_the_units() {
    if let Err(why) = can_verify() {
        eprintln!("skipped: {why}");
        return;
    }
    let realtime = Tree::new("6.12.0", "ro");
    realtime.write("plan.toml", "realtime = true\nlocked-memory = \"1GiB\"\nidle = \"6-7\"\n[hot]\nfeed = \"2-3\"\n");
    realtime
        .root("proc/self/limits", "Max locked memory         65536                65536                bytes     \n");
    realtime.root("proc/77/comm", "irqbalance\n");
    let texts = [
        of_fixture("mistuned", "systemd"),
        of_fixture("laptop", "systemd"),
        of_fixture("bare", "systemd"),
        realtime.fix(&["--as", "systemd"]),
    ];
    for text in texts {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for base in ["SERVICE.service", "irqbalance.service"] {
            write(base, "[Service]\nExecStart=/bin/true\n");
        }
        let files = files(&text);
        assert!(!files.is_empty(), "{text}");
        for (path, text) in &files {
            write(path, &text.replace("/usr/bin/quietcore", BIN));
        }
        for unit in ["SERVICE.service", "irqbalance.service", "quietcore-runtime.service"] {
            if dir.path().join(unit).exists() {
                let said = verify(dir.path(), unit);
                assert_eq!(said, "", "{unit}: {text}");
            }
        }
    }
}
