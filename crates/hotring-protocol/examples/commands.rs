//! Prints the page of documentation that lists all commands.

fn main() {
    print!("{}", hotring_protocol::markdown());
}
