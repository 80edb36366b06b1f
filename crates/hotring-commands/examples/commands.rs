//! Prints docs/commands.md.

fn main() {
    print!("{}", hotring_commands::table::markdown());
}
