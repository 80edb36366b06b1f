//! What is made of etcd's answers, by members that say what a test wants. No etcd is needed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hotring_coordinator::{Coordinator, Etcd, EtcdAddress, EtcdOptions, Failure, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::conformance::{LONG, ends, put, transaction};
use crate::run;

/// The paths of the requests that came, in their order.
type Asked = Arc<Mutex<Vec<String>>>;

/// What a member does with a request.
#[derive(Clone, Copy)]
enum Member {
    /// Answers with this status and body, and keeps the connection.
    Says(u16, &'static str),
    /// Answers, and closes the connection without saying so.
    SaysOnce(u16, &'static str),
    /// Closes the connection.
    Hangs,
    /// Never answers.
    Silent,
    /// Answers, and then nothing runs for this time, as in a process that is stopped.
    Stops(Duration, &'static str),
    /// Answers reads, and closes the connection of everything else.
    ReadsOnly(&'static str),
    /// Begins watches with a line, without an end, and answers this to everything else.
    Watched(&'static str, &'static str),
    /// Answers with more and more bytes.
    Floods,
}

const EMPTY: &str = r#"{"header":{"revision":"7"}}"#;
const DONE: &str = r#"{"header":{"revision":"8"},"succeeded":true}"#;

/// Reads a request. None at the end.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let len = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            if body.len() >= len.map_or(0, |len| len.parse().unwrap()) {
                return Some(head.split(' ').nth(1).unwrap().to_owned());
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn answer(stream: &mut TcpStream, status: u16, body: &str) {
    let len = body.len();
    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {len}\r\n\r\n{body}");
    let _ = stream.write_all(answer.as_bytes()).await;
}

async fn serve(mut stream: TcpStream, member: Member, asked: Asked) {
    while let Some(path) = request(&mut stream).await {
        asked.lock().unwrap().push(path.clone());
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let says = match member {
            Member::Watched(_, body) if path != "/v3/watch" => Member::Says(200, body),
            member => member,
        };
        match says {
            Member::Says(status, body) | Member::SaysOnce(status, body) => {
                answer(&mut stream, status, body).await;
            }
            Member::Hangs => return,
            Member::ReadsOnly(_) if path != "/v3/kv/range" => return,
            Member::Stops(_, body) | Member::ReadsOnly(body) => {
                answer(&mut stream, 200, body).await;
            }
            Member::Silent => std::future::pending().await,
            Member::Watched(line, _) => {
                let answer = format!("{head}{:x}\r\n{line}\n\r\n", line.len() + 1);
                let _ = stream.write_all(answer.as_bytes()).await;
                std::future::pending().await
            }
            Member::Floods => {
                let _ = stream.write_all(head.as_bytes()).await;
                let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
                while stream.write_all(chunk.as_bytes()).await.is_ok() {}
            }
        }
        match member {
            Member::SaysOnce(..) => return,
            Member::Stops(time, _) => std::thread::sleep(time),
            _ => {}
        }
    }
}

/// A client of such members, and what they were asked.
async fn client(members: &[Member]) -> (Etcd, Asked) {
    client_within(members, Duration::from_millis(400)).await
}

async fn client_within(members: &[Member], limit: Duration) -> (Etcd, Asked) {
    let asked = Asked::default();
    let mut addresses = Vec::new();
    for &member in members {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(("127.0.0.1".to_owned(), listener.local_addr().unwrap().port()));
        let asked = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, member, asked.clone()));
            }
        });
    }
    let address = EtcdAddress { members: addresses, tls: false };
    let options = EtcdOptions { address, cluster: "c".to_owned(), user: None, tls: None, limit };
    (Etcd::new(options).unwrap(), asked)
}

fn count(asked: &Asked) -> usize {
    asked.lock().unwrap().len()
}

#[test]
fn a_transaction_that_was_sent_is_not_sent_again() {
    run(async {
        for member in
            [Member::Hangs, Member::Silent, Member::Says(503, r#"{"message":"m","code":14}"#)]
        {
            let (it, asked) = client(&[member, Member::Says(200, DONE)]).await;
            let change = transaction(&[], &[put("a", "1")]);
            let unknown = it.transact(&change).await;
            assert!(matches!(unknown, Err(Failure::Unknown(_))), "{unknown:?}");
            assert_eq!(count(&asked), 1);
            // The next one goes to the other member first.
            assert_eq!(it.transact(&change).await, Ok(Outcome::Done(8)));
            assert_eq!(count(&asked), 2);
        }
    });
}

#[test]
fn a_read_goes_to_the_next_member() {
    run(async {
        for member in [Member::Hangs, Member::Silent, Member::Says(500, "no JSON")] {
            let start = Instant::now();
            let (it, asked) = client(&[member, Member::Says(200, EMPTY)]).await;
            assert_eq!(it.read().await.unwrap().revision, 7);
            assert_eq!(count(&asked), 2);
            assert!(start.elapsed() < Duration::from_millis(400), "{:?}", start.elapsed());
            it.read().await.unwrap();
            assert_eq!(count(&asked), 3, "the one that answered is asked first");
        }
    });
}

/// A node that is heard and hears nothing kept its lease alive, so that no other node took its role over.
#[test]
fn a_lease_is_kept_alive_only_behind_an_answer() {
    run(async {
        let (it, asked) = client(&[Member::Silent, Member::Silent]).await;
        assert!(matches!(it.keep_alive(7).await, Err(Failure::Unknown(_))));
        assert_eq!(*asked.lock().unwrap(), ["/v3/kv/range"; 2]);
        let alive = r#"{"result":{"header":{"revision":"7"},"ID":"7","TTL":"2"}}"#;
        let (it, asked) = client(&[Member::Says(200, alive)]).await;
        assert_eq!(it.keep_alive(7).await, Ok(()));
        assert_eq!(*asked.lock().unwrap(), ["/v3/kv/range", "/v3/lease/keepalive"]);
    });
}

/// What came while a process stood still kept its lease alive, although it heard nothing by then.
#[test]
fn an_answer_that_lay_unread_keeps_no_lease_alive() {
    run(async {
        let stops = Member::Stops(Duration::from_millis(300), EMPTY);
        let (it, asked) = client(&[stops]).await;
        let late = it.keep_alive(7).await;
        assert!(matches!(late, Err(Failure::Unknown(_))), "{late:?}");
        assert_eq!(*asked.lock().unwrap(), ["/v3/kv/range"]);
    });
}

/// An answer of one member shows nothing of the way to another.
#[test]
fn the_member_that_answered_keeps_the_lease_alive_or_none() {
    run(async {
        let alive = r#"{"result":{"header":{"revision":"7"},"ID":"7","TTL":"2"}}"#;
        let (it, asked) = client(&[Member::ReadsOnly(EMPTY), Member::Says(200, alive)]).await;
        let lost = it.keep_alive(7).await;
        assert!(matches!(lost, Err(Failure::Unknown(_))), "{lost:?}");
        assert_eq!(*asked.lock().unwrap(), ["/v3/kv/range", "/v3/lease/keepalive"]);
        // The other one is asked next.
        assert_eq!(it.keep_alive(7).await, Ok(()));
    });
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_opened_again() {
    run(async {
        let (it, asked) = client(&[Member::SaysOnce(200, DONE)]).await;
        for n in 1..=5 {
            assert_eq!(it.transact(&transaction(&[], &[])).await, Ok(Outcome::Done(8)));
            assert_eq!(count(&asked), n);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn only_errors_without_any_effect_are_refusals() {
    run(async {
        let refusals = [
            (404, r#"{"error":"m","message":"m","code":5}"#),
            (400, r#"{"code":3,"message":"m","details":[]}"#),
            (403, r#"{"message":"permission denied","code":7}"#),
            (401, r#"{"message":"m","code":16}"#),
        ];
        for (status, body) in refusals {
            let (it, _) = client(&[Member::Says(status, body)]).await;
            let refused = it.transact(&transaction(&[], &[])).await;
            assert!(matches!(refused, Err(Failure::Refused(_))), "{body}: {refused:?}");
        }
        let unknown = [
            (429, r#"{"message":"etcdserver: mvcc: database space exceeded","code":8}"#),
            (503, r#"{"message":"etcdserver: leader changed","code":14}"#),
            (504, r#"{"message":"m","code":4}"#),
            (500, r#"{"message":"m","code":2}"#),
            (500, "{}"),
            (200, "{}"),
            (200, "[]"),
            (200, r#"{"header":{"revision":"x"}}"#),
            (404, "<html>not etcd</html>"),
            (404, ""),
        ];
        for (status, body) in unknown {
            let (it, _) = client(&[Member::Says(status, body)]).await;
            let lost = it.transact(&transaction(&[], &[])).await;
            assert!(matches!(lost, Err(Failure::Unknown(_))), "{body}: {lost:?}");
        }
    });
}

#[test]
fn an_answer_has_limits() {
    run(async {
        let (it, _) = client_within(&[Member::Floods], LONG).await;
        let lost = it.read().await;
        let Err(Failure::Unknown(why)) = lost else { panic!("{lost:?}") };
        assert!(why.contains("an answer of more than"), "{why}");
    });
}

#[test]
fn a_watch_that_cannot_go_on_ends() {
    run(async {
        let created = r#"{"result":{"header":{"revision":"7"},"created":true}}"#;
        let (it, _) = client(&[Member::Watched(created, EMPTY)]).await;
        let open = it.watch(7).await.unwrap();
        // etcd has never been at this revision.
        ends(it.watch(8).await.unwrap()).await;
        assert!(!open.is_closed());
        // It has, and this member lags behind.
        let (it, _) = client(&[Member::Watched(created, DONE)]).await;
        let lagging = it.watch(8).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!lagging.is_closed());
        let members = [Member::Hangs, Member::Silent, Member::Watched(created, EMPTY)];
        let (it, asked) = client(&members).await;
        it.watch(7).await.unwrap();
        assert_eq!(count(&asked), 3);
        let (it, _) = client(&[Member::Watched("{}", EMPTY)]).await;
        assert!(matches!(it.watch(7).await, Err(Failure::Unknown(_))));
        let (it, _) = client(&[Member::Says(200, created)]).await;
        let ended = it.watch(7).await;
        assert!(matches!(ended, Err(Failure::Unknown(_))), "a message without an end of its line");
    });
}
