//! Programs of the machine.

use std::path::Path;

/// Whether a program is in one of the folders of `PATH`.
pub fn in_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|it| is_program(&it.join(program))))
}

/// Whether there is a file at `path`.
pub fn is_program(path: &Path) -> bool {
    path.is_file()
}
