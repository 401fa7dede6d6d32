//! `quietcore capture`: a tree that audits like the host it came from, and tells nothing else about it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests: what cannot go on has failed or is skipped"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{
    CPU, FAIR_SERVER, ISOLATED, OSRELEASE, REALTIME_PLAN, Run, THP, Tree, audit_dir, builtin, fixtures, quietcore,
    written,
};
use quietcore::output::Format;
use quietcore::plan::Plan;
use serde_json::Value;
use tempfile::TempDir;

/// Plans that ask different things of a host.
const PLANS: &[&str] = &[
    "[hot]\na = 1\n",
    "nic = \"eth0\"\nrealtime = true\nlocked-memory = \"1GiB\"\nidle = \"2\"\n[hot]\na = 1\nb = \"3-4\"\n",
    "realtime = true\nmax-wakeup-latency = \"100us\"\nhousekeeping = \"0\"\n[hot]\na = \"1-900\"\n",
];

/// The JSON report on a tree without the root's name.
fn audit(root: &Path, plan: &Path) -> Value {
    let report = audit_dir(root, &Plan::load(plan).unwrap(), builtin());
    let mut report: Value = serde_json::from_str(&written(&report, Format::Json)).unwrap();
    report["host"]["root"] = Value::Null;
    report
}

/// The same by the program, as for this host, of which this test is a part.
fn check(root: &Path, plan: &Path) -> Value {
    report(quietcore(["check", "--format", "json", "--root"]).args([root]).args([Path::new("--plan"), plan]))
}

fn report(run: Run) -> Value {
    let done = run.done();
    assert!(matches!(done.code, Some(0 | 1)), "{}", done.err);
    let mut report: Value = serde_json::from_str(&done.out).unwrap();
    report["host"]["root"] = Value::Null;
    report
}

/// Captures a root, and gives what the command says.
fn capture(root: &Path, out: &Path) -> String {
    quietcore(["capture", "--root"]).args([root, out]).done().answer(0)
}

fn plans(dir: &Path) -> Vec<PathBuf> {
    let plan = |(at, text): (usize, &&str)| {
        let path = dir.join(format!("plan{at}.toml"));
        fs::write(&path, text).unwrap();
        path
    };
    PLANS.iter().enumerate().map(plan).collect()
}

/// The files below a folder with their contents.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file());
    let relative = |path: &Path| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
    files.map(|entry| (relative(entry.path()), fs::read(entry.path()).unwrap())).collect()
}

/// A tree captured into a folder, which must audit like it for its own plan and for others.
#[track_caller]
fn captured(tree: &Tree) -> (TempDir, BTreeMap<String, Vec<u8>>, String) {
    let laid = tree.lay();
    same_reports(&laid.root, &[laid.dir.path().join("plan.toml")])
}

#[track_caller]
fn same_reports(root: &Path, more: &[PathBuf]) -> (TempDir, BTreeMap<String, Vec<u8>>, String) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let said = capture(root, &out);
    for plan in plans(dir.path()).iter().chain(more) {
        assert_eq!(audit(&out, plan), audit(root, plan), "{}", fs::read_to_string(plan).unwrap());
    }
    let suggested = |root: &Path| {
        let done = quietcore(["plan", "suggest", "--root"]).args([root]).done();
        (done.code, done.out, done.err)
    };
    assert_eq!(suggested(&out), suggested(root));
    let files = files(&out);
    (dir, files, said)
}

// ---- the same report ---------------------------------------------------------------------------------------------

#[test]
fn every_fixture_audits_the_same_from_its_capture() {
    let fixtures = fixtures();
    assert!(fixtures.len() > 20, "{fixtures:?}");
    for name in fixtures {
        let folder = Path::new(common::TOP).join("fixtures").join(&name);
        println!("{name}");
        let (_dir, files, _) = same_reports(&folder.join("root"), &[folder.join("plan.toml")]);
        assert!(name == "bare" || !files.is_empty());
    }
}

#[test]
fn a_capture_of_a_capture_is_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["tuned", "mistuned", "laptop", "one/irqbalance", "unseen/siblings"] {
        let root = Path::new(common::TOP).join("fixtures").join(name).join("root");
        let at = |what: &str| dir.path().join(format!("{}-{what}", name.replace('/', "-")));
        capture(&root, &at("folder"));
        capture(&root, &at("1.tar"));
        capture(&root, &at("2.tar"));
        capture(&at("folder"), &at("3.tar"));
        let archive = fs::read(at("1.tar")).unwrap();
        assert_eq!(archive, fs::read(at("2.tar")).unwrap(), "{name}: twice the same");
        assert_eq!(archive, fs::read(at("3.tar")).unwrap(), "{name}: errors, modes and device values carry over");
        tar::Archive::new(archive.as_slice()).unpack(at("unpacked")).unwrap();
        assert_eq!(files(&at("unpacked")), files(&at("folder")), "{name}: an archive holds what a folder does");
    }
}

/// cgroup v2 with partitions at some depth, and groups that hold nothing that is read.
#[test]
fn control_groups_are_captured_as_far_as_the_audit_walks() {
    let group = |path: &str, file: &str| format!("sys/fs/cgroup/{path}/{file}");
    let tree = Tree::tuned()
        .boot("quiet")
        .with(ISOLATED, "\n")
        .with("sys/fs/cgroup/cgroup.procs", "1\n")
        .with("sys/fs/cgroup/cpuset.cpus.effective", "0-1,6-15\n")
        .with("sys/fs/cgroup/cpuset.cpus.isolated", "2-3\n")
        .with(&group("a.slice/b", "cpuset.cpus.partition"), "isolated\n")
        .with(&group("a.slice/b", "cpuset.cpus.effective"), "4-5\n")
        .with(&group("a.slice", "cpuset.cpus.partition"), "root\n")
        .with(&group("a.slice", "cgroup.procs"), "\n")
        .with(&group("user.slice", "cgroup.procs"), "\n")
        .with(&group("user.slice/u", "cpuset.cpus.partition"), "isolated\n");
    let (_dir, files, _) = captured(&tree);
    assert!(files.contains_key("sys/fs/cgroup/a.slice/b/cpuset.cpus.effective"));
    assert!(!files.contains_key("sys/fs/cgroup/user.slice/u/cpuset.cpus.partition"), "the walk stops above it");
    assert!(!files.contains_key("sys/fs/cgroup/a.slice/cgroup.procs"));
}

#[test]
fn links_that_stay_inside_are_followed_and_others_are_not() {
    let laid = Tree::tuned()
        .with("sys/devices/pci0/0000:00:03.0/numa_node", "0\n")
        .with("sys/devices/pci0/0000:00:03.0/virtio0/net/eth0/operstate", "up\n")
        .with("sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "powersave\n")
        .with("proc/net/route", "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n")
        .without(&format!("{CPU}/cpu2/cpufreq"))
        .without(&format!("{CPU}/cpu3/cpufreq"))
        .lay();
    let outside = laid.dir.path().join("outside");
    fs::write(&outside, "secret\n").unwrap();
    let link = |target: &str, at: &str| {
        let at = laid.root.join(at);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(target, at).unwrap();
    };
    link("../cpufreq/policy2", &format!("{CPU}/cpu2/cpufreq"));
    link("../../../../../../../..", &format!("{CPU}/cpu3/cpufreq"));
    link("../../../virtio0", "sys/devices/pci0/0000:00:03.0/virtio0/net/eth0/device");
    link("../../devices/pci0/0000:00:03.0/virtio0/net/eth0", "sys/class/net/eth0");
    link(outside.to_str().unwrap(), "proc/config.gz");
    link("../../outside", "boot/config-6.1.0");
    let (dir, files, _) = same_reports(&laid.root, &[laid.dir.path().join("plan.toml")]);
    assert_eq!(files[&format!("{CPU}/cpu2/cpufreq/scaling_governor")], b"powersave\n");
    assert_eq!(files["sys/class/net/eth0/numa_node"], b"0\n", "by device/../numa_node");
    assert!(!files.values().any(|bytes| bytes.starts_with(b"secret")));
    let is_link = |entry: walkdir::DirEntry| entry.path_is_symlink();
    assert!(!walkdir::WalkDir::new(dir.path()).into_iter().map(Result::unwrap).any(is_link));
}

#[test]
fn names_in_folders_are_kept_where_they_are_what_is_read() {
    let mut tree = Tree::tuned()
        .line(25, "nvme0q1", "2-5", "2")
        .dead_line(26, "0-15", "2")
        .with("sys/class/net/bonding_masters", "\n")
        .with("sys/class/net/lo/operstate", "up\n")
        .with(&format!("{THP}/hugepages-64kB/stats/swpout"), "0\n")
        .with("run/.containerenv", "id=\"0123\"\nimage=\"private\"\n")
        .with("sys/kernel/debug/sched/fair_server/cpu2/runtime", "0\n")
        .plan(REALTIME_PLAN);
    let (_dir, files, _) = captured(&tree);
    for path in ["proc/irq/25/nvme0q1/.keep", "sys/class/net/bonding_masters", "sys/class/net/lo/.keep"] {
        assert_eq!(files.get(path).map(Vec::len), Some(0), "{path}");
    }
    assert_eq!(files["run/.containerenv"], b"", "that it is there counts, not what stands in it");
    assert!(!files.contains_key("sys/class/net/lo/operstate"));
    assert!(!files.contains_key("proc/version"));

    // Probes of folders: no huge pages in a kernel that shows its memory management, and an empty fair_server.
    tree = tree
        .without(THP)
        .with("sys/kernel/mm/numa/demotion_enabled", "false\n")
        .without(&format!("{FAIR_SERVER}/cpu2"));
    tree = tree.with(&format!("{FAIR_SERVER}/.keep"), "");
    let (_dir, files, _) = captured(&tree);
    assert!(files.contains_key("sys/kernel/mm/.keep") && files.contains_key(&format!("{FAIR_SERVER}/.keep")));
}

#[test]
fn a_kernel_configuration_is_kept_as_far_as_it_is_read() {
    let config = "CONFIG_LOCALVERSION=\"-secret\"\nCONFIG_RT_GROUP_SCHED=y\n";
    let tree = Tree::tuned()
        .plan(REALTIME_PLAN)
        .with(OSRELEASE, "6.12.1\n")
        .with("boot/config-6.12.1", config)
        .with("boot/config-6.1.0", config)
        .with(&format!("{FAIR_SERVER}/cpu2/runtime"), "0\n");
    let (_dir, files, _) = captured(&tree);
    assert_eq!(files["boot/config-6.12.1"], b"CONFIG_RT_GROUP_SCHED=y\n");
    assert!(!files.contains_key("boot/config-6.1.0"), "of a kernel that does not run");
    let (_dir, files, _) = captured(&tree.with("proc/config.gz", b"\x1f\x8b no gzip"));
    assert_eq!(files["proc/config.gz"], b"\x1f\x8b no gzip", "malformed there, and so here");
}

// ---- what a file cannot hold -------------------------------------------------------------------------------------

#[test]
fn errors_modes_and_device_values_are_recorded() {
    let tree = Tree::tuned().with(OSRELEASE, "6.12.0\n").line(30, "eth1", "2-5", "2").capture(
        "[errors]\n\"sys/devices/system/cpu/cpu3/cpufreq/scaling_governor\" = \"EBUSY\"\n\
         \"proc/812/comm\" = \"EACCES\"\n\"sys/kernel/debug\" = \"EACCES\"\n\
         [modes]\n\"proc/irq/30/smp_affinity_list\" = \"0444\"\n\
         [binary]\n\"dev/cpu_dma_latency\" = 7\n",
    );
    let (_dir, files, said) = captured(&tree);
    let capture = String::from_utf8(files["capture.toml"].clone()).unwrap();
    for line in [
        "schema = 1",
        "\"sys/devices/system/cpu/cpu3/cpufreq/scaling_governor\" = \"EBUSY\"",
        "\"proc/812/comm\" = \"EACCES\"",
        "\"sys/kernel/debug/sched/fair_server\" = \"EACCES\"",
        "\"proc/irq/30/smp_affinity\" = \"0444\"",
        "\"dev/cpu_dma_latency\" = 7",
    ] {
        assert!(capture.lines().any(|found| found == line), "{line} in\n{capture}");
    }
    assert!(said.contains("errors    3 recorded, 2 of them for want of permission"), "{said}");
}

/// The processes of a container say nothing of its host, whether a file marks it as a container or not.
#[test]
fn that_a_host_is_a_container_is_recorded_where_no_file_says_so() {
    let irqbalance = |files: &Path| {
        let report = audit(&files.join("root"), &files.join("plan.toml"));
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["rule"] == "irqbalance").unwrap().clone()
    };
    let container = Tree::tuned().with("proc/1/comm", "feed\n").with("proc/2/comm", "sh\n");
    let recorded = container.clone().capture("container = true\n");
    for (tree, verdict, toml) in [
        (recorded.clone(), "unknown", Some("schema = 1\ncontainer = true\n")),
        (recorded.clone().without("proc/2"), "unknown", Some("schema = 1\ncontainer = true\n")),
        // A mark is a file of the tree, and needs no record.
        (container.clone().with(".dockerenv", ""), "unknown", None),
        (recorded.clone().with(".dockerenv", ""), "unknown", None),
        // These are hosts.
        (container.clone(), "pass", None),
        (recorded.with("proc/2/comm", "kthreadd\n"), "pass", None),
    ] {
        let laid = tree.lay();
        let found = irqbalance(laid.dir.path());
        assert_eq!(found["verdict"], verdict, "{found}");
        let (_dir, files, _) = captured(&tree);
        let text = files.get("capture.toml").map(|bytes| String::from_utf8_lossy(bytes));
        assert_eq!(text.as_deref(), toml, "{verdict}");
    }
}

/// On a live host nobody writes `capture.toml`; here the file system refuses.
#[test]
fn what_may_not_be_read_is_recorded() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may read everything");
        return;
    }
    let laid = Tree::tuned().with("proc/903/comm", "irqbalance\n").with("proc/903/environ", "A=b\0").lay();
    for file in [&format!("{CPU}/cpu2/cpufreq/scaling_governor"), "proc/903/environ"] {
        fs::set_permissions(laid.root.join(file), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let (_dir, files, _) = same_reports(&laid.root, &[laid.dir.path().join("plan.toml")]);
    assert_eq!(files[&format!("{CPU}/cpu2/cpufreq/scaling_governor")], b"", "its name stays");
    assert!(String::from_utf8_lossy(&files["capture.toml"]).contains("\"proc/903/environ\" = \"EACCES\""));
}

#[test]
fn what_a_tree_cannot_hold_is_said() {
    let laid = Tree::tuned().with("proc/config.gz/x", "").with(ISOLATED, vec![b'0'; (1 << 20) + 1]).lay();
    let fifo = laid.root.join("proc/cmdline");
    fs::remove_file(&fifo).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let out = laid.dir.path().join("out");
    let said = capture(&laid.root, &out);
    assert!(said.contains("left out  proc/cmdline: is a FIFO, not a file\n"), "{said}");
    assert!(said.contains(&format!("left out  {ISOLATED}: larger than 1 MiB\n")), "{said}");
    assert!(out.join("proc/config.gz").is_dir(), "a folder where a file should be is one there too");
}

// ---- privacy -----------------------------------------------------------------------------------------------------

fn private_host() -> Tree {
    Tree::tuned()
        .with("proc/sys/kernel/hostname", "trade1.example.org\n")
        .boot("ip=10.0.0.2::10.0.0.1::TRADE1:eth0 BOOTIF=01-aa-bb-cc-00-11-22 isolcpus=2-5 nohz_full=2-5")
        .with("proc/1/environ", "PASSWORD=hunter2\0HOME=/secret\0ip=10.0.0.2::10.0.0.1::TRADE1:eth0\0")
        .with("proc/812/comm", "trade1-feed\n")
        .with("proc/812/cmdline", "feed\0--password=hunter2\0")
        .with("proc/812/environ", "PASSWORD=hunter2\0")
        .with("proc/903/comm", "irqbalance\n")
        .with("proc/903/environ", "PASSWORD=hunter2\0IRQBALANCE_BANNED_CPULIST=2-5\0")
        .with("proc/self/status", "Name:\tsecret\nUid:\t1234\nCapEff:\t0000000000004000\n")
        .with("proc/self/uid_map", "0 0 4294967295\n")
        .limit("65536", "65536")
        .with(
            "proc/net/route",
            "Iface\nens1\t00000000\t0101A8C0\t0003\t0\t0\t9\t00000000\t0\t0\t0\nens1\t0001A8C0\t0\t1\t0\t0\t9\tFF\t0\t0\t0\n",
        )
        .with("sys/class/net/ens1/address", "aa:bb:cc:00:11:22\n")
        .with("sys/fs/cgroup/machine-trade1.slice/cpuset.cpus.partition", "member\n")
        .with("sys/class/dmi/id/product_serial", "hunter2\n")
}

#[test]
fn nothing_private_is_copied() {
    let laid = private_host().lay();
    let out = laid.dir.path().join("out");
    let said = capture(&laid.root, &out);
    let files = files(&out);
    for (path, bytes) in &files {
        let text = format!("{path}\n{}", String::from_utf8_lossy(bytes)).to_ascii_lowercase();
        for private in ["trade1", "hunter2", "aa:bb", "aa-bb", "a8c0", "1234", "password", "secret"] {
            assert!(!text.contains(private), "{private} in {path}");
        }
    }
    assert_eq!(files["proc/903/environ"], b"IRQBALANCE_BANNED_CPULIST=2-5\0");
    assert!(!files.contains_key("proc/812/environ"));
    assert_eq!(files["proc/1/environ"], b"ip=10.0.0.2::10.0.0.1::xxxxxx:eth0\0", "it stands on the boot line");
    assert_eq!(files["proc/self/status"], b"CapEff:\t0000000000004000\n");
    let boot = String::from_utf8_lossy(&files["proc/cmdline"]);
    assert_eq!(
        boot,
        "BOOT_IMAGE=/vmlinuz ro ip=10.0.0.2::10.0.0.1::xxxxxx:eth0 BOOTIF=xx-xx-xx-xx-xx-xx-xx isolcpus=2-5 nohz_full=2-5\n",
        "nothing but the name and the address"
    );
    let filters = [(r"\d+ files, \d+ bytes", "[N] files, [N] bytes")];
    insta::with_settings!({ omit_expression => true, filters => filters }, {
        insta::assert_snapshot!("private_host", common::scrub(&said, &[laid.dir.path()]));
    });
}

#[test]
fn a_private_host_audits_the_same_but_for_its_name() {
    let laid = private_host().lay();
    let (out, kept) = (laid.dir.path().join("out"), laid.dir.path().join("kept"));
    capture(&laid.root, &out);
    let said = quietcore(["capture", "--keep-hostname", "--root"]).args([&laid.root, &kept]).done().answer(0);
    assert!(!said.contains("host name"), "{said}");
    let plan = laid.dir.path().join("plan.toml");
    let verdicts = |root: &Path| -> Vec<Value> {
        let report = audit(root, &plan);
        let findings = report["findings"].as_array().unwrap();
        findings
            .iter()
            .map(|finding| serde_json::json!([finding["rule"], finding["verdict"], finding["found"]]))
            .collect()
    };
    assert_eq!(verdicts(&out), verdicts(&laid.root));
    assert_eq!(verdicts(&kept), verdicts(&laid.root));
    assert!(fs::read_to_string(kept.join("proc/cmdline")).unwrap().contains("::TRADE1:eth0"));
}

// ---- where it is written -----------------------------------------------------------------------------------------

#[test]
fn nothing_is_overwritten_and_an_empty_folder_is_filled() {
    let laid = Tree::tuned().lay();
    let run = |out: &str| laid.run(&["capture", "--root", "root", out]).done();
    fs::create_dir(laid.dir.path().join("empty")).unwrap();
    fs::write(laid.dir.path().join("a.tar"), "mine").unwrap();
    let said = run("empty").answer(0);
    assert!(said.ends_with("audit it  quietcore check --plan PLAN --root empty\n"), "{said}");
    for out in ["empty", "a.tar", "plan.toml", "root"] {
        assert!(run(out).refusal().contains(" exists: give a new name, or an empty folder"), "{out}");
    }
    assert_eq!(fs::read(laid.dir.path().join("a.tar")).unwrap(), b"mine");
    assert!(run("new.tar").answer(0).contains("tar -xf new.tar -C DIR"));
    let done = laid.run(&["capture", "--root", "nowhere", "new"]).done();
    assert!(done.refusal().contains("nowhere") && !laid.dir.path().join("new").exists());
}

#[test]
fn what_cannot_be_written_is_exit_code_4_and_leaves_nothing() {
    let laid = Tree::tuned().lay();
    for out in ["missing/out", "missing/out.tar", "plan.toml/out"] {
        let done = laid.run(&["capture", "--root", "root", out]).done();
        assert_eq!((done.code, done.out.as_str()), (Some(4), ""), "{out}: {}", done.err);
        assert!(done.err.starts_with("error: failed to "), "{}", done.err);
    }
    assert_eq!(fs::read_dir(laid.dir.path()).unwrap().count(), 2, "plan.toml and root");
    if Path::new("/dev/full").exists() {
        let full = laid.dir.path().join("full.tar");
        symlink("/dev/full", &full).unwrap();
        let done = laid.run(&["capture", "--root", "root", "full.tar"]).done();
        assert!(done.refusal().contains("exists"), "a link is not followed");
    }
}

// ---- this host ---------------------------------------------------------------------------------------------------

/// The rules about what moves by itself: tasks come and go, lines are delivered elsewhere, a hypervisor takes time.
const MOVING: &[&str] = &["strangers", "rcuo_placement", "effective_irq", "managed_irq", "guest"];

/// How many processes there are changes while one looks, and so may what the rules about moving things say.
fn without_counts(mut report: Value) -> Value {
    report["findings"].as_array_mut().unwrap().retain(|finding| !MOVING.contains(&finding["rule"].as_str().unwrap()));
    report["counts"].take();
    for finding in report["findings"].as_array_mut().unwrap() {
        for source in finding["sources"].as_array_mut().unwrap() {
            if source["path"] == "proc/*/comm" {
                source["text"] = Value::Null;
            }
        }
    }
    report
}

/// The reports on this host for some plans, and a capture of it that was taken in between two that are the same. None
/// where the host does not hold still.
fn still_host(dir: &Path) -> Option<(PathBuf, Vec<PathBuf>, Vec<Value>)> {
    let plans = plans(dir);
    let live = || plans.iter().map(|plan| without_counts(check(Path::new("/"), plan))).collect::<Vec<_>>();
    for attempt in 0..10 {
        let out = dir.join(format!("host{attempt}"));
        let before = live();
        capture(Path::new("/"), &out);
        if live() == before {
            return Some((out, plans, before));
        }
    }
    println!("skipped: this host changes under the eyes of the audit");
    None
}

#[test]
fn this_host_audits_the_same_from_its_capture() {
    let dir = tempfile::tempdir().unwrap();
    let Some((out, plans, live)) = still_host(dir.path()) else { return };
    for (plan, live) in plans.iter().zip(live) {
        assert_eq!(without_counts(check(&out, plan)), live, "{}", fs::read_to_string(plan).unwrap());
    }
    if let Ok(name) = fs::read_to_string("/proc/sys/kernel/hostname") {
        let name = name.trim().to_ascii_lowercase();
        if name.len() > 3 && name != "localhost" {
            let alphanumeric = |c: char| c.is_ascii_alphanumeric();
            for (path, bytes) in files(&out) {
                let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
                let is_word = |at: usize| {
                    !text[..at].ends_with(alphanumeric) && !text[at + name.len()..].starts_with(alphanumeric)
                };
                assert!(!text.match_indices(&name).any(|(at, _)| is_word(at)), "the host's name in {path}");
            }
        }
    }
}

#[test]
fn a_capture_of_this_host_audits_the_same_where_proc_and_sys_are_others() {
    const POISON: &str = "mount -t tmpfs none /proc && mount -t tmpfs none /sys && mkdir -p /proc/1 /proc/irq/9/x && \
        echo poison > /proc/cmdline && echo poison > /proc/1/comm && echo poison > /proc/irq/9/smp_affinity_list && \
        exec \"$@\"";
    let poisoned = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", POISON, "sh"]);
        Run::of(command).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").args(args)
    };
    let can = rustix::process::geteuid().is_root()
        && Command::new("unshare").arg("--version").output().is_ok()
        && poisoned(&["true"]).done().code == Some(0);
    if !can {
        println!("skipped: no mount namespace to be had: it takes root, unshare and tmpfs");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some((out, plans, live)) = still_host(dir.path()) else { return };
    for (plan, live) in plans.iter().zip(live) {
        let program = env!("CARGO_BIN_EXE_quietcore");
        let (plan, out) = (plan.to_str().unwrap(), out.to_str().unwrap());
        let run = poisoned(&[program, "check", "--format", "json", "--plan", plan, "--root", out]);
        assert_eq!(without_counts(report(run)), live, "{plan}");
    }
}

/// The live host of a process whose namespaces are those of a container: a `/proc` of its own, and files as the host has them
/// but for the marks of containers.
#[test]
fn a_container_without_a_mark_audits_the_same_from_its_capture() {
    const CONTAINER: &str = "mount -t tmpfs none \"$0\" && cd \"$0\" && mkdir upper work root && \
        mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work none root && cp \"$1\" \"$2\" root/mnt && \
        rm -f root/.dockerenv root/run/.containerenv root/run/systemd/container && \
        mount -t proc none root/proc && mount --rbind /sys root/sys && cd root && exec chroot . sh -c \"$3\"";
    const AUDIT: &str = "check() { /mnt/quietcore check --plan /mnt/plan.toml --root $1 --format json; echo; }; \
        check /; /mnt/quietcore capture /mnt/tree >&2; check /; check /mnt/tree; cat /mnt/tree/capture.toml >&2";
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    fs::write(&plan, PLANS[0]).unwrap();
    let scratch = dir.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINER]);
        command.args([&scratch, Path::new(env!("CARGO_BIN_EXE_quietcore")), &plan]).arg(script);
        Run::of(command).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").done()
    };
    let can = rustix::process::geteuid().is_root() && Command::new("unshare").arg("--version").output().is_ok();
    if !can || inside("test -e /proc/1/comm && test ! -e /.dockerenv").code != Some(0) {
        println!("skipped: no container to be had: it takes root, unshare and an overlay of /");
        return;
    }
    let audited = || {
        let done = inside(AUDIT);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let reports = done.out.split_terminator("\n\n").map(|text| {
            let mut report: Value = serde_json::from_str(text).unwrap();
            report["host"]["root"] = Value::Null;
            report
        });
        let [before, after, captured] = reports.collect::<Vec<_>>().try_into().unwrap();
        (before == after).then_some((before, captured, done.err))
    };
    let Some((live, captured, said)) = (0..10).find_map(|_| audited()) else {
        println!("skipped: this host changes under the eyes of the audit");
        return;
    };
    assert_eq!(live, captured);
    let findings = live["findings"].as_array().unwrap();
    let irqbalance = findings.iter().find(|finding| finding["rule"] == "irqbalance").unwrap();
    assert_eq!((&irqbalance["verdict"], &irqbalance["cause"]), (&"unknown".into(), &"not-exposed".into()));
    assert!(said.contains("\ncontainer = true\n"), "{said}");
}
