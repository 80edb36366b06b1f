//! Checks the layers inside each crate: a module may use only its own layer and lower ones, and
//! import cycles must stay small.
//!
//! The import graph is read from the text: `use` declarations and paths that begin with `crate`,
//! `super`, `self` or the name of a child module. Test modules and test files do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;

/// The largest permitted import cycle, in files.
const CYCLE_MAX: usize = 11;

/// Large crates whose files must be in a few folders, and the limit of entries in their `src`.
const LARGE: &[&str] = &["hotring-commands", "hotring-server"];
const ENTRIES_MAX: usize = 13;

/// The layers of each crate, from the lowest up. Modules of one layer may use each other. A name
/// covers the modules below it that have no entry of their own.
const LAYERS: &[(&str, &[&[&str]])] = &[
    (
        "hotring-index",
        &[
            &["core::sync", "core::word", "core::memory", "core::stats", "core::faults"],
            &["core::hooks", "core::barrier", "core::lifetime", "core::limbo", "core::config"],
            &["core::item", "core::memory_limit", "core::arena"],
            &["core"],
            &["engine", "session"],
            &["ring"],
            &["index"],
            &["bytes", "u64s", "lines"],
            &["erased"],
            &["any", "checks", "lines::items::at_rest", "toolkit"],
        ],
    ),
    (
        "hotring-engines",
        &[&["hooks", "faults", "settings"], &["chaining", "mercury", "gcuckoo"], &["choice"]],
    ),
    (
        "hotring-protocol",
        &[&["args", "error", "glob", "number"], &["memcached", "resp"], &["prefix_cache"]],
    ),
    (
        "hotring-log",
        &[
            &["sync", "record", "packed"],
            &["names", "storage"],
            &["log", "segment", "manifest", "backlog", "wire"],
            &["walk", "recover", "cut", "tail"],
            &["syncer", "writer", "relay"],
            &["snapshot", "repair", "marks"],
        ],
    ),
    (
        "hotring-cluster",
        &[
            &["faults", "ids", "rules", "slots", "tenure", "circle", "layout"],
            &["history"],
            &["message", "records"],
            &["feed", "in_sync", "lost", "plan"],
            &["directory", "kept"],
            &["coded", "founding", "mirrors", "moves"],
            &["replica", "relay", "succession", "keeper", "changes"],
            &["primary", "failover", "membership", "controller"],
        ],
    ),
    (
        "hotring-messages",
        &[
            &["slab"],
            &["faults", "endpoint", "message"],
            &["caller", "reply_cache", "sockets"],
            &["client", "fabric", "server"],
            &["link"],
            &["blocking", "shared"],
        ],
    ),
    ("hotring-c", &[&["status", "input"], &["output"], &["queue"], &["client"], &["operations"]]),
    // The root has the trait, which all of them implement.
    (
        "hotring-coordinator",
        &[&["heard", "log", "protocol", "wait"], &["embedded", "remote"], &["serve", "etcd"]],
    ),
    ("hotring-containers", &[&["entries"], &["tree"], &["dict"], &["list", "scored", "text"]]),
    (
        "hotring-store",
        &[
            &["sync", "stripe", "wait", "error", "decimal"],
            &["gate", "holds", "in_flight"],
            &[
                "value",
                "container",
                "hash",
                "list",
                "long_text",
                "scored",
                "set",
                "history",
                "metadata",
                "gathered",
            ],
            &[
                "wheel", "expired", "watch", "changes", "idle", "pins", "evict", "logged", "mode",
                "marks", "grounds", "clearing",
            ],
            &["write", "databases"],
            &["session"],
            &["store", "container::write", "container::write_text"],
            &["ops", "snapshot", "restore", "apply", "import", "digest_walk"],
        ],
    ),
    (
        "hotring-commands",
        &[
            &["host", "table", "rdb"],
            &["observe"],
            &["settings"],
            &["acl"],
            &["state"],
            &["commands"],
            &["script"],
            &["memcached", "messages"],
            &["exec"],
        ],
    ),
    ("hotring-server", &[&["tasks"], &["admin"], &["net"], &["run"]]),
    (
        "hotring-proxy",
        &[
            &["combine", "counter", "input", "reply", "settings"],
            &["foreign::server"],
            &["foreign::copying", "foreign::file"],
            &["layout"],
            &["foreign::pool", "plan", "replies"],
            &["shared"],
            &["foreign::translation", "foreign::to_memcached", "foreign::to_redis"],
            &["foreign::rewrite"],
            &["link", "mirror", "request"],
            &["foreign::prepare"],
            // A connection gives requests back to the thread, which has the connections of all users.
            &["settle", "thread", "tracking", "upstream", "upstreams"],
            &["discover", "foreign", "info"],
            &["client"],
            &["listen"],
        ],
    ),
    (
        "hotring",
        &[
            &["client", "output"],
            &["transfer"],
            &[
                "check", "cluster", "commands", "export", "import", "ping", "proxy", "scrub",
                "serve", "top",
            ],
        ],
    ),
    (
        "hotring-bench",
        &[
            &["address", "count", "folder", "machine", "workload"],
            &["report", "resp"],
            &["plots", "targets"],
            &["measure", "servers"],
            &[
                "bounds",
                "cluster",
                "columns",
                "compare",
                "crash",
                "durability",
                "evict",
                "expiry",
                "gcuckoo",
                "memory",
                "mercury",
                "moves",
                "pauses",
                "proxy",
                "reclamation",
                "replay",
                "torture",
                "ycsb",
            ],
            &["containers", "figures"],
            &["cli"],
        ],
    ),
    (
        "xtask",
        &[
            &["suite"],
            &["process", "workspace"],
            &["server", "tools"],
            &["docs", "engines", "fuzz", "lanes", "package", "redis", "tidy"],
            &["instructions", "test"],
            &["clients"],
            &["prove"],
            &["long"],
        ],
    ),
];

/// Modules by path (`net::socket`), each with those that it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Violations of the layers of all crates.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    LAYERS.iter().flat_map(|(name, layers)| check_crate(name, layers, sources)).collect()
}

fn check_crate(name: &str, layers: &[&[&str]], sources: &[Source]) -> Vec<String> {
    let src = folder(name);
    let files: Vec<&Source> =
        sources.iter().filter(|s| s.is_rust() && s.is_in(&src) && !s.is_test()).collect();
    let modules: BTreeSet<String> = files.iter().map(|s| module(&s.path[src.len()..])).collect();
    let mut graph = Graph::new();
    for file in files {
        let module = module(&file.path[src.len()..]);
        let used = imports(&module, &file.text, &modules);
        graph.entry(module).or_default().extend(used);
    }
    // The root of a crate sees all of it, and must not be used by its modules.
    graph.remove("");
    let mut faults = crossings(name, layers, &graph);
    for cycle in cycles(&graph).into_iter().filter(|cycle| cycle.len() > CYCLE_MAX) {
        let files = cycle.into_iter().collect::<Vec<_>>().join(", ");
        faults.push(format!("{name}: an import cycle of more than {CYCLE_MAX} files: {files}"));
    }
    if LARGE.contains(&name) {
        faults.extend(entries(name, &src, sources));
    }
    faults
}

/// The folder of a crate's sources.
fn folder(name: &str) -> String {
    if name == "xtask" { "xtask/src/".to_owned() } else { format!("crates/{name}/src/") }
}

fn entries(name: &str, src: &str, sources: &[Source]) -> Option<String> {
    let in_src = sources.iter().filter_map(|source| source.path.strip_prefix(src));
    let entries: BTreeSet<&str> = in_src.filter_map(|path| path.split('/').next()).collect();
    let n = entries.len();
    (n > ENTRIES_MAX).then(|| format!("{name}: {n} entries in src, more than {ENTRIES_MAX}"))
}

/// Uses of a higher layer, and modules without one.
fn crossings(name: &str, layers: &[&[&str]], graph: &Graph) -> Vec<String> {
    let layer = |module: &str| {
        let parents = std::iter::successors(Some(module), |path| Some(path.rsplit_once("::")?.0));
        parents.filter_map(|path| layers.iter().position(|layer| layer.contains(&path))).next()
    };
    let mut faults = Vec::new();
    for (module, used) in graph {
        let Some(own) = layer(module) else {
            faults.push(format!("{name}: {module} is in no layer of xtask/src/tidy/layers.rs"));
            continue;
        };
        for used in used.iter().filter(|used| layer(used).is_some_and(|other| other > own)) {
            faults.push(format!("{name}: {module} uses {used}, which is in a higher layer"));
        }
    }
    faults
}

/// The path of a file's module; "" for the root of the crate.
fn module(file: &str) -> String {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path =
        ["/mod", "lib", "main"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
    path.trim_end_matches('/').replace('/', "::")
}

/// The modules that a file uses.
fn imports(module: &str, text: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let code = product_code(text);
    let children: BTreeSet<&str> = modules
        .iter()
        .filter_map(|other| match other.rsplit_once("::") {
            Some((parent, name)) => (parent == module).then_some(name),
            None => module.is_empty().then_some(other.as_str()),
        })
        .collect();
    let mut used = BTreeSet::new();
    for path in paths(&code) {
        let Some(mut target) = absolute(module, &path, &children) else { continue };
        while !target.is_empty() && !modules.contains(&target.join("::")) {
            target.pop();
        }
        let target = target.join("::");
        if !target.is_empty() && target != module {
            used.insert(target);
        }
    }
    used
}

/// Resolves a path to one from the root of the crate, if it is in the crate.
fn absolute(module: &str, path: &[String], children: &BTreeSet<&str>) -> Option<Vec<String>> {
    let mut base: Vec<String> =
        module.split("::").filter(|part| !part.is_empty()).map(String::from).collect();
    let rest = match path.first()?.as_str() {
        "crate" => {
            base.clear();
            &path[1..]
        }
        "self" => &path[1..],
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            base.truncate(base.len().saturating_sub(ups));
            &path[ups..]
        }
        child if children.contains(child) => path,
        _ => return None,
    };
    base.extend(rest.iter().cloned());
    Some(base)
}

/// All paths in a text: those of `use` trees expanded, others as written.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut rest = code;
    while let Some(at) = find_use(rest) {
        plain_paths(&rest[..at], &mut paths);
        let end = rest[at..].find(';').map_or(rest.len(), |end| at + end);
        expand(&[], &rest[at + "use ".len()..end], &mut paths);
        rest = &rest[end..];
    }
    plain_paths(rest, &mut paths);
    paths
}

fn find_use(code: &str) -> Option<usize> {
    let starts_word = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    code.match_indices("use ").map(|(at, _)| at).find(|at| starts_word(*at))
}

fn plain_paths(code: &str, paths: &mut Vec<Vec<String>>) {
    let in_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for word in code.split(|c| !in_path(c)).filter(|word| word.contains("::")) {
        paths.push(word.split("::").map(String::from).collect());
    }
}

/// Adds the paths of a `use` tree (`a::{b, c::d}`) behind `prefix`.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let mut depth = 0;
    let branches = tree.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for branch in branches.map(str::trim).filter(|branch| !branch.is_empty()) {
        let (head, inner) = match branch.split_once('{') {
            Some((head, inner)) => (head, inner.rsplit_once('}').map(|(inner, _)| inner)),
            None => (branch.split(" as ").next().unwrap_or_default(), None),
        };
        let parts = head.split("::").map(str::trim).filter(|part| !part.is_empty());
        let path: Vec<String> = prefix.iter().cloned().chain(parts.map(String::from)).collect();
        match inner {
            Some(inner) => expand(&path, inner, paths),
            None => paths.push(path),
        }
    }
}

/// The text without comments, strings and tests. Visibilities (`pub(in crate::a)`) import nothing, and are left out.
fn product_code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut in_string = false;
    for line in text.lines() {
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if in_string => drop(chars.next()),
                '"' => in_string = !in_string,
                '\'' if !in_string && chars.peek() == Some(&'"') => drop(chars.next()),
                '/' if !in_string && chars.peek() == Some(&'/') => break,
                _ if !in_string => code.push(c),
                _ => {}
            }
        }
        code.push('\n');
    }
    while let Some(at) = test_module(&code) {
        let open = code[at..].find('{').map_or(code.len(), |open| at + open);
        let mut depth = 0;
        let end = code[open..].find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        code.replace_range(at..end.map_or(code.len(), |end| open + end + 1), "");
    }
    while let Some(at) = code.find("pub(in ") {
        let end = code[at..].find(')').map_or(code.len(), |end| at + end + 1);
        code.replace_range(at..end, "pub");
    }
    without_test_statements(&code)
}

/// The code without statements of one line that only tests have.
fn without_test_statements(code: &str) -> String {
    let is_for_tests =
        |line: &str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test,");
    let mut is_left_out = false;
    let keeps = |line: &&str| {
        let line = line.trim();
        let keeps = !is_left_out || !line.ends_with(';');
        is_left_out = is_for_tests(line);
        keeps
    };
    code.lines().filter(keeps).flat_map(|line| [line, "\n"]).collect()
}

/// The offset at which a test module begins, if there is one.
fn test_module(code: &str) -> Option<usize> {
    code.match_indices("#[cfg(test)]").map(|(at, _)| at).find(|at| {
        let item = code[at + "#[cfg(test)]".len()..].trim_start();
        let module = item.find("mod ").filter(|at| *at <= "pub(crate) ".len());
        module.is_some_and(|_| item.find('{') < item.find(';').or(Some(usize::MAX)))
    })
}

/// The strongly connected parts of more than one module (Tarjan's algorithm).
fn cycles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let mut search = Search::new(graph);
    for module in graph.keys() {
        if !search.index.contains_key(module.as_str()) {
            search.visit(module);
        }
    }
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    index: BTreeMap<&'a str, usize>,
    low: BTreeMap<&'a str, usize>,
    stack: Vec<&'a str>,
    found: Vec<BTreeSet<String>>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph) -> Self {
        let (index, low) = (BTreeMap::new(), BTreeMap::new());
        Search { graph, index, low, stack: Vec::new(), found: Vec::new() }
    }

    fn visit(&mut self, module: &'a str) {
        let n = self.index.len();
        self.index.insert(module, n);
        self.low.insert(module, n);
        self.stack.push(module);
        for used in self.graph.get(module).into_iter().flatten() {
            let reached = match self.index.get(used.as_str()) {
                None => {
                    self.visit(used);
                    self.low[used.as_str()]
                }
                Some(index) if self.stack.contains(&used.as_str()) => *index,
                Some(_) => continue,
            };
            let low = self.low[module].min(reached);
            self.low.insert(module, low);
        }
        if self.low[module] == n {
            let at = self.stack.iter().position(|other| *other == module).expect("it was pushed");
            let part: BTreeSet<String> = self.stack.drain(at..).map(String::from).collect();
            if part.len() > 1 {
                self.found.push(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: format!("crates/x/src/{path}"), text: text.to_string() }
    }

    fn faults(layers: &[&[&str]], files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| source(path, text)).collect();
        check_crate("x", layers, &sources)
    }

    #[test]
    fn a_use_of_a_higher_layer_is_a_fault() {
        let layers: &[&[&str]] = &[&["low"], &["high"]];
        let of =
            |text| faults(layers, &[("low/a.rs", text), ("high/b.rs", "use crate::low::a::X;")]);
        let fault = ["x: low::a uses high::b, which is in a higher layer"];
        assert_eq!(of("use crate::high::b::Y;"), fault);
        assert_eq!(of("use crate::{low, high::{b::{self, Y}, c}};"), fault);
        assert_eq!(of("use super::super::high::b;"), fault);
        assert_eq!(of("fn f() { crate::high::b::g() }"), fault);
        for fine in [
            "// crate::high::b\nfn f() {}",
            "const S: &str = \"crate::high::b\";",
            "#[cfg(test)]\nmod tests { use crate::high::b; fn f() { {} } }",
            "fn reuse () {}",
        ] {
            assert_eq!(of(fine), [""; 0], "{fine}");
        }
        assert_eq!(of("#[cfg(test)]\nmod tests { { } }\nuse crate::high::b;"), fault);
    }

    #[test]
    fn a_module_may_have_a_layer_below_that_of_its_parent() {
        let layers: &[&[&str]] = &[&["core::word"], &["core"], &["high"]];
        let of = |word, item| {
            let files =
                [("core/word/mod.rs", word), ("core/item.rs", item), ("core/word/bits.rs", "")];
            faults(layers, &files)
        };
        assert_eq!(of("", "use crate::core::word::X;"), [""; 0]);
        let fault = ["x: core::word uses core::item, which is in a higher layer"];
        assert_eq!(of("use crate::core::item::X;", ""), fault);
        assert_eq!(
            of("use crate::core::word::bits::X;", "use crate::core::word::bits::X;"),
            [""; 0]
        );
    }

    #[test]
    fn modules_without_a_layer_and_large_cycles_are_faults() {
        let fault = ["x: c is in no layer of xtask/src/tidy/layers.rs"];
        assert_eq!(faults(&[&["a"]], &[("a.rs", ""), ("c.rs", "")]), fault);
        let ring = |n: usize| -> Vec<(String, String)> {
            let text = |i| format!("use super::m{};", (i + 1) % n);
            (0..n).map(|i| (format!("a/m{i}.rs"), text(i))).collect()
        };
        let of = |n| {
            let files = ring(n);
            let files: Vec<(&str, &str)> =
                files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            faults(&[&["a"]], &files).len()
        };
        assert_eq!((of(CYCLE_MAX), of(CYCLE_MAX + 1)), (0, 1));
    }

    #[test]
    fn visibilities_and_test_statements_import_nothing() {
        let of =
            |text| faults(&[&["a"], &["b"]], &[("a/mod.rs", ""), ("a/c.rs", text), ("b.rs", "")]);
        assert_eq!(of("pub(in crate::b) struct X;"), [""; 0]);
        assert_eq!(of("#[cfg(all(test, not(loom)))]\ncrate::b::f();"), [""; 0]);
        assert_eq!(of("#[cfg(all(test, not(loom)))]\ncrate::b::f();\ncrate::b::g();").len(), 1);
        assert_eq!(of("#[cfg(unix)]\ncrate::b::f();").len(), 1);
    }

    #[test]
    fn a_crate_has_few_entries_at_its_top() {
        let files: Vec<String> = (0..=ENTRIES_MAX).map(|i| format!("a{i}/b.rs")).collect();
        let sources: Vec<Source> = files.iter().map(|path| source(path, "")).collect();
        assert!(entries("x", "crates/x/src/", &sources).is_some());
        assert!(entries("x", "crates/x/src/", &sources[1..]).is_none());
    }
}
