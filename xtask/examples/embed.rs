//! The README's example of embedding the store; `cargo xtask docs --check` compares the two.

use std::time::{SystemTime, UNIX_EPOCH};

use hotring_store::{Options, SetExpiry, SetOptions, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::new(Options::default())?;
    let threads = [1, 2].map(|_| {
        let mut session = store.session(); // one for each thread
        std::thread::spawn(move || {
            for _ in 0..1000 {
                session.incr_by(b"visits", 1, now()).expect("a number below the limit");
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));

    let mut session = store.session();
    let minute = SetOptions { expiry: SetExpiry::At(now() + 60_000), ..SetOptions::default() };
    session.set(b"greeting", b"hello", minute, now())?;
    let greeting = session.get(b"greeting", now(), |value| value.to_vec());
    assert_eq!(greeting.as_deref(), Some(&b"hello"[..]));
    println!("visits: {}", session.incr_by(b"visits", 0, now())?); // visits: 2000
    Ok(())
}

/// The store reads no clock: the time, in Unix milliseconds, comes from you.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() as u64
}
