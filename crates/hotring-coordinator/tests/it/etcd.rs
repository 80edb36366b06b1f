//! A real etcd behind the trait: the suite for all, and what happens to a client when members are killed, stopped and
//! restarted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_coordinator::{Coordinator, Etcd, EtcdOptions, Failure, Outcome};
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::conformance::{LONG, conforms, done, ends, next, put, records, transaction};
use crate::etcd_server::{Server, answers, certificate, program};
use crate::run;

fn refused<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result {
        Err(Failure::Refused(why)) => why,
        other => panic!("{other:?} instead of a refusal"),
    }
}

fn unknown<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result {
        Err(Failure::Unknown(why)) => why,
        other => panic!("{other:?} instead of an unknown outcome"),
    }
}

#[test]
fn it_conforms() {
    let Some(program) = program() else { return };
    let server = Server::start(program, "conforms", 1, false);
    run(async {
        answers(&server.coordinator("first")).await;
        conforms(async |name: &str| Arc::new(server.coordinator(name)) as Arc<dyn Coordinator>)
            .await;
        assert_eq!(records(&server.coordinator("first")).await, [], "clusters are apart");
    });
}

#[test]
fn a_restart_loses_nothing_and_ends_watches() {
    let Some(program) = program() else { return };
    let mut server = Server::start(program, "restart", 1, false);
    run(async {
        let it = server.coordinator("a");
        answers(&it).await;
        let first = done(&it, &[], &[put("a", "1")]).await;
        let watch = it.watch(first).await.unwrap();
        server.kill(0);
        ends(watch).await;
        assert!(unknown(it.read().await).contains("127.0.0.1"));
        unknown(it.transact(&transaction(&[], &[put("a", "2")])).await);
        unknown(it.watch(first).await);
        server.start_member(0);
        answers(&it).await;
        // Nothing of the transaction was sent.
        assert_eq!(records(&it).await, [("a".into(), first, "1".into())]);
        // The kept connections are dead, and a transaction does not notice.
        done(&it, &[("a", first)], &[put("a", "3")]).await;
    });
}

#[test]
fn a_member_that_stands_still_ends_watches() {
    let Some(program) = program() else { return };
    let server = Server::start(program, "still", 1, false);
    run(async {
        let it = Etcd::new(EtcdOptions { limit: Duration::from_secs(1), ..server.options("a") })
            .unwrap();
        answers(&it).await;
        let first = done(&it, &[], &[put("a", "1")]).await;
        let mut watch = it.watch(first).await.unwrap();
        // Longer than the silence after which the member is asked.
        assert!(timeout(Duration::from_secs(7), watch.recv()).await.is_err());
        let second = done(&it, &[], &[put("a", "2")]).await;
        assert_eq!(next(&mut watch).await.revision, second);
        server.stop(0);
        let start = Instant::now();
        let change = transaction(&[], &[put("a", "3")]);
        assert!(unknown(it.transact(&change).await).contains("no answer within"));
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        ends(watch).await;
        server.go_on(0);
        answers(&it).await;
    });
}

#[test]
fn a_compacted_watch_ends() {
    let Some(program) = program() else { return };
    let server = Server::start(program, "compacted", 1, false);
    run(async {
        let it = server.coordinator("a");
        answers(&it).await;
        let first = done(&it, &[], &[put("a", "1")]).await;
        let mut watch = it.watch(first).await.unwrap();
        let mut last = first;
        for n in 0..5 {
            last = done(&it, &[], &[put("a", &n.to_string())]).await;
        }
        server.post(0, "kv/compaction", &format!(r#"{{"revision":"{last}"}}"#));
        ends(it.watch(first).await.unwrap()).await;
        // One that has the changes goes on, and so does one from behind them.
        for n in 1..=5 {
            assert_eq!(next(&mut watch).await.revision, first + n);
        }
        let mut later = it.watch(last).await.unwrap();
        let more = done(&it, &[], &[put("a", "x")]).await;
        assert_eq!([next(&mut watch).await.revision, next(&mut later).await.revision], [more; 2]);
    });
}

#[test]
fn users_need_their_password_and_get_new_tokens() {
    let Some(program) = program() else { return };
    let server = Server::start(program, "users", 1, false);
    run(async {
        answers(&server.coordinator("a")).await;
        let key =
            |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        for (path, body) in [
            ("auth/user/add", r#"{"name":"root","password":"r"}"#.to_owned()),
            ("auth/user/grant", r#"{"user":"root","role":"root"}"#.to_owned()),
            ("auth/role/add", r#"{"name":"hotring"}"#.to_owned()),
            (
                "auth/role/grant",
                format!(
                    r#"{{"name":"hotring","perm":{{"permType":"READWRITE","key":"{}","range_end":"{}"}}}}"#,
                    key("/hotring/a/"),
                    key("/hotring/a0"),
                ),
            ),
            ("auth/user/add", r#"{"name":"node","password":"secret"}"#.to_owned()),
            ("auth/user/grant", r#"{"user":"node","role":"hotring"}"#.to_owned()),
            ("auth/enable", "{}".to_owned()),
        ] {
            if path == "auth/role/add" {
                server.post(0, "auth/role/add", r#"{"name":"root"}"#);
            }
            server.post(0, path, &body);
        }
        let user = |cluster: &str, password: &str| {
            let user = Some(("node".to_owned(), password.to_owned()));
            Etcd::new(EtcdOptions { user, ..server.options(cluster) }).unwrap()
        };
        let it = user("a", "secret");
        let first = done(&it, &[("a", 0)], &[put("a", "1")]).await;
        let mut watch = it.watch(first).await.unwrap();
        let second = done(&it, &[("a", first)], &[put("a", "2")]).await;
        assert_eq!(next(&mut watch).await.revision, second);
        let lease = it.grant(Duration::from_secs(5)).await.unwrap();
        it.keep_alive(lease.id).await.unwrap();
        let wrong = user("a", "wrong");
        assert!(refused(wrong.read().await).contains("invalid user ID or password"));
        refused(wrong.watch(second).await);
        let none = server.coordinator("a");
        assert!(refused(none.read().await).contains("needs a user and a password"));
        assert!(refused(user("b", "secret").read().await).contains("grant the user"));
        // A new password ends the tokens of the old one: those of a read, a transaction, a sign of life and a watch.
        let root = server.post(0, "auth/authenticate", r#"{"name":"root","password":"r"}"#);
        let root = root["token"].as_str().unwrap();
        let end_tokens = || {
            let same = r#"{"name":"node","password":"secret"}"#;
            server.post_as(root, 0, "auth/user/changepw", same);
        };
        end_tokens();
        assert_eq!(records(&it).await, [("a".into(), second, "2".into())]);
        end_tokens();
        let third = done(&it, &[("a", second)], &[put("a", "3")]).await;
        end_tokens();
        it.keep_alive(lease.id).await.unwrap();
        end_tokens();
        let mut watch = it.watch(second).await.unwrap();
        assert_eq!(next(&mut watch).await.revision, third);
    });
}

fn tls(authority: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate(authority)).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn by_tls_only_the_right_server_is_trusted() {
    let Some(program) = program() else { return };
    let server = Server::start(program, "tls", 1, true);
    run(async {
        assert!(Etcd::new(server.options("a")).is_err(), "without the settings of TLS");
        let with = |authority: &str| {
            Etcd::new(EtcdOptions { tls: Some(tls(authority)), ..server.options("a") }).unwrap()
        };
        let it = with("ca.pem");
        answers(&it).await;
        let first = done(&it, &[], &[put("a", "1")]).await;
        let mut watch = it.watch(first - 1).await.unwrap();
        assert_eq!(next(&mut watch).await.revision, first);
        let why = unknown(with("stranger.pem").read().await);
        assert!(why.contains("TLS") && why.contains("certificate"), "{why}");
    });
}

/// Adds one again and again by comparing. An unknown outcome is looked up, and the same change is sent again as long as
/// it may take effect. Returns how often it added.
async fn add(it: Etcd, stop: Arc<std::sync::atomic::AtomicBool>) -> (u64, u64) {
    let (mut added, mut unknown) = (0, 0);
    let mut sent: Option<(u64, String)> = None;
    let name = format!("{:p}", Arc::as_ptr(&stop));
    let mut turn = 0;
    loop {
        let Ok(snapshot) = it.read().await else { continue };
        let (revision, n) = snapshot.records.first().map_or((0, 0), |record| {
            let text = String::from_utf8(record.value.clone()).unwrap();
            (record.revision, text.split(' ').next().unwrap().parse::<u64>().unwrap())
        });
        let now =
            snapshot.records.first().map(|record| String::from_utf8(record.value.clone()).unwrap());
        if let Some((expected, value)) = &sent {
            if now.as_ref() == Some(value) && revision > *expected {
                (added, sent) = (added + 1, None);
                continue;
            }
            if revision != *expected {
                sent = None;
            }
        }
        if sent.is_none() && stop.load(std::sync::atomic::Ordering::SeqCst) {
            return (added, unknown);
        }
        turn += 1;
        let change = sent.clone().unwrap_or_else(|| (revision, format!("{} {name} {turn}", n + 1)));
        match it.transact(&transaction(&[("n", change.0)], &[put("n", &change.1)])).await {
            Ok(Outcome::Done(_)) => (added, sent) = (added + 1, None),
            // An earlier copy of the same change may be what it met.
            Ok(Outcome::Conflict) => sent = Some(change),
            Err(Failure::Unknown(_)) => (unknown, sent) = (unknown + 1, Some(change)),
            Err(refused) => panic!("{refused}"),
        }
    }
}

/// Watches as owners do: after the end of a watch, or without an answer, from what a read shows.
async fn sees_a_change(it: &Etcd) {
    loop {
        let Ok(snapshot) = it.read().await else { continue };
        let Ok(mut watch) = it.watch(snapshot.revision).await else { continue };
        if watch.recv().await.is_some() {
            return;
        }
    }
}

#[test]
fn three_members_lose_nothing_when_some_are_killed_or_stopped() {
    let Some(program) = program() else { return };
    let mut server = Server::start(program, "three", 3, false);
    run(async {
        let it = server.coordinator("a");
        answers(&it).await;
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let client =
            Etcd::new(EtcdOptions { limit: Duration::from_secs(3), ..server.options("a") })
                .unwrap();
        let adding = tokio::spawn(add(client, stop.clone()));
        let lease = it.grant(Duration::from_secs(10)).await.unwrap();
        let n = async || -> u64 {
            let found = timeout(LONG, async {
                loop {
                    match it.read().await {
                        Ok(snapshot) => break snapshot,
                        Err(_) => sleep(Duration::from_millis(20)).await,
                    }
                }
            });
            let records = found.await.unwrap().records;
            let text =
                records.first().map(|record| String::from_utf8(record.value.clone()).unwrap());
            text.map_or(0, |text| text.split(' ').next().unwrap().parse().unwrap())
        };
        let goes_on = async |why: &str| {
            let (start, before) = (Instant::now(), n().await);
            while n().await < before + 20 {
                assert!(start.elapsed() < LONG, "nothing is added after {why}");
                sleep(Duration::from_millis(20)).await;
            }
            println!("20 more after {why}: {:?}", start.elapsed());
        };
        goes_on("the start").await;
        let leader = server.leader();
        server.kill(leader);
        goes_on("the leader was killed").await;
        it.keep_alive(lease.id).await.unwrap();
        server.start_member(leader);
        goes_on("it came back").await;
        // Followers and leader, with the client's connections on any of them.
        for stopped in 0..3 {
            sleep(Duration::from_secs(1)).await;
            server.stop(stopped);
            goes_on("a member was stopped").await;
            let seen = timeout(LONG, sees_a_change(&it)).await;
            seen.expect("a watch goes on beside a stopped member");
            server.go_on(stopped);
        }
        goes_on("all members are back").await;
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        let (added, lost) = timeout(LONG, adding).await.unwrap().unwrap();
        println!("{added} added, {lost} of unknown outcome");
        assert_eq!(n().await, added);
        // One without the others answers no reads: they might be old.
        server.stop(1);
        server.stop(2);
        let limit = Duration::from_secs(1);
        let alone = Etcd::new(EtcdOptions { limit, ..server.options("a") }).unwrap();
        unknown(alone.read().await);
    });
}
