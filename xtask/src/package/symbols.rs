//! Moves the line tables of a program into a file next to it: the program becomes small, and a
//! backtrace or a debugger still finds its lines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process::{self, command};

/// Splits `program` into itself, stripped, and the returned `.debug` file. The program refers to that
/// file by its name and checksum; both must be in one folder.
pub fn split(program: &Path) -> Result<PathBuf> {
    let mut tables = program.as_os_str().to_owned();
    tables.push(".debug");
    let tables = PathBuf::from(tables);
    process::run(command("objcopy").arg("--only-keep-debug").arg(program).arg(&tables))?;
    process::run(command("strip").arg(program))?;
    let mut link = "--add-gnu-debuglink=".to_owned();
    link.push_str(tables.to_str().context("the path is not UTF-8")?);
    process::run(command("objcopy").arg(link).arg(program))?;
    Ok(tables)
}

/// Checks that the program has neither symbols nor line tables.
pub fn check_stripped(program: &Path) -> Result<()> {
    let sections = process::output(command("readelf").args(["--sections", "-W"]).arg(program))?;
    for gone in [".symtab", ".debug_line"] {
        ensure!(!sections.contains(gone), "{} still has {gone}", program.display());
    }
    Ok(())
}

/// Checks that `program` leads to a line in a file whose path contains `source`, for one of the
/// functions that `tables` names.
pub fn check_lines(program: &Path, tables: &Path, source: &str) -> Result<()> {
    let symbols = process::output(command("nm").arg("--defined-only").arg(tables))?;
    let functions = symbols.lines().filter_map(|line| line.split_once(' '));
    let functions = functions.filter(|(_, name)| name.to_ascii_lowercase().starts_with("t "));
    // A few hundred are enough to meet one of the crate; the last ones may all be of a library.
    let mut lines = command("addr2line");
    lines.arg("-e").arg(program).args(functions.map(|(address, _)| address).step_by(50));
    let lines = process::output(&mut lines)?;
    ensure!(lines.contains(source), "{} leads to no line of {source}", program.display());
    Ok(())
}

/// The size of a file.
pub fn kib(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).with_context(|| format!("no {}", path.display()))?.len() >> 10)
}

#[cfg(test)]
mod tests {
    use super::super::fresh;
    use super::*;

    #[test]
    fn lines_are_found_by_the_link_alone() {
        if crate::tools::missing(&["objcopy"]).is_some() {
            println!("skipped: no binutils");
            return;
        }
        let program = fresh("symbols-test").unwrap().join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        assert!(check_stripped(&program).is_err());
        let before = kib(&program).unwrap();
        let tables = split(&program).unwrap();
        assert_eq!(tables.file_name().unwrap(), "program.debug");
        assert!(kib(&program).unwrap() < before / 2);
        check_stripped(&program).unwrap();
        check_lines(&program, &tables, "xtask/src").unwrap();
        // Without the file there are no lines.
        let elsewhere = tables.with_file_name("other");
        fs::rename(&tables, &elsewhere).unwrap();
        assert!(check_lines(&program, &elsewhere, "xtask/src").is_err());
        check_lines(&elsewhere, &elsewhere, "xtask/src").unwrap();
    }
}
