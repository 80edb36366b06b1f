//! Composes Lua scripts from bytes, so that the fuzzer reaches every function and command that scripts can call.
//!
//! Lua must be able to parse the script, whatever the bytes are. Each byte decides one step of a grammar. After the
//! last byte, each step takes its first alternative.

use std::fmt::Write;

use hotring_commands::table::specs;

/// Variables that every script has.
const VARIABLES: &[&str] = &["v0", "v1", "v2", "v3"];

/// Most levels of nested expressions and blocks.
const DEPTH_MAX: usize = 5;

/// Numbers at the limits of the types that they are converted to.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "0.5",
    "-3.99",
    "127",
    "128",
    "255",
    "256",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967296",
    "9007199254740993",
    "9223372036854775808",
    "-9223372036854775809",
    "1e308",
    "-1e308",
    "1e-320",
    "(0/0)",
    "(1/0)",
    "(-1/0)",
    "-0",
];

/// Texts with a meaning for some command.
const TEXTS: &[&str] = &[
    "''",
    "'a1'",
    "'a2'",
    "'a3'",
    "'secret'",
    "'field'",
    "'OK\\r\\n+OK'",
    "'\\r\\n'",
    "'\\0\\255'",
    "'nan'",
    "'-inf'",
    "'0x10'",
    "'9223372036854775808'",
    "'1e400'",
    "'EX'",
    "'GET'",
    "'NX'",
    "'[1,{\"a\":null}]'",
    "'[[[[[[[['",
    "'{\"a\":1e999}'",
    "'\\222\\255\\255\\255\\255'",
    "'\\147\\1\\2\\3'",
    "'>i8!4sc0c3xH'",
    "'<bBhHlLfd'",
    "'i99'",
    "'return ...'",
    "'MY error'",
    "'*'",
    "'user_script'",
    "'(.-)%s*$'",
    "'%b()'",
    "'%f[%w]%w+'",
    "'.-.-.-.-b'",
    "'^()[^%]a-]*%1'",
    "('x*'):rep(14000)",
    "('a'):rep(50000)",
    "('('):rep(70000)",
];

/// Functions that any arguments are passed to.
const FUNCTIONS: &[&str] = &[
    "redis.error_reply",
    "redis.status_reply",
    "redis.sha1hex",
    "redis.log",
    "redis.setresp",
    "redis.replicate_commands",
    "redis.set_repl",
    "cjson.encode",
    "cjson.decode",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "struct.pack",
    "struct.unpack",
    "struct.size",
    "bit.tobit",
    "bit.tohex",
    "bit.bnot",
    "bit.band",
    "bit.bor",
    "bit.bxor",
    "bit.lshift",
    "bit.rshift",
    "bit.arshift",
    "bit.rol",
    "bit.ror",
    "bit.bswap",
    "math.random",
    "math.randomseed",
    "math.floor",
    "tostring",
    "tonumber",
    "type",
    "unpack",
    "select",
    "next",
    "pairs",
    "ipairs",
    "rawget",
    "rawset",
    "rawequal",
    "setmetatable",
    "getmetatable",
    "assert",
    "error",
    "pcall",
    "xpcall",
    "loadstring",
    "load",
    "collectgarbage",
    "table.concat",
    "table.insert",
    "table.remove",
    "string.format",
    "string.byte",
    "string.char",
    "string.sub",
    "string.lower",
    "string.find",
    "string.match",
    "string.gmatch",
    "string.gsub",
    "string.rep",
    "table.sort",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.status",
    "coroutine.running",
];

/// Names of fields that turn a table into another kind of reply, and of the fields of metatables.
const FIELDS: &[&str] = &[
    "ok",
    "err",
    "double",
    "map",
    "set",
    "big_number",
    "verbatim_string",
    "format",
    "string",
    "source",
    "line",
    "__index",
    "__newindex",
    "__call",
    "__tostring",
    "__metatable",
    "__len",
    "__eq",
    "__concat",
    "__gc",
    "x",
];

/// Targets that a script may try to assign to.
const PLACES: &[&str] = &[
    "_G.v0",
    "string.upper",
    "redis.call",
    "redis.pcall",
    "cjson.encode",
    "math.random",
    "KEYS[1]",
    "ARGV[1]",
    "KEYS",
    "pcall",
    "tostring",
    "table.concat",
];

/// The text of a script, and the bytes that are left over.
pub fn script(bytes: &[u8]) -> (String, &[u8]) {
    let mut composer =
        Composer { bytes, text: String::from("local v0, v1, v2, v3 = {}, 'a1', 3\n"), depth: 0 };
    composer.block();
    composer.text.push_str("return ");
    composer.expression();
    (composer.text, composer.bytes)
}

struct Composer<'a> {
    bytes: &'a [u8],
    text: String,
    depth: usize,
}

impl Composer<'_> {
    fn byte(&mut self) -> usize {
        let (first, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        usize::from(*first)
    }

    /// Writes one of several texts.
    fn one_of(&mut self, texts: &[&str]) {
        let n = self.byte();
        self.text.push_str(texts[n % texts.len()]);
    }

    /// Writes what `parts` says: `$` stands for an expression, `@` for a variable, `%` for a block.
    fn write(&mut self, parts: &str) {
        for part in parts.chars() {
            match part {
                '$' => self.expression(),
                '@' => self.one_of(VARIABLES),
                '%' => self.block(),
                other => self.text.push(other),
            }
        }
    }

    fn block(&mut self) {
        self.depth += 1;
        let n = if self.depth < DEPTH_MAX { self.byte() % 4 } else { 0 };
        (0..n).for_each(|_| self.statement());
        self.depth -= 1;
    }

    fn statement(&mut self) {
        match self.byte() % 16 {
            0 | 1 => self.write("@ = $\n"),
            2 => self.write("if $ then\n%else\n%end\n"),
            3 => self.write("for i = 1, 3 do\n%end\n"),
            4 => self.write("for k, v in pairs(type(v0) == 'table' and v0 or {}) do @ = k\n%end\n"),
            5 => self.write("@ = pcall(function(...)\n%end, $)\n"),
            6 => self.write("@, @ = xpcall(function()\n%end, function(e) @ = e return $ end)\n"),
            7 => self.write("@ = function(...)\n%return $ end\n"),
            8 => self.write("@ = coroutine.wrap(function(...)\n%coroutine.yield($)\n%end)\n"),
            9 => self.write("do return $ end\n"),
            10 => self.write("error($)\n"),
            11 => self.write("pcall(setmetatable, @, $)\n"),
            12 => self.write("if type(@) == 'table' then pcall(rawset, @, $, $) end\n"),
            13 => {
                self.text.push_str("pcall(function() ");
                self.one_of(PLACES);
                self.write(" = $ end)\n");
            }
            _ => {
                self.write("@ = ");
                self.command();
                self.text.push('\n');
            }
        }
    }

    fn expression(&mut self) {
        if self.depth >= DEPTH_MAX {
            return self.leaf();
        }
        self.depth += 1;
        match self.byte() % 18 {
            0..=4 => self.leaf(),
            5..=6 => self.table(),
            7..=9 => self.call(),
            10..=11 => self.command(),
            12 => self.write("($ .. $)"),
            13 => self.write("(function(...) return $, $ end)"),
            // A long table whose values are separate objects.
            14 => self.write("(function() local t = {} for i = 1, 9000 do t[i] = {$} end return t end)()"),
            15 => self.write("('x'):gsub('.', function(...) return $ end)"),
            16 => self.write("#(type(@) == 'number' and '' or $)"),
            _ => self.write("select(-1, pcall(@, $))"),
        }
        self.depth -= 1;
    }

    fn leaf(&mut self) {
        match self.byte() % 8 {
            0 => self.one_of(&["nil", "true", "false", "{}"]),
            1 => self.one_of(NUMBERS),
            2 => self.one_of(TEXTS),
            3 => self.raw_text(),
            4 => self.one_of(&["KEYS[1]", "KEYS[2]", "KEYS[3]", "KEYS"]),
            5 => self.one_of(&["ARGV[1]", "ARGV[2]", "ARGV[3]", "ARGV"]),
            _ => self.write("@"),
        }
    }

    /// Up to 15 bytes as they are.
    fn raw_text(&mut self) {
        self.text.push('\'');
        for _ in 0..self.byte() % 16 {
            let byte = self.byte();
            let _ = write!(self.text, "\\{byte:03}");
        }
        self.text.push('\'');
    }

    fn table(&mut self) {
        self.text.push('{');
        for _ in 0..self.byte() % 5 {
            match self.byte() % 3 {
                0 => {}
                1 => {
                    self.one_of(FIELDS);
                    self.text.push('=');
                }
                // A key that is nil or NaN would end the script; text is always a valid key.
                _ => self.write("[tostring($)]="),
            }
            self.write("$,");
        }
        self.text.push('}');
    }

    fn call(&mut self) {
        self.one_of(FUNCTIONS);
        self.arguments();
    }

    fn arguments(&mut self) {
        self.text.push('(');
        for i in 0..self.byte() % 5 {
            self.write(if i == 0 { "$" } else { ", $" });
        }
        self.text.push(')');
    }

    /// A command of the server, with any arguments.
    fn command(&mut self) {
        self.one_of(&["redis.call", "redis.pcall"]);
        let n = self.byte() % specs().count();
        let spec = specs().nth(n).expect("there are so many");
        let _ = write!(self.text, "('{}'", spec.name.replace('|', "', '"));
        let n_names = 1 + usize::from(spec.parent.is_some());
        let n_args = match self.byte() {
            0 => 0,
            n => usize::from(spec.arity.unsigned_abs()) - n_names + n % 3,
        };
        (0..n_args).for_each(|_| self.write(", $"));
        self.text.push(')');
    }
}
