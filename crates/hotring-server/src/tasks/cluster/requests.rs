//! What the machines ask of the records, one request after the other, as the trait `Records` of `hotring-cluster` wants
//! it: each gets exactly one outcome, in their order.

use std::rc::Rc;

use hotring_cluster::directory::{Directory, shard_name, shard_value};
use hotring_cluster::{Outcome, Request, Transaction};
use hotring_coordinator::{self as coordinator, Change, Failure};

use super::{Member, PAUSE};

/// Passes requests to the coordinator and their outcomes to the machines.
pub(super) async fn pass_on(member: Rc<Member>) {
    let mut session = member.server.store.session_named(super::THREAD);
    // Before a panic of this thread a request may have been on its way. Its machine asks nothing more until it hears.
    if let Some(machine) = member.server.replication.unanswered() {
        member.server.hear_outcome(machine, Outcome::Unknown, &mut session);
    }
    loop {
        while let Some(asked) = member.server.replication.next_asked() {
            let outcome = outcome(&member, &asked.request).await;
            member.server.hear_outcome(asked.machine, outcome, &mut session);
        }
        member.server.replication.asked().await;
    }
}

/// What becomes of a request. A refusal is unknown, too: the machine asks until it is certain.
async fn outcome(member: &Member, request: &Request) -> Outcome {
    let answered = match request {
        Request::ReadAll => read_all(member).await,
        Request::Transact(transaction) => transact(member, transaction).await,
    };
    match answered {
        Ok(outcome) => outcome,
        Err(why) => {
            tracing::debug!("a request to the coordinator has no answer: {why}");
            // The machine asks again at once.
            tokio::time::sleep(PAUSE).await;
            Outcome::Unknown
        }
    }
}

async fn read_all(member: &Member) -> Result<Outcome, Failure> {
    let snapshot = member.ask(member.coordinator.read()).await?;
    let records = snapshot.records.iter();
    let records = records.map(|record| (&record.name[..], record.revision, &record.value[..]));
    let directory = Directory::read(records).map_err(|why| Failure::Refused(why.to_string()))?;
    let shards = directory.shards.into_iter();
    Ok(Outcome::Records(shards.map(|(id, (revision, shard))| (id, revision, shard)).collect()))
}

async fn transact(member: &Member, wanted: &Transaction) -> Result<Outcome, Failure> {
    let expect = wanted.expect.iter().map(|(shard, revision)| (shard_name(*shard), *revision));
    let changes = wanted.write.iter().map(|(id, shard)| Change::Put {
        name: shard_name(*id),
        value: shard_value(shard),
        lease: None,
    });
    let transaction =
        coordinator::Transaction { expect: expect.collect(), changes: changes.collect() };
    let done = member.ask(member.coordinator.transact(&transaction)).await?;
    Ok(match done {
        coordinator::Outcome::Done(revision) => Outcome::Done(revision),
        coordinator::Outcome::Conflict => Outcome::Conflict,
    })
}
