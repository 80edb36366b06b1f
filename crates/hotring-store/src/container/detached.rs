//! Detached parts of large containers, which are freed in steps so that no session waits long.

use hotring_containers::Remains;
use hotring_index::{AnyIndex, Object};

/// Maximum number of detached nodes freed within a change. More are freed in steps later, when no session waits.
const FREED_AT_ONCE: usize = 16;
/// Minimum bytes freed in one step.
pub(super) const FREE_STEP: usize = 1 << 20;

/// Detached parts of a container that are still to free.
pub(super) struct Cut(pub(super) Remains);

impl Object for Cut {
    fn dismantle(&mut self) -> Option<usize> {
        free_some(&mut self.0)
    }
}

/// Frees at least the bytes of a step. Returns their number, None if nothing is left.
pub(super) fn free_some(remains: &mut Remains) -> Option<usize> {
    let mut freed = remains.free(1)?;
    while freed < FREE_STEP
        && let Some(more) = remains.free(1)
    {
        freed += more;
    }
    Some(freed)
}

/// Frees the parts that a change has detached; if there are many, adds the rest to `cut` to be freed in steps.
pub(crate) fn add_cut(cut: &mut Option<Remains>, mut remains: Remains) {
    for _ in 0..FREED_AT_ONCE {
        if remains.free(1).is_none() {
            return;
        }
    }
    *cut = Some(match cut.take() {
        Some(cut) => cut.and(remains),
        None => remains,
    });
}

/// Frees detached parts in steps, like removed containers. They take about the given number of bytes.
pub(super) fn free_in_steps(cut: Option<(Remains, usize)>, index: &AnyIndex) {
    if let Some((cut, bytes)) = cut {
        drop(index.object(Box::new(Cut(cut)), bytes));
    }
}

/// Joins the nodes of a container with its detached parts, for freeing.
pub(crate) fn with_cut(remains: Remains, cut: &mut Option<Remains>) -> Remains {
    match cut.take() {
        Some(cut) => remains.and(cut),
        None => remains,
    }
}
