//! How a command is found, and becomes this process. No shell has a part in it: a script without `#!` is not run by one,
//! as execvp(3) would have it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use quietcore_exec::exec;
use rustix::io::Errno;

use crate::exit;

/// Where execvp(3) of glibc looks for commands when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A command could not be run.
#[derive(Debug)]
pub(super) struct NotRun {
    /// The exit code that POSIX shells give for it.
    pub(super) code: u8,
    /// Which file, and why not, as a lowercase fragment.
    pub(super) why: String,
}

/// Becomes a command, which is looked for on `PATH` when its name has no slash. Returns only when that fails.
pub(super) fn become_command<S: AsRef<OsStr>>(program: &OsStr, arguments: &[S]) -> NotRun {
    if program.is_empty() {
        return NotRun { code: exit::NOT_FOUND, why: "a command with an empty name".to_owned() };
    }
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    let is_searched = !is_path(program);
    let mut denied = None;
    for file in candidates(program, &path) {
        let arguments = [program].into_iter().chain(arguments.iter().map(AsRef::as_ref));
        let error = exec(&file, arguments);
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) if !is_there(&file) => {}
            // What may not be executed, or not be looked at, is passed over while there is another folder to look in.
            Some(Errno::ACCESS) if is_searched => {
                if is_there(&file) {
                    denied.get_or_insert((file, error));
                }
            }
            _ => return not_executable(&file, &error),
        }
    }
    if let Some((file, error)) = denied {
        return not_executable(&file, &error);
    }
    let place = if is_searched { format!(" on PATH ({})", path.display()) } else { String::new() };
    NotRun { code: exit::NOT_FOUND, why: format!("{}: not found{place}", program.display()) }
}

/// The files that a name may mean, in the order they are tried. An empty element of `PATH` is the current folder.
fn candidates(program: &OsStr, path: &OsStr) -> Vec<PathBuf> {
    if is_path(program) {
        return vec![PathBuf::from(program)];
    }
    let folder = |folder: PathBuf| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
    env::split_paths(path).map(|dir| folder(dir).join(program)).collect()
}

fn is_path(program: &OsStr) -> bool {
    program.as_encoded_bytes().contains(&b'/')
}

fn is_there(file: &Path) -> bool {
    file.try_exists().unwrap_or(false)
}

/// Why a file that is there cannot be run.
fn not_executable(file: &Path, error: &io::Error) -> NotRun {
    let why = match Errno::from_io_error(error) {
        Some(Errno::ACCESS) if file.is_dir() => "it is a folder".to_owned(),
        Some(Errno::ACCESS) => {
            "permission denied: it is not executable by this user, or lies on a noexec mount".to_owned()
        }
        Some(Errno::NOEXEC) => {
            "unknown format: neither a program for this machine nor a script that begins with #!".to_owned()
        }
        Some(Errno::NOENT | Errno::NOTDIR) => {
            "the interpreter that it names, behind #! or in its ELF header, is not there".to_owned()
        }
        _ => error.to_string(),
    };
    NotRun { code: exit::NOT_EXECUTABLE, why: format!("{}: {why}", file.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(program: &str, path: &str) -> Vec<String> {
        candidates(program.as_ref(), path.as_ref()).iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn a_name_is_looked_for_and_a_path_is_not() {
        assert_eq!(files("feed", "/usr/bin:/bin/"), ["/usr/bin/feed", "/bin/feed"]);
        assert_eq!(files("./feed", "/usr/bin"), ["./feed"]);
        assert_eq!(files("bin/feed", "/usr"), ["bin/feed"]);
    }

    #[test]
    fn an_empty_element_is_the_current_folder() {
        assert_eq!(files("feed", ""), ["./feed"]);
        assert_eq!(files("feed", ":/bin"), ["./feed", "/bin/feed"]);
        assert_eq!(files("feed", "/bin:"), ["/bin/feed", "./feed"]);
        assert_eq!(files("feed", "/a::/b"), ["/a/feed", "./feed", "/b/feed"]);
    }
}
