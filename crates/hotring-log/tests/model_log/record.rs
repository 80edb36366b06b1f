//! Records without contents: the queue uses only their number and length.

/// As in `src/record.rs`.
pub type Lsn = u64;

/// As in `src/record.rs`.
pub struct Records(u64);

impl Records {
    pub(crate) fn one() -> Records {
        Records(1)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0 as usize
    }

    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}

/// As in `src/record.rs`.
#[derive(Default)]
pub(crate) struct Group(u64);

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.0 == 0
    }

    pub(crate) fn count(&self) -> u64 {
        self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0 as usize
    }

    pub(crate) fn append(&mut self, records: &mut Records) {
        self.0 += records.0;
        records.reset();
    }

    pub(crate) fn reset(&mut self, _kept_max: usize) {
        self.0 = 0;
    }
}
