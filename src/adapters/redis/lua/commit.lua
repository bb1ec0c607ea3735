-- Commits a change of one namespace: all of it in one MSET, or nothing. KEYS and ARGV are those of commit-script.ts.
-- KEYS: generation, changes, writes, audit count, the event or the generation again; then the guards, the puts, the indexes of hints and of counts.
local MSET_MAX = 3500

local expected, bump, touched, keptMax, auditNumber = ARGV[1], ARGV[2] == '1', ARGV[3], tonumber(ARGV[4]), ARGV[5]
local sent, guards, puts, hints, counts = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local key, arg = 5, 10

local function numberIn(text)
  return tonumber(text or '0') or 0
end

local function textOf(number)
  return string.format('%.0f', number)
end

-- The first line of a record.
local function versionOf(value)
  return value and string.match(value, '^[^\n]*') or ''
end

local generation = numberIn(redis.call('GET', KEYS[1]))
local writes = numberIn(redis.call('GET', KEYS[3]))
if sent ~= '' then
  -- The last line is the generation that the change made. Clients repeat what is sent for the first time, too; then it is the one that it would make.
  local made = string.match(redis.call('GET', KEYS[5]) or '', '[^\n]*$')
  if made ~= '' and (sent == 'again' or (expected ~= '' and made == textOf(tonumber(expected) + 1))) then
    return { 'done', made, textOf(writes) }
  end
end
if expected ~= '' and tonumber(expected) ~= generation then
  return { 'moved' }
end
for i = 1, guards do
  local version = versionOf(redis.call('GET', KEYS[key + i]))
  if version == '' then version = '0' end
  if version ~= ARGV[arg + i] then
    return { 'moved' }
  end
end
key, arg = key + guards, arg + guards
local putKey, putArg = key, arg
key, arg = key + puts, arg + puts
-- What is written must be found by its indexes.
for i = 1, hints do
  if not redis.call('ZSCORE', KEYS[key + i], ARGV[arg + i]) then
    return { 'hint' }
  end
end
key, arg = key + hints, arg + hints
for i = 1, counts do
  local at = arg + 3 * (i - 1)
  if redis.call('ZLEXCOUNT', KEYS[key + i], ARGV[at + 1], ARGV[at + 2]) ~= tonumber(ARGV[at + 3]) then
    return { 'count' }
  end
end
if auditNumber ~= '' and numberIn(redis.call('GET', KEYS[4])) ~= tonumber(auditNumber) - 1 then
  return { 'audit', textOf(numberIn(redis.call('GET', KEYS[4]))) }
end

local version = textOf(writes + 1)
local reply = { 'done', textOf(generation), version }
local written = { KEYS[3], version }
if auditNumber ~= '' then
  written[3], written[4] = KEYS[4], auditNumber
end
if bump then
  local next = textOf(generation + 1)
  reply[2] = next
  written[#written + 1], written[#written + 2] = KEYS[1], next
  if touched ~= '' then
    -- A line for each change; a text of JSON has no line end within.
    local known = string.match(redis.call('GET', KEYS[2]) or '', '^%[(.*)%]$') or ''
    local _, lines = string.gsub(known, '\n', '\n')
    if lines >= keptMax - 1 then
      known = string.gsub(known, '^[^\n]*\n', '')
    end
    local entry = '[' .. next .. ',' .. touched .. ']'
    written[#written + 1] = KEYS[2]
    written[#written + 1] = '[' .. (known == '' and entry or known .. ',\n' .. entry) .. ']'
  end
end
for i = 1, puts do
  local name, text = KEYS[putKey + i], ARGV[putArg + i]
  -- By what it was found until now, for whoever clears the indexes.
  reply[#reply + 1] = string.match(redis.call('GET', name) or '', '^[^\n]*\n([^\n]*)') or ''
  written[#written + 1] = name
  written[#written + 1] = text == '' and '' or version .. '\n' .. text
end
-- More than one only for changes of thousands of records.
for from = 1, #written, 2 * MSET_MAX do
  redis.call('MSET', unpack(written, from, math.min(from + 2 * MSET_MAX - 1, #written)))
end
return reply
