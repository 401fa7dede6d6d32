//! A tree, written: into a folder, or as an archive that is the same bytes for the same tree.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};
use thiserror::Error;

use super::tree::{Node, Tree};

/// Where a tree is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A folder, which is made or is there and empty.
    Folder(PathBuf),
    /// A new file, for a name that ends in `.tar`.
    Archive(PathBuf),
}

/// Why nothing can be written there.
#[derive(Debug, Error)]
pub enum TargetError {
    /// It is there already.
    #[error("{0} exists: give a new name, or an empty folder")]
    Exists(String),
    /// The operating system does not say.
    #[error("failed to look at {0}: {1}")]
    Unseen(String, io::Error),
}

/// A tree could not be written. What was written of it is gone again.
#[derive(Debug, Error)]
#[error("failed to write {path}: {why}")]
pub struct WriteError {
    /// Where it was to be.
    pub path: String,
    /// The operating system's answer.
    pub why: io::Error,
}

impl Target {
    /// Where the user wants it; nothing is overwritten.
    pub fn new(out: &Path) -> Result<Self, TargetError> {
        let shown = || out.display().to_string();
        let is_archive = out.extension().is_some_and(|extension| extension == "tar");
        match fs::symlink_metadata(out) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(TargetError::Unseen(shown(), error)),
            Ok(_) if is_archive => return Err(TargetError::Exists(shown())),
            Ok(found) => {
                let is_empty = found.is_dir() && fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
                if !is_empty {
                    return Err(TargetError::Exists(shown()));
                }
            }
        }
        Ok(if is_archive { Self::Archive(out.to_owned()) } else { Self::Folder(out.to_owned()) })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Archive(path) => path,
        }
    }

    /// Writes the tree, all of it or nothing.
    pub fn write(&self, tree: &Tree) -> Result<(), WriteError> {
        let written = match self {
            Self::Folder(folder) => into_folder(tree, folder),
            Self::Archive(file) => into_archive(tree, file),
        };
        written.map_err(|why| WriteError { path: self.path().display().to_string(), why })
    }
}

fn into_folder(tree: &Tree, folder: &Path) -> io::Result<()> {
    let is_new = match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true)?,
    };
    let written = tree.nodes.iter().try_for_each(|(path, node)| {
        let path = folder.join(path);
        match node {
            Node::Folder => fs::create_dir(path),
            Node::Bytes(bytes) => File::create_new(path)?.write_all(bytes),
        }
    });
    if written.is_err() {
        // The first error is the one to report. What was not there before goes.
        let _ = if is_new { fs::remove_dir_all(folder) } else { remove_contents(folder) };
    }
    written
}

fn remove_contents(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn into_archive(tree: &Tree, path: &Path) -> io::Result<()> {
    let file = File::create_new(path)?;
    let written = archive(tree, BufWriter::new(&file)).and_then(|()| file.sync_all());
    if written.is_err() {
        // As above.
        let _ = fs::remove_file(path);
    }
    written
}

/// Nothing in it but names, bytes and whether it is a folder: no owner, no time.
fn archive(tree: &Tree, out: impl Write) -> io::Result<()> {
    let mut builder = Builder::new(out);
    for (path, node) in &tree.nodes {
        let (entry_type, mode, bytes) = match node {
            Node::Folder => (EntryType::Directory, 0o755, &[][..]),
            Node::Bytes(bytes) => (EntryType::Regular, 0o644, bytes.as_slice()),
        };
        let mut header = Header::new_gnu();
        header.set_entry_type(entry_type);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        // By convention the name of a folder ends in `/`.
        let name = if *node == Node::Folder { format!("{path}/") } else { path.clone() };
        builder.append_data(&mut header, name, bytes)?;
    }
    builder.into_inner()?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.file(path, text.as_bytes().to_vec()).unwrap();
        }
        tree
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert_eq!(Target::new(&at("a")).unwrap(), Target::Folder(at("a")));
        assert_eq!(Target::new(&at("a.tar")).unwrap(), Target::Archive(at("a.tar")));
        assert_eq!(Target::new(dir.path()).unwrap(), Target::Folder(dir.path().to_owned()), "empty");
        fs::write(at("a"), "").unwrap();
        fs::write(at("a.tar"), "").unwrap();
        for out in [at("a"), at("a.tar"), dir.path().to_owned()] {
            assert!(matches!(Target::new(&out), Err(TargetError::Exists(_))), "{out:?}");
        }
        assert!(matches!(Target::new(&at("a/b")), Err(TargetError::Unseen(..))));
    }

    #[test]
    fn what_is_half_written_goes() {
        let dir = tempfile::tempdir().unwrap();
        // No file system takes a name of 300 bytes.
        let tree = tree(&[("a/b", "1"), (&format!("a/{}", "c".repeat(300)), "2")]);
        let new = dir.path().join("new");
        assert!(Target::new(&new).unwrap().write(&tree).is_err());
        assert!(!new.exists());
        fs::create_dir(&new).unwrap();
        let error = Target::new(&new).unwrap().write(&tree).unwrap_err();
        assert!(error.to_string().starts_with("failed to write "), "{error}");
        assert!(new.exists() && fs::read_dir(&new).unwrap().next().is_none());
    }

    #[test]
    fn an_archive_is_the_same_bytes_for_the_same_tree() {
        let long = format!("sys/{}/file", "folder/".repeat(40));
        let tree = tree(&[("proc/cmdline", "quiet\n"), (&long, "1\n")]);
        let bytes = || {
            let mut bytes = Vec::new();
            archive(&tree, &mut bytes).unwrap();
            bytes
        };
        let once = bytes();
        assert_eq!(once, bytes());
        let mut read = tar::Archive::new(once.as_slice());
        let entries: Vec<_> = read.entries().unwrap().map(Result::unwrap).collect();
        assert!(entries.iter().all(|entry| {
            let header = entry.header();
            let mode = if header.entry_type().is_dir() { 0o755 } else { 0o644 };
            (header.mtime().unwrap(), header.uid().unwrap(), header.mode().unwrap()) == (0, 0, mode)
        }));
        assert!(entries.iter().any(|entry| entry.path().unwrap() == Path::new(&long)), "long names are whole");
    }
}
