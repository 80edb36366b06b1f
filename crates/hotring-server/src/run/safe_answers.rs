//! Complete servers whose clients of messages meet a slow or failing disk, and damage.

use std::io::ErrorKind;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use hotring_commands::settings::config::{FabricSettings, LogSettings, OnError};
use hotring_log::AckWhen;
use hotring_log::storage::Memory;
use hotring_log::storage::memory::Step;
use hotring_messages::message::{Operation, Status};
use hotring_messages::{Blocking, Given, Login, Options as ClientOptions, Outcome};
use hotring_store::index::{Checksum, Part};

const LIMIT: Duration = Duration::from_secs(60);

const ADD: Operation<'_> = Operation::Increment { key: b"n", by: 1 };
const GET: Operation<'_> = Operation::Get { key: b"n" };

fn config() -> Config {
    let listen = vec!["127.0.0.1:0".to_string()];
    let fabric = FabricSettings { listen, ..FabricSettings::default() };
    Config { port: 0, threads: 1, fabric, ..Config::default() }
}

fn logged(storage: &Memory, on_error: OnError) -> Running {
    let when = AckWhen::Synced;
    let log = LogSettings { is_on: true, when, on_error, ..LogSettings::default() };
    let config = Config { log, ..config() };
    start_with(config, Box::new(|_| {}), &|_| Ok(storage.clone())).unwrap()
}

fn client(running: &Running) -> Blocking {
    let address = running.server.settings.config().fabric.listen[0].clone();
    let login = Login { user: Vec::new(), password: Vec::new() };
    let options =
        ClientOptions { retry: LIMIT, datagrams: None, queue_max: 1, message_len_max: 1 << 10 };
    Blocking::connect(&address, login, options).unwrap()
}

fn ask(client: &mut Blocking, operation: Operation<'_>) -> Given {
    match client.call(&[operation], LIMIT) {
        Ok(Outcome::Done(mut given)) => given.remove(0).expect("the checksum is right"),
        outcome => panic!("{operation:?}: {outcome:?}"),
    }
}

fn end(running: Running) {
    running.stop();
    running.wait().unwrap();
}

#[test]
fn a_write_is_told_once_it_is_on_disk() {
    let storage = Memory::new();
    let running = logged(&storage, OnError::Stop);
    let mut client = client(&running);
    assert_eq!(ask(&mut client, ADD).value, b"1");
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap();
    let passes = gate.clone();
    storage.before_each(move |_, step| {
        if step == Step::Sync {
            drop(passes.lock());
        }
    });
    let outcome = client.call(&[ADD], Duration::from_millis(300));
    assert_eq!(outcome, Ok(Outcome::Unknown), "nothing is told before the sync");
    drop(closed);
    assert_eq!(ask(&mut client, ADD).value, b"3", "it was done once");
    end(running);
}

#[test]
fn a_write_whose_sync_fails_has_an_unknown_fate() {
    for on_error in [OnError::Stop, OnError::Continue] {
        let storage = Memory::new();
        let running = logged(&storage, on_error);
        let mut client = client(&running);
        assert_eq!(ask(&mut client, ADD).value, b"1");
        storage.fail(Step::Sync, 0, 1, ErrorKind::Other);
        let second = ask(&mut client, ADD);
        let third = ask(&mut client, ADD);
        match on_error {
            OnError::Stop => {
                assert_eq!((second.status, third.status), (Status::Unknown, Status::Failed));
                let misconf = |given: &Given| given.value.starts_with(b"MISCONF ");
                assert!(misconf(&second) && misconf(&third), "{second:?} {third:?}");
                assert_eq!(ask(&mut client, GET).value, b"2", "reads work");
            }
            OnError::Continue => {
                assert_eq!((&*second.value, &*third.value), (&b"2"[..], &b"3"[..]))
            }
        }
        end(running);
    }
}

#[test]
fn a_set_repairs_a_damaged_item() {
    let running = start(Config { checksum: Checksum::Verify, ..config() }).unwrap();
    let mut client = client(&running);
    let set = Operation::Set { key: b"n", value: b"some-long-value", expiry_ms: 0 };
    assert_eq!(ask(&mut client, set).status, Status::Done);
    let mut damager = running.server.store.session();
    damager
        .with_damage(b"n", Part::Value, 3, || {
            let damaged = ask(&mut client, GET);
            assert_eq!(damaged.status, Status::Failed);
            assert!(damaged.value.starts_with(b"DAMAGED the item of key 'n' "), "{damaged:?}");
            assert_eq!(ask(&mut client, set).status, Status::Done);
        })
        .expect("the key is there");
    assert_eq!(ask(&mut client, GET).value, b"some-long-value");
    end(running);
}
