//! The embedded coordinator, in memory and on a disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hotring_coordinator::{Coordinator, Embedded, OpenError};

use crate::conformance::{conforms, delete, done, ends, next, put, put_under, records};
use crate::{Folder, run};

#[test]
fn in_memory_it_conforms() {
    run(conforms(async |_: &str| Arc::new(Embedded::in_memory()) as Arc<dyn Coordinator>));
}

#[test]
fn on_a_disk_it_conforms() {
    let folder = Folder::new("conforms");
    let open = |name: &str| Embedded::open(&folder.path().join(name)).unwrap();
    run(conforms(async |name: &str| Arc::new(open(name)) as Arc<dyn Coordinator>));
}

/// Opens a folder whose last coordinator ends at this moment.
async fn reopen(folder: &Path) -> Result<Embedded, OpenError> {
    loop {
        match Embedded::open(folder) {
            Err(OpenError::Disk(why)) if why.contains("in use") => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            opened => return opened,
        }
    }
}

#[test]
fn a_folder_has_one_coordinator() {
    let folder = Folder::new("one");
    run(async {
        let first = Embedded::open(folder.path()).unwrap();
        let why = Embedded::open(folder.path()).unwrap_err().to_string();
        assert!(why.contains("in use by another server"), "{why}");
        done(&first, &[], &[put("a", "1")]).await;
    });
}

#[test]
fn records_and_leases_survive_the_end() {
    let folder = Folder::new("survives");
    let ttl = Duration::from_millis(400);
    run(async {
        let first = Embedded::open(folder.path()).unwrap();
        let lease = first.grant(ttl).await.unwrap();
        done(&first, &[], &[put("a", "1"), put("b", "1"), put_under(lease.id, "c", "1")]).await;
        let last = done(&first, &[("a", 1)], &[put("a", "2"), delete("b")]).await;
        let before = records(&first).await;
        drop(first);
        let second = reopen(folder.path()).await.unwrap();
        let (at, mut watch) = (std::time::Instant::now(), second.watch(last).await.unwrap());
        assert_eq!(records(&second).await, before);
        // Its log has the last changes.
        assert_eq!(next(&mut second.watch(last - 1).await.unwrap()).await.revision, last);
        // Never shorter: the lease's owner may have kept it alive until the end.
        assert_eq!(next(&mut watch).await.records, [("c".to_owned(), None)]);
        assert!(at.elapsed() + Duration::from_millis(50) > ttl, "it lived for {:?}", at.elapsed());
        drop((second, watch));
        let third = reopen(folder.path()).await.unwrap();
        assert_eq!(records(&third).await, before[..1], "the end of a lease is durable");
        // The second one's log began behind these changes.
        ends(third.watch(last - 1).await.unwrap()).await;
        assert!(third.keep_alive(lease.id).await.is_err());
        assert_ne!(third.grant(ttl).await.unwrap().id, lease.id);
    });
}

#[test]
fn a_lease_outlives_a_standstill_of_the_process() {
    run(async {
        let it = Embedded::in_memory();
        let lease = it.grant(Duration::from_millis(100)).await.unwrap();
        // The only thread of the runtime, so the coordinator stands still, too.
        std::thread::sleep(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
        it.keep_alive(lease.id).await.unwrap();
    });
}

#[test]
fn a_watch_that_nobody_reads_ends() {
    run(async {
        let it = Embedded::in_memory();
        let watch = it.watch(0).await.unwrap();
        for _ in 0..300 {
            done(&it, &[], &[put("a", "")]).await;
        }
        let early = it.watch(0).await.unwrap();
        assert_eq!(early.len(), 300, "what it missed, however much that is");
        ends(watch).await;
        for _ in 0..1_024 {
            done(&it, &[], &[put("a", "")]).await;
        }
        ends(it.watch(0).await.unwrap()).await;
    });
}

#[test]
fn a_runtime_that_ends_leaves_the_outcome_unknown() {
    let it = run(async { Embedded::in_memory() });
    let why = run(async { it.read().await }).unwrap_err();
    assert!(matches!(why, hotring_coordinator::Failure::Unknown(_)), "{why}");
}

/// A server has a runtime a core, and one of them drives the coordinator.
#[test]
fn threads_with_other_runtimes_share_it() {
    let (give, given) = std::sync::mpsc::channel();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let driver = std::thread::spawn(move || {
        run(async {
            give.send(Embedded::in_memory()).unwrap();
            let _ = ended.await;
        });
    });
    let it = given.recv().unwrap();
    let threads: Vec<_> = (0..4u64)
        .map(|n| {
            let it = it.clone();
            std::thread::spawn(move || {
                run(async {
                    let name = n.to_string();
                    let mut watch = it.watch(0).await.unwrap();
                    let mut last = 0;
                    for _ in 0..50 {
                        last = done(&it, &[(&name, last)], &[put(&name, "")]).await;
                    }
                    let mut seen = 0;
                    for revision in 1..=200 {
                        let changed = next(&mut watch).await;
                        assert_eq!(changed.revision, revision);
                        seen += u64::from(changed.records[0].0 == name);
                    }
                    assert_eq!(seen, 50);
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(end);
    driver.join().unwrap();
}
