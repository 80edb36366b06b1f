//! Several linked lists over the same keys. A key is in at most one list.

/// The link that stands for no key.
const NONE: u32 = u32::MAX;
/// The list number that stands for no list.
const NOWHERE: u8 = u8::MAX;

/// The lists `0..N`. Each has an oldest and a newest key.
#[derive(Debug)]
pub struct Lists<const N: usize> {
    ends: [Ends; N],
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    list: u8,
    older: u32,
    newer: u32,
}

impl<const N: usize> Lists<N> {
    /// Empty lists of keys below `keys`.
    pub fn new(keys: usize) -> Self {
        let nowhere = Node { list: NOWHERE, older: NONE, newer: NONE };
        Lists { ends: [Ends { oldest: NONE, newest: NONE, len: 0 }; N], nodes: vec![nowhere; keys] }
    }

    /// The number of keys in a list.
    pub fn len(&self, list: usize) -> usize {
        self.ends[list].len
    }

    /// The list that a key is in.
    pub fn list_of(&self, key: u32) -> Option<usize> {
        let list = self.nodes[key as usize].list;
        (list != NOWHERE).then_some(list.into())
    }

    /// The oldest key of a list.
    pub fn oldest(&self, list: usize) -> Option<u32> {
        present(self.ends[list].oldest)
    }

    /// The next newer key in the list of `key`.
    pub fn newer(&self, key: u32) -> Option<u32> {
        present(self.nodes[key as usize].newer)
    }

    /// Moves a key, from any list or none, to the newest end of a list.
    pub fn push(&mut self, list: usize, key: u32) {
        self.remove(key);
        let ends = &mut self.ends[list];
        let older = std::mem::replace(&mut ends.newest, key);
        ends.len += 1;
        match present(older) {
            Some(older) => self.nodes[older as usize].newer = key,
            None => ends.oldest = key,
        }
        self.nodes[key as usize] = Node { list: list as u8, older, newer: NONE };
    }

    /// Takes the oldest key off a list.
    pub fn pop(&mut self, list: usize) -> Option<u32> {
        self.oldest(list).inspect(|&key| self.remove(key))
    }

    /// Takes a key off its list, if any.
    pub fn remove(&mut self, key: u32) {
        let Node { list, older, newer } = self.nodes[key as usize];
        if list == NOWHERE {
            return;
        }
        let ends = &mut self.ends[usize::from(list)];
        ends.len -= 1;
        match present(older) {
            Some(older) => self.nodes[older as usize].newer = newer,
            None => ends.oldest = newer,
        }
        match present(newer) {
            Some(newer) => self.nodes[newer as usize].older = older,
            None => ends.newest = older,
        }
        self.nodes[key as usize] = Node { list: NOWHERE, older: NONE, newer: NONE };
    }
}

fn present(key: u32) -> Option<u32> {
    (key != NONE).then_some(key)
}
