//! The records as the coordinator has them: read once, watched from there, read again when the watch ends.

use std::collections::BTreeMap;
use std::rc::Rc;

use hotring_cluster::Revision;
use hotring_cluster::directory::Directory;
use hotring_coordinator::{Changed, Failure, Snapshot};

use super::{Member, PAUSE};

/// The records by their names.
#[derive(Default)]
pub(super) struct View(BTreeMap<String, (Revision, Vec<u8>)>);

impl View {
    fn of(snapshot: Snapshot) -> View {
        let records = snapshot.records.into_iter();
        View(records.map(|record| (record.name, (record.revision, record.value))).collect())
    }

    fn change(&mut self, changed: Changed) {
        for (name, value) in changed.records {
            match value {
                Some(value) => _ = self.0.insert(name, (changed.revision, value)),
                None => _ = self.0.remove(&name),
            }
        }
    }

    fn directory(&self) -> Option<Directory> {
        let records =
            self.0.iter().map(|(name, (revision, value))| (&name[..], *revision, &value[..]));
        Directory::read(records).inspect_err(|why| tracing::error!("{why}")).ok()
    }
}

/// Publishes the records, and each change of them. While the coordinator is away the last ones stay.
pub(super) async fn keep(member: Rc<Member>) {
    let mut told = None;
    let mut session = member.server.store.session_named(super::THREAD);
    loop {
        let Err(failure) = follow(&member, &mut session, &mut told).await;
        if let Some(why) = failure.map(|failure| failure.to_string())
            && told.as_ref() != Some(&why)
        {
            tracing::warn!("the records cannot be read, those known last hold: {why}");
            told = Some(why);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads all and watches until the watch ends.
async fn follow(
    member: &Member,
    session: &mut hotring_store::Session,
    told: &mut Option<String>,
) -> Result<std::convert::Infallible, Option<Failure>> {
    let snapshot = member.ask(member.coordinator.read()).await.map_err(Some)?;
    let revision = snapshot.revision;
    let mut view = View::of(snapshot);
    publish(member, &view, session);
    let mut watch = member.ask(member.coordinator.watch(revision)).await.map_err(Some)?;
    *told = None;
    while let Some(changed) = watch.recv().await {
        view.change(changed);
        // Many changes at once are one publication.
        while let Ok(changed) = watch.try_recv() {
            view.change(changed);
        }
        publish(member, &view, session);
    }
    Err(None)
}

fn publish(member: &Member, view: &View, session: &mut hotring_store::Session) {
    let Some(directory) = view.directory() else { return };
    if let Some(cluster) = &member.server.cluster {
        cluster.publish(directory);
        member.server.take_recorded_role(session);
    }
}
