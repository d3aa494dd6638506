//! Programs of the machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether a program is in one of the folders of `PATH`.
pub fn in_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|it| is_program(&it.join(program))))
}

/// Whether there is a file at `path`.
pub fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// The library that makes a program see another time, from Debian's package `faketime`.
pub fn faketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| is_program(path))
}
