//! etcd, 3.4 and later, through the JSON gateway that each member has beside its gRPC port: it needs no compiler for
//! protocol buffers, and the HTTP client that it needs is part of what the server has anyway.
//!
//! Reads and transactions are linearizable, as etcd answers them by default. A member that does not answer is passed
//! over; a transaction is sent to another one only if nothing of it was sent.

mod address;
mod http;
mod json;
mod watch;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotring_cluster::kept::TTL_MAX;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_rustls::rustls::ClientConfig;

pub use address::{BadAddress, EtcdAddress};

use crate::heard::{check_heard, heard_max};
use crate::{
    Coordinator, Failure, Lease, LeaseId, Outcome, Reply, Revision, Snapshot, Transaction, Watch,
};
use http::{Lost, Members, Post};
use json::Prefix;

/// How a cluster's records in etcd are reached.
#[derive(Clone)]
pub struct EtcdOptions {
    /// The members.
    pub address: EtcdAddress,
    /// The name of the cluster: its records are below `/hotring/NAME/`.
    pub cluster: String,
    /// User and password, if etcd has them.
    pub user: Option<(String, String)>,
    /// For TLS: whose certificates to trust, and which one to show.
    pub tls: Option<Arc<ClientConfig>>,
    /// Each request ends within this time.
    pub limit: Duration,
}

/// The records of a cluster in etcd.
#[derive(Clone)]
pub struct Etcd {
    inner: Arc<Inner>,
}

struct Inner {
    members: Members,
    prefix: Prefix,
    user: Option<(String, String)>,
    token: Mutex<Option<String>>,
    /// The member that is asked first: the last one that answered, or the one after a member that did not.
    first: AtomicUsize,
    limit: Duration,
}

/// Whether a request may be sent to another member although it was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    /// It changes nothing, or the same twice.
    May,
    /// It must take effect at most once.
    Never,
}

/// gRPC's numbers of errors that mean that nothing took effect and nothing will: invalid argument, not found,
/// permission denied, failed precondition, unimplemented, unauthenticated.
const REFUSALS: [u64; 6] = [3, 5, 7, 9, 12, 16];

/// The number for a token that etcd does not know, or no longer.
const UNAUTHENTICATED: u64 = 16;

impl Etcd {
    /// Checks the options. Nothing is connected yet. Requests must be made within a runtime.
    pub fn new(options: EtcdOptions) -> Result<Etcd, String> {
        let prefix = Prefix::of(&options.cluster).ok_or_else(|| {
            let name = &options.cluster;
            format!("'{name}' is no name of a cluster: 1 to 128 letters, digits and -._")
        })?;
        if options.address.tls != options.tls.is_some() {
            return Err("etcds:// needs the settings of TLS, and etcd:// has no TLS".to_owned());
        }
        let members = Members::new(options.address, options.tls);
        let (user, limit) = (options.user, options.limit);
        let (token, first) = (Mutex::default(), AtomicUsize::new(0));
        Ok(Etcd { inner: Arc::new(Inner { members, prefix, user, token, first, limit }) })
    }
}

impl Inner {
    /// Asks one member after the other until one answers.
    async fn call(&self, path: &str, body: &Value, again: Again) -> Result<Value, Failure> {
        Ok(self.call_within(self.limit, path, body, again).await?.1)
    }

    /// The same within this time, with the member that answered.
    async fn call_within(
        &self,
        limit: Duration,
        path: &str,
        body: &Value,
        again: Again,
    ) -> Result<(usize, Value), Failure> {
        let end = Instant::now() + limit;
        // ORDERING: nothing else is read through the value.
        let first = self.first.load(Ordering::Relaxed);
        let count = self.members.count();
        let mut last = String::new();
        for n in 0..count {
            let member = (first + n) % count;
            let left = end.saturating_duration_since(Instant::now());
            let share = match again {
                Again::May => left / (count - n) as u32,
                Again::Never => left,
            };
            match self.ask(member, path, body, share).await {
                Ok(answer) => {
                    self.prefer(member);
                    return Ok((member, answer));
                }
                Err(Asked::Refused(why)) => return Err(Failure::Refused(why)),
                Err(Asked::Lost(Lost::Unsent(why))) => last = self.told(member, &why),
                Err(Asked::Lost(Lost::Sent(why))) => {
                    last = self.told(member, &why);
                    if again == Again::Never {
                        self.prefer(member + 1);
                        break;
                    }
                }
            }
        }
        Err(Failure::Unknown(last))
    }

    /// Keeps a lease alive at a member that has just answered another request.
    async fn renew(&self, lease: LeaseId) -> Result<Value, Failure> {
        let began = Instant::now();
        let count = self.prefix.count();
        let (member, _) =
            self.call_within(heard_max(self.limit), "kv/range", &count, Again::May).await?;
        check_heard(began, self.limit)?;
        let (body, left) = (json::of_lease(lease), self.limit.saturating_sub(began.elapsed()));
        self.ask(member, "lease/keepalive", &body, left).await.map_err(|asked| match asked {
            Asked::Refused(why) => Failure::Refused(why),
            Asked::Lost(Lost::Unsent(why) | Lost::Sent(why)) => {
                self.prefer(member + 1);
                Failure::Unknown(self.told(member, &why))
            }
        })
    }

    fn told(&self, member: usize, why: &str) -> String {
        format!("etcd at {}: {why}", self.members.name(member))
    }

    /// Asks this member first from now on.
    fn prefer(&self, member: usize) {
        // ORDERING: nothing else is read through the value.
        self.first.store(member % self.members.count(), Ordering::Relaxed);
    }

    /// Asks a member. A token that it does not know is renewed once: such a request had no effect.
    async fn ask(
        &self,
        member: usize,
        path: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<Value, Asked> {
        let end = Instant::now() + limit;
        let mut renewed = false;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let token = self.token(member, left).await?;
            let post = Post { path, token: token.clone(), body };
            let left = end.saturating_duration_since(Instant::now());
            match self.members.ask(member, post, left).await.map_err(Asked::Lost)? {
                (200, answer) => return Ok(answer),
                (_, error) if is_old_token(&error) && token.is_some() && !renewed => {
                    self.forget(token);
                    renewed = true;
                }
                (status, error) => return Err(refusal(status, &error)),
            }
        }
    }

    /// The token of the user, if there is one.
    async fn token(&self, member: usize, limit: Duration) -> Result<Option<String>, Asked> {
        let Some((user, password)) = &self.user else { return Ok(None) };
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return Ok(known);
        }
        let body = json!({"name": user, "password": password});
        let post = Post { path: "auth/authenticate", token: None, body: &body };
        // What it was for has not been sent.
        let unsent = |lost| match lost {
            Lost::Unsent(why) | Lost::Sent(why) => Asked::Lost(Lost::Unsent(why)),
        };
        match self.members.ask(member, post, limit).await.map_err(unsent)? {
            (200, answer) => {
                let token = answer["token"].as_str().map(str::to_owned);
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
                Ok(token)
            }
            (status, error) => match refusal(status, &error) {
                Asked::Lost(lost) => Err(unsent(lost)),
                refused => Err(refused),
            },
        }
    }

    /// Forgets a token, unless another request has renewed it.
    fn forget(&self, old: Option<String>) {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if *token == old {
            *token = None;
        }
    }
}

/// A request that a member did not do.
enum Asked {
    Lost(Lost),
    Refused(String),
}

fn text(error: &Value) -> &str {
    // A stream has its error in a field of its own.
    let error = error.get("error").filter(|inner| inner.is_object()).unwrap_or(error);
    error["message"].as_str().unwrap_or("it gave no reason")
}

fn code(error: &Value) -> Option<u64> {
    let inner = error.get("error").filter(|inner| inner.is_object()).unwrap_or(error);
    inner["code"].as_u64().or_else(|| inner["grpc_code"].as_u64())
}

fn is_old_token(error: &Value) -> bool {
    let has_old_revision = text(error).contains("revision of auth store is old");
    code(error) == Some(UNAUTHENTICATED) || has_old_revision
}

/// What an answer with an error means.
fn refusal(status: u16, error: &Value) -> Asked {
    let why = text(error);
    if !code(error).is_some_and(|code| REFUSALS.contains(&code)) {
        return Asked::Lost(Lost::Sent(format!("HTTP {status}, {why}")));
    }
    let what_to_do = match why {
        why if why.contains("user name is empty") => ": it needs a user and a password",
        why if why.contains("authentication is not enabled") => ": it takes no user",
        why if why.contains("permission denied") => ": grant the user the cluster's prefix",
        _ => "",
    };
    Asked::Refused(format!("etcd says '{why}'{what_to_do}"))
}

/// An answer of another form is none.
fn read<T>(answer: Option<T>) -> Result<T, Failure> {
    answer.ok_or_else(|| {
        Failure::Unknown("etcd gave an answer of another form: is it 3.4 or later?".to_owned())
    })
}

impl Coordinator for Etcd {
    fn read(&self) -> Reply<'_, Snapshot> {
        Box::pin(async {
            let it = &self.inner;
            let answer = it.call("kv/range", &it.prefix.read(), Again::May).await?;
            read(it.prefix.snapshot(&answer))
        })
    }

    fn transact<'a>(&'a self, transaction: &'a Transaction) -> Reply<'a, Outcome> {
        Box::pin(async {
            transaction.check().map_err(Failure::Refused)?;
            let it = &self.inner;
            let body = it.prefix.transact(transaction);
            read(json::outcome(&it.call("kv/txn", &body, Again::Never).await?))
        })
    }

    fn grant(&self, ttl: Duration) -> Reply<'_, Lease> {
        Box::pin(async move {
            if ttl > TTL_MAX {
                return Err(Failure::Refused(format!("a lease of {ttl:?}; at most {TTL_MAX:?}")));
            }
            let answer = self.inner.call("lease/grant", &json::grant(ttl), Again::Never).await?;
            read(json::lease(&answer))
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> Reply<'_, ()> {
        Box::pin(async move {
            match read(json::lives(&self.inner.renew(lease).await?))? {
                true => Ok(()),
                false => Err(Failure::Refused(format!("there is no lease {lease}: it is over"))),
            }
        })
    }

    fn revoke(&self, lease: LeaseId) -> Reply<'_, ()> {
        Box::pin(async move {
            let body = json::of_lease(lease);
            read(json::revision(&self.inner.call("lease/revoke", &body, Again::Never).await?))?;
            Ok(())
        })
    }

    fn watch(&self, after: Revision) -> Reply<'_, Watch> {
        Box::pin(watch::watch(self.inner.clone(), after))
    }
}
