//! Times reads, one after the other: `cargo run --release -p hotring-messages --example round_trips -- ADDRESS SPIN`.
//! The address is that of the server's `--fabric`, without `sockets,`; both ends look for messages for SPIN
//! microseconds before they sleep, the server if it was started with `--fabric-spin SPIN`.

use std::time::{Duration, Instant};

use hotring_messages::message::Operation;
use hotring_messages::{Blocking, Login, Options};

const ROUNDS: usize = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or("127.0.0.1:6400".to_string());
    let spin = Duration::from_micros(words.next().map_or(Ok(0), |word| word.parse())?);
    let limit = Duration::from_secs(5);
    let options =
        Options { retry: limit, datagrams: None, queue_max: 1, message_len_max: 64 << 10 };
    let login = Login { user: Vec::new(), password: Vec::new() };
    let mut client = Blocking::connect(&address, login, options)?;
    client.set_spin(spin);
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let outcome = client.call(&[Operation::Get { key: b"greeting" }], limit);
        outcome.map_err(|why| format!("{why:?}"))?;
        took.push(begun.elapsed());
    }
    took.sort();
    let at = |share: usize| took[ROUNDS * share / 1000];
    println!("{address} {spin:?}: p50 {:?}, p99 {:?}, p999 {:?}", at(500), at(990), at(999));
    Ok(())
}
