//! `notify-keyspace-events`: the changes of keys that are published, and the channels for them.

/// The classes of events that are published, and the kinds of channels, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notify(u16);

pub(crate) const GENERIC: u16 = 1;
pub(crate) const STRING: u16 = 1 << 1;
pub(crate) const LIST: u16 = 1 << 2;
pub(crate) const SET: u16 = 1 << 3;
pub(crate) const ZSET: u16 = 1 << 4;
pub(crate) const HASH: u16 = 1 << 5;
pub(crate) const EVICTED: u16 = 1 << 6;
pub(crate) const EXPIRED: u16 = 1 << 7;
pub(crate) const NEW: u16 = 1 << 11;
pub(crate) const KEYSPACE: u16 = 1 << 12;
pub(crate) const KEYEVENT: u16 = 1 << 13;

/// Redis's letters, from the lowest bit on. Modules, streams and key misses have no events here.
const LETTERS: &str = "g$lszhexdtmnKE";
const MISSES: u16 = 1 << 10;
/// The classes of the letter A.
const ALL: u16 = (1 << 10) - 1;

impl Notify {
    /// Reads the setting's value.
    pub(crate) fn parse(text: &str) -> Result<Notify, String> {
        let mut classes = 0;
        for letter in text.chars() {
            classes |= match LETTERS.find(letter) {
                _ if letter == 'A' => ALL,
                Some(bit) if 1 << bit == MISSES => {
                    return Err("can't have class 'm' (key misses) in this version".to_string());
                }
                Some(bit) => 1 << bit,
                None => {
                    let known = "Ag$lshzxeKEtdn";
                    return Err(format!("Invalid event class character. Use '{known}'."));
                }
            };
        }
        Ok(Notify(classes))
    }

    /// The setting's value, as Redis writes it.
    pub(crate) fn text(self) -> String {
        let all = self.has(ALL);
        let classes = LETTERS.char_indices().filter(|(bit, letter)| {
            let stands_for_itself = !all || matches!(letter, 'n' | 'K' | 'E');
            stands_for_itself && self.has(1 << bit)
        });
        let letters = classes.map(|(_, letter)| letter);
        if all { "A".chars().chain(letters).collect() } else { letters.collect() }
    }

    /// Whether all of these classes are published.
    pub(crate) fn has(self, classes: u16) -> bool {
        self.0 & classes == classes
    }

    /// Whether any event is published.
    pub fn is_on(self) -> bool {
        self.0 & (KEYSPACE | KEYEVENT) != 0 && self.0 & !(KEYSPACE | KEYEVENT) != 0
    }
}
