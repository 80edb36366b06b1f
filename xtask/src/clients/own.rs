//! Runs the client libraries' own tests against our server, for the features that it has.
//!
//! The lists next to the programs in `tests/clients` name these tests, and all of them must pass.
//! Other tests need types, modules or clusters that the server lacks, or other settings; the lists
//! say which.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::install_python;
use super::memcached::with_port;
use crate::process;
use crate::server::Server;
use crate::suite::Done;
use crate::workspace::{root, target};

/// The versions of the lists; they must be those of the programs in `tests/clients`.
const REDIS_PY: &str = "redis==8.1.0";
const PYMEMCACHE: &str = "pymemcache==4.0.0";
const GO_REDIS: &str = "github.com/redis/go-redis/v9";

/// The Redis version that go-redis assumes.
const REDIS_VERSION: &str = "7.4";

/// The lines of a list, without comments.
fn list(path: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join(path)).with_context(|| format!("no {path}"))?;
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    Ok(lines.map(str::to_string).collect())
}

/// The number in front of a word; 0 if it is missing.
fn number_before(line: &str, word: &str) -> usize {
    let number = line.split_once(word).map_or("", |(before, _)| before);
    number.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A server for the tests. Some tests make it reply with chosen errors, others save snapshots, which need a log.
fn saving_server(hotring: &Path) -> Result<Server> {
    let data = target().join("clients/own/data");
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    fs::create_dir_all(&data)?;
    let data = data.display().to_string();
    let flags = ["--enable-debug-command", "yes", "--log", "everysec", "--data", &data];
    Server::start_with(hotring, &flags)
}

/// Runs redis-py's tests, which are in its source package.
pub fn redis_py(hotring: &Path) -> Result<Done> {
    let (python, source) = match python_source(REDIS_PY) {
        Ok(found) => found,
        Err(error) => return Ok(Done::Skipped(format!("redis-py's tests: {error:#}"))),
    };
    let tests = list("tests/clients/python/own.txt")?;
    let server = saving_server(hotring)?;
    let url = format!("redis://127.0.0.1:{}/0", server.port);
    let mut pytest = process::command(&python);
    pytest.current_dir(&source).args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    // Failures are reported briefly: the source is long, and Python reads all of it.
    pytest.args(["-W", "ignore", "--timeout", "120", "--tb", "native"]);
    pytest.args([format!("--redis-url={url}"), format!("--redis-mod-url={url}")]).args(&tests);
    let passed = count(&mut pytest, " passed")?;
    ensure!(passed >= tests.len(), "{passed} tests passed, but {} are named", tests.len());
    Ok(Done::Passed(passed))
}

/// Runs the tests of pymemcache that need a server.
pub fn pymemcache(hotring: &Path) -> Result<Done> {
    let (python, source) = match python_source(PYMEMCACHE) {
        Ok(found) => found,
        Err(error) => return Ok(Done::Skipped(format!("pymemcache's tests: {error:#}"))),
    };
    let passed = with_port(hotring, |port| {
        let mut pytest = process::command(&python);
        pytest.current_dir(&source).args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        // The memcached port has no TLS.
        pytest.args(["-o", "addopts=", "-k", "not tls", "pymemcache/test/test_integration.py"]);
        pytest.args(["--server", "127.0.0.1", "--port", &port.to_string()]);
        count(&mut pytest, " passed")
    })?;
    Ok(Done::Passed(passed))
}

/// Downloads and unpacks a source package; returns a Python with its test dependencies, and its
/// folder.
fn python_source(package: &str) -> Result<(PathBuf, PathBuf)> {
    let python = install_python("venv", &root().join("tests/clients/python/own-requirements.txt"))?;
    let folder = target().join("clients/own");
    let name = package.replace("==", "-");
    let source = folder.join(&name);
    if !source.exists() {
        let mut download = process::command(&python);
        download.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
        download.args(["--no-deps", "--no-binary", ":all:", package, "-d"]).arg(&folder);
        process::run(&mut download)?;
        let archive = folder.join(format!("{name}.tar.gz"));
        process::run(process::command("tar").arg("-xf").arg(archive).arg("-C").arg(&folder))?;
    }
    Ok((python, source))
}

/// Runs go-redis's tests, which are in its module.
pub fn go_redis(hotring: &Path) -> Result<Done> {
    let server = saving_server(hotring)?;
    let source = match go_redis_source(server.port) {
        Ok(source) => source,
        Err(error) => return Ok(Done::Skipped(format!("go-redis's tests: {error:#}"))),
    };
    let skipped = list("tests/clients/go/own-skipped.txt")?;
    let named = list("tests/clients/go/own.txt")?;
    let mut go = process::command("go");
    // The Ginkgo suite, and two tests of the client-side cache that are not in it.
    let tests = "^(TestGinkgoSuite|TestCSC(ReadYourWrites|UncacheableKeyMarshaledOnce))$";
    go.current_dir(&source).args(["test", "-v", "-count=1", "-run", tests, "."]);
    // Tells the tests that there is one server and no cluster.
    go.envs([("RE_CLUSTER", "true"), ("REDIS_VERSION", REDIS_VERSION)]);
    go.env("REDIS_ADDR", format!("127.0.0.1:{}", server.port));
    go.args(["-ginkgo.focus", &named.join("|"), "-ginkgo.skip", &skipped.join("|")]);
    // Some tests wait for only a second, which is short on a busy machine.
    go.args(["-ginkgo.flake-attempts", "3", "-ginkgo.no-color"]);
    let passed = count(&mut go, " Passed")?;
    Ok(Done::Passed(passed))
}

/// A copy of the module that expects its server at `port`.
fn go_redis_source(port: u16) -> Result<PathBuf> {
    let mut locate = process::command("go");
    locate.current_dir(root().join("tests/clients/go"));
    let json = process::output(locate.args(["mod", "download", "-json", GO_REDIS]))?;
    let json: Value = serde_json::from_str(&json)?;
    let folder = json["Dir"].as_str().context("go tells no folder")?;
    let source = target().join("clients/own/go-redis");
    fs::create_dir_all(target().join("clients/own"))?;
    // Go's cache is read-only.
    process::run(process::command("rm").arg("-rf").arg(&source))?;
    process::run(process::command("cp").args(["-r", folder]).arg(&source))?;
    process::run(process::command("chmod").args(["-R", "u+w"]).arg(&source))?;
    let main = source.join("main_test.go");
    let text = fs::read_to_string(&main)?;
    let here = "redisStackPort = \"6379\"";
    ensure!(text.contains(here), "main_test.go does not say where its server is");
    fs::write(&main, text.replace(here, &format!("redisStackPort = \"{port}\"")))?;
    Ok(source)
}

/// Runs tests and returns the number that passed, from the last line that reports it.
fn count(command: &mut Command, word: &str) -> Result<usize> {
    let mut passed = 0;
    process::run_lines(command, |line| match number_before(line, word) {
        0 => {}
        n => passed = n,
    })?;
    ensure!(passed > 0, "no test ran");
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_found_in_summaries() {
        assert_eq!(number_before("===== 12 passed, 3 skipped in 1.2s =====", " passed"), 12);
        assert_eq!(number_before("Ran 9 of 20: SUCCESS! -- 9 Passed | 0 Failed", " Passed"), 9);
        assert_eq!(number_before("nothing", " passed"), 0);
    }
}
