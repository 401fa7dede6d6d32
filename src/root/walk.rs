//! Following a path inside a folder one component at a time.
//!
//! Where `openat2` is missing (before Linux 5.6) or forbidden (old seccomp filters), this takes its place and is as
//! safe: no component is opened before it is known not to be a link, an absolute link starts again at the folder, and
//! `..` goes back to the descriptor that the walk came by, never to whatever the kernel says the parent is now. It also
//! tells where a path leads, for `capture.toml`.
//!
//! One thing differs. A magic link of procfs (`/proc/1/cwd`) cannot be told from a symbolic link here, so it is followed
//! by its text and inside the folder, where `openat2` refuses it.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, fstat, openat, readlinkat, statx};
use rustix::io::{self, Errno, retry_on_intr};

/// How many links one path may go through: the kernel's own limit.
const MAX_LINKS: usize = 40;

/// How long an asked path may be, its closing NUL included: the kernel's own limit.
const PATH_MAX: usize = 4096;

/// Look at a component without opening it and without following it.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder that paths are resolved in.
#[derive(Debug)]
pub(super) struct Anchor {
    folder: OwnedFd,
    /// The mount that paths must stay on, if they must.
    mount: Option<Mount>,
}

impl Anchor {
    /// Paths may cross mounts.
    pub(super) fn across_mounts(folder: OwnedFd) -> Anchor {
        Anchor { folder, mount: None }
    }

    /// Paths must stay on the folder's own mount; those that do not give `EXDEV`.
    pub(super) fn within_mount(folder: OwnedFd) -> io::Result<Anchor> {
        let mount = Some(Mount::of(folder.as_fd())?);
        Ok(Anchor { folder, mount })
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Opens what a path leads to.
    pub(super) fn open(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.len() >= PATH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let mut walk = Walk::new(self, path);
        walk.finish()?;
        walk.open(flags)
    }

    /// Where a path leads, without the links on its way. What is missing at its end is taken as it is written: a path
    /// may be recorded to give an error and not be there.
    pub(super) fn resolve(&self, path: &str) -> Option<String> {
        let mut walk = Walk::new(self, path);
        match walk.finish() {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => String::from_utf8(walk.names()).ok(),
            Err(_) => None,
        }
    }

    fn refuse_other_mounts(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        match self.mount {
            Some(mount) if Mount::of(file)? != mount => Err(Errno::XDEV),
            _ => Ok(()),
        }
    }
}

/// A path that is being followed.
struct Walk<'a> {
    anchor: &'a Anchor,
    /// The way from the folder to where the walk stands. All but the last are folders.
    steps: Vec<Step>,
    /// The components to come, the next one last.
    ahead: Vec<Vec<u8>>,
    /// The links gone through.
    links: usize,
}

struct Step {
    file: OwnedFd,
    name: Vec<u8>,
    is_dir: bool,
}

impl<'a> Walk<'a> {
    fn new(anchor: &'a Anchor, path: &str) -> Walk<'a> {
        let mut walk = Walk { anchor, steps: Vec::new(), ahead: Vec::new(), links: 0 };
        walk.put_ahead(path.as_bytes());
        walk
    }

    fn put_ahead(&mut self, path: &[u8]) {
        self.ahead.extend(path.rsplit(|&byte| byte == b'/').map(<[u8]>::to_vec));
    }

    fn finish(&mut self) -> io::Result<()> {
        while let Some(component) = self.ahead.pop() {
            if let Err(why) = self.step(&component) {
                self.ahead.push(component);
                return Err(why);
            }
        }
        Ok(())
    }

    fn step(&mut self, component: &[u8]) -> io::Result<()> {
        if !matches!(component, b"" | b"." | b"..") {
            return self.enter(component);
        }
        // `file/`, `file/.` and `file/..` are as wrong as `file/name`.
        if self.steps.last().is_some_and(|step| !step.is_dir) {
            return Err(Errno::NOTDIR);
        }
        if component == b".." {
            // At the folder itself there is nothing to pop, and `..` stays: that is how `/..` behaves.
            self.steps.pop();
        }
        Ok(())
    }

    fn enter(&mut self, name: &[u8]) -> io::Result<()> {
        let file = openat(self.here(), name, LOOK, Mode::empty())?;
        self.anchor.refuse_other_mounts(file.as_fd())?;
        let file_type = FileType::from_raw_mode(fstat(&file)?.st_mode);
        if file_type != FileType::Symlink {
            self.steps.push(Step { file, name: name.to_vec(), is_dir: file_type == FileType::Directory });
            return Ok(());
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        // The empty path reads the very link that was opened, not one that may have taken its name.
        let target = readlinkat(&file, "", Vec::new())?;
        if target.as_bytes().starts_with(b"/") {
            self.steps.clear();
        }
        self.put_ahead(target.as_bytes());
        Ok(())
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.steps.last().map_or(self.anchor.folder(), |step| step.file.as_fd())
    }

    /// Opens the file where the walk stands.
    fn open(mut self, flags: OFlags) -> io::Result<OwnedFd> {
        let Some(last) = self.steps.pop() else {
            return openat(self.anchor.folder(), ".", flags, Mode::empty());
        };
        if flags.contains(OFlags::PATH) {
            return Ok(last.file);
        }
        // Only a name can be opened for reading. It may mean another file by now: not one outside, for links are not
        // followed and the mount is looked at again.
        let file = retry_on_intr(|| openat(self.here(), &last.name, flags | OFlags::NOFOLLOW, Mode::empty()))?;
        self.anchor.refuse_other_mounts(file.as_fd())?;
        Ok(file)
    }

    /// The names of the way gone, then of what was not reached.
    fn names(self) -> Vec<u8> {
        let mut names: Vec<_> = self.steps.into_iter().map(|step| step.name).collect();
        for component in self.ahead.into_iter().rev() {
            match component.as_slice() {
                b"" | b"." => {}
                b".." => drop(names.pop()),
                _ => names.push(component),
            }
        }
        names.join(&b'/')
    }
}

/// What tells one mount from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mount {
    /// The kernel's number for it, as in the first column of `/proc/self/mountinfo`.
    Id(u64),
    /// The device of its file system, where the kernel gives no number: this overlooks a bind of the same file system.
    Device(u64),
}

impl Mount {
    fn of(file: BorrowedFd<'_>) -> io::Result<Mount> {
        match mount_id_by_statx(file).or_else(|| mount_id_by_fdinfo(file)) {
            Some(id) => Ok(Mount::Id(id)),
            None => Ok(Mount::Device(fstat(file)?.st_dev)),
        }
    }
}

/// Since Linux 5.8.
fn mount_id_by_statx(file: BorrowedFd<'_>) -> Option<u64> {
    let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

/// Since Linux 3.15, where procfs is mounted.
///
/// The one file that is read outside the root: it tells about this process, nothing about a host.
fn mount_id_by_fdinfo(file: BorrowedFd<'_>) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::open;

    use super::*;

    #[test]
    fn a_file_that_became_a_link_since_it_was_found_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("file");
        fs::write(&name, "").unwrap();
        let anchor = Anchor::within_mount(open(dir.path(), LOOK, Mode::empty()).unwrap()).unwrap();
        let mut walk = Walk::new(&anchor, "file");
        walk.finish().unwrap();
        fs::remove_file(&name).unwrap();
        symlink("/proc/version", &name).unwrap();
        assert_eq!(walk.open(OFlags::RDONLY).unwrap_err(), Errno::LOOP);
    }

    #[test]
    fn mounts_are_told_apart_in_each_way() {
        let look = |path: &str| open(path, LOOK, Mode::empty()).unwrap();
        let (slash, again, proc) = (look("/"), look("/"), look("/proc"));
        let ways: [fn(BorrowedFd<'_>) -> Option<u64>; 3] =
            [mount_id_by_statx, mount_id_by_fdinfo, |file| fstat(file).ok().map(|stat| stat.st_dev)];
        for id in ways {
            let (slash, again, proc) = (id(slash.as_fd()), id(again.as_fd()), id(proc.as_fd()));
            if slash.is_some() {
                assert_eq!(slash, again);
                assert_ne!(slash, proc);
            }
        }
        if let (Some(one), Some(other)) = (mount_id_by_statx(proc.as_fd()), mount_id_by_fdinfo(proc.as_fd())) {
            assert_eq!(one, other, "they are interchangeable");
        }
    }
}
