//! Compiles those maps whose headers are on this machine, and says how to get the others.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_libcuckoo, has_tbb)");
    println!("cargo::rerun-if-changed=cpp");
    #[cfg(feature = "link")]
    link();
}

#[cfg(feature = "link")]
fn link() {
    for (name, package) in [("libcuckoo", "libcuckoo-dev"), ("tbb", "libtbb-dev")] {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").opt_level(3).cargo_warnings(false).include("cpp");
        build.file(format!("cpp/{name}.cc"));
        if build.try_compile(&format!("hotring_{name}")).is_ok() {
            println!("cargo::rustc-cfg=has_{name}");
            if name == "tbb" {
                println!("cargo::rustc-link-lib=tbb");
            }
        } else {
            println!(
                "cargo::warning={name} is left out, as it cannot be compiled here: \
                 apt-get install g++ {package}"
            );
        }
    }
}
