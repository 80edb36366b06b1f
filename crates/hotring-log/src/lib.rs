//! The write-ahead log of hotring: its records, how they get to the disk, and how they are recovered.
//!
//! ```text
//!  sessions --Records--> Log (the hand-over) --> Writer --> segments on a Storage --> recover
//!                         |                        |             |
//!                         +--- poll_reached <------+--- Syncer --+    a reply waits here for its record
//! ```
//!
//! A record holds the effect of a write on a key, not the command, so replay is idempotent. The
//! order of records is the order of [`Log::append`]; a caller must append while it excludes other writes to
//! the key, so that the key's records are in the order of its writes.
//!
//! The crate owns no thread and reads no clock: one thread of its owner calls [`Writer::step`] with the
//! time. Files must be used through [`Storage`] only. `docs/design/log.md` has the formats and guarantees.
//!
//! ```
//! use hotring_log::{Effect, Log, Options, Records, AckWhen, Writer, recover, storage::Memory};
//! use std::{sync::Arc, task::Waker, thread, time::Instant};
//!
//! let id = [7; 16];
//! let storage = Arc::new(Memory::new());
//! let recovered = recover(&*storage, Some(id), 1, &mut |_last, _effects| ()).unwrap();
//! let log = Arc::new(Log::new(recovered.last, AckWhen::Synced, 16 << 20));
//! let (mut writer, syncer) = Writer::new(log.clone(), storage.clone(), Options::new(id), &recovered);
//! let start = Instant::now();
//! let writing = thread::spawn(move || while writer.step(start.elapsed()) { writer.wait() });
//! let syncing = thread::spawn(move || while syncer.wait() { syncer.step() });
//!
//! let mut records = Records::new();
//! records.push(&Effect::Put { key: b"key", form: 0, expire_at: None, value: b"value" });
//! let last = log.append(&mut records);
//! // A session passes its own waker, which is called when it must poll again.
//! while log.poll_reached(last, Waker::noop()).is_pending() {
//!     thread::yield_now();
//! }
//!
//! log.close();
//! writing.join().unwrap();
//! syncing.join().unwrap();
//! assert_eq!(recover(&*storage, Some(id), 1, &mut |_, _| ()).unwrap().last, 1);
//! ```

#![forbid(unsafe_code)]

mod backlog;
mod cut;
mod log;
mod manifest;
mod marks;
mod names;
mod packed;
mod record;
mod recover;
mod relay;
mod repair;
mod segment;
mod snapshot;
pub mod storage;
mod sync;
mod syncer;
mod tail;
mod walk;
pub mod wire;
mod writer;

pub use backlog::{Backlog, Gone, Status as BacklogStatus};
pub use log::{AckWhen, Log, LogError};
pub use marks::{drop_unfinished_copy, is_by_a_replica, mark_copy, mark_source, unmark_copy};
pub use packed::{UNPACKED_MAX, pack, unpack};
pub use record::{
    Attached, Bad, BadStream, Batch, Chunk, Effect, Found, Head, Lsn, Mark, NoRun, Records, Run,
    Selection, batch_at, effect_at, head, read, selected_batches,
};
pub use recover::{Checked, RecoverError, Recovered, check, recover, recover_behind};
pub use relay::Relay;
pub use repair::{RepairError, repair};
pub use segment::{Id, first_record, remove_before};
pub use snapshot::{
    ALL, Finished, HOTTEST, Snapshot, SnapshotError, SnapshotWriter, clean, prune, stored_id,
};
pub use storage::{Disk, File, Storage};
pub use syncer::Syncer;
pub use tail::{PIECE_LEN, Tail, TailError};
pub use walk::{Apply, Damage, Part, Take};
pub use writer::{Options, Writer, remove_all};
