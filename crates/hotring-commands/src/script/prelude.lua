-- What a script sees, and what it does not. Loaded once for each interpreter, with the functions of
-- Rust; returns the function that runs a script, and the environment of all scripts.
--
-- All runs share the globals and the libraries, and none can change them. Only KEYS, ARGV and redis.call belong
-- to a run. Nothing else leads from one run to the next.

local native = ...
local error, getmetatable, loadstring, pairs, select, setfenv, setmetatable, tostring, type =
  error, getmetatable, loadstring, pairs, select, setfenv, setmetatable, tostring, type
local pcall, xpcall, resume = pcall, xpcall, coroutine.resume
local concat = table.concat
local string_sub = string.sub
local collect = collectgarbage

-- Errors of Rust's functions are objects of its own; a script sees tables and strings.
local unwrap = native.unwrap

local function unwrapped(ok, ...)
  if ok then return ok, ... end
  return ok, unwrap((...))
end

-- As Redis's own: of a table its text.
local function told(ok, ...)
  if ok then return ok, ... end
  local err = unwrap((...))
  if type(err) == "table" and type(err.err) == "string" then err = err.err end
  return ok, err
end
local function own_pcall(...)
  -- Lua would name a line of this file.
  if select("#", ...) == 0 then return false, "bad argument #1 to 'pcall' (value expected)" end
  return told(pcall(...))
end

-- Where a script has to end, its handler is not asked: Lua would let it run unwatched.
local function own_xpcall(...)
  local f, handler = ...
  if select("#", ...) < 2 then error("bad argument #2 to 'xpcall' (value expected)", 2) end
  return xpcall(f, function(err)
    if native.is_over() then return end
    return handler(unwrap(err))
  end)
end
function coroutine.resume(...) return unwrapped(resume(...)) end

-- What Lua has in C and nothing could end.
local text = native.text
local search, gsub_args, gsub_text = text.search, text.gsub_args, text.gsub
string.find, string.match, string.gmatch, string.rep = text.find, text.match, text.gmatch, text.rep
table.insert, table.remove = text.insert, text.remove

-- A part of a text that is replaced: where it begins and ends, and what becomes of it.
local function replacement(by, from, to, ...)
  if from == nil then return end
  local value
  if type(by) == "function" then value = by(...) else value = by[(...)] end
  return from, to, value
end

function string.gsub(...)
  local subject, pattern, by = ...
  local kind = type(by)
  if kind ~= "function" and kind ~= "table" then
    local result, count = gsub_text(...)
    return result, count
  end
  local max
  subject, pattern, max = gsub_args(...)
  local is_anchored = string_sub(pattern, 1, 1) == "^"
  local parts, n, count, at = {}, 0, 0, 0
  while count < max do
    local from, to, value = replacement(by, search(subject, pattern, at, true))
    if from == nil then break end
    if not value then
      value = string_sub(subject, from + 1, to)
    elseif type(value) ~= "string" and type(value) ~= "number" then
      error("invalid replacement value (a " .. type(value) .. ")", 2)
    end
    count = count + 1
    parts[n + 1], parts[n + 2] = string_sub(subject, at + 1, from), value
    n, at = n + 2, to
    if from == to then
      if to == #subject then break end
      -- An empty match: the byte behind it stays.
      parts[n + 1] = string_sub(subject, to + 1, to + 1)
      n, at = n + 1, to + 1
    end
    if is_anchored then break end
  end
  parts[n + 1] = string_sub(subject, at + 1)
  return concat(parts), count
end

-- Lua's own comparison runs in C: of many values it is asked for in Lua, where the run is looked at.
local sort = table.sort
local SORTED_MAX = 1000
local function less(a, b) return a < b end
function table.sort(...)
  local values, by = ...
  if type(values) ~= "table" then
    error("bad argument #1 to 'sort' (table expected, got " .. type(values) .. ")", 2)
  end
  if #values > SORTED_MAX then
    if by == nil then
      by = less
    elseif type(by) == "function" then
      local given = by
      by = function(a, b) return given(a, b) end
    end
  end
  return sort(values, by)
end

-- The one metatable that all runs share.
getmetatable("").__metatable = false

-- Redis's own generator, begun anew by each run: all servers draw the same numbers.
math.random, math.randomseed = native.random, native.seed

-- Its `call` runs the server's commands, as long as a run lasts. It is a function of C, so that its caller's line is
-- known also where it is called last.
local redis = native.redis

function redis.pcall(...)
  local ok, reply = pcall(redis.call, ...)
  if ok then return reply end
  return unwrap(reply)
end

function redis.error_reply(...)
  local text = ...
  if select("#", ...) ~= 1 or type(text) ~= "string" then
    return { err = "ERR wrong number or type of arguments" }
  end
  return { err = native.error_text(text) }
end

function redis.status_reply(...)
  local text = ...
  if select("#", ...) ~= 1 or type(text) ~= "string" then
    return { err = "ERR wrong number or type of arguments" }
  end
  return { ok = text }
end

-- Effects are replicated, as in Redis since version 7; there is nothing to choose.
function redis.replicate_commands() return true end

redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL = 0, 1, 2, 2, 3

local libraries = {
  string = string, table = table, math = math, coroutine = coroutine, redis = redis,
  cjson = native.cjson, cmsgpack = native.cmsgpack, struct = native.struct, bit = native.bit,
}

local globals = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs,
  pcall = own_pcall, rawequal = rawequal, select = select, setmetatable = setmetatable, tonumber = tonumber, tostring = tostring,
  type = type, unpack = unpack, xpcall = own_xpcall, _VERSION = _VERSION,
}

-- The other ways to use it would outlast the run.
function globals.collectgarbage(what)
  if what == nil or what == "collect" or what == "count" or what == "step" then
    return collect(what)
  end
  return 0
end

local function refuse()
  error("Attempt to modify a readonly table", 2)
end

-- A table that no script may change: scripts have a stand-in, and this is what is behind it.
local behind = native.base.behind

local function read_only(original)
  local shown = setmetatable({}, { __index = original, __newindex = refuse, __metatable = false })
  behind[shown] = original
  return shown
end

for name, library in pairs(libraries) do globals[name] = read_only(library) end
local environment = read_only(globals)
globals._G = environment

-- In C: their errors name the caller's line.
globals.pairs, globals.next = native.base.pairs, native.base.next
globals.rawget, globals.rawset = native.base.rawget, native.base.rawset

-- Chunks get the script's globals, and are text: bytecode could do anything.
local function load_text(text, name)
  if type(text) ~= "string" or string_sub(text, 1, 1) == "\27" then
    return nil, "only text can be loaded"
  end
  local f, reason = loadstring(text, name)
  if f then setfenv(f, environment) end
  return f, reason
end
globals.loadstring = load_text

function globals.load(...)
  local next_part, name = ...
  if type(next_part) ~= "function" then
    local kind = select("#", ...) == 0 and "no value" or type(next_part)
    error("bad argument #1 to 'load' (function expected, got " .. kind .. ")", 2)
  end
  local parts = {}
  while true do
    local part = next_part()
    if part == nil or part == "" then break end
    parts[#parts + 1] = part
  end
  return load_text(concat(parts), name or "=(load)")
end

setmetatable(globals, { __index = function(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end })

local function handle(err)
  err = unwrap(err)
  if type(err) ~= "table" then err = { err = "ERR " .. tostring(err) } end
  local line = native.line()
  if line then err.source, err.line = "@user_script", line end
  return err
end

local function run(script, keys, argv, call)
  globals.KEYS, globals.ARGV, redis.call = keys, argv, call
  local ok, result = xpcall(script, handle)
  -- What the run has used must not stay.
  globals.KEYS, globals.ARGV, redis.call = nil, nil, nil
  return ok, result
end

return run, environment
