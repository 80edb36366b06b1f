//! Fuzzes scripts and everything that they can reach. Nothing panics. Each script gets exactly one reply. A
//! read-only script must change nothing. A user with few rights must not get further by a script than without one.
//! No script may change the environment of the next one.
//!
//! The bits of the first byte select the user and the kind of call ([`Case`]). The rest is the script's text, its
//! keys up to an empty one, and its arguments, separated by zero bytes; or the bytes from which `compose` makes a
//! script. Lua's own code is not covered: it has no coverage marks.
#![no_main]

mod compose;

use std::cell::RefCell;

use hotring_protocol::{Part, read_part};
use hotring_server::Config;
use hotring_server::fuzzing::{Connection, InProcess};
use libfuzzer_sys::fuzz_target;

/// A key, and its value, that the user with few rights must neither see nor change.
const SECRET: &[u8] = b"secret";
const SECRET_VALUE: &[u8] = b"9f2c4be1d07a";

/// The limited user: all commands except FLUSHALL and FLUSHDB, on keys and channels that begin with an a.
const RIGHTS: &[&[u8]] = &[
    b"ACL",
    b"SETUSER",
    b"limited",
    b"on",
    b"nopass",
    b"+@all",
    b"-flushall",
    b"-flushdb",
    b"~a*",
    b"&a*",
];

/// A script that lists everything that a script sees, and the results of some calls.
const SANDBOX: &[u8] = include_bytes!("sandbox.lua");

/// The names of the globals that the sandbox script lists.
const GLOBALS: &[&[u8]] = &[
    b"string",
    b"table",
    b"math",
    b"coroutine",
    b"redis",
    b"cjson",
    b"cmsgpack",
    b"struct",
    b"bit",
    b"assert",
    b"error",
    b"getmetatable",
    b"ipairs",
    b"next",
    b"pairs",
    b"pcall",
    b"rawequal",
    b"rawget",
    b"rawset",
    b"select",
    b"setmetatable",
    b"tonumber",
    b"tostring",
    b"type",
    b"unpack",
    b"xpcall",
    b"_VERSION",
    b"collectgarbage",
    b"loadstring",
    b"load",
];

/// One input.
struct Case {
    /// Bit 0: by the user with few rights. Bit 1: as EVAL_RO. Bit 2: in RESP3. Bit 3: composed.
    how: u8,
    text: String,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

impl Case {
    fn parse(input: &[u8]) -> Option<Self> {
        let (how, rest) = input.split_first()?;
        if how & 8 != 0 {
            let (text, rest) = compose::script(rest);
            let args = rest.chunks(8).take(3).map(<[u8]>::to_vec).collect();
            return Some(Case {
                how: *how,
                text,
                keys: vec![b"a1".to_vec(), b"a2".to_vec()],
                args,
            });
        }
        let mut parts = rest.split(|byte| *byte == 0);
        let text = String::from_utf8_lossy(parts.next()?).into_owned();
        let keys = parts.by_ref().take_while(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
        Some(Case { how: *how, text, keys, args: parts.map(<[u8]>::to_vec).collect() })
    }

    fn is_limited(&self) -> bool {
        self.how & 1 != 0
    }

    fn is_read_only(&self) -> bool {
        self.how & 2 != 0
    }

    fn is_resp3(&self) -> bool {
        self.how & 4 != 0
    }
}

/// The server that all inputs share, and its connections.
struct World {
    server: InProcess,
    admin: Connection,
    /// The clients of the inputs, indexed by bits 0 and 2 of [`Case::how`].
    clients: [Option<Connection>; 8],
    /// The output of the sandbox script before the first input.
    sandbox: Vec<u8>,
}

impl World {
    fn new() -> Self {
        let server = InProcess::new(Config {
            lua_time_ms: 0,
            lua_steps_max: 20_000,
            lua_memory_max: 1 << 20,
            script_cache_max: 256 << 10,
            bulk_len_max: 64 << 10,
            output_hard_max: 1 << 20,
            ..Config::default()
        });
        let admin = server.connect();
        let mut world = World { server, admin, clients: Default::default(), sandbox: Vec::new() };
        assert_eq!(world.ask(RIGHTS), b"+OK\r\n");
        world.sandbox = world.sandbox();
        assert!(world.sandbox.starts_with(b"$"), "{}", world.sandbox.escape_ascii());
        world
    }

    /// The reply to a user with all permissions.
    fn ask(&mut self, request: &[&[u8]]) -> Vec<u8> {
        self.server.ask(&mut self.admin, request).expect("it stays connected")
    }

    fn sandbox(&mut self) -> Vec<u8> {
        self.ask(&[&[b"EVAL", SANDBOX, b"0"], GLOBALS].concat())
    }

    /// The values of the keys that exist when a case begins, and the number of keys.
    fn contents(&mut self) -> [Vec<u8>; 4] {
        [&[b"GET", SECRET][..], &[b"GET", b"a1"], &[b"HGETALL", b"a2"], &[b"DBSIZE"]]
            .map(|r| self.ask(r))
    }

    fn connect(&mut self, case: &Case) -> Connection {
        let mut client = self.server.connect();
        if case.is_resp3() {
            self.server.ask(&mut client, &[b"HELLO", b"3"]).expect("it stays connected");
        }
        if case.is_limited() {
            let reply = self.server.ask(&mut client, &[b"AUTH", b"limited", b"x"]);
            assert_eq!(reply.as_deref(), Some(&b"+OK\r\n"[..]));
        }
        client
    }

    fn run(&mut self, case: &Case) {
        self.ask(&[b"FLUSHALL"]);
        self.ask(&[b"MSET", SECRET, SECRET_VALUE, b"a1", b"10"]);
        self.ask(&[b"HSET", b"a2", b"field", b"value"]);
        let before = self.contents();
        let reply = self.eval(case);
        let after = self.contents();
        if case.is_read_only() {
            assert_eq!(after, before, "a script that may only read has written: {}", case.text);
        }
        if case.is_limited() {
            assert_eq!(after[0], before[0], "written without a right to: {}", case.text);
            let seen = reply.windows(SECRET_VALUE.len()).any(|part| part == SECRET_VALUE);
            assert!(!seen, "read without a right to: {}", case.text);
        }
        let sandbox = self.sandbox();
        assert!(
            sandbox == self.sandbox,
            "the next script sees something else: {}\nafter {}",
            sandbox.escape_ascii(),
            case.text
        );
    }

    /// The reply to the script; empty if the reply was so long that the server closed the connection.
    fn eval(&mut self, case: &Case) -> Vec<u8> {
        let verb: &[u8] = if case.is_read_only() { b"EVAL_RO" } else { b"EVAL" };
        let n_keys = case.keys.len().to_string();
        let mut request = vec![verb, case.text.as_bytes(), n_keys.as_bytes()];
        request.extend(case.keys.iter().chain(&case.args).map(Vec::as_slice));
        let place = usize::from(case.how & 5);
        let mut client = match self.clients[place].take() {
            Some(client) => client,
            None => self.connect(case),
        };
        let Some(reply) = self.server.ask(&mut client, &request) else {
            self.server.close(client);
            return Vec::new();
        };
        self.clients[place] = Some(client);
        assert!(is_one_reply(&reply, case.is_resp3()), "{}: {}", case.text, reply.escape_ascii());
        reply
    }
}

/// Whether the bytes are exactly one reply, in the client's version of the protocol.
fn is_one_reply(mut rest: &[u8], is_resp3: bool) -> bool {
    let mut left = 1;
    while left > 0 {
        left -= 1;
        match read_part(&mut rest) {
            None => return false,
            Some(Part::Array(len)) => left += len,
            Some(Part::Simple(_) | Part::Error(_) | Part::Int(_) | Part::Bulk(_)) => {}
            Some(Part::Absent) if !is_resp3 => {}
            Some(_) if !is_resp3 => return false,
            Some(Part::Map(len)) => left += 2 * len,
            Some(Part::Set(len)) => left += len,
            Some(_) => {}
        }
    }
    rest.is_empty()
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

fuzz_target!(|input: &[u8]| {
    if let Some(case) = Case::parse(input) {
        WORLD.with_borrow_mut(|world| world.run(&case));
    }
});
