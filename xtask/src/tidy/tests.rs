//! Tests: every rule finds its faults, and leaves good code alone.

use super::{Rule, Source, code, edges, interfaces, names, text, wording};

fn lines(rule: Rule, path: &str, text: &str) -> Vec<usize> {
    let source = Source { path: path.into(), text: text.into() };
    rule(&source).iter().map(|fault| fault.line).collect()
}

const STORE: &str = "crates/hotring-store/src/gate/mod.rs";

#[test]
fn unfinished_work_is_found() {
    let mark = concat!("// TO", "DO: later");
    assert_eq!(lines(text::words, "README.md", &format!("fine\n{mark}\n")), [2]);
    assert_eq!(lines(text::words, "Cargo.lock", mark), [0; 0]);
}

#[test]
fn references_to_the_outside_are_found() {
    let number = concat!("see iss", "ue 7");
    assert_eq!(lines(text::outside, "a.rs", &format!("{number}\nto issue a command\n")), [1]);
    assert_eq!(lines(text::outside, "a.md", concat!("cd /ro", "ot/x")), [1]);
}

#[test]
fn dead_links_are_found() {
    let page =
        "[a](Cargo.toml) [b](no-such-page.md#x) [c](https://example.org) [d](#here)\n# Here\n";
    assert_eq!(lines(text::links, "x.md", page), [1]);
    let page = "[a](README.md#no-such-heading) [b](ARCHITECTURE.md#glossary)\n[c](#nor-here)\n";
    assert_eq!(lines(text::links, "x.md", page), [1, 2]);
    assert_eq!(lines(text::links, "x.rs", page), [0; 0]);
    assert_eq!(lines(text::links, "x.md", "```\n[b](no-such-page.md)\n```\n"), [0; 0]);
}

#[test]
fn phrases_are_found_in_pages_and_comments() {
    let page = "It begins anew.\nSo many `anew`\nrenew whoever\n```\nanew\n```\n";
    assert_eq!(lines(wording::phrases, "x.md", page), [1, 2]);
    let code = concat!(
        "let anew = 1; /",
        "/ begins Anew\nlet a = \"nobody\";\n/",
        "// No",
        "body waits.\n"
    );
    assert_eq!(lines(wording::phrases, "crates/hotring-log/src/a.rs", code), [1, 3]);
}

#[test]
fn riddles_are_found() {
    let page = "Shows what there is.\nWrites what comes of it.\nNo one knows what has become of it.\n\
                The server takes note of this.\nRepeat it as one likes.\nWhat is there stays.\n";
    assert_eq!(lines(wording::phrases, "x.md", page), [1, 2, 3, 4, 5]);
}

/// Regression test: pages named a file, settings and a command that were gone.
#[test]
fn names_in_pages_exist() {
    let found = |text: &str| lines(names::names, "x.md", text);
    assert_eq!(found("`ring/mod.rs` and `xtask/src/tidy/names.rs`\n`ring/no_such_file.rs`\n"), [2]);
    assert_eq!(
        found("`maxmemory-policy`, `--maxmemory-policy heat`, `key`\n`max-memory-policies`\n"),
        [2]
    );
    assert_eq!(found("`hotring serve --maxclients 5`\n`hotring serve --max-no-clients 5`\n"), [2]);
    let block =
        "```console\nhotring serve --log everysec --no-such-flag\nredis-cli --anything\n```\n";
    assert_eq!(found(block), [2]);
    assert_eq!(lines(names::names, "x.rs", "`no-such-setting`"), [0; 0]);
}

#[test]
fn variables_in_pages_are_read() {
    let found = |text: &str| lines(interfaces::variables, "x.md", text);
    // A setting, its default, a variable of a test, a prefix.
    let known = "`HOTRING_PORT=1`, HOTRING_DEFAULT_TCP_KEEPALIVE\nHOTRING_SEQUENCES `HOTRING_DEFAULT_...`\n";
    assert_eq!(found(known), [0; 0]);
    assert_eq!(
        found("```\nHOTRING_PROT=1 hotring serve\n```\nHOTRING_DEFAULT_SEQUENCES\n"),
        [2, 4]
    );
    // Only a test of settings passes this one.
    assert_eq!(found("HOTRING_MAXCLEINTS\n"), [1]);
    assert_eq!(lines(interfaces::variables, "x.rs", "HOTRING_PROT"), [0; 0]);
}

#[test]
fn sections_of_info_in_pages_exist() {
    let found = |text: &str| lines(interfaces::sections, "x.md", text);
    assert_eq!(
        found("`INFO memory`, `INFO stats hotkeys`, `INFO`, `INFO all`\nINFO shows\n"),
        [0; 0]
    );
    assert_eq!(
        found("`INFO memmory`\n`INFO stats nothing` and `INFO cpu`\n`INFO txt`\n"),
        [1, 2, 3]
    );
    assert_eq!(found("```console\nredis-cli INFO persistance\n```\nINFO shows it\n"), [2]);
    assert_eq!(lines(interfaces::sections, "x.rs", "`INFO memmory`"), [0; 0]);
}

#[test]
fn fields_and_metrics_in_pages_exist() {
    let found = |text: &str| lines(interfaces::fields, "x.md", text);
    // Fields of INFO, a metric with its labels, an example, words of other kinds.
    let known = "`used_memory_rss`, `log_abandoned:1`, `hotring_commands_total{protocol=\"memcached\"}`\n\
                 `keys_per_bucket` used_memmory_rss `HOTRING_SEED` `__key` `GET key`\n";
    assert_eq!(found(known), [0; 0]);
    assert_eq!(found("fine\n`used_memmory_rss` and `hotring_comands_total`\n"), [2, 2]);
    assert_eq!(found("```\nused_memmory_rss:1\n```\n"), [0; 0]);
    assert_eq!(lines(interfaces::fields, "x.rs", "`used_memmory_rss`"), [0; 0]);
}

#[test]
fn wide_comments_are_found() {
    let line = |columns: usize| format!("    // {}\n", "\u{e9}".repeat(columns - 7));
    let text = [line(120), line(121), format!("let x = \"{}\";\n", "x".repeat(200))].concat();
    assert_eq!(lines(code::width, "crates/hotring-log/src/a.rs", &text), [2]);
    assert_eq!(lines(code::width, "a.md", &text), [0; 0]);
}

#[test]
fn files_have_headers_and_an_end() {
    assert_eq!(lines(code::header, "a.rs", "fn main() {}\n"), [1]);
    assert_eq!(lines(code::header, "a.rs", "//! A.\n"), [0; 0]);
    assert_eq!(lines(code::length, "a.rs", &"x\n".repeat(651)), [651]);
    assert_eq!(lines(code::length, "a.rs", &"x\n".repeat(650)), [0; 0]);
}

#[test]
fn crates_forbid_unsafe_code() {
    assert_eq!(lines(code::unsafe_forbidden, "crates/hotring-store/src/lib.rs", "//! S.\n"), [1]);
    assert_eq!(
        lines(code::unsafe_forbidden, "crates/hotring-index/src/lib.rs", "//! I.\n"),
        [0; 0]
    );
}

#[test]
fn effects_in_libraries_are_found() {
    let text = "use std::time::Duration;\nlet t = Instant::now();\n// Instant\nfn brand::x();\n\
                #[cfg(test)]\nmod tests {\n    std::thread::spawn(f);\n}\n";
    assert_eq!(lines(code::effects, STORE, text), [2]);
    let random = "let a = Rng::with_seed(1);\nlet b = fastrand::Rng::new();\n";
    assert_eq!(lines(code::effects, STORE, random), [2]);
    assert_eq!(lines(code::effects, "crates/hotring-commands/src/host/clock.rs", text), [0; 0]);
    assert_eq!(lines(code::effects, "crates/hotring-store/src/gate/tests.rs", text), [0; 0]);
}

#[test]
fn memory_orders_without_a_reason_are_found() {
    let bare = "use std::sync::atomic::Ordering;\na.load(Ordering::Acquire);\na.load(Relaxed);\n";
    assert_eq!(lines(code::ordering, STORE, bare), [2, 3]);
    let near = "// ORDERING: why\n1\n2\n3\n4\n5\na.load(Ordering::Acquire);\n";
    assert_eq!(lines(code::ordering, STORE, near), [0; 0]);
    let far = "// ORDERING: why\n1\n2\n3\n4\n5\n6\na.load(Ordering::Acquire);\n";
    assert_eq!(lines(code::ordering, STORE, far), [8]);
    assert_eq!(lines(code::ordering, STORE, "x.cmp(y) == Ordering::Less\n"), [0; 0]);
}

#[test]
fn dependencies_point_one_way() {
    assert!(edges::is_allowed("hotring-store", "hotring-index", false));
    assert!(!edges::is_allowed("hotring-index", "hotring-store", false));
    assert!(!edges::is_allowed("hotring-protocol", "hotring-store", true));
    assert!(edges::is_allowed("xtask", "hotring-server", true));
    assert!(!edges::is_allowed("xtask", "hotring-server", false));
}
