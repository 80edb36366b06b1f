-- What a script sees: the kind of every global that ARGV names and of all that is in it, and what some of
-- it does.
local seen, lines = {}, {}
local function walk(name, value)
  lines[#lines + 1] = name .. " " .. type(value)
  if type(value) == "table" and not seen[value] then
    seen[value] = true
    for key, entry in pairs(value) do walk(name .. "." .. tostring(key), entry) end
  end
end
for _, name in ipairs(ARGV) do walk(name, _G[name]) end
table.sort(lines)
local tried = {
  ("x"):upper(), math.random(1000), redis.call("PING").ok, cjson.encode({ 1 }), #cmsgpack.pack(1),
  struct.size("i"), bit.tohex(10), tostring(getmetatable("")), tostring(rawget(_G, "v0")), #KEYS,
  tostring(pcall(error, "x")), tostring(coroutine.running()), tostring(1.5),
}
return table.concat(lines, "\n") .. "\n" .. table.concat(tried, "\n")
