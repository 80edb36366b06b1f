//! Parses the syntax text of a command into a tree, for `COMMAND DOCS`.

/// One argument, or a group of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub kind: Kind,
    /// The word that must precede the value.
    pub token: Option<&'static str>,
    pub optional: bool,
    pub multiple: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word that stands for itself.
    Token(&'static str),
    /// A value, under the name that the syntax gives it.
    Value(&'static str),
    /// One of several arguments.
    OneOf(Vec<Argument>),
    /// Several arguments, all of them required.
    Block(Vec<Argument>),
}

/// Parses a syntax text. Panics if the text is malformed; the tests parse all texts of the table.
pub(super) fn parse(syntax: &'static str) -> Vec<Argument> {
    let mut rest = syntax;
    let parsed = alternatives(&mut rest);
    assert!(rest.is_empty(), "unbalanced brackets in {syntax:?}");
    parsed
}

/// Parses sequences separated by bars, up to a closing bracket; two or more sequences become one choice.
fn alternatives(rest: &mut &'static str) -> Vec<Argument> {
    let mut choices = vec![sequence(rest)];
    while let Some(tail) = rest.strip_prefix('|') {
        *rest = tail;
        choices.push(sequence(rest));
    }
    if choices.len() == 1 {
        return choices.swap_remove(0);
    }
    vec![plain(Kind::OneOf(choices.into_iter().map(block).collect()))]
}

fn sequence(rest: &mut &'static str) -> Vec<Argument> {
    let mut items = Vec::new();
    loop {
        *rest = rest.trim_start();
        if let Some(tail) = rest.strip_prefix('[') {
            *rest = tail;
            let group = alternatives(rest);
            *rest = rest.strip_prefix(']').expect("every bracket is closed");
            optional_group(&mut items, group);
        } else if let Some(tail) = rest.strip_prefix('<') {
            *rest = tail;
            let group = alternatives(rest);
            *rest = rest.strip_prefix('>').expect("every bracket is closed");
            items.push(block(group));
        } else if rest.is_empty() || rest.starts_with([']', '>', '|']) {
            return items;
        } else {
            let end = rest.find([' ', '[', ']', '<', '>', '|']).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            *rest = tail;
            push_word(&mut items, word);
        }
    }
}

/// Adds a word. A value right after a token takes that token as its own.
fn push_word(items: &mut Vec<Argument>, word: &'static str) {
    if word.starts_with(|c: char| c.is_ascii_uppercase()) {
        return items.push(plain(Kind::Token(word)));
    }
    let mut value = plain(Kind::Value(word));
    if let Some(Argument { kind: Kind::Token(token), optional: false, .. }) = items.last() {
        value.token = Some(token);
        items.pop();
    }
    items.push(value);
}

/// Adds the contents of brackets. If they are `[x ...]` after x, marks x as repeatable instead.
fn optional_group(items: &mut Vec<Argument>, mut group: Vec<Argument>) {
    let multiple = group.last().is_some_and(|last| last.kind == Kind::Value("..."));
    if multiple {
        group.pop();
    }
    let optional = !(multiple && items.ends_with(&group));
    if !optional {
        items.truncate(items.len() - group.len());
    }
    items.push(Argument { optional, multiple, ..block(group) });
}

/// Combines several arguments into one; a single argument is returned unchanged.
fn block(mut items: Vec<Argument>) -> Argument {
    if items.len() == 1 { items.swap_remove(0) } else { plain(Kind::Block(items)) }
}

fn plain(kind: Kind) -> Argument {
    Argument { kind, token: None, optional: false, multiple: false }
}
