//! Every test of what a path leads to runs with both resolvers.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

use super::*;

fn roots_of(dir: &Path, live: bool) -> Vec<Root> {
    let root = |resolver| Root::assemble(dir, open(dir, LOOK, Mode::empty()).unwrap(), live, resolver).unwrap();
    let mut roots = vec![root(Resolver::Walk)];
    if Root::open(dir).unwrap().resolver == Resolver::Kernel {
        roots.push(root(Resolver::Kernel));
    } else {
        println!("skipped: openat2 is not to be had here");
    }
    roots
}

/// A captured tree that is made up file by file.
struct Tree(TempDir);

impl Tree {
    fn new() -> Tree {
        Tree(tempfile::tempdir().unwrap())
    }

    /// Where a path of the tree is, its folders made.
    fn at(&self, path: &str) -> PathBuf {
        let at = self.0.path().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        at
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Tree {
        fs::write(self.at(path), content).unwrap();
        self
    }

    fn link(&self, path: &str, target: &str) -> &Tree {
        symlink(target, self.at(path)).unwrap();
        self
    }

    fn roots(&self) -> Vec<Root> {
        roots_of(self.0.path(), false)
    }

    fn open(&self) -> Result<Root, RootError> {
        Root::open(self.0.path())
    }
}

fn text(text: &str) -> Reading<String> {
    Reading::Value(text.to_owned())
}

fn errno<T>(errno: Errno) -> Reading<T> {
    Reading::Unreadable(Obstacle::Errno(errno))
}

fn refused<T>(why: &str) -> Reading<T> {
    Reading::Unreadable(Obstacle::Other(why.to_owned()))
}

fn names(reading: &Reading<Rc<Listing>>) -> Vec<&str> {
    reading.value().unwrap().entries.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn a_file_is_read_whole_whatever_its_bytes_are() {
    let tree = Tree::new();
    tree.file("proc/tail", "2-5\0\0").file("proc/empty", "").file("proc/bytes", b"2-5\xff\n");
    let large = "x".repeat(MAX_FILE);
    tree.file("proc/large", &large);
    for root in tree.roots() {
        assert_eq!(root.read("proc/tail"), text("2-5\0\0"), "what a NUL means is for the parsers");
        assert_eq!(root.read("proc/empty"), text(""));
        assert_eq!(root.read("proc/large"), text(&large));
        assert_eq!(root.read("proc/bytes"), Reading::Malformed("2-5\u{fffd}".into()));
        assert_eq!(root.read_bytes("proc/bytes"), Reading::Value(b"2-5\xff\n".to_vec()));
        assert_eq!(root.exists("proc/tail"), Reading::Value(()));
        assert_eq!(root.exists("proc"), Reading::Value(()));
    }
}

#[test]
fn what_is_absent_is_not_exposed() {
    let tree = Tree::new();
    tree.file("sys/file", "1\n").link("sys/dangling", "nowhere");
    for root in tree.roots() {
        for path in ["proc/version", "sys/none", "sys/file/below", "sys/file/", "sys/file/..", "sys/dangling", ""] {
            assert_eq!(root.read(path), Reading::NotExposed, "{path:?}");
            assert_eq!(root.exists(path), Reading::NotExposed, "{path:?}");
            assert_eq!(root.list(path), Reading::NotExposed, "{path:?}");
        }
        assert_eq!(root.read_s32("dev/cpu_dma_latency"), Reading::NotExposed);
        assert_eq!(root.list("sys/file"), Reading::NotExposed);
    }
}

#[test]
fn only_regular_files_are_read() {
    let tree = Tree::new();
    mknodat(CWD, tree.at("proc/fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _listener = UnixListener::bind(tree.at("proc/socket")).unwrap();
    tree.link("proc/linked", "fifo").file("sys/class/x", "");
    for root in tree.roots() {
        assert_eq!(root.read("proc/fifo"), refused("is a FIFO, not a file"));
        assert_eq!(root.read("proc/linked"), refused("is a FIFO, not a file"));
        assert_eq!(root.read("proc/socket"), refused("is a socket, not a file"));
        assert_eq!(root.read("sys/class"), refused("is a folder, not a file"));
        assert_eq!(root.read("."), refused("is a folder, not a file"));
        assert_eq!(root.exists("proc/fifo"), Reading::Value(()));
    }
    for root in roots_of(Path::new("/dev"), false) {
        assert_eq!(root.read("zero"), refused("is a character device, not a file"));
        assert_eq!(root.read_s32("zero"), Reading::NotExposed, "a tree's devices are never opened");
    }
    for root in roots_of(tree.0.path(), true) {
        assert_eq!(root.read("proc/fifo"), refused("is a FIFO, not a file"), "on a live root too, without waiting");
    }
}

#[test]
fn a_read_is_bounded() {
    let tree = Tree::new();
    tree.file("large", vec![b'x'; MAX_FILE + 1]);
    File::create(tree.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    for root in tree.roots() {
        assert_eq!(root.read("large"), refused("larger than 1 MiB"));
        assert_eq!(root.read("sparse"), refused("larger than 1 MiB"));
    }
}

#[test]
fn a_file_without_permission_is_denied() {
    let tree = Tree::new();
    tree.file("proc/secret", "1\n");
    fs::set_permissions(tree.at("proc/secret"), fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(tree.at("proc/secret")).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    for root in tree.roots() {
        assert_eq!(root.read("proc/secret"), errno(Errno::ACCESS));
        assert_eq!(root.exists("proc/secret"), Reading::Value(()));
    }
}

#[test]
fn links_stay_inside() {
    let outside = Tree::new();
    outside.file("secret", "outside\n");
    let outside = outside.at("secret");
    let tree = Tree::new();
    tree.file("etc/inside", "inside\n")
        .link("sys/absolute", "/etc/inside")
        .link("sys/clamped", "../../../../../../../../etc/inside")
        .link("sys/folder", "/etc/")
        .link("sys/through", "folder/../sys/folder/inside")
        .link("sys/out", outside.to_str().unwrap())
        .link("sys/out-by-dots", &format!("{}{}", "../".repeat(40), outside.strip_prefix("/").unwrap().display()))
        .link("sys/zero", "/dev/zero")
        .link("sys/host", "/proc/version")
        .link("sys/file-as-folder", "/etc/inside/");
    for root in tree.roots() {
        for path in ["absolute", "clamped", "folder/inside", "through", "../sys/absolute", "../../../etc/inside"] {
            assert_eq!(root.read(&format!("sys/{path}")), text("inside\n"), "{path}");
        }
        assert_eq!(root.read("/etc/inside"), text("inside\n"), "even asked so, it is below the root");
        for path in ["out", "out-by-dots", "zero", "host", "file-as-folder"] {
            assert_eq!(root.read(&format!("sys/{path}")), Reading::NotExposed, "{path}");
        }
        assert_eq!(names(&root.list("sys/folder")), ["inside"]);
        assert_eq!(names(&root.list("..")), ["etc", "sys"], "above the root is the root");
        assert_eq!(root.read(outside.to_str().unwrap()), Reading::NotExposed);
    }
}

#[test]
fn link_loops_end() {
    let tree = Tree::new();
    tree.link("self", "self").link("one", "two").link("two", "one").file("chain0", "end\n");
    for number in 1..=41 {
        tree.link(&format!("chain{number}"), &format!("chain{}", number - 1));
    }
    for root in tree.roots() {
        assert_eq!(root.read("self"), errno(Errno::LOOP));
        assert_eq!(root.read("one/file"), errno(Errno::LOOP));
        assert_eq!(root.list("two"), errno(Errno::LOOP));
        assert_eq!(root.read("chain40"), text("end\n"));
        assert_eq!(root.read("chain41"), errno(Errno::LOOP));
    }
}

#[test]
fn deep_folders_and_hostile_paths_are_answered() {
    let tree = Tree::new();
    let deep = "d/".repeat(200) + "file";
    tree.file(&deep, "deep\n");
    for root in tree.roots() {
        assert_eq!(root.read(&deep), text("deep\n"));
        assert_eq!(root.read(&("d/../".repeat(300) + &deep)), text("deep\n"));
        assert_eq!(root.read(&"d/".repeat(4000)), errno(Errno::NAMETOOLONG));
        assert_eq!(root.read(&"n".repeat(300)), errno(Errno::NAMETOOLONG));
        assert_eq!(root.read("d\0/file"), refused("the path holds a NUL"));
    }
}

#[test]
fn a_listing_is_sorted_and_tells_folders_from_links() {
    let tree = Tree::new();
    tree.file("cpu/cpu10/x", "").file("cpu/cpu2/x", "").file("cpu/online", "").file("cpu/.keep", "");
    tree.link("cpu/linked", "cpu2");
    fs::write(tree.at("cpu").join(std::ffi::OsStr::from_bytes(b"odd\xff")), "").unwrap();
    let entry =
        |name: &str, is_dir, is_link| Entry { name: name.into(), is_dir, is_link, is_file: !is_dir && !is_link };
    let entries = vec![
        entry("cpu10", true, false),
        entry("cpu2", true, false),
        entry("linked", false, true),
        entry("odd\u{fffd}", false, false),
        entry("online", false, false),
    ];
    for root in tree.roots() {
        assert_eq!(root.list("cpu"), Reading::Value(Rc::new(Listing { entries: entries.clone(), cut: false })));
    }
}

#[test]
fn a_listing_is_bounded_and_says_so() {
    let tree = Tree::new();
    fs::create_dir(tree.at("many")).unwrap();
    for number in 0..20_000 {
        File::create(tree.at("many").join(number.to_string())).unwrap();
    }
    for root in tree.roots() {
        let listing = root.list("many");
        assert_eq!(listing.value().map(|listing| (listing.entries.len(), listing.cut)), Some((20_000, false)));
        for (limit, cut) in [(19_999, true), (20_000, false)] {
            let listing = entries(&root.open_inside("many", LIST).unwrap(), limit, false).unwrap();
            assert_eq!((listing.entries.len(), listing.cut), (limit, cut));
        }
    }
}

#[test]
fn a_tree_is_one_mount_and_a_live_root_is_not() {
    // `/proc` and `/dev` are mounts wherever these tests can run.
    for root in roots_of(Path::new("/"), false) {
        assert_eq!(root.read("proc/version"), errno(Errno::XDEV));
        assert_eq!(root.list("proc"), errno(Errno::XDEV));
        assert_eq!(root.exists("proc/self/../version"), errno(Errno::XDEV));
    }
    for root in roots_of(Path::new("/"), true) {
        assert!(matches!(root.read("proc/version"), Reading::Value(_)));
        assert_eq!(root.read_s32("dev/zero"), Reading::Value(0));
        assert_eq!(root.read_s32("dev/null"), refused("gave 0 of 4 bytes"));
        assert_eq!(root.read_s32("proc/version"), refused("is a file, not a character device"));
        assert_eq!(root.writable("proc/version"), Some(false));
    }
}

/// A bind of the same file system has the same device number, so this is the test that the others cannot be.
#[test]
fn a_bind_does_not_lead_out_of_a_tree() {
    let outside = Tree::new();
    outside.file("secret", "outside\n");
    let tree = Tree::new();
    tree.file("sys/bound/secret", "inside\n").file("sys/file", "inside\n");
    // The mounts live in a namespace of their own, seen through the process that holds it, and end with it.
    let script = r#"mount --bind "$1" "$2/sys/bound" && mount --bind "$1/secret" "$2/sys/file" && echo bound && cat"#;
    let holder = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .args([outside.0.path(), tree.0.path()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut holder) = holder else {
        println!("skipped: unshare is not installed");
        return;
    };
    let mut said = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let seen = PathBuf::from(format!("/proc/{}/root{}", holder.id(), tree.0.path().display()));
    if said == "bound\n" && seen.exists() {
        for root in roots_of(&seen, false) {
            for path in ["sys/bound/secret", "sys/bound/../bound/secret", "sys/file"] {
                assert_eq!(root.read(path), errno(Errno::XDEV), "{path}");
            }
            assert_eq!(root.list("sys/bound"), errno(Errno::XDEV));
            assert_eq!(names(&root.list("sys")), ["bound", "file"]);
        }
    } else {
        println!("skipped: no mount namespace of one's own is to be had here");
    }
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

/// While a folder or a file changes places with a link that leads out, no read comes from outside.
#[test]
fn an_exchange_while_reading_does_not_lead_out() {
    let outside = Tree::new();
    outside.file("text", "outside\n");
    let tree = Tree::new();
    tree.file("folder/text", "inside\n").link("folder-out", outside.0.path().to_str().unwrap());
    tree.file("file", "inside\n").link("file-out", outside.at("text").to_str().unwrap());
    tree.link("up", "folder/../folder/text");
    let exchange = |one: &Path, other: &Path| renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    let (folder, folder_out) = (tree.at("folder"), tree.at("folder-out"));
    let (file, file_out) = (tree.at("file"), tree.at("file-out"));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if exchange(&folder, &folder_out).and_then(|()| exchange(&file, &file_out)).is_err() {
                    println!("skipped: this file system does not exchange");
                    break;
                }
            }
        });
        let readings: Vec<_> = tree
            .roots()
            .iter()
            .flat_map(|root| (0..500).flat_map(|_| ["folder/text", "up", "file"].map(|path| root.read(path))))
            .collect();
        // Before any assertion: a panic here would leave the other thread running and the scope waiting for it.
        done.store(true, Ordering::Relaxed);
        for reading in readings {
            // ELOOP: the walk opens a name that it knows to be no link, and by then it is one.
            let harmless =
                reading == text("inside\n") || reading == Reading::NotExposed || reading == errno(Errno::LOOP);
            assert!(harmless, "{reading:?}");
        }
    });
}

#[test]
fn the_live_host_is_known_by_its_inode() {
    let tree = Tree::new();
    tree.link("slash", "/");
    for spelling in [Path::new("/"), Path::new("//"), Path::new("/proc/.."), &tree.at("slash")] {
        assert!(Root::open(spelling).unwrap().is_live(), "{}", spelling.display());
    }
    let root = tree.open().unwrap();
    assert!(!root.is_live());
    assert_eq!(root.name(), tree.0.path().to_str().unwrap());
}

#[test]
fn what_cannot_be_a_root_is_refused() {
    let tree = Tree::new();
    tree.file("file", "");
    let message = |path: &str| Root::open(&tree.at(path)).unwrap_err().to_string();
    let at = tree.0.path().display();
    assert_eq!(message("file"), format!("{at}/file is not a folder"));
    assert_eq!(message("none"), format!("cannot open {at}/none: No such file or directory (os error 2)"));
}

#[test]
fn captured_errors_are_answered_as_asked_as_resolved_and_below_folders() {
    let tree = Tree::new();
    tree.file("sys/cpufreq/policy5/scaling_governor", "performance\n")
        .file("sys/cpufreq/policy5/energy", "0\n")
        .link("sys/cpu5/cpufreq", "../cpufreq/policy5")
        .link("sys/cpu6/cpufreq", "../cpufreq/policy6")
        .file("proc/1/comm", "init\n")
        .file("proc/1/task/1/comm", "init\n")
        .file("proc/12/comm", "twelve\n")
        .file("proc/gone", "1\n")
        .file(
            CAPTURE,
            r#"
            schema = 1
            [errors]
            "sys/cpufreq/policy5/scaling_governor" = "EBUSY"
            "sys/cpufreq/policy6/scaling_governor" = "EIO"
            "sys/cpu5/cpufreq/energy" = "EINVAL"
            "proc/1" = "EACCES"
            "proc/1/task" = "EPERM"
            "proc/gone" = "ENOENT"
            "#,
        );
    for root in tree.roots() {
        assert_eq!(root.read("sys/cpufreq/policy5/scaling_governor"), errno(Errno::BUSY));
        assert_eq!(root.read("sys/cpu5/cpufreq/scaling_governor"), errno(Errno::BUSY), "by what it resolves to");
        assert_eq!(root.read("sys//./cpu5/cpufreq/scaling_governor"), errno(Errno::BUSY));
        assert_eq!(root.read("sys/cpu6/cpufreq/scaling_governor"), errno(Errno::IO), "though the file is not there");
        assert_eq!(root.read("sys/cpu5/cpufreq/energy"), errno(Errno::INVAL), "as it was asked");
        assert_eq!(root.read("sys/cpufreq/policy5/energy"), text("0\n"), "the other way to it has no entry");
        assert_eq!(root.read("proc/1/comm"), errno(Errno::ACCESS));
        assert_eq!(root.list("proc/1"), errno(Errno::ACCESS));
        assert_eq!(root.exists("proc/1/comm"), errno(Errno::ACCESS));
        assert_eq!(root.read_s32("proc/1/device"), errno(Errno::ACCESS));
        assert_eq!(root.read("proc/1/task/1/comm"), errno(Errno::PERM), "the nearest folder counts");
        assert_eq!(root.read("proc/12/comm"), text("twelve\n"), "a folder is not a prefix of its name");
        assert_eq!(root.read("proc/gone"), Reading::NotExposed);
    }
}

#[test]
fn captured_modes_and_numbers_are_all_that_a_tree_has() {
    let tree = Tree::new();
    for irq in 36..=39 {
        tree.file(&format!("proc/irq/{irq}/smp_affinity"), "1\n");
    }
    tree.link("proc/linked", "irq/36").file("dev/cpu_dma_latency", "\0\0\0\0").file(
        CAPTURE,
        r#"
        schema = 1
        [modes]
        "proc/irq/36/smp_affinity" = "0444"
        "proc/irq/37/smp_affinity_list" = "644"
        "proc/irq/38/smp_affinity" = "0644"
        "proc/irq/38/smp_affinity_list" = "0444"
        "proc/timer" = "0200"
        [binary]
        "dev/cpu_dma_latency" = -7
        "#,
    );
    for root in tree.roots() {
        for (irq, writable) in [(36, Some(false)), (37, Some(true)), (38, Some(false)), (39, None)] {
            assert_eq!(root.writable(&format!("proc/irq/{irq}/smp_affinity")), writable, "{irq}");
            assert_eq!(root.writable(&format!("proc/irq/{irq}/smp_affinity_list")), writable, "{irq}");
        }
        assert_eq!(root.writable("proc/linked/smp_affinity_list"), Some(false));
        assert_eq!(root.writable("proc/irq/36"), None, "a mode is of one file");
        assert_eq!(root.writable("proc/timer"), Some(true));
        assert_eq!(root.read_s32("dev/cpu_dma_latency"), Reading::Value(-7));
    }
}

#[test]
fn on_the_live_host_the_inode_tells_and_capture_toml_does_not() {
    let tree = Tree::new();
    tree.file("irq/smp_affinity", "1\n").file("irq/smp_affinity_list", "0\n").file("irq/alone", "");
    tree.file(CAPTURE, "schema = 1\n[errors]\n\"irq/alone\" = \"EIO\"\n");
    fs::set_permissions(tree.at("irq/smp_affinity_list"), fs::Permissions::from_mode(0o444)).unwrap();
    for root in roots_of(tree.0.path(), true) {
        assert_eq!(root.writable("irq/smp_affinity"), Some(false), "its twin is not writable");
        assert_eq!(root.writable("irq/alone"), Some(true));
        assert_eq!(root.writable("irq/none"), None);
        assert_eq!(root.read("irq/alone"), text(""));
    }
}

#[test]
fn a_wrong_capture_toml_is_named_with_its_line_and_column() {
    let cases = [
        ("", 1, 1, "missing field `schema`"),
        ("schema = 2\n", 1, 10, "schema 2 is not known, only 1 is"),
        ("schema = 1\nmode = 3\n", 2, 1, "unknown field `mode`"),
        ("schema = 1\n[errors]\n\"a\" = \"EWHAT\"\n", 3, 7, "`EWHAT` is not an errno that kernel files give"),
        ("schema = 1\n[errors]\n  \"é\" = 5\n", 3, 9, "invalid type: integer `5`"),
        ("schema = 1\n[errors]\n\"/a\" = \"EIO\"\n", 3, 1, "a path here is relative to the tree"),
        ("schema = 1\n[modes]\n\"a/../b\" = \"0444\"\n", 3, 1, "a path here has no empty, `.` or `..` component"),
        ("schema = 1\n[modes]\n\"a/\" = \"0444\"\n", 3, 1, "a path here has no empty, `.` or `..` component"),
        ("schema = 1\n[modes]\n\"a\" = \"0849\"\n", 3, 7, "`0849` is not an octal mode like 0444"),
        ("schema = 1\n[modes]\n\"a\" = \"+444\"\n", 3, 7, "`+444` is not an octal mode like 0444"),
        ("schema = 1\n[modes]\n\"a\" = \"00444\"\n", 3, 7, "`00444` is not an octal mode like 0444"),
        ("schema = 1\n[binary]\n\"a\" = 2147483648\n", 3, 7, "invalid value: integer `2147483648`"),
        ("schema = 1\n[binary]\n\"a\" = 1\n\"a\" = 2\n", 4, 1, "duplicate key"),
        ("schema = 1\n\"\\u001b[31m\" = 3\n", 2, 1, "unknown field `\\u{1b}[31m`"),
        ("schema = \n", 1, 10, ""),
    ];
    for (content, line, column, message) in cases {
        let tree = Tree::new();
        tree.file(CAPTURE, content);
        let error = tree.open().unwrap_err().to_string();
        let start = format!("{}/capture.toml:{line}:{column}: {message}", tree.0.path().display());
        let text = format!(", in: {}", content.lines().nth(line - 1).unwrap_or_default().trim());
        assert!(error.starts_with(&start), "{content:?} gives\n{error}\nand not\n{start}");
        assert!(error.ends_with(&text), "{content:?} gives\n{error}");
    }
}

#[test]
fn a_capture_toml_that_cannot_be_read_is_an_error() {
    let message = |tree: &Tree| tree.open().unwrap_err().to_string();
    let tree = Tree::new();
    mknodat(CWD, tree.at(CAPTURE), FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert!(message(&tree).ends_with("capture.toml: is a FIFO, not a file"));

    let tree = Tree::new();
    tree.link(CAPTURE, "/etc/passwd");
    assert!(message(&tree).ends_with("capture.toml: ENOENT"), "it does not lead out and is not passed over");

    let tree = Tree::new();
    tree.file(CAPTURE, b"schema = 1 # \xff\n");
    assert!(message(&tree).ends_with("capture.toml: not UTF-8 text"));

    let tree = Tree::new();
    tree.file(CAPTURE, vec![b'\n'; MAX_FILE + 1]);
    assert!(message(&tree).ends_with("capture.toml: larger than 1 MiB"));

    let tree = Tree::new();
    tree.file(CAPTURE, "schema = 1\n");
    assert!(tree.open().is_ok());
}

#[test]
fn what_is_in_a_folder_that_was_listed_reads_as_it_did_before() {
    let tree = Tree::new();
    tree.file("irq/5/smp_affinity_list", "1\n").file("irq/5/.hidden", "h").file("outside", "o");
    tree.link("irq/5/linked", "../../outside").link("irq/5/out", "/etc/hostname");
    mknodat(CWD, tree.at("irq/5/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::create_dir(tree.at("irq/5/eth0")).unwrap();
    let names = ["smp_affinity_list", "linked", "out", "fifo", "eth0", "absent", ".hidden", "eth0/x", "../../outside"];
    for root in tree.roots() {
        let read = || names.map(|name| root.read(&format!("irq/5/{name}")));
        let before = read();
        root.list("irq/5").value().unwrap();
        assert_eq!(read(), before);
        assert_eq!(before[0], Reading::Value("1\n".to_owned()));
    }
}

#[test]
fn a_listed_file_that_became_a_link_is_followed_inside_only() {
    let tree = Tree::new();
    tree.file("irq/5/a", "1").file("irq/5/b", "2");
    for root in tree.roots() {
        root.list("irq/5").value().unwrap();
        fs::remove_file(tree.at("irq/5/a")).unwrap();
        tree.link("irq/5/a", "b");
        assert_eq!(root.read("irq/5/a"), Reading::Value("2".to_owned()));
        fs::remove_file(tree.at("irq/5/a")).unwrap();
        tree.file("irq/5/a", "1");
    }
}

#[test]
fn a_file_of_any_length_is_read_to_its_end() {
    let tree = Tree::new();
    for length in [0, 1, 4095, 4096, 4097, 8192, 20_000] {
        let text = "x".repeat(length);
        tree.file("file", &text);
        for root in tree.roots() {
            assert_eq!(root.read("file"), Reading::Value(text.clone()), "{length}");
        }
    }
}

#[test]
fn files_that_the_kernel_makes_in_one_go() {
    for path in
        ["sys/devices/system/cpu/online", "proc/irq/5/smp_affinity_list", "proc/1/comm", "proc/sys/kernel/osrelease"]
    {
        assert!(is_one_record(path), "{path}");
    }
    for path in
        ["proc/interrupts", "proc/1/status", "proc/cmdline", "sys/fs/cgroup/cgroup.procs", "boot/config", "proc"]
    {
        assert!(!is_one_record(path), "{path}");
    }
}
