-- Swaps the marks of a bucket for others, if they are as they were seen. The row gets another version: who has seen it full without the mark
-- must not forget it.
-- KEYS: writes, the bucket. ARGV: the marks that were seen, the marks that follow; empty: none.

local found = redis.call("MGET", KEYS[1], KEYS[2])
local row = found[2]
if not row or row == "" then
  return 0
end
local form, _, levels = struct.unpack("<BBI2", row)
if form ~= 1 then
  return redis.error_reply("ZAROW the bucket under " .. KEYS[2] .. " is in no form that is known")
end
local at = 9 + 8 * (10 + 11 * levels)
at = at + 1 + row:byte(at)
local marks, after = struct.unpack("<I4c0", row, at)
if marks ~= ARGV[1] then
  return 0
end
local version = tonumber(found[1] or 0) + 1
local head = row:sub(1, 8) .. struct.pack("<d", version) .. row:sub(17, at - 1)
local marked = head .. struct.pack("<I4", #ARGV[2]) .. ARGV[2] .. row:sub(after)
redis.call("MSET", KEYS[1], string.format("%.0f", version), KEYS[2], marked)
return 1
