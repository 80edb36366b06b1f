//! A parser for Lua 5.1 that tracks which values are keys, commands or neither.
//!
//! The parser builds no syntax tree. It follows values through expressions and local variables as it reads, and gives
//! up if a value that must be tracked is used in a way that cannot be followed. It may accept texts that Lua refuses,
//! because these never run.

use super::lexer::{Lexer, Token};
use super::value::Value;

/// Lua's own limits, which also bound the stack and the time of the parser. Here nested functions share them.
const DEPTH_MAX: usize = 100;
const LOCALS_MAX: usize = 200;
const LIST_MAX: usize = 256;

/// The precedence of a unary operator.
const UNARY: u8 = 8;

/// Globals that give access to other globals by another name, or to code that is not in the text.
const UNKNOWN: [&[u8]; 7] =
    [b"_G", b"getfenv", b"load", b"loadstring", b"rawset", b"setfenv", b"setmetatable"];

/// Parses a text. Each function returns None as soon as a proof is impossible.
pub(super) struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    /// The local variables in scope. A variable must never be assigned to unless its value is [`Value::Other`].
    locals: Vec<(&'t [u8], Value<'t>)>,
    depth: usize,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t [u8]) -> Option<Self> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Some(Parser { lexer, token, locals: Vec::new(), depth: 0 })
    }

    /// Parses the entire text.
    pub(super) fn all(mut self) -> Option<()> {
        self.block()?;
        (self.token == Token::End).then_some(())
    }

    fn advance(&mut self) -> Option<()> {
        self.token = self.lexer.next()?;
        Some(())
    }

    fn accept(&mut self, sign: &[u8]) -> Option<bool> {
        let is_present = self.token == Token::Sign(sign);
        if is_present {
            self.advance()?;
        }
        Some(is_present)
    }

    fn expect(&mut self, sign: &[u8]) -> Option<()> {
        self.accept(sign)?.then_some(())
    }

    fn name(&mut self) -> Option<&'t [u8]> {
        let Token::Name(name) = self.token else { return None };
        self.advance()?;
        Some(name)
    }

    fn names(&mut self) -> Option<Vec<&'t [u8]>> {
        let mut names = vec![self.name()?];
        while self.accept(b",")? {
            names.push(self.name()?);
            (names.len() <= LOCALS_MAX).then_some(())?;
        }
        Some(names)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        (self.depth < DEPTH_MAX).then_some(())?;
        self.depth += 1;
        let outcome = read(self);
        self.depth -= 1;
        outcome
    }

    fn declare(&mut self, name: &'t [u8], value: Value<'t>) -> Option<()> {
        (self.locals.len() < LOCALS_MAX).then(|| self.locals.push((name, value)))
    }

    /// Parses a construct with its own scope: its local variables end with it.
    fn scope(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let n_locals = self.locals.len();
        read(self)?;
        self.locals.truncate(n_locals);
        Some(())
    }

    fn block(&mut self) -> Option<()> {
        loop {
            match self.token {
                Token::End | Token::Sign(b"end" | b"else" | b"elseif" | b"until") => {
                    return Some(());
                }
                _ => self.deeper(Self::statement)?,
            }
            self.accept(b";")?;
        }
    }

    /// Parses `do`, a block and `end`.
    fn body(&mut self) -> Option<()> {
        self.expect(b"do")?;
        self.scope(Self::block)?;
        self.expect(b"end")
    }

    fn statement(&mut self) -> Option<()> {
        match self.token {
            Token::Sign(b"do") => self.body(),
            Token::Sign(b"if") => self.branches(),
            Token::Sign(b"for") => self.scope(Self::count_or_walk),
            Token::Sign(b"local") => self.local(),
            Token::Sign(b"function") => self.function_statement(),
            Token::Sign(b"break") => self.advance(),
            Token::Sign(b"while") => {
                self.advance()?;
                self.plain()?;
                self.body()
            }
            Token::Sign(b"repeat") => {
                self.advance()?;
                // The condition sees the local variables of the block.
                self.scope(|parser| {
                    parser.block()?;
                    parser.expect(b"until")?;
                    parser.plain()
                })
            }
            Token::Sign(b"return") => {
                self.advance()?;
                match self.token {
                    Token::End | Token::Sign(b"end" | b"else" | b"elseif" | b"until" | b";") => {
                        Some(())
                    }
                    _ => self.plain_list(),
                }
            }
            _ => self.call_or_assignment(),
        }
    }

    fn branches(&mut self) -> Option<()> {
        while matches!(self.token, Token::Sign(b"if" | b"elseif")) {
            self.advance()?;
            self.plain()?;
            self.expect(b"then")?;
            self.scope(Self::block)?;
        }
        if self.accept(b"else")? {
            self.scope(Self::block)?;
        }
        self.expect(b"end")
    }

    fn count_or_walk(&mut self) -> Option<()> {
        self.advance()?;
        let names = self.names()?;
        let mut element = Value::Other;
        if self.accept(b"=")? {
            self.plain_list()?;
        } else {
            self.expect(b"in")?;
            match self.list()?[..] {
                [Value::Walked] => element = Value::Key,
                ref values => Value::all_plain(values)?,
            }
        }
        for (i, name) in names.into_iter().enumerate() {
            self.declare(name, if i == 1 { element } else { Value::Other })?;
        }
        self.body()
    }

    fn local(&mut self) -> Option<()> {
        self.advance()?;
        if self.accept(b"function")? {
            let name = self.name()?;
            self.declare(name, Value::Other)?;
            return self.function(false);
        }
        let names = self.names()?;
        let values = if self.accept(b"=")? { self.list()? } else { Vec::new() };
        for (i, name) in names.into_iter().enumerate() {
            self.declare(name, Value::assigned(&values, i)?)?;
        }
        Some(())
    }

    fn function_statement(&mut self) -> Option<()> {
        self.advance()?;
        let name = self.name()?;
        let (value, mut may_assign) = self.variable(name)?;
        let mut is_method = false;
        while !is_method && matches!(self.token, Token::Sign(b"." | b":")) {
            value.plain()?;
            may_assign = true;
            is_method = self.token == Token::Sign(b":");
            self.advance()?;
            self.name()?;
        }
        may_assign.then_some(())?;
        self.function(is_method)
    }

    /// Parses the parameters and the body of a function.
    fn function(&mut self, is_method: bool) -> Option<()> {
        self.expect(b"(")?;
        self.scope(|parser| {
            if is_method {
                parser.declare(b"self", Value::Other)?;
            }
            while let Token::Name(name) = parser.token {
                parser.declare(name, Value::Other)?;
                parser.advance()?;
                parser.accept(b",")?;
            }
            if parser.accept(b"...")? {
                // Lua 5.1 gives such a function its arguments as a table, too.
                parser.declare(b"arg", Value::Other)?;
            }
            parser.expect(b")")?;
            parser.block()
        })?;
        self.expect(b"end")
    }

    fn call_or_assignment(&mut self) -> Option<()> {
        let (value, mut may_assign) = self.suffixed()?;
        if !matches!(self.token, Token::Sign(b"=" | b",")) {
            return value.plain();
        }
        while self.accept(b",")? {
            may_assign &= self.suffixed()?.1;
        }
        may_assign.then_some(())?;
        self.expect(b"=")?;
        self.plain_list()
    }

    /// Parses a list of expressions, of which only the last may yield several values.
    fn list(&mut self) -> Option<Vec<Value<'t>>> {
        let mut values = vec![self.expression(0)?];
        while self.accept(b",")? {
            if let Some(last) = values.last_mut() {
                *last = last.single();
            }
            values.push(self.expression(0)?);
            (values.len() <= LIST_MAX).then_some(())?;
        }
        Some(values)
    }

    fn plain_list(&mut self) -> Option<()> {
        Value::all_plain(&self.list()?)
    }

    fn plain(&mut self) -> Option<()> {
        self.expression(0)?.plain()
    }

    /// Parses operands that are joined by operators of a higher precedence than `priority`.
    fn expression(&mut self, priority: u8) -> Option<Value<'t>> {
        self.deeper(|parser| {
            let mut value = parser.operand()?;
            while let Token::Sign(operator) = parser.token
                && let Some((left, right)) = priorities(operator)
                && left > priority
            {
                parser.advance()?;
                let second = parser.expression(right)?;
                value = value.joined(operator, second)?;
            }
            Some(value)
        })
    }

    fn operand(&mut self) -> Option<Value<'t>> {
        let value = match self.token {
            Token::Sign(b"#") => {
                self.advance()?;
                let value = self.expression(UNARY)?;
                if value != Value::Keys {
                    value.plain()?;
                }
                return Some(Value::Other);
            }
            Token::Sign(b"not" | b"-") => {
                self.advance()?;
                self.expression(UNARY)?.plain()?;
                return Some(Value::Other);
            }
            Token::Sign(b"function") => {
                self.advance()?;
                self.function(false)?;
                return Some(Value::Other);
            }
            Token::Sign(b"{") => {
                self.table()?;
                return Some(Value::Other);
            }
            Token::Sign(b"nil" | b"true" | b"false") | Token::Encoded => Value::Other,
            Token::Sign(b"...") => Value::Many,
            Token::Text(text) => Value::Text(text),
            Token::Number(number) => Value::number(number),
            _ => return Some(self.suffixed()?.0),
        };
        self.advance()?;
        Some(value)
    }

    fn table(&mut self) -> Option<()> {
        self.expect(b"{")?;
        while self.token != Token::Sign(b"}") {
            match self.token {
                Token::Sign(b"[") => {
                    self.advance()?;
                    self.plain()?;
                    self.expect(b"]")?;
                    self.expect(b"=")?;
                }
                Token::Name(_) if { self.lexer }.next()? == Token::Sign(b"=") => {
                    self.advance()?;
                    self.advance()?;
                }
                _ => {}
            }
            self.plain()?;
            if !self.accept(b",")? && !self.accept(b";")? {
                break;
            }
        }
        self.expect(b"}")
    }

    /// The value of a variable, and whether the script may assign to it.
    fn variable(&self, name: &[u8]) -> Option<(Value<'t>, bool)> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return Some((*value, *value == Value::Other));
        }
        let value = match name {
            b"KEYS" => Value::Keys,
            b"redis" => Value::Redis,
            b"unpack" => Value::Unpack,
            b"ipairs" | b"pairs" => Value::Walk,
            name if UNKNOWN.contains(&name) => return None,
            _ => Value::Other,
        };
        Some((value, false))
    }

    /// Parses a variable or a value in parentheses, followed by indices and calls. Also returns whether the script may
    /// assign to that expression.
    fn suffixed(&mut self) -> Option<(Value<'t>, bool)> {
        let (mut value, mut may_assign) = match self.token {
            Token::Name(name) => {
                self.advance()?;
                self.variable(name)?
            }
            _ => {
                self.expect(b"(")?;
                let value = self.expression(0)?.single();
                (value != Value::Walked).then_some(())?;
                self.expect(b")")?;
                (value, false)
            }
        };
        loop {
            (value, may_assign) = match self.token {
                Token::Sign(b".") => {
                    self.advance()?;
                    let name = self.name()?;
                    (value.field(name)?, value == Value::Other)
                }
                Token::Sign(b"[") => {
                    self.advance()?;
                    self.plain()?;
                    self.expect(b"]")?;
                    (value.element()?, value == Value::Other)
                }
                Token::Sign(b":") => {
                    self.advance()?;
                    self.name()?;
                    value.plain()?;
                    Value::all_plain(&self.arguments()?)?;
                    (Value::Many, false)
                }
                Token::Sign(b"(" | b"{") | Token::Text(_) | Token::Encoded => {
                    (value.called(&self.arguments()?)?, false)
                }
                _ => return Some((value, may_assign)),
            };
        }
    }

    /// Parses the arguments of a call: a list, one string or one table.
    fn arguments(&mut self) -> Option<Vec<Value<'t>>> {
        if self.token == Token::Sign(b"{") || !self.accept(b"(")? {
            return Some(vec![self.operand()?]);
        }
        let values = if self.token == Token::Sign(b")") { Vec::new() } else { self.list()? };
        self.expect(b")")?;
        Some(values)
    }
}

/// The precedence of a binary operator towards its left and its right operand; None if it is no binary operator.
fn priorities(operator: &[u8]) -> Option<(u8, u8)> {
    Some(match operator {
        b"or" => (1, 1),
        b"and" => (2, 2),
        b"<" | b">" | b"<=" | b">=" | b"~=" | b"==" => (3, 3),
        b".." => (5, 4),
        b"+" | b"-" => (6, 6),
        b"*" | b"/" | b"%" => (7, 7),
        b"^" => (10, 9),
        _ => return None,
    })
}
