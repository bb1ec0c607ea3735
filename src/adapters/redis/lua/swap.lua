-- Replaces values, all of them or none, if each of them is as the client has seen it.
-- KEYS: writes; the keys of the values; indexes. ARGV: how many values there are; of each the form, what it is, and what it becomes; then pairs
-- of the place of an index among KEYS and a member of it, which must be there: they go ahead, and may have been swept since.
-- Forms: `row`, a bucket, which is compared by its version (8 bytes, empty: there is none); `record`, which gets a version before its first line;
-- `text`. The last two are compared whole. An empty value is none.
--
-- Replies 0 if it was done, the place of the first value that is another one, or -1 if an index lacks a member.

local found = redis.call("MGET", unpack(KEYS))
local version = string.format("%.0f", tonumber(found[1] or 0) + 1)
local writes = { KEYS[1], version }
local count = tonumber(ARGV[1])
for i = 1, count do
  local form, is, becomes = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  local value = found[1 + i] or ""
  if form == "row" and value ~= "" then
    value = value:sub(9, 16)
  end
  if value ~= is then
    return i
  end
  if becomes ~= "" and form == "row" then
    becomes = becomes:sub(1, 8) .. struct.pack("<d", version) .. becomes:sub(17)
  elseif becomes ~= "" and form == "record" then
    becomes = version .. "\n" .. becomes
  end
  writes[#writes + 1] = KEYS[1 + i]
  writes[#writes + 1] = becomes
end
for at = 3 * count + 2, #ARGV, 2 do
  if not redis.call("ZSCORE", KEYS[tonumber(ARGV[at])], ARGV[at + 1]) then
    return -1
  end
end
redis.call("MSET", unpack(writes))
return 0
