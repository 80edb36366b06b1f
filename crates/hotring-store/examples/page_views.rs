//! A program that embeds the store: a page-view counter with sessions that expire, two threads
//! that serve and one that reclaims. The program brings what the store leaves to it: the clock,
//! the threads and the seed.
//!
//! ```text
//! cargo run --release -p hotring-store --example page_views
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hotring_store::{Options, Session, SetExpiry, SetOptions, Store, StoreError};

/// How long a visitor's session lives.
const SESSION_MS: u64 = 200;
const VISITS: u64 = 200_000;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    u64::try_from(since.as_millis()).expect("the clock is before the year 584 million")
}

/// One visit: count it, remember the visitor, and move one unit of budget to the page.
fn visit(store: &mut Session, visitor: u64, page: &str) -> Result<i64, StoreError> {
    let now = now();
    let session = format!("session:{visitor}");
    let expiry = SetExpiry::At(now + SESSION_MS);
    let options = SetOptions { expiry, ..SetOptions::default() };
    store.set(session.as_bytes(), page.as_bytes(), options, now)?;
    // No reader sees the unit in both places, or in none.
    store.exclusive(&[b"budget", b"spent"], |store| {
        store.incr_by(b"budget", -1, now)?;
        store.incr_by(b"spent", 1, now)
    })?;
    store.incr_by(format!("views:{page}").as_bytes(), 1, now)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let random = RandomState::new();
    let seed = [random.hash_one(1), random.hash_one(2)];
    let store = Store::new(Options { seed, ..Options::default() })?;

    let mut session = store.session();
    let budget = VISITS.to_string();
    session.mset(&[(b"budget", budget.as_bytes()), (b"spent", b"0")], now())?;

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let servers = [0, 1].map(|server| {
            let mut session = store.session();
            scope.spawn(move || {
                (0..VISITS / 2).try_for_each(|i| {
                    let page = if i % 10 < 9 { "home" } else { "about" };
                    visit(&mut session, 2 * i + server, page).map(drop)
                })
            })
        });
        // The expirer: some keys at a time, at a pace that suits the program.
        scope.spawn(|| {
            let mut session = store.session();
            while !stop.load(Ordering::Relaxed) {
                let due = session.expire_due(now(), 1_000, |_, _| {});
                if due.next.is_none_or(|next| next > now()) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        while !servers.iter().all(|server| server.is_finished()) {
            let mut sum = 0;
            session.mget(&[b"budget", b"spent"], now(), |_, value| {
                let text = value.map(|value| value.to_vec()).unwrap_or_default();
                sum += String::from_utf8_lossy(&text).parse().unwrap_or(0);
            });
            assert_eq!(sum, VISITS, "both keys are of one moment");
            println!("{:>7} keys held, sessions of the last {SESSION_MS} ms", store.len());
            thread::sleep(Duration::from_millis(50));
        }
        // Let the last sessions run out.
        thread::sleep(Duration::from_millis(2 * SESSION_MS));
        stop.store(true, Ordering::Relaxed);
        servers.into_iter().try_for_each(|server| server.join().expect("a server panicked"))
    })?;

    let mut cursor = 0;
    loop {
        cursor = session.scan(cursor, 100, now(), |key, value| {
            println!("{:<12} {}", String::from_utf8_lossy(key), {
                let text = value.to_vec();
                String::from_utf8_lossy(&text).into_owned()
            });
        });
        if cursor == 0 {
            break;
        }
    }
    println!("{} keys held at the end, {} bytes", store.len(), store.stats().index.bytes);
    Ok(())
}
