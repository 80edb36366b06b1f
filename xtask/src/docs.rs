//! Generates the pages of documentation that come from tables in the code.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::suite::Done;
use crate::workspace::{PRODUCT, cargo, root, target};

/// A page, and the example that prints it.
struct Page {
    path: &'static str,
    example: &'static str,
    words: &'static [&'static str],
}

const PAGES: &[Page] = &[
    Page { path: "docs/commands.md", example: "commands", words: &[] },
    Page { path: "docs/configuration.md", example: "settings", words: &[] },
    Page { path: "docs/hotring.toml", example: "settings", words: &["--file"] },
    Page { path: "docs/metrics.md", example: "metrics", words: &[] },
    Page { path: "docs/compatibility.md", example: "compatibility", words: &[] },
];

/// The README's example.
const EMBED: &str = "embed";

/// Writes all pages.
pub fn write() -> Result<()> {
    process::run(cargo().args(build()))?;
    for page in PAGES {
        let text = page.text()?;
        fs::write(root().join(page.path), text)
            .with_context(|| format!("cannot write {}", page.path))?;
        println!("wrote {}", page.path);
    }
    Ok(())
}

/// Fails if a page is stale.
pub fn check() -> Result<Done> {
    process::run(cargo().args(build()))?;
    for page in PAGES {
        let stored = fs::read_to_string(root().join(page.path)).unwrap_or_default();
        if stored != page.text()? {
            bail!("{} is stale; renew it with: cargo xtask docs", page.path);
        }
        println!("  {} is up to date", page.path);
    }
    check_example()?;
    Ok(Done::Passed(PAGES.len() + 1))
}

/// Checks that the README's Rust example is `examples/embed.rs`, which is compiled and run.
fn check_example() -> Result<()> {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let program = fs::read_to_string(root().join("xtask/examples/embed.rs"))?;
    let code = program.split_once("\n\n").map_or("", |(_, code)| code);
    if code.is_empty() || !readme.contains(&format!("```rust\n{code}```")) {
        bail!("the README's Rust example differs from xtask/examples/embed.rs");
    }
    let printed = output(EMBED, &[])?;
    ensure!(
        code.contains(&format!("// {printed}")),
        "the README's Rust example prints {printed:?}: say so in its comment"
    );
    print!("  the README's example prints: {printed}");
    Ok(())
}

/// Builds the examples with the tests' features; for a single package, cargo would rebuild much.
pub fn build() -> Vec<&'static str> {
    let mut words = vec!["build", "--quiet", "--locked"];
    words.extend(PRODUCT);
    for example in PAGES.iter().map(|page| page.example).chain([EMBED]) {
        words.extend(["--example", example]);
    }
    words
}

fn output(example: &str, words: &[&str]) -> Result<String> {
    process::output(process::command(target().join("debug/examples").join(example)).args(words))
}

impl Page {
    fn text(&self) -> Result<String> {
        output(self.example, self.words)
    }
}
