//! A folder laid out like `/`: the live host or a captured tree, read without ever leaving it.
//!
//! This is the only module that opens or lists files of an audited host. What is asked of it may be hostile: links that
//! lead out, FIFOs that wait for a writer, devices that act when they are opened, files without an end. So every path is
//! resolved inside the root by the kernel ([openat2(2)] with `RESOLVE_IN_ROOT`), or by `walk` where the kernel cannot;
//! nothing but regular files is read; and what is read or listed is bounded.
//!
//! The live host is trusted in one respect: its mounts (`/proc`, `/sys`, `/dev`) are crossed. A tree is one mount, and a
//! bind inside it is refused with `EXDEV`. What a tree of plain files cannot hold, `capture` adds.
//!
//! [openat2(2)]: https://man7.org/linux/man-pages/man2/openat2.2.html

mod capture;
#[cfg(test)]
mod tests;
mod walk;

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, fstat, open, openat2, stat, statat};
use rustix::io::{Errno, read, retry_on_intr};

use self::capture::Capture;
pub use self::capture::Records;
use self::walk::Anchor;
use crate::reading::{Obstacle, Reading, quote};

/// The most that is read of one file: far above every file of `/proc` and `/sys` that a fact reads, `/proc/interrupts`
/// of a large host included.
const MAX_FILE: usize = 1 << 20;

/// The most entries of one folder that are listed: `/proc` of a host at its thread limit has fewer.
const MAX_ENTRIES: usize = 200_000;

/// The most entries of a folder that stays open: that of an interrupt line, of a CPU, of an idle state.
const MAX_LISTED: usize = 64;

/// How often a path is tried again when a rename elsewhere on the host made the kernel unsure of a `..` in it.
const OPENAT2_TRIES: usize = 16;

/// The file at a tree's top that holds what a plain file cannot.
pub(crate) const CAPTURE: &str = "capture.toml";

/// Look at a file without opening it: no FIFO waits and no device acts.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Open a file for reading; whatever it turns out to be, this does not wait for a peer or take a terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// Open a file of a folder that was listed: the name was no link then, and must not be one now.
const READ_LISTED: OFlags = READ.union(OFlags::NOFOLLOW);
/// Open a folder for listing. `O_DIRECTORY` has the kernel refuse anything else before it is opened.
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A folder laid out like `/`.
#[derive(Debug)]
pub struct Root {
    name: String,
    live: bool,
    anchor: Anchor,
    resolver: Resolver,
    capture: Capture,
    /// Where folders lead, as far as it was asked: none for one that cannot be followed.
    links: RefCell<HashMap<String, Option<String>>>,
    /// The folder that was listed last, if it is small.
    listed: RefCell<Option<Listed>>,
}

/// A folder that stays open after it was listed. What is read next is most often in it: its files are then opened by their
/// names alone, and what is no regular file, or not there, is known without a look.
#[derive(Debug)]
struct Listed {
    path: String,
    folder: OwnedFd,
    listing: Rc<Listing>,
}

/// What a listing says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is a regular file.
    File,
    /// It was not there.
    Absent,
}

/// Why a folder cannot serve as a root. Nothing is audited then.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The folder cannot be opened.
    #[error("cannot open {dir}: {why}")]
    Open {
        /// The folder as the user named it.
        dir: String,
        /// The operating system's answer.
        why: Errno,
    },
    /// It is there and is something else.
    #[error("{dir} is not a folder")]
    NotAFolder {
        /// The path as the user named it.
        dir: String,
    },
    /// The tree has a `capture.toml` that cannot be read. It is not passed over: without it the tree would audit to
    /// another report.
    #[error("cannot read {file}: {why}")]
    CaptureUnreadable {
        /// The tree's `capture.toml`.
        file: String,
        /// Why it cannot be read.
        why: Obstacle,
    },
    /// The tree's `capture.toml` is wrong.
    #[error("{file}:{line}:{column}: {message}, in: {text}")]
    CaptureWrong {
        /// The tree's `capture.toml`.
        file: String,
        /// The line of the fault, from 1.
        line: usize,
        /// The column of the fault in characters, from 1.
        column: usize,
        /// What is wrong, printable.
        message: String,
        /// The line of the fault, printable.
        text: String,
    },
}

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries, sorted by name; of a tree without those whose name begins with a dot.
    pub entries: Vec<Entry>,
    /// Were there more entries than the limit, so that some are missing?
    pub cut: bool,
}

impl Listing {
    /// What is to be said of entries that the limit left out: nothing, where there are none.
    pub fn whole(&self) -> Reading<()> {
        if self.cut { Reading::Unreadable(Obstacle::Other("too many entries".to_owned())) } else { Reading::Value(()) }
    }

    /// The numbers of the entries called `prefix` and a decimal number (`cpu3`, a process, an interrupt line), ascending.
    pub fn numbers(&self, prefix: &str) -> Vec<u32> {
        let number = |entry: &Entry| {
            let digits = entry.name.strip_prefix(prefix)?;
            // `parse` alone would take a sign.
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let mut numbers: Vec<u32> = self.entries.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name. One that is not UTF-8 has replacement characters in it and cannot be asked for.
    pub name: String,
    /// Is it a folder? No link is followed to tell.
    pub is_dir: bool,
    /// Is it a symbolic link?
    pub is_link: bool,
    /// Is it a regular file? No link is followed to tell.
    pub is_file: bool,
}

/// Who resolves paths inside the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolver {
    /// The kernel, by openat2.
    Kernel,
    /// [`walk`], one component at a time.
    Walk,
}

impl Root {
    /// Opens a folder as a root: `/` for the live host, a captured tree otherwise.
    pub fn open(dir: &Path) -> Result<Root, RootError> {
        let failed = |why| RootError::Open { dir: dir.display().to_string(), why };
        let folder = open(dir, LOOK, Mode::empty()).map_err(failed)?;
        let itself = fstat(&folder).map_err(failed)?;
        if FileType::from_raw_mode(itself.st_mode) != FileType::Directory {
            return Err(RootError::NotAFolder { dir: dir.display().to_string() });
        }
        // Not by spelling: `//`, `/.` and a link to `/` are the live host too.
        let slash = stat("/").map_err(failed)?;
        let live = (itself.st_dev, itself.st_ino) == (slash.st_dev, slash.st_ino);
        let resolver = Resolver::detect(&folder).map_err(failed)?;
        Root::assemble(dir, folder, live, resolver)
    }

    /// The second half of [`Root::open`], where tests choose what it finds out.
    fn assemble(dir: &Path, folder: OwnedFd, live: bool, resolver: Resolver) -> Result<Root, RootError> {
        let name = dir.display().to_string();
        let anchor = if live { Ok(Anchor::across_mounts(folder)) } else { Anchor::within_mount(folder) };
        let anchor = anchor.map_err(|why| RootError::Open { dir: name.clone(), why })?;
        let mut root = Root {
            name,
            live,
            anchor,
            resolver,
            capture: Capture::default(),
            links: RefCell::default(),
            listed: RefCell::default(),
        };
        if !live {
            root.capture = root.load_capture(dir)?;
        }
        Ok(root)
    }

    fn load_capture(&self, dir: &Path) -> Result<Capture, RootError> {
        // Not by reading it: a link that leads nowhere is a file that cannot be read, not one that is absent.
        if let Err(Errno::NOENT) = statat(self.anchor.folder(), CAPTURE, AtFlags::SYMLINK_NOFOLLOW) {
            return Ok(Capture::default());
        }
        let file = dir.join(CAPTURE).display().to_string();
        let unreadable = |why| RootError::CaptureUnreadable { file: file.clone(), why };
        let bytes = self.contents(CAPTURE).map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable(Obstacle::Other("not UTF-8 text".into())))?;
        Capture::parse(&text, &file)
    }

    /// The folder as the user named it, for reports.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Is this the host's own `/`, however it was spelled?
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// May this be a container that no file marks as one? The live host may; of a tree, `capture.toml` says so.
    pub fn may_be_unmarked_container(&self) -> bool {
        self.live || self.capture.is_container()
    }

    /// Reads a whole text file, up to 1 MiB. The path is relative to the root: `sys/devices/system/cpu/online`.
    pub fn read(&self, path: &str) -> Reading<String> {
        self.read_bytes(path).and_then(|bytes| match String::from_utf8(bytes) {
            Ok(text) => Reading::Value(text),
            Err(error) => Reading::Malformed(quote(&String::from_utf8_lossy(error.as_bytes()))),
        })
    }

    /// Reads a whole file, up to 1 MiB, whatever its bytes are.
    pub fn read_bytes(&self, path: &str) -> Reading<Vec<u8>> {
        answer(self.recorded_error(path).and_then(|()| self.contents(path)))
    }

    /// Reads the beginning of a file, at most 4 KiB: of one that has a record for each CPU, the first ones.
    pub fn read_start(&self, path: &str) -> Reading<Vec<u8>> {
        answer(self.recorded_error(path).and_then(|()| self.contents_of(path, Extent::Start)))
    }

    /// Reads a device that answers with a signed 32-bit number: `dev/cpu_dma_latency`.
    ///
    /// Opening that one for reading asks for the default latency, which constrains nothing. A tree's devices are never
    /// opened: there the number comes from `capture.toml` or is not exposed.
    pub fn read_s32(&self, path: &str) -> Reading<i32> {
        answer(self.recorded_error(path).and_then(|()| {
            if self.live {
                self.device_s32(path)
            } else {
                self.recorded(path, Capture::binary).ok_or(Obstacle::Errno(Errno::NOENT))
            }
        }))
    }

    /// Lists a folder, up to 200 000 entries. What is no folder has no entries to expose.
    pub fn list(&self, path: &str) -> Reading<Rc<Listing>> {
        answer(self.recorded_error(path).and_then(|()| {
            // For what is recorded of the target of a link; nothing but a folder is opened in any case.
            if !self.capture.is_empty() {
                self.look_inside(path)?;
            }
            let folder = self.open_inside(path, LIST)?;
            let listing = Rc::new(entries(&folder, MAX_ENTRIES, self.live)?);
            if self.resolver == Resolver::Kernel && listing.entries.len() <= MAX_LISTED {
                *self.listed.borrow_mut() =
                    Some(Listed { path: path.to_owned(), folder, listing: Rc::clone(&listing) });
            }
            Ok(listing)
        }))
    }

    /// What the folder that was listed last says of a path, if that is in it: what is there under its name, and the folder
    /// to open it in.
    fn in_listed<T>(&self, path: &str, take: impl FnOnce(&OwnedFd, &str, Known) -> T) -> Option<T> {
        let listed = self.listed.borrow();
        let Listed { path: folder_path, folder, listing } = listed.as_ref()?;
        let name = path.strip_prefix(folder_path.as_str())?.strip_prefix('/')?;
        // Of a tree, names with a dot are not listed; and of a cut listing nobody knows what is missing.
        if name.contains('/') || name.starts_with('.') || name.is_empty() || listing.cut {
            return None;
        }
        let known = match listing.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)) {
            Ok(at) if listing.entries[at].is_file => Known::File,
            Ok(_) => return None,
            Err(_) => Known::Absent,
        };
        Some(take(folder, name, known))
    }

    /// Is it there, whatever it is? Links are followed: one that leads nowhere is not there.
    pub fn exists(&self, path: &str) -> Reading<()> {
        answer(self.recorded_error(path).and_then(|()| {
            if self.live { self.open_inside(path, LOOK).map(drop) } else { self.look_inside(path).map(drop) }
        }))
    }

    /// Does the file's mode let anybody write it? `None` when nothing says so.
    ///
    /// The kernel clears the write bits of the affinity of an interrupt that cannot be moved. On the live host the inode
    /// says so; git and tar do not keep such modes, so for a tree only `capture.toml` counts. `smp_affinity` and
    /// `smp_affinity_list` are one thing under two names: when one of them is not writable, neither is.
    pub fn writable(&self, path: &str) -> Option<bool> {
        let twin = affinity_twin(path);
        let modes = [Some(path), twin.as_deref()].into_iter().flatten().filter_map(|name| self.mode(name));
        modes.map(|mode| mode & 0o222 != 0).reduce(|one, other| one && other)
    }

    fn mode(&self, path: &str) -> Option<u32> {
        if self.live {
            let listed = self.in_listed(path, |folder, name, known| match known {
                Known::File => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| stat.st_mode),
                Known::Absent => None,
            });
            if let Some(mode) = listed {
                return mode;
            }
            let file = self.open_inside(path, LOOK).ok()?;
            fstat(&file).ok().map(|stat| stat.st_mode)
        } else {
            self.recorded(path, Capture::mode)
        }
    }

    /// The error that `capture.toml` says this path answers with. It wins over a file that is there.
    fn recorded_error(&self, path: &str) -> Result<(), Obstacle> {
        self.recorded(path, Capture::error).map_or(Ok(()), |errno| Err(Obstacle::Errno(errno)))
    }

    /// Looks a path up in `capture.toml`: as it was asked and, failing that, without the links on the way to its folder.
    /// A link at the path's own end is [`Root::look_inside`]'s to follow, which looks at the file anyway.
    fn recorded<T>(&self, path: &str, look_up: fn(&Capture, &str) -> Option<T>) -> Option<T> {
        if self.capture.is_empty() {
            return None;
        }
        look_up(&self.capture, path).or_else(|| {
            if self.resolver == Resolver::Walk {
                // It follows every link, the last one too.
                return look_up(&self.capture, &self.anchor.resolve(path)?);
            }
            let (folder, name) = path.rsplit_once('/')?;
            let resolved = self.resolved(folder)?;
            if resolved == folder { None } else { look_up(&self.capture, &format!("{resolved}/{name}")) }
        })
    }

    /// Where a folder's path leads, as [`Anchor::resolve`] says; each folder on the way is looked at once. A tree does not
    /// change under an audit, and where one does, what was recorded is found for the path that was there first.
    fn resolved(&self, folder: &str) -> Option<String> {
        if let Some(known) = self.links.borrow().get(folder) {
            return known.clone();
        }
        let plain = match folder.rsplit_once('/') {
            Some((parent, name)) => self.resolved(parent).map(|parent| format!("{parent}/{name}")),
            None => Some(folder.to_owned()),
        };
        let is_plain = plain.as_deref().is_some_and(|plain| {
            let itself = self.open_inside(plain, LOOK | OFlags::NOFOLLOW);
            !itself.is_ok_and(|it| file_type(&it).is_ok_and(|file_type| file_type == FileType::Symlink))
        });
        let resolved = if is_plain && !folder.contains("..") { plain } else { self.anchor.resolve(folder) };
        self.links.borrow_mut().insert(folder.to_owned(), resolved.clone());
        resolved
    }

    /// What a path of a tree leads to, which is looked at and not opened: anybody may have made the tree, and opening a
    /// device acts. Where the path ends in a link, what was recorded of its target counts.
    fn look_inside(&self, path: &str) -> Result<FileType, Obstacle> {
        let found = file_type(&self.open_inside(path, LOOK | OFlags::NOFOLLOW)?)?;
        if found != FileType::Symlink {
            return Ok(found);
        }
        if let Some(errno) = self.anchor.resolve(path).and_then(|target| self.capture.error(&target)) {
            return Err(Obstacle::Errno(errno));
        }
        file_type(&self.open_inside(path, LOOK)?)
    }

    fn contents(&self, path: &str) -> Result<Vec<u8>, Obstacle> {
        let extent = if !self.live || is_one_record(path) { Extent::OneRead } else { Extent::ManyReads };
        self.contents_of(path, extent)
    }

    fn contents_of(&self, path: &str, extent: Extent) -> Result<Vec<u8>, Obstacle> {
        let listed = self.in_listed(path, |folder, name, known| match known {
            Known::File => openat2(folder, name, READ_LISTED, Mode::empty(), self.confinement()),
            Known::Absent => Err(Errno::NOENT),
        });
        match listed {
            // A link by now, or a kernel that is unsure: the long way tells.
            None | Some(Err(Errno::LOOP | Errno::AGAIN | Errno::INTR)) => {}
            Some(file) => return read_to_end(&file?, extent),
        }
        if !self.live {
            expect_type(self.look_inside(path)?, FileType::RegularFile)?;
        }
        let file = self.open_inside(path, READ)?;
        let is_file = || expect_type(file_type(&file)?, FileType::RegularFile);
        // In a tree again, for the file may have been exchanged since. The kernel's own file systems hold files and folders,
        // and what container runtimes put over a file of theirs, `/dev/null`, gives nothing: that is looked at below.
        let is_kernels = self.live && (path.starts_with("proc/") || path.starts_with("sys/"));
        if !is_kernels {
            is_file()?;
        }
        match read_to_end(&file, extent) {
            Ok(bytes) if is_kernels && bytes.is_empty() => is_file().map(|()| bytes),
            Err(Obstacle::Errno(Errno::ISDIR)) => is_file().map(|()| Vec::new()),
            read => read,
        }
    }

    fn device_s32(&self, path: &str) -> Result<i32, Obstacle> {
        let device = self.open_inside(path, READ)?;
        expect_type(file_type(&device)?, FileType::CharacterDevice)?;
        let mut bytes = [0; 4];
        match retry_on_intr(|| read(&device, &mut bytes))? {
            4 => Ok(i32::from_ne_bytes(bytes)),
            count => Err(Obstacle::Other(format!("gave {count} of 4 bytes"))),
        }
    }

    /// Opens what a path leads to inside the root.
    fn open_inside(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Obstacle> {
        if path.contains('\0') {
            return Err(Obstacle::Other("the path holds a NUL".into()));
        }
        if self.resolver == Resolver::Kernel {
            for _ in 0..OPENAT2_TRIES {
                match openat2(self.anchor.folder(), path, flags, Mode::empty(), self.confinement()) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    opened => return opened.map_err(Obstacle::Errno),
                }
            }
            // The host renames without a pause; the walk does not mind.
        }
        self.anchor.open(path, flags).map_err(Obstacle::Errno)
    }

    fn confinement(&self) -> ResolveFlags {
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        if self.live { inside } else { inside | ResolveFlags::NO_XDEV }
    }
}

impl Resolver {
    /// Tries openat2 once; a kernel before 5.6, or a seccomp filter that predates it, leaves the walk.
    fn detect(folder: &OwnedFd) -> Result<Resolver, Errno> {
        match openat2(folder, ".", LOOK, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS) {
            Ok(_) => Ok(Resolver::Kernel),
            Err(Errno::NOSYS | Errno::PERM | Errno::TOOBIG) => Ok(Resolver::Walk),
            Err(why) => Err(why),
        }
    }
}

/// What a result means to whoever asked: an absent file is not an obstacle.
fn answer<T>(result: Result<T, Obstacle>) -> Reading<T> {
    match result {
        Ok(value) => Reading::Value(value),
        // ESRCH: the process that the file was about is gone, and its files with it.
        Err(Obstacle::Errno(Errno::NOENT | Errno::NOTDIR | Errno::SRCH)) => Reading::NotExposed,
        Err(obstacle) => Reading::Unreadable(obstacle),
    }
}

fn file_type(file: &OwnedFd) -> Result<FileType, Obstacle> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

fn expect_type(found: FileType, wanted: FileType) -> Result<(), Obstacle> {
    if found == wanted {
        return Ok(());
    }
    Err(Obstacle::Other(format!("is {}, not {}", type_name(found), type_name(wanted))))
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown type",
    }
}

/// Does the kernel make this file in one go, so that a read which does not fill its buffer gave all there is?
///
/// So it is with what kernfs serves an attribute from (`sysfs_kf_seq_show`, `cgroup_seqfile_show`) and with what
/// `single_open` does, where a file is one record; seq_read_iter() ends early only between records. Lists of processes in
/// control groups have a record each.
fn is_one_record(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    match path.split('/').next() {
        Some("sys") => !matches!(name, "tasks" | "cgroup.procs" | "cgroup.threads"),
        Some("proc") => name == "comm" || path.starts_with("proc/irq/") || path.starts_with("proc/sys/"),
        _ => false,
    }
}

/// How the end of a file is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// A read that does not fill its buffer gave the rest.
    OneRead,
    /// Only a read that gives nothing is the end.
    ManyReads,
    /// What the first read gives is all that is wanted.
    Start,
}

/// Reads until the end of the file, not until its size: that is 0 in procfs and 4096 in sysfs.
fn read_to_end(file: &OwnedFd, extent: Extent) -> Result<Vec<u8>, Obstacle> {
    let mut start = [0; 4096];
    let count = retry_on_intr(|| read(file, &mut start))?;
    // Of its own size: thousands of small texts are kept.
    let mut bytes = start[..count].to_vec();
    if count == 0 || extent == Extent::Start || (extent == Extent::OneRead && count < start.len()) {
        return Ok(bytes);
    }
    loop {
        bytes.reserve(bytes.len());
        let room = bytes.capacity() - bytes.len();
        let count = retry_on_intr(|| read(file, spare_capacity(&mut bytes)))?;
        if bytes.len() > MAX_FILE {
            return Err(Obstacle::Other("larger than 1 MiB".into()));
        }
        if count == 0 || (extent == Extent::OneRead && count < room) {
            bytes.shrink_to_fit();
            return Ok(bytes);
        }
    }
}

/// In a tree, names that begin with a dot keep empty folders alive and are no entries; on a host they are as good as any.
fn entries(folder: &OwnedFd, limit: usize, with_dots: bool) -> Result<Listing, Obstacle> {
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut found_there = RawDir::new(folder, &mut buffer);
    let mut listing = Listing::default();
    let mut seen = 0;
    while let Some(found) = found_there.next() {
        let found = found?;
        let name = found.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if seen == limit {
            listing.cut = true;
            break;
        }
        seen += 1;
        if !with_dots && name.to_bytes().starts_with(b".") {
            continue;
        }
        let file_type = match found.file_type() {
            // The file system does not say. An entry that is gone since is neither folder nor link.
            FileType::Unknown => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            known => known,
        };
        listing.entries.push(Entry {
            name: name.to_string_lossy().into_owned(),
            is_dir: file_type == FileType::Directory,
            is_link: file_type == FileType::Symlink,
            is_file: file_type == FileType::RegularFile,
        });
    }
    listing.entries.sort_unstable();
    Ok(listing)
}

/// The other name of an interrupt's affinity: `smp_affinity` for `smp_affinity_list` in the same folder, and back.
fn affinity_twin(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let folder = path.strip_suffix(name)?;
    match name {
        "smp_affinity" => Some(format!("{folder}smp_affinity_list")),
        "smp_affinity_list" => Some(format!("{folder}smp_affinity")),
        _ => None,
    }
}
