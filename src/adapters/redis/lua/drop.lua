-- Clears away entries of indexes, and the keys that they name where these are empty. KEYS and ARGV are those of drops.ts.
-- For each key: what its value must be and the number of its hints; the indexes follow it in KEYS. A value must be empty (''), anything ('*'),
-- of a version, by which it goes itself ('-VERSION'), or of a version, by which it stays ('VERSION').
local key, arg, dropped = 0, 0, 0
while key < #KEYS do
  local name, expected, hints = KEYS[key + 1], ARGV[arg + 1], tonumber(ARGV[arg + 2])
  local value = redis.call('GET', name) or ''
  -- Buckets have no lines, and never a version that is asked for.
  local version = string.match(value, '^[^\n]*')
  local goes = expected == '*' or (value == '' and expected == '') or (value ~= '' and expected == '-' .. version)
  if goes or (value ~= '' and expected == version) then
    for i = 1, hints do
      redis.call('ZREM', KEYS[key + 1 + i], ARGV[arg + 2 + i])
    end
    if goes then
      dropped = dropped + redis.call('DEL', name)
    end
  end
  key, arg = key + 1 + hints, arg + 2 + hints
end
return dropped
