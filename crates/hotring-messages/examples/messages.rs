//! Writes a key and reads it again: `cargo run -p hotring-messages --example messages -- 127.0.0.1:6400`, with a server
//! that was started with `--fabric sockets,127.0.0.1:6400`; with `-- shm,unix:PATH` over shared memory.

use std::time::Duration;

use hotring_messages::message::Operation;
use hotring_messages::{Blocking, Login, Options};

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:6400".to_string());
    let login = Login { user: Vec::new(), password: Vec::new() };
    let limit = Duration::from_secs(5);
    let options =
        Options { retry: limit, datagrams: None, queue_max: 1, message_len_max: 64 << 10 };
    let mut client = Blocking::connect(&address, login, options)?;
    let set = Operation::Set { key: b"greeting", value: b"hello", expiry_ms: 0 };
    let outcome = client.call(&[set, Operation::Get { key: b"greeting" }], limit);
    println!("{outcome:?}");
    Ok(())
}
