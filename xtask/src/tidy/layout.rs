//! Checks the file layout of modules: one style per crate, and no folder with only a `tests.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;

/// Faults of all crates.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let path = source.path.strip_prefix("crates/").unwrap_or(&source.path);
        if let Some((name, file)) = path.split_once("/src/") {
            crates.entry(name).or_default().insert(file);
        }
    }
    crates.iter().flat_map(|(name, files)| check_crate(name, files)).collect()
}

fn check_crate(name: &str, files: &BTreeSet<&str>) -> Vec<String> {
    let folders: BTreeSet<&str> =
        files.iter().filter_map(|file| Some(file.rsplit_once('/')?.0)).collect();
    let n_inside = |folder: &str| {
        let is_inside = |file: &str| file.strip_prefix(folder).is_some_and(|f| f.starts_with('/'));
        files.iter().filter(|file| is_inside(file)).count()
    };
    let mut faults = Vec::new();
    for folder in &folders {
        if n_inside(folder) == 1 && files.contains(format!("{folder}/tests.rs").as_str()) {
            faults
                .push(format!("{name}: src/{folder} holds only tests.rs: put it into its module"));
        }
    }
    let inside = folders.iter().find(|f| files.contains(format!("{f}/mod.rs").as_str()));
    let same_name = folders.iter().find(|f| files.contains(format!("{f}.rs").as_str()));
    if let (Some(inside), Some(same_name)) = (inside, same_name) {
        faults.push(format!(
            "{name}: two styles of modules, src/{inside}/mod.rs and src/{same_name}.rs"
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(paths: &[&str]) -> Vec<String> {
        let source = |path: &&str| Source { path: (*path).to_owned(), text: String::new() };
        check(&paths.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn a_folder_for_tests_alone_is_a_fault() {
        let paths = ["crates/x/src/a.rs", "crates/x/src/a/tests.rs"];
        let fault = ["x: src/a holds only tests.rs: put it into its module"];
        assert_eq!(faults(&paths), fault);
        for more in ["crates/x/src/a/b.rs", "crates/x/src/a/b/c.rs"] {
            assert_eq!(faults(&[&paths[..], &[more]].concat()), [""; 0], "{more}");
        }
        assert_eq!(faults(&["xtask/src/a/tests.rs", "xtask/src/ab/c.rs"]).len(), 1);
        assert_eq!(faults(&["crates/x/tests/a/tests.rs"]), [""; 0]);
    }

    #[test]
    fn two_styles_in_a_crate_are_a_fault() {
        let same_name = ["crates/x/src/a.rs", "crates/x/src/a/b.rs"];
        let inside = ["crates/x/src/c/mod.rs", "crates/x/src/c/d.rs"];
        let fault = ["x: two styles of modules, src/c/mod.rs and src/a.rs"];
        assert_eq!(faults(&[same_name, inside].concat()), fault);
        assert_eq!(faults(&same_name), [""; 0]);
        assert_eq!(faults(&inside), [""; 0]);
        let elsewhere = inside.map(|path| path.replace("/x/", "/y/"));
        assert_eq!(
            faults(&[same_name, elsewhere.each_ref().map(|path| &path[..])].concat()),
            [""; 0]
        );
    }
}
