//! A directory in memory, for tests, that knows which contents may survive a crash.
//!
//! It holds the synced state and the changes since: writes by blocks of 512 bytes, which a disk
//! writes atomically, changes of a file's length, and changes of names. A power cut leaves the
//! synced state and none, some or all of the changes, in any order; a kill of the process leaves
//! all. [`Memory::image`] makes the directory after a cut; [`Memory::power_cuts`] draws cuts worth
//! testing.
//!
//! It can fail on demand ([`Memory::fail`]), pretend to sync ([`Memory::pretend`]), and call a
//! function before each change and each sync ([`Memory::before_each`]), the moments at which a
//! crash is worth testing.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

use super::{File, Storage};

/// Bytes that a disk writes atomically.
pub const BLOCK: usize = 512;

/// Steps that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writing to a file: half of it is done.
    Write,
    /// Syncing a file.
    Sync,
    /// Creating a file.
    Create,
    /// Allocating space.
    Preallocate,
    /// Changing a length.
    SetLen,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Syncing the directory.
    SyncDirectory,
}

impl Step {
    /// Steps that a read-only file system refuses: all but syncing.
    pub const CHANGES: [Step; 6] =
        [Step::Write, Step::Create, Step::Preallocate, Step::SetLen, Step::Rename, Step::Remove];
}

/// A change that a crash may undo until it is synced.
#[derive(Clone, Debug)]
enum Change {
    Bytes { file: usize, at: u64, bytes: Vec<u8> },
    Len { file: usize, len: u64 },
    Create { name: String, file: usize },
    Rename { from: String, to: String },
    Remove { name: String },
}

impl Change {
    /// The file whose content changes; None for a change of the directory.
    fn file(&self) -> Option<usize> {
        match self {
            Change::Bytes { file, .. } | Change::Len { file, .. } => Some(*file),
            _ => None,
        }
    }
}

#[derive(Clone, Default)]
struct Content {
    files: Vec<Vec<u8>>,
    names: BTreeMap<String, usize>,
}

impl Content {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Bytes { file, at, bytes } => {
                let (file, at) = (&mut self.files[*file], *at as usize);
                file.resize(file.len().max(at + bytes.len()), 0);
                file[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Change::Len { file, len } => self.files[*file].resize(*len as usize, 0),
            Change::Create { name, file } => drop(self.names.insert(name.clone(), *file)),
            Change::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Change::Remove { name } => drop(self.names.remove(name)),
        }
    }
}

struct Failure {
    step: Step,
    /// Steps that succeed first.
    after: usize,
    times: usize,
    kind: io::ErrorKind,
}

#[derive(Default)]
struct State {
    now: Content,
    synced: Content,
    changes: Vec<Change>,
    failures: Vec<Failure>,
    pretends: bool,
    last_step: Option<Step>,
}

impl State {
    /// The error for this step, if it must fail.
    fn failure(&mut self, step: Step) -> io::Result<()> {
        self.last_step = Some(step);
        let Some(at) = self.failures.iter().position(|failure| failure.step == step) else {
            return Ok(());
        };
        let failure = &mut self.failures[at];
        if failure.after > 0 {
            failure.after -= 1;
            return Ok(());
        }
        let kind = failure.kind;
        failure.times -= 1;
        if failure.times == 0 {
            self.failures.remove(at);
        }
        Err(kind.into())
    }

    fn change(&mut self, change: Change) {
        self.now.apply(&change);
        self.changes.push(change);
    }

    fn write(&mut self, file: usize, mut bytes: &[u8], mut at: u64) {
        while !bytes.is_empty() {
            let available = BLOCK - at as usize % BLOCK;
            let (block, rest) = bytes.split_at(available.min(bytes.len()));
            self.change(Change::Bytes { file, at, bytes: block.to_vec() });
            (at, bytes) = (at + block.len() as u64, rest);
        }
    }

    fn sync(&mut self, which: impl Fn(&Change) -> bool) {
        if !self.pretends {
            let State { changes, synced, .. } = self;
            changes.extract_if(.., |change| which(change)).for_each(|change| synced.apply(&change));
        }
    }
}

type Hook = dyn Fn(&Memory, Step) + Send + Sync;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    hook: Mutex<Option<Arc<Hook>>>,
    /// Called once, within the next sync of a file.
    within_sync: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory in memory; clones share it.
#[derive(Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

/// A power cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// For each change since the last sync, in order: whether it took place. The last kept change
    /// took place only partly if it is [`torn`](Self::torn).
    pub kept: Vec<bool>,
    /// Bytes of the last kept change that took place, if not all of them.
    pub torn: Option<usize>,
}

impl Memory {
    /// An empty directory.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Makes `times` steps of this kind fail, after `after` that succeed.
    pub fn fail(&self, step: Step, after: usize, times: usize, kind: io::ErrorKind) {
        self.shared.state().failures.push(Failure { step, after, times, kind });
    }

    /// Refuses all changes from now on, like a file system that was remounted read-only. Earlier
    /// writes can be synced.
    pub fn set_read_only(&self) {
        for step in Step::CHANGES {
            self.fail(step, 0, usize::MAX, io::ErrorKind::ReadOnlyFilesystem);
        }
    }

    /// With `true`, syncs do nothing yet report success.
    pub fn pretend(&self, pretends: bool) {
        self.shared.state().pretends = pretends;
    }

    /// Calls `hook` before each step that changes or syncs something.
    pub fn before_each(&self, hook: impl Fn(&Memory, Step) + Send + Sync + 'static) {
        *self.shared.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(hook));
    }

    /// Calls `hook` once within the next sync of a file, after the disk has taken what that sync
    /// makes durable: later writes are not synced by it.
    pub fn within_next_sync(&self, hook: impl FnOnce() + Send + 'static) {
        let mut within_sync =
            self.shared.within_sync.lock().unwrap_or_else(PoisonError::into_inner);
        *within_sync = Some(Box::new(hook));
    }

    /// The last step that was taken, or failed.
    pub fn last_step(&self) -> Option<Step> {
        self.shared.state().last_step
    }

    /// Changes that a power cut may undo.
    pub fn unsynced(&self) -> usize {
        self.shared.state().changes.len()
    }

    /// The directory after a power cut.
    pub fn image(&self, cut: &Cut) -> Memory {
        let state = self.shared.state();
        let mut content = state.synced.clone();
        content.files.resize(state.now.files.len(), Vec::new());
        let kept = state.changes.iter().zip(&cut.kept).filter(|(_, kept)| **kept);
        let mut kept = kept.map(|(change, _)| change).peekable();
        while let Some(change) = kept.next() {
            match (change, cut.torn) {
                (Change::Bytes { file, at, bytes }, Some(len)) if kept.peek().is_none() => {
                    let bytes = bytes[..len.min(bytes.len())].to_vec();
                    content.apply(&Change::Bytes { file: *file, at: *at, bytes });
                }
                _ => content.apply(change),
            }
        }
        Memory::of(content)
    }

    /// The directory after a kill of the process.
    pub fn killed(&self) -> Memory {
        Memory::of(self.shared.state().now.clone())
    }

    fn of(content: Content) -> Memory {
        let memory = Memory::new();
        {
            let mut state = memory.shared.state();
            (state.now, state.synced) = (content.clone(), content);
        }
        memory
    }

    /// Power cuts worth testing: no change since the last sync; the first changes, with the last of
    /// them complete or torn; every subset if there are at most `drawn`, otherwise `drawn` random
    /// ones.
    pub fn power_cuts(&self, drawn: usize, seed: u64) -> Vec<Cut> {
        let count = self.unsynced();
        let mut random = Rng::with_seed(seed);
        let mut cuts = Vec::new();
        let first = |n: usize| (0..count).map(|i| i < n).collect::<Vec<bool>>();
        for n in (0..=count).rev().take(drawn).chain([0]) {
            cuts.push(Cut { kept: first(n), torn: None });
            let torn = random.usize(..BLOCK);
            cuts.push(Cut { kept: first(n), torn: Some(torn) });
        }
        if count < usize::BITS as usize && 1 << count <= drawn {
            let kept = |subset: usize| (0..count).map(|i| subset >> i & 1 == 1).collect();
            cuts.extend((0..1 << count).map(|subset| Cut { kept: kept(subset), torn: None }));
            return cuts;
        }
        for i in 0..drawn {
            // Few are lost, half of them, or nearly all.
            let share = [1, 4, 7][i % 3];
            let kept = (0..count).map(|_| random.usize(..8) >= share).collect();
            let torn = (random.usize(..2) == 0).then(|| random.usize(..BLOCK));
            cuts.push(Cut { kept, torn });
        }
        cuts
    }

    /// The content of a file, if it exists.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.shared.state();
        state.now.names.get(name).map(|file| state.now.files[*file].clone())
    }

    /// Creates or replaces a file, and syncs it.
    pub fn set_content(&self, name: &str, content: &[u8]) {
        let mut state = self.shared.state();
        state.now.files.push(content.to_vec());
        let file = state.now.files.len() - 1;
        state.now.names.insert(name.into(), file);
        state.synced = state.now.clone();
        state.changes.clear();
    }

    /// Calls the hook, and fails if the step must.
    fn begin(&self, step: Step) -> (MutexGuard<'_, State>, io::Result<()>) {
        let hook = self.shared.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook {
            hook(self, step);
        }
        let mut state = self.shared.state();
        let failure = state.failure(step);
        (state, failure)
    }

    fn opened(&self, name: &str, writes: bool) -> io::Result<Arc<dyn File>> {
        let file = *self.shared.state().now.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemoryFile { memory: self.clone(), file, writes }))
    }
}

impl Storage for Memory {
    fn location(&self) -> String {
        "memory".into()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.shared.state().now.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let (mut state, failure) = self.begin(Step::Create);
        failure?;
        if state.now.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.now.files.len();
        state.now.files.push(Vec::new());
        state.synced.files.resize(file + 1, Vec::new());
        state.change(Change::Create { name: name.into(), file });
        drop(state);
        self.opened(name, true)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.opened(name, false)
    }

    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.opened(name, true)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (mut state, failure) = self.begin(Step::Rename);
        failure?;
        state.now.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.change(Change::Rename { from: from.into(), to: to.into() });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (mut state, failure) = self.begin(Step::Remove);
        failure?;
        state.now.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        state.change(Change::Remove { name: name.into() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, failure) = self.begin(Step::SyncDirectory);
        failure?;
        state.sync(|change| change.file().is_none());
        Ok(())
    }
}

struct MemoryFile {
    memory: Memory,
    file: usize,
    writes: bool,
}

impl MemoryFile {
    fn begin_change(&self, step: Step) -> (MutexGuard<'_, State>, io::Result<()>) {
        assert!(self.writes, "the file was opened to be read");
        self.memory.begin(step)
    }
}

impl File for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.memory.shared.state().now.files[self.file].len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.memory.shared.state();
        let bytes = state.now.files[self.file].get(at as usize..).unwrap_or_default();
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn data_from(&self, at: u64) -> io::Result<u64> {
        let state = self.memory.shared.state();
        let bytes = &state.now.files[self.file];
        let data = bytes.iter().skip(at as usize).position(|byte| *byte != 0);
        // Like a disk: from the beginning of a block.
        let block = |data: usize| ((at + data as u64) & !(BLOCK as u64 - 1)).max(at);
        Ok(data.map_or((bytes.len() as u64).max(at), block))
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let (mut state, failure) = self.begin_change(Step::Write);
        let done = if failure.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        state.write(self.file, done, at);
        failure
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut state, failure) = self.begin_change(Step::SetLen);
        failure?;
        state.change(Change::Len { file: self.file, len });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, failure) = self.begin_change(Step::Sync);
        failure?;
        state.sync(|change| change.file() == Some(self.file));
        drop(state);
        let hook = &self.memory.shared.within_sync;
        let hook = hook.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hook) = hook {
            hook();
        }
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let (mut state, failure) = self.begin_change(Step::Preallocate);
        failure?;
        // Enough to have zeros behind the written part, and small enough to be copied often.
        let len = len.min(64 << 10).max(state.now.files[self.file].len() as u64);
        state.change(Change::Len { file: self.file, len });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [bool; 8] = [true; 8];

    fn kept(changes: &[bool]) -> Cut {
        Cut { kept: changes.to_vec(), torn: None }
    }

    /// A synced file of 4 bytes, then a write of two blocks, and a file whose name is not synced.
    fn example() -> Memory {
        let memory = Memory::new();
        let file = memory.create("a").unwrap();
        file.write_all_at(b"aaaa", 0).unwrap();
        file.sync().unwrap();
        Storage::sync(&memory).unwrap();
        file.write_all_at(&[b'b'; 600], 100).unwrap();
        memory.create("new").unwrap().sync().unwrap();
        memory
    }

    #[test]
    fn a_power_cut_may_keep_any_unsynced_change() {
        let memory = example();
        assert_eq!(memory.unsynced(), 3);
        let content = |cut: &Cut| memory.image(cut).content("a").unwrap();
        assert_eq!(content(&kept(&[false; 3])), b"aaaa");
        assert_eq!(memory.image(&kept(&[false; 3])).list().unwrap(), ["a"]);
        assert_eq!(memory.image(&kept(&[false, false, true])).list().unwrap(), ["a", "new"]);
        // The second block without the first.
        let second = content(&kept(&[false, true, false]));
        assert_eq!((second.len(), second[511], second[512]), (700, 0, b'b'));
        let torn = content(&Cut { kept: vec![true, false, false], torn: Some(10) });
        assert_eq!((torn.len(), torn[109]), (110, b'b'));
        assert_eq!(memory.killed().content("a"), Some(content(&kept(&ALL))));
    }

    #[test]
    fn synced_bytes_stay() {
        let memory = example();
        memory.open_to_write("a").unwrap().sync().unwrap();
        assert_eq!(memory.image(&kept(&[])).content("a").unwrap().len(), 700);
        assert_eq!(memory.image(&kept(&[])).list().unwrap(), ["a"]);
        memory.rename("new", "b").unwrap();
        memory.remove("a").unwrap();
        Storage::sync(&memory).unwrap();
        assert_eq!(memory.image(&kept(&[])).list().unwrap(), ["b"]);
    }

    #[test]
    fn cuts_worth_a_try_have_none_all_and_each_of_few() {
        let memory = example();
        let cuts = memory.power_cuts(8, 1);
        for subset in 0..8 {
            let changes: Vec<bool> = (0..3).map(|i| subset >> i & 1 == 1).collect();
            assert!(cuts.iter().any(|cut| cut.kept == changes && cut.torn.is_none()));
        }
        assert!(cuts.iter().any(|cut| cut.torn.is_some()));
    }

    #[test]
    fn injected_faults_occur_at_their_step() {
        let memory = Memory::new();
        let file = memory.create("a").unwrap();
        memory.fail(Step::Write, 1, 2, io::ErrorKind::StorageFull);
        let write = || file.write_all_at(b"1234", 0).map_err(|error| error.kind());
        assert_eq!(write(), Ok(()));
        assert_eq!(write(), Err(io::ErrorKind::StorageFull));
        assert_eq!(write(), Err(io::ErrorKind::StorageFull));
        assert_eq!(write(), Ok(()));
        memory.pretend(true);
        file.sync().unwrap();
        assert_eq!(memory.image(&kept(&[])).list().unwrap(), [""; 0]);
    }
}
