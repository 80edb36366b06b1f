//! Matches Lua 5.1 patterns within bounded time and memory.
//!
//! Lua's own matcher recurses for each item of a pattern and never checks a limit: a long pattern overflows the
//! thread's stack, and a bad one runs forever. This matcher takes the same steps in the same order, but with an
//! explicit stack, and counts them. Its matches and errors must equal Lua's exactly; `tests` compares the two.

use std::borrow::Cow;

/// Most captures of a pattern.
const CAPTURES_MAX: usize = 32;

/// Most open choices: items of the pattern that could match in another way.
const CHOICES_MAX: usize = 200_000;

const ESCAPE: u8 = b'%';

/// The reason that matching failed with an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The pattern is malformed.
    Pattern(Cow<'static, str>),
    /// The budget of steps is used up.
    Stopped,
}

/// A budget of steps.
pub(super) trait Steps {
    /// Spends `n` steps; false if the matcher must stop.
    fn spend(&self, n: usize) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capture {
    Open { start: usize },
    Closed { start: usize, end: usize },
    Position { at: usize },
}

/// One capture of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Captured<'a> {
    Text(&'a [u8]),
    /// A position in the text, counted from 1.
    Position(usize),
}

/// The alternative to try after a failure.
#[derive(Clone, Copy)]
enum Choice {
    /// Continue at `at` without the optional item.
    Skip { at: usize, next: usize },
    /// Give up the last of the `more` repetitions from `at` on.
    Fewer { at: usize, more: usize, next: usize },
    /// Match one more repetition.
    More { at: usize, item: usize, end: usize },
    /// Undo the beginning of a capture.
    Unbegin,
    /// Undo the end of a capture.
    Unend { index: usize, start: usize },
}

/// Searches a text for a pattern.
pub(super) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    steps: &'a dyn Steps,
    captures: Vec<Capture>,
    choices: Vec<Choice>,
}

/// The start and the end of a match.
pub(super) type Found = (usize, usize);

impl<'a> Matcher<'a> {
    /// A matcher of `pattern` in `text`. As in Lua, a zero byte ends the pattern.
    pub(super) fn new(text: &'a [u8], pattern: &'a [u8], steps: &'a dyn Steps) -> Self {
        let len = memchr::memchr(0, pattern).unwrap_or(pattern.len());
        let pattern = &pattern[..len];
        Matcher { text, pattern, steps, captures: Vec::new(), choices: Vec::new() }
    }

    /// The first match that starts at `at` or later. If `may_anchor` is true, a leading `^` allows only a match at
    /// `at`.
    pub(super) fn find(&mut self, at: usize, may_anchor: bool) -> Result<Option<Found>, Fault> {
        let is_anchored = may_anchor && self.pattern.first() == Some(&b'^');
        let last = if is_anchored { at } else { self.text.len() };
        for start in at..=last {
            if let Some(end) = self.matches(start, usize::from(is_anchored))? {
                return Ok(Some((start, end)));
            }
        }
        Ok(None)
    }

    /// Whether the last match has captures.
    pub(super) fn has_captures(&self) -> bool {
        !self.captures.is_empty()
    }

    /// The text of a match.
    pub(super) fn text(&self, found: Found) -> &'a [u8] {
        &self.text[found.0..found.1]
    }

    /// Number of captures of the last match; without captures, the entire match counts as one.
    pub(super) fn captures(&self) -> usize {
        self.captures.len().max(1)
    }

    /// A capture of the last match. Without captures, the entire match is capture 0.
    pub(super) fn captured(&self, index: usize, found: Found) -> Result<Captured<'a>, Fault> {
        match self.captures.get(index) {
            None if index == 0 => Ok(Captured::Text(self.text(found))),
            None => Err(Fault::Pattern("invalid capture index".into())),
            Some(Capture::Open { .. }) => Err(Fault::Pattern("unfinished capture".into())),
            Some(Capture::Closed { start, end }) => Ok(Captured::Text(&self.text[*start..*end])),
            Some(Capture::Position { at }) => Ok(Captured::Position(at + 1)),
        }
    }

    fn spend(&self, n: usize) -> Result<(), Fault> {
        if self.steps.spend(n) { Ok(()) } else { Err(Fault::Stopped) }
    }

    /// A byte of the pattern; 0 past its end.
    fn at(&self, index: usize) -> u8 {
        self.pattern.get(index).copied().unwrap_or(0)
    }

    /// Matches the pattern from `item` on at `start`. Returns the end of the match.
    fn matches(&mut self, start: usize, item: usize) -> Result<Option<usize>, Fault> {
        self.captures.clear();
        self.choices.clear();
        let mut next = Some((start, item));
        loop {
            self.spend(1)?;
            next = match next {
                Some((at, item)) if item >= self.pattern.len() => return Ok(Some(at)),
                Some((at, item)) => self.step(at, item)?,
                None if self.choices.is_empty() => return Ok(None),
                None => self.choose_again()?,
            };
        }
    }

    /// Matches one item. Returns the next position and item, or None if the item does not match.
    fn step(&mut self, at: usize, item: usize) -> Result<Option<(usize, usize)>, Fault> {
        match (self.at(item), self.at(item + 1)) {
            (b'(', b')') => self.begin(Capture::Position { at }, at, item + 2),
            (b'(', _) => self.begin(Capture::Open { start: at }, at, item + 1),
            (b')', _) => self.end(at, item + 1),
            (ESCAPE, b'b') => Ok(self.balanced(at, item + 2)?.map(|end| (end, item + 4))),
            (ESCAPE, b'f') => self.frontier(at, item + 2),
            (ESCAPE, digit @ b'0'..=b'9') => {
                Ok(self.repeated(at, digit)?.map(|end| (end, item + 2)))
            }
            (b'$', 0) => Ok((at == self.text.len()).then_some((at, item + 1))),
            _ => self.single(at, item),
        }
    }

    fn single(&mut self, at: usize, item: usize) -> Result<Option<(usize, usize)>, Fault> {
        let end = self.class_end(item)?;
        let next = end + 1;
        match self.at(end) {
            b'?' => {
                if self.is_single(at, item, end) {
                    self.choose(Choice::Skip { at, next })?;
                    return Ok(Some((at + 1, next)));
                }
                Ok(Some((at, next)))
            }
            b'*' => self.most(at, item, end).map(Some),
            b'+' if self.is_single(at, item, end) => self.most(at + 1, item, end).map(Some),
            b'+' => Ok(None),
            b'-' => {
                self.choose(Choice::More { at, item, end })?;
                Ok(Some((at, next)))
            }
            _ => Ok(self.is_single(at, item, end).then_some((at + 1, end))),
        }
    }

    /// Matches as many repetitions as possible; backtracking may reduce them.
    fn most(&mut self, at: usize, item: usize, end: usize) -> Result<(usize, usize), Fault> {
        let mut more = 0;
        while self.is_single(at + more, item, end) {
            self.spend(end - item)?;
            more += 1;
        }
        if more > 0 {
            self.choose(Choice::Fewer { at, more, next: end + 1 })?;
        }
        Ok((at + more, end + 1))
    }

    fn choose(&mut self, choice: Choice) -> Result<(), Fault> {
        if self.choices.len() >= CHOICES_MAX {
            return Err(Fault::Pattern("pattern too complex".into()));
        }
        self.choices.push(choice);
        Ok(())
    }

    /// Backtracks to the last choice. Returns the next position and item, or None if this choice has no alternative
    /// left.
    fn choose_again(&mut self) -> Result<Option<(usize, usize)>, Fault> {
        Ok(match self.choices.pop().expect("somebody has looked") {
            Choice::Skip { at, next } => Some((at, next)),
            Choice::Fewer { at, more, next } => {
                if more > 1 {
                    self.choices.push(Choice::Fewer { at, more: more - 1, next });
                }
                Some((at + more - 1, next))
            }
            Choice::More { at, item, end } => {
                self.spend(end - item)?;
                let has_more = self.is_single(at, item, end);
                if has_more {
                    self.choices.push(Choice::More { at: at + 1, item, end });
                }
                has_more.then_some((at + 1, end + 1))
            }
            Choice::Unbegin => {
                self.captures.pop();
                None
            }
            Choice::Unend { index, start } => {
                self.captures[index] = Capture::Open { start };
                None
            }
        })
    }

    fn begin(
        &mut self,
        capture: Capture,
        at: usize,
        next: usize,
    ) -> Result<Option<(usize, usize)>, Fault> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Fault::Pattern("too many captures".into()));
        }
        self.captures.push(capture);
        self.choose(Choice::Unbegin)?;
        Ok(Some((at, next)))
    }

    fn end(&mut self, at: usize, next: usize) -> Result<Option<(usize, usize)>, Fault> {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open { .. });
        let Some(index) = self.captures.iter().rposition(is_open) else {
            return Err(Fault::Pattern("invalid pattern capture".into()));
        };
        if let Capture::Open { start } = self.captures[index] {
            self.captures[index] = Capture::Closed { start, end: at };
            self.choose(Choice::Unend { index, start })?;
        }
        Ok(Some((at, next)))
    }

    /// `%b`: returns the end of balanced text, from the opening byte to its closing byte.
    fn balanced(&self, at: usize, item: usize) -> Result<Option<usize>, Fault> {
        let (open, close) = (self.at(item), self.at(item + 1));
        if open == 0 || close == 0 {
            return Err(Fault::Pattern("unbalanced pattern".into()));
        }
        let mut rest = self.text.get(at..).unwrap_or_default().iter();
        if rest.next() != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (i, byte) in rest.enumerate() {
            self.spend(1)?;
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + i + 2));
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f`: matches between a byte outside of the set and one inside. Both ends of the text count as zero bytes.
    fn frontier(&self, at: usize, item: usize) -> Result<Option<(usize, usize)>, Fault> {
        if self.at(item) != b'[' {
            return Err(Fault::Pattern("missing '[' after '%f' in pattern".into()));
        }
        let end = self.class_end(item)?;
        self.spend(end - item)?;
        let before = if at == 0 { 0 } else { self.text[at - 1] };
        let behind = self.text.get(at).copied().unwrap_or(0);
        let is_present = !self.is_in(before, item, end - 1) && self.is_in(behind, item, end - 1);
        Ok(is_present.then_some((at, end)))
    }

    /// `%1` to `%9`: returns the end of a repetition of the captured text.
    fn repeated(&self, at: usize, digit: u8) -> Result<Option<usize>, Fault> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        match index.and_then(|index| self.captures.get(index)) {
            None | Some(Capture::Open { .. }) => {
                Err(Fault::Pattern("invalid capture index".into()))
            }
            Some(Capture::Position { .. }) => Ok(None),
            Some(Capture::Closed { start, end }) => {
                self.spend((end - start) / 16)?;
                let is_present = self.text[at..].starts_with(&self.text[*start..*end]);
                Ok(is_present.then_some(at + end - start))
            }
        }
    }

    /// The end of the single-character class that begins at `item`.
    fn class_end(&self, item: usize) -> Result<usize, Fault> {
        match self.at(item) {
            ESCAPE if self.at(item + 1) == 0 => {
                Err(Fault::Pattern("malformed pattern (ends with '%')".into()))
            }
            ESCAPE => Ok(item + 2),
            b'[' => {
                let mut index = item + 1;
                if self.at(index) == b'^' {
                    index += 1;
                }
                // The first byte of a set never closes it.
                loop {
                    let byte = self.at(index);
                    if byte == 0 {
                        return Err(Fault::Pattern("malformed pattern (missing ']')".into()));
                    }
                    index += 1;
                    if byte == ESCAPE && self.at(index) != 0 {
                        index += 1;
                    }
                    if self.at(index) == b']' {
                        self.spend(index - item)?;
                        return Ok(index + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Whether the byte of the text at `at` matches the class at `item`.
    fn is_single(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(byte) = self.text.get(at).copied() else { return false };
        match self.at(item) {
            b'.' => true,
            ESCAPE => is_of_class(byte, self.at(item + 1)),
            b'[' => self.is_in(byte, item, end - 1),
            other => other == byte,
        }
    }

    /// Whether a byte is in the set from `[` at `item` to `]` at `end`.
    fn is_in(&self, byte: u8, item: usize, end: usize) -> bool {
        let mut index = item + 1;
        let is_meant = self.at(index) != b'^';
        if !is_meant {
            index += 1;
        }
        while index < end {
            let is_here;
            if self.at(index) == ESCAPE {
                is_here = is_of_class(byte, self.at(index + 1));
                index += 2;
            } else if self.at(index + 1) == b'-' && index + 2 < end {
                is_here = (self.at(index)..=self.at(index + 2)).contains(&byte);
                index += 3;
            } else {
                is_here = self.at(index) == byte;
                index += 1;
            }
            if is_here {
                return is_meant;
            }
        }
        !is_meant
    }
}

/// Whether a byte belongs to a class such as `%a`. A capital letter is the complement; any other byte stands for
/// itself.
fn is_of_class(byte: u8, class: u8) -> bool {
    let is_of = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_of == class.is_ascii_lowercase()
}

#[cfg(test)]
mod tests;
