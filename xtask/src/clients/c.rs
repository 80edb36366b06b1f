//! Checks the client in C: compiles its example as a user would, against header and library, and runs it.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::process;
use crate::server::Server;
use crate::suite::Done;
use crate::tools;
use crate::workspace::{cargo, root, target};

/// The libraries, and what finds faults of memory at the border: the sanitizer's own library must come first, which a
/// static one allows.
const LIBRARIES: &[(&str, &[&str])] =
    &[("libhotring_client.a", &["-fsanitize=address,undefined"]), ("libhotring_client.so", &[])];

/// Checks both libraries against a server, and that C++ reads the header.
pub fn check(hotring: &Path) -> Result<Done> {
    process::run(cargo().args(["build", "--locked", "--quiet", "-p", "hotring-c"]))?;
    let folder = root().join("crates/hotring-c");
    let header = folder.join("include/hotring.h");
    process::run(
        process::command("c++").args(["-fsyntax-only", "-Werror", "-x", "c++"]).arg(header),
    )?;
    let (built, programs) = (target().join("debug"), target().join("clients"));
    std::fs::create_dir_all(&programs)?;
    let mut checks = 1;
    for (library, flags) in LIBRARIES {
        let program = programs.join(format!("c-{library}"));
        let mut compile = process::command("cc");
        compile.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]).args(*flags);
        compile.arg("-I").arg(folder.join("include")).arg(folder.join("examples/hotring.c"));
        compile.arg(built.join(library)).arg(format!("-Wl,-rpath,{}", built.display()));
        process::run(compile.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program))?;
        let socket = std::env::temp_dir().join(format!("hotring-c-{}", std::process::id()));
        let socket = format!("unix:{}", socket.display());
        let plain = (format!("sockets,{socket}"), socket.clone());
        let shared = format!("shm,{socket}");
        // The provider keeps memory that the sanitizer would report.
        let has_fabric = flags.is_empty() && tools::missing(&["fi_info"]).is_none();
        let shared = has_fabric.then(|| (shared.clone(), shared));
        for (fabric, address) in [plain].into_iter().chain(shared) {
            let server = Server::start_with(hotring, &["--fabric", &fabric])?;
            process::run_lines(process::command(&program).arg(&address), |line| {
                checks += usize::from(line.starts_with("ok: "));
            })?;
            let status = server.interrupt()?;
            ensure!(status.success(), "Ctrl-C ends the server with {status}, not 0");
        }
    }
    ensure!(checks > LIBRARIES.len(), "the program checked nothing");
    Ok(Done::Passed(checks))
}
