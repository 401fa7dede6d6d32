//! Files that a command writes because the user named them. No host's files are opened here.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anstream::adapter::strip_bytes;

use super::{Failure, Streams};

/// Readable by everyone: the collector that reads it runs as another user.
const MODE: u32 = 0o644;

/// Writes a report to the file that the user named, without colours unless they were demanded.
pub(super) fn replace_report(path: &Path, text: Vec<u8>, streams: &Streams) -> Result<(), Failure> {
    let text = if streams.has_color_in_files { text } else { strip_bytes(&text).into_vec() };
    replace(path, &text)
        .map_err(|error| Failure::NotWritten(format!("error: failed to write {}: {error}", path.display())))
}

/// Writes a file as a whole or not at all: whoever reads it sees the old text or the new one, never a part, even after a
/// crash. Nothing but a regular file is replaced; a link or a device (`/dev/stdout`, `/dev/null`) stays what it is.
///
/// # Errors
/// What the operating system answers; the file is then as it was.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => return Err(io::Error::other("there, and not a regular file")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // In the same folder, for a rename does not cross file systems; by its name no `*.prom`, which would be collected.
    // It goes with its handle, so that an error leaves nothing behind.
    let mut file = tempfile::Builder::new().prefix(".quietcore-").suffix(".tmp").tempfile_in(folder)?;
    file.write_all(text)?;
    // Apart from the creation, whose mode the umask narrows.
    file.as_file().set_permissions(Permissions::from_mode(MODE))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The rename lasts once the folder does. That some file systems cannot sync a folder is no reason to call the file,
    // which is there, not written.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}
