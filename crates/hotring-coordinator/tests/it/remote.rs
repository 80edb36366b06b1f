//! The embedded coordinator of another node, over pairs of sockets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hotring_coordinator::{Coordinator, Embedded, Failure, Remote, Stream, serve};
use hotring_log::wire::{BODY_MAX, FrameReader, FrameWriter, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::conformance::{LONG, conforms, done, ends, next, put, records, transaction};
use crate::run;

/// How a link is opened.
type Dialled = Result<Box<dyn Stream>, Failure>;

fn unknown<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result {
        Err(Failure::Unknown(why)) => why,
        other => panic!("{other:?} instead of an unknown outcome"),
    }
}

/// A connection that the coordinator serves.
fn served(it: &Embedded) -> UnixStream {
    let (here, there) = UnixStream::pair().unwrap();
    let it = it.clone();
    tokio::spawn(async move { serve(there, &it).await });
    here
}

/// A remote coordinator whose connections the test gets.
fn raw(limit: Duration) -> (Remote, mpsc::UnboundedReceiver<UnixStream>) {
    let (dialled, links) = mpsc::unbounded_channel();
    let dial = move || {
        let (here, there) = UnixStream::pair().unwrap();
        let _ = dialled.send(there);
        async move { Ok(Box::new(here) as Box<dyn Stream>) }
    };
    (Remote::new(dial, limit), links)
}

/// Passes all bytes on between two streams.
async fn joined(mut a: UnixStream, it: &Embedded) {
    let _ = tokio::io::copy_bidirectional(&mut a, &mut served(it)).await;
}

#[test]
fn over_a_connection_it_conforms() {
    run(conforms(async |_: &str| {
        let it = Embedded::in_memory();
        let dial = move || {
            let stream = served(&it);
            async move { Ok(Box::new(stream) as Box<dyn Stream>) }
        };
        Arc::new(Remote::new(dial, LONG)) as Arc<dyn Coordinator>
    }));
}

/// The kinds of the requests that came on a link.
async fn kinds(link: &mut UnixStream) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let len = link.read(&mut bytes).await.unwrap();
    let (mut frames, mut rest, mut kinds) = (FrameReader::default(), &bytes[..len], Vec::new());
    while let Some((frame, len)) = frames.read(rest).unwrap() {
        kinds.push(frame.body[8]);
        rest = &rest[len..];
    }
    kinds
}

/// The numbers of requests.
const TRANSACT: u8 = 2;
const KEEP_ALIVE: u8 = 4;
const PING: u8 = 8;

/// A node that is heard and hears nothing kept its lease alive, so that no other node took its role over.
#[test]
fn a_lease_is_kept_alive_only_behind_an_answer() {
    run(async {
        let (remote, mut links) = raw(Duration::from_millis(200));
        assert!(unknown(remote.keep_alive(7).await).contains("no answer within"));
        let kinds = kinds(&mut links.recv().await.unwrap()).await;
        assert!(kinds.contains(&PING) && !kinds.contains(&KEEP_ALIVE), "{kinds:?}");
    });
}

/// What came while a process stood still kept its lease alive, although it heard nothing by then.
#[test]
fn an_answer_that_lay_unread_keeps_no_lease_alive() {
    run(async {
        let limit = Duration::from_millis(400);
        let it = Embedded::in_memory();
        let lease = it.grant(LONG).await.unwrap().id;
        let (remote, mut links) = raw(limit);
        let serving = it.clone();
        tokio::spawn(async move {
            let mut link = links.recv().await.unwrap();
            let (mut it, mut bytes) = (served(&serving), vec![0; 1 << 16]);
            let len = link.read(&mut bytes).await.unwrap();
            it.write_all(&bytes[..len]).await.unwrap();
            let len = it.read(&mut bytes).await.unwrap();
            link.write_all(&bytes[..len]).await.unwrap();
            // The answer is there, and nothing runs until it is old.
            std::thread::sleep(limit * 3 / 4);
            let _ = tokio::io::copy_bidirectional(&mut link, &mut it).await;
        });
        assert!(unknown(remote.keep_alive(lease).await).contains("lay unread"));
        assert_eq!(remote.keep_alive(lease).await, Ok(()));
    });
}

#[test]
fn a_request_is_sent_at_most_once() {
    run(async {
        let it = Embedded::in_memory();
        let (remote, mut links) = raw(Duration::from_millis(200));
        let change = transaction(&[], &[put("a", "1")]);
        assert!(unknown(remote.transact(&change).await).contains("no answer within"));
        let mut first = links.recv().await.unwrap();
        let kinds = kinds(&mut first).await;
        assert!(kinds.iter().all(|kind| [TRANSACT, PING].contains(kind)), "{kinds:?}");
        assert_eq!(kinds.iter().filter(|kind| **kind == TRANSACT).count(), 1);
        drop(first);
        // The next request gets another connection, and the first one is not sent there.
        tokio::spawn(async move { joined(links.recv().await.unwrap(), &it).await });
        sleep(Duration::from_millis(20)).await;
        assert_eq!(records(&remote).await, []);
    });
}

#[test]
fn a_request_that_was_given_up_is_not_sent() {
    run(async {
        let it = Embedded::in_memory();
        let serving = it.clone();
        let dial = move || {
            let it = serving.clone();
            async move {
                sleep(Duration::from_millis(100)).await;
                Ok(Box::new(served(&it)) as Box<dyn Stream>)
            }
        };
        let remote = Remote::new(dial, LONG);
        let change = transaction(&[], &[put("a", "1")]);
        assert!(timeout(Duration::from_millis(20), remote.transact(&change)).await.is_err());
        assert_eq!(records(&remote).await, []);
        done(&remote, &[("a", 0)], &[put("a", "2")]).await;
        assert_eq!(records(&it).await.len(), 1);
    });
}

#[test]
fn a_connection_that_ends_leaves_the_outcome_unknown_and_ends_watches() {
    run(async {
        let it = Embedded::in_memory();
        let (remote, mut links) = raw(Duration::from_secs(5));
        let serving = it.clone();
        let first = tokio::spawn(async move {
            joined(links.recv().await.unwrap(), &serving).await;
            links
        });
        let mut watch = remote.watch(0).await.unwrap();
        done(&it, &[], &[put("a", "1")]).await;
        assert_eq!(next(&mut watch).await.revision, 1);
        first.abort();
        ends(watch).await;
        // Its links are gone as well, so nothing answers the next one.
        assert!(unknown(remote.read().await).contains("ended"));
    });
}

#[test]
fn a_peer_that_falls_silent_ends_watches() {
    run(async {
        let it = Embedded::in_memory();
        let (remote, mut links) = raw(Duration::from_millis(200));
        let link = tokio::spawn(async move {
            let mut link = links.recv().await.unwrap();
            let mut inner = served(&it);
            // Alive for longer than the silence that ends a connection, by pings alone.
            let copy = tokio::io::copy_bidirectional(&mut link, &mut inner);
            let _ = timeout(Duration::from_secs(1), copy).await;
            (link, inner)
        });
        let mut watch = remote.watch(0).await.unwrap();
        let start = Instant::now();
        let _silent = link.await.unwrap();
        assert!(watch.try_recv() == Err(mpsc::error::TryRecvError::Empty), "pings keep it alive");
        assert!(start.elapsed() > Duration::from_millis(900));
        ends(watch).await;
    });
}

#[test]
fn a_failure_to_connect_reaches_the_caller() {
    run(async {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = attempts.clone();
        let failure = Arc::new(Mutex::new(Failure::Refused("WRONGPASS".into())));
        let told = failure.clone();
        let dial = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let failure = told.lock().unwrap().clone();
            async move { Dialled::Err(failure) }
        };
        let remote = Remote::new(dial, LONG);
        assert_eq!(remote.read().await, Err(Failure::Refused("WRONGPASS".into())));
        *failure.lock().unwrap() = Failure::Unknown("refused".into());
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            assert!(unknown(remote.read().await).contains("refused"));
        }
        let attempts = attempts.load(Ordering::SeqCst);
        assert!((3..10).contains(&attempts), "{attempts} attempts in half a second");
    });
}

/// A frame of one message, or of a part of it.
fn framed(frames: &mut FrameWriter, body: &[u8], more: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let at = frames.begin(&mut out);
    out.extend_from_slice(body);
    frames.end(&mut out, at, Kind::Message, more);
    out
}

#[test]
fn what_is_no_message_ends_the_connection() {
    run(async {
        let it = Embedded::in_memory();
        let one = |body: &[u8]| framed(&mut FrameWriter::default(), body, false);
        let mut changed = one(&[0; 9]);
        changed[20] ^= 1;
        let mut frames = FrameWriter::default();
        let long: Vec<u8> =
            (0..5).flat_map(|_| framed(&mut frames, &vec![0; BODY_MAX], true)).collect();
        let mut of_another_kind = Vec::new();
        FrameWriter::default().message(&mut of_another_kind, Kind::Part, &[0; 9]);
        let bad = [
            (b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n".to_vec(), "wrong length"),
            (changed, "wrong checksum"),
            (of_another_kind, "another kind"),
            (one(&[1, 0, 0, 0, 0, 0, 0, 0, 99]), "unknown message"),
            // A list that is said to have 2^32 - 1 parts.
            (one(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 255, 255, 255, 255]), "unknown message"),
            (long, "too long"),
        ];
        for (bytes, why) in bad {
            let (mut here, there) = UnixStream::pair().unwrap();
            let sent = bytes.clone();
            tokio::spawn(async move {
                let _ = here.write_all(&sent).await;
                // Open until the other side ends it.
                let _ = here.read(&mut [0; 64]).await;
            });
            let error = serve(there, &it).await.unwrap_err().to_string();
            assert!(error.contains(why), "{error} instead of {why}");
            let (remote, mut links) = raw(LONG);
            tokio::spawn(async move {
                let mut link = links.recv().await.unwrap();
                let _ = link.write_all(&bytes).await;
                sleep(LONG).await;
            });
            // Five parts are not too long for an answer, which waits for the rest.
            let answer = timeout(Duration::from_millis(100), remote.read()).await;
            assert_eq!(answer.is_err(), why == "too long");
            let _ = answer.map(unknown);
        }
    });
}

#[test]
fn a_connection_has_limits() {
    run(async {
        let it = Embedded::in_memory();
        let remote = {
            let it = it.clone();
            Remote::new(
                move || {
                    let s = served(&it);
                    async move { Ok(Box::new(s) as Box<dyn Stream>) }
                },
                LONG,
            )
        };
        let mut watches = Vec::new();
        for _ in 0..64 {
            watches.push(remote.watch(0).await.unwrap());
        }
        assert!(matches!(remote.watch(0).await, Err(Failure::Refused(why)) if why.contains("64")));
        // What is given up makes room, at the next change.
        watches.truncate(60);
        done(&remote, &[], &[put("a", "1")]).await;
        for watch in &mut watches {
            assert_eq!(next(watch).await.revision, 1);
        }
        let mut again = remote.watch(0).await;
        for _ in 0..50 {
            if again.is_ok() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
            again = remote.watch(0).await;
        }
        again.unwrap();
    });
}
