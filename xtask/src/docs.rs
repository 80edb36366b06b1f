//! The pages that are generated from tables in the code.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::suite::Done;
use crate::workspace::{cargo, root};

/// A page, and the words after `cargo run` that print it.
struct Page {
    path: &'static str,
    program: &'static [&'static str],
}

const COMMANDS: &[&str] = &["--package", "hotring-protocol", "--example", "commands"];
const SETTINGS: &[&str] = &["--package", "xtask", "--example", "settings"];
const SETTINGS_FILE: &[&str] = &["--package", "xtask", "--example", "settings", "--", "--file"];

const PAGES: &[Page] = &[
    Page { path: "docs/commands.md", program: COMMANDS },
    Page { path: "docs/configuration.md", program: SETTINGS },
    Page { path: "docs/hotring.conf", program: SETTINGS_FILE },
];

/// Writes all pages.
pub fn write() -> Result<()> {
    for page in PAGES {
        let text = page.text()?;
        fs::write(root().join(page.path), text)
            .with_context(|| format!("cannot write {}", page.path))?;
        println!("wrote {}", page.path);
    }
    Ok(())
}

/// Fails if a page is not what its table says.
pub fn check() -> Result<Done> {
    for page in PAGES {
        let stored = fs::read_to_string(root().join(page.path)).unwrap_or_default();
        if stored != page.text()? {
            bail!("{} is stale; write it anew with: cargo xtask docs", page.path);
        }
        println!("  {} is up to date", page.path);
    }
    check_example()?;
    Ok(Done::Passed(PAGES.len() + 1))
}

/// The README's Rust example is `examples/embed.rs`, which is compiled and run.
fn check_example() -> Result<()> {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let program = fs::read_to_string(root().join("xtask/examples/embed.rs"))?;
    let code = program.split_once("\n\n").map_or("", |(_, code)| code);
    if code.is_empty() || !readme.contains(&format!("```rust\n{code}```")) {
        bail!("the README's Rust example is not what xtask/examples/embed.rs has after its header");
    }
    let words = ["run", "--quiet", "--locked", "--package", "xtask", "--example", "embed"];
    print!("  the README's example prints: {}", process::output(cargo().args(words))?);
    Ok(())
}

impl Page {
    fn text(&self) -> Result<String> {
        process::output(cargo().args(["run", "--quiet", "--locked"]).args(self.program))
    }
}
