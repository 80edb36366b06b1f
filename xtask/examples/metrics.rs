//! Prints the page of documentation with the metrics of the admin address.

const HEAD: &str = "\
# Metrics

Generated from the table in `crates/hotring-server/src/admin/metrics/` by `cargo xtask docs`; change it there.

What `http://ADDR:PORT/metrics` answers, if the setting `admin` names that address. Units are seconds and bytes.
Everything is counted since the start of the process; `CONFIG RESETSTAT` does not touch it.
[operations.md](operations.md) says how to use them.

";

fn main() {
    print!("{HEAD}{}", hotring_server::metrics_markdown());
}
