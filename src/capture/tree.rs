//! A tree in memory, before it is written. It is small: a host of 512 CPUs comes to a few MiB.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::root::{CAPTURE, Records};

/// Far above what the largest hosts have; a hostile tree must not exhaust memory.
const MAX_BYTES: usize = 64 << 20;
const MAX_NODES: usize = 1_000_000;

/// Git and some archivers drop folders that are empty. Names that begin with a dot are no entries to the audit.
const KEEP: &str = ".keep";

/// There is more to copy than any host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("more than {MAX_NODES} files, or more than {} MiB: no host has as much", MAX_BYTES >> 20)]
pub struct TooLarge;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A folder.
    Folder,
    /// A file that holds these.
    Bytes(Vec<u8>),
}

/// Files and folders by path, parents before what is in them, and what files cannot hold.
#[derive(Debug, Default)]
pub struct Tree {
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) records: Records,
    bytes: usize,
}

impl Tree {
    /// How many files there are.
    pub fn files(&self) -> usize {
        self.nodes.values().filter(|node| matches!(node, Node::Bytes(_))).count()
    }

    /// How many bytes are in them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a file with its folders. A folder at its place stays.
    pub(super) fn file(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), TooLarge> {
        self.folders_above(path)?;
        if self.nodes.get(path) == Some(&Node::Folder) {
            return Ok(());
        }
        self.bytes += bytes.len();
        if let Some(Node::Bytes(replaced)) = self.nodes.insert(path.to_owned(), Node::Bytes(bytes)) {
            self.bytes -= replaced.len();
        }
        self.within_limits()
    }

    /// Adds an empty file that stands for a name, unless something is there.
    pub(super) fn placeholder(&mut self, path: &str) -> Result<(), TooLarge> {
        if self.nodes.contains_key(path) { Ok(()) } else { self.file(path, Vec::new()) }
    }

    /// Adds a folder with those above it. It takes the place of an empty file that stood for its name.
    pub(super) fn folder(&mut self, path: &str) -> Result<(), TooLarge> {
        if self.nodes.get(path) == Some(&Node::Folder) {
            return Ok(());
        }
        self.folders_above(path)?;
        if let Some(Node::Bytes(replaced)) = self.nodes.insert(path.to_owned(), Node::Folder) {
            self.bytes -= replaced.len();
        }
        self.within_limits()
    }

    fn folders_above(&mut self, path: &str) -> Result<(), TooLarge> {
        path.rsplit_once('/').map_or(Ok(()), |(above, _)| self.folder(above))
    }

    fn within_limits(&self) -> Result<(), TooLarge> {
        if self.nodes.len() > MAX_NODES || self.bytes > MAX_BYTES { Err(TooLarge) } else { Ok(()) }
    }

    /// The files that were read although a folder above them gives an error, which hides them.
    pub(super) fn hidden(&self) -> impl Iterator<Item = String> {
        self.records.errors().flat_map(|folder| {
            let below = format!("{folder}/");
            let nodes = self.nodes.range(below.clone()..).take_while(move |(path, _)| path.starts_with(&below));
            nodes
                .filter(|(_, node)| matches!(node, Node::Bytes(bytes) if !bytes.is_empty()))
                .map(|(path, _)| path.clone())
        })
    }

    /// Adds `capture.toml`, and a file to each folder that has none.
    pub(super) fn finish(&mut self) -> Result<(), TooLarge> {
        let is_empty = |folder: &str| {
            let below = format!("{folder}/");
            !self.nodes.range(below.clone()..).next().is_some_and(|(path, _)| path.starts_with(&below))
        };
        let folders = self.nodes.iter().filter(|(_, node)| **node == Node::Folder).map(|(path, _)| path);
        let empty: Vec<String> =
            folders.filter(|folder| is_empty(folder)).map(|folder| format!("{folder}/{KEEP}")).collect();
        for keep in empty {
            self.file(&keep, Vec::new())?;
        }
        if self.records.is_empty() {
            return Ok(());
        }
        // A table of strings and numbers always is TOML.
        let text = self.records.to_toml().unwrap_or_default();
        self.file(CAPTURE, text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.nodes.keys().map(String::as_str).collect()
    }

    #[test]
    fn folders_are_made_and_empty_ones_are_kept() {
        let mut tree = Tree::default();
        tree.file("a/b/c", b"12".to_vec()).unwrap();
        tree.folder("a/d").unwrap();
        tree.folder("a/d-e").unwrap();
        tree.finish().unwrap();
        assert_eq!(paths(&tree), ["a", "a/b", "a/b/c", "a/d", "a/d-e", "a/d-e/.keep", "a/d/.keep"]);
        assert_eq!((tree.files(), tree.bytes()), (3, 2));
    }

    #[test]
    fn a_placeholder_gives_way_and_takes_no_place() {
        let mut tree = Tree::default();
        tree.placeholder("a").unwrap();
        tree.file("a/b", b"1".to_vec()).unwrap();
        tree.placeholder("a/b").unwrap();
        tree.file("a", b"no".to_vec()).unwrap();
        assert_eq!(tree.nodes["a"], Node::Folder);
        assert_eq!(tree.nodes["a/b"], Node::Bytes(b"1".to_vec()));
        tree.file("a/b", b"123".to_vec()).unwrap();
        assert_eq!(tree.bytes(), 3);
    }

    #[test]
    fn what_no_host_has_is_refused() {
        let mut tree = Tree::default();
        let large = vec![0; MAX_BYTES / 2];
        tree.file("a", large.clone()).unwrap();
        tree.file("b", large).unwrap();
        assert_eq!(tree.file("c", vec![0]), Err(TooLarge));
    }

    #[test]
    fn what_an_error_of_a_folder_hides() {
        let mut tree = Tree::default();
        assert!(tree.records.error("a/b".to_owned(), rustix::io::Errno::ACCESS));
        for (path, text) in [("a/b/c", "1"), ("a/b/d", ""), ("a/b-c", "1"), ("a/c", "1")] {
            tree.file(path, text.into()).unwrap();
        }
        assert_eq!(tree.hidden().collect::<Vec<_>>(), ["a/b/c"]);
    }

    #[test]
    fn records_make_a_file() {
        let mut tree = Tree::default();
        tree.records.read_only("proc/irq/4/smp_affinity".to_owned());
        tree.finish().unwrap();
        assert_eq!(paths(&tree), [CAPTURE]);
    }
}
