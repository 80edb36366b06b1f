//! Asks the servers of a pool from time to time whether they answer.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use hotring_protocol::memcached::ReplyForm;

use super::pool::Foreign;
use super::server::{Kind, Server};
use crate::link::{Link, Login};
use crate::reply::Form;
use crate::shared::Shared;

/// Keeps asking all servers, each by a task of its own, so that a slow one delays no other. Never ends.
pub(crate) async fn keep_probing(shared: &Arc<Shared>, pool: &Foreign) {
    let probed: Rc<RefCell<HashSet<Arc<str>>>> = Rc::default();
    loop {
        for server in pool.asked_servers() {
            if probed.borrow_mut().insert(server.address.clone()) {
                let (shared, probed) = (shared.clone(), probed.clone());
                tokio::task::spawn_local(async move {
                    keep_probing_one(&shared, &server.address).await;
                    probed.borrow_mut().remove(&server.address);
                });
            }
        }
        tokio::time::sleep(pool.options().probe_interval).await;
    }
}

/// Ends when the server is no longer asked.
async fn keep_probing_one(shared: &Arc<Shared>, address: &str) {
    let Some(pool) = &shared.foreign else { return };
    let mut link = None;
    loop {
        let Some(server) = pool.server(address) else { return };
        let options = pool.options();
        let begun = Instant::now();
        let probed = tokio::time::timeout(options.probe_timeout, probe(shared, &server, &mut link));
        let probed = probed.await.unwrap_or_else(|_| Err("no answer to a probe in time".into()));
        let has_changed = match probed {
            Ok(()) => {
                let returns = server.health.probed(begun.elapsed(), options.return_after);
                if returns {
                    tracing::info!(server = server.name, "a server of the pool returns");
                }
                returns
            }
            Err(why) => {
                link = None;
                shared.note_failure(&server, &why);
                false
            }
        };
        if has_changed {
            shared.republish();
        }
        tokio::time::sleep(options.probe_interval).await;
    }
}

async fn probe(shared: &Shared, server: &Server, kept: &mut Option<Link>) -> Result<(), String> {
    let mut link = match kept.take() {
        Some(link) => link,
        None => {
            let dialled = Link::dial(shared, &server.address, &Login::default()).await;
            dialled.map_err(|why| why.to_string())?
        }
    };
    let lost = |why: io::Error| format!("a probe got no answer: {why}");
    let reply = match server.kind {
        Kind::Memcached => {
            link.send(b"version\r\n").await.map_err(lost)?;
            let form = Form::Memcached { form: ReplyForm::Line, is_silent: false };
            link.next_of(form).await.map_err(lost)?
        }
        Kind::Redis | Kind::Hotring => link.ask(b"*1\r\n$4\r\nPING\r\n").await.map_err(lost)?,
    };
    if !reply.starts_with(b"+PONG") && !reply.starts_with(b"VERSION") {
        let reply = String::from_utf8_lossy(&reply[..reply.len().min(100)]).trim_end().to_string();
        return Err(format!("a probe is answered by {reply}"));
    }
    *kept = Some(link);
    Ok(())
}
