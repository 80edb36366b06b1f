//! Replies that show writes. While replies wait for replicas (`ack replicated`), no reply may show what one of them
//! lacks, because a failover could undo it. So a reply waits for the writes that it shows as if its client had made
//! them.
//!
//! The store marks writes meanwhile ([`Session::mark_writes`]). After a command has read keys, their marks tell here
//! which records its reply depends on, and the connection holds the reply back as it does for records of its own. A key
//! that no client is writing costs the look at its mark. Without marks all of this does nothing.
//!
//! Invalidations of clients' caches wait for all writes so far. Not held back are figures (INFO, metrics, the hot
//! keys), and other messages: of a channel, a keyspace event, MONITOR.

use hotring_protocol::ArgsView;
use hotring_store::Session;

use crate::table::Spec;

/// Has the next reply wait for the writes that these requests may show. They ran in the present database.
pub(crate) fn note<'a>(
    store: &mut Session,
    requests: impl Iterator<Item = (&'static Spec, ArgsView<'a>)> + Clone,
) {
    let any = |(spec, args): (&Spec, ArgsView<'_>)| spec.may_show_any_key(args.len());
    if requests.clone().any(any) {
        return note_all(store);
    }
    note_keys(store, requests.flat_map(|(spec, args)| spec.keys_of(args)));
}

/// Has the next reply wait for the last writes of these keys of the present database.
#[inline]
pub(crate) fn note_keys<'a>(store: &mut Session, keys: impl Iterator<Item = &'a [u8]> + Clone) {
    let last = store.last_records(keys);
    if last > 0 {
        store.note_logged(last);
    }
}

/// Has the next reply wait for all writes so far.
#[inline]
pub(crate) fn note_all(store: &mut Session) {
    if store.marks_writes() {
        let last = store.last_record_of_all();
        store.note_logged(last);
    }
}
