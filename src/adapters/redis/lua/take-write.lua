-- Writes what take-judge.lua has decided, all of it at once, and answers.

-- Hints go ahead of this script, so that indexes name every key. What is new may have been swept from them since.
local hints_at = hours_at + 4 * hour_count
local function require_hints(first, last)
  if first == 0 then
    return need(NEEDS_HINTS, 0, 0)
  end
  for hint = first, last do
    local index, member = batch[hints_at + 2 * hint - 1], batch[hints_at + 2 * hint]
    if not redis.call("ZSCORE", KEYS[index], ARGV[first_text + member]) then
      need(NEEDS_HINTS, 0, 0)
    end
  end
end

local version = tonumber(found[3] or 0) + 1
local writes, told = {}, {}
local function write(key, value)
  writes[#writes + 1] = key
  writes[#writes + 1] = value
end
for i = 1, bucket_count do
  local row, value, bytes = rows[i], values[i], ""
  if changed[i] > 0 then
    row[VERSION] = version
    value = value:sub(1, 8) .. moving_of(row, level_counts[i]) .. value:sub(9 + 8 * (HEAD + MOVING * level_counts[i]))
    values[i], is_written = value, true
    write(KEYS[KEYS_BEFORE + i], value)
    if changed[i] == 2 then
      require_hints(bucket_hints[i], bucket_hints[i] + 1)
    end
  end
  if row and not (is_new[i] and changed[i] == 0) then
    bytes = shown[i] and value or value:sub(1, row[texts_of(i) + 3] - 1)
  end
  told[2 * i - 1], told[2 * i] = pack("<I4", #bytes), bytes
end

-- Counts are decimal texts, and numbers of two parts in between: of 15 digits each, the lower ones as `low`.
local BASE = 1e15
local function sum_of(decimal)
  local sign, digits = decimal:match("^(-?)(%d+)$")
  local unit = sign == "-" and -1 or 1
  return { unit * (tonumber(digits:sub(1, -16)) or 0), unit * tonumber(digits:sub(-15)) }
end
-- The lower parts stay below 10^15, so that no sum of two passes 2^53.
local function add(sum, high, low)
  low = sum[2] + low
  local carry = low < 0 and -floor(-low / BASE) or floor(low / BASE)
  sum[1], sum[2] = sum[1] + high + carry, low - carry * BASE
end
local function decimal_of(sum)
  local high, low = unpack(sum)
  if high > 0 and low < 0 then
    high, low = high - 1, low + BASE
  elseif high < 0 and low > 0 then
    high, low = high + 1, low - BASE
  end
  return high == 0 and text(low + 0) or string.format("%.0f%015.0f", high, math.abs(low))
end
if line_top > 0 then
  local place_of, sums = {}, {}
  for place = hours_at, hints_at - 4, 4 do
    place_of[batch[place + 1] .. " " .. text(batch[place + 2])] = place
  end
  for line = 1, line_top, 5 do
    local place = place_of[lines[line] .. " " .. text(lines[line + 1])]
    if place then
      local of_hour = sums[place] or {}
      sums[place] = of_hour
      local counter = lines[line + 2]
      local sum = of_hour[counter] or { 0, 0 }
      of_hour[counter] = sum
      add(sum, lines[line + 3], lines[line + 4])
    else
      need(NEEDS_HOUR, lines[line], lines[line + 1])
    end
  end
  for place, of_hour in pairs(sums) do
    local key = batch[place + 3]
    local counters = found[key] and cjson.decode(found[key]) or {}
    for counter, sum in pairs(of_hour) do
      add(sum, unpack(sum_of(counters[counter] or "0")))
      counters[counter] = decimal_of(sum)
    end
    local all = {}
    for counter, decimal in pairs(counters) do
      all[#all + 1] = cjson.encode(counter) .. ':"' .. decimal .. '"'
    end
    write(KEYS[key], "{" .. table.concat(all, ",") .. "}")
    if not found[key] then
      require_hints(batch[place + 4], batch[place + 4] + 1)
    end
  end
end

local function row_json(i)
  local row, width = rows[i], texts_of(i)
  local all, limits = {}, parsed("<I4c0", values[i], row[width + 3])
  for k = 1, width do
    all[k] = json(row[k])
  end
  local marks = row[width + 2]
  return '{"limits":' .. cjson.encode(limits) .. ',"signature":' .. cjson.encode(row[width + 1])
    .. ',"marks":' .. (marks == "" and "null" or cjson.encode(marks)) .. ',"numbers":[' .. table.concat(all, ",") .. "]}"
end
for _, draft in ipairs(drafted) do
  local q, said = unpack(draft)
  local request, own = requests[q], first_draft + 4 * (requests[q][6] - 1)
  local lease, key, forgotten_ms, lease_hint, key_hint = unpack(drafts[q], 1, 5)
  local buckets, claim = {}, 6
  for c = 1, request[5] do
    buckets[c] = '{"levels":' .. said[c] .. ',"row":' .. row_json(request[claim + 1]) .. "}"
    claim = claim + request[claim + 2]
  end
  local body = ARGV[own + 4] .. table.concat(buckets, ",") .. "]}"
  if lease > 0 then
    write(KEYS[lease], text(version) .. "\n" .. ARGV[own + 3] .. "\n" .. body)
    require_hints(lease_hint, lease_hint)
  end
  if key > 0 then
    local mark, forgotten = key_bodies[q], text(forgotten_ms)
    write(KEYS[key], text(version) .. '\n{"forgottenAtMs":' .. forgotten .. '}\n{"mark":' .. cjson.encode(mark.mark) .. ',"fingerprint":'
      .. cjson.encode(mark.fingerprint) .. ',"untilMs":' .. text(mark.untilMs) .. ',"forgottenAtMs":' .. forgotten .. ',"drafted":' .. body .. "}")
    require_hints(key_hint, key_hint)
  end
end

-- A batch that has changed nothing may be done again, so nothing is written for it. A repeat is remembered all the same: the batch that it
-- repeats may still be under way, and must not be done once this answer has been heard.
is_written = is_written or is_repeat or line_top > 0
if is_written and not lane then
  require_hints(lane_hint, lane_hint)
end
if #needs > 0 then
  return "N" .. table.concat(needs)
end
local answer = { pack("<dddBI4", generation, server_ms, is_written and version or version - 1, JUDGED, #changes), changes, table.concat(told) }
for from = 1, reply_top, MOST do
  local upto = min(reply_top, from + MOST - 1)
  answer[#answer + 1] = pack("<" .. repeated("d", upto - from + 1), unpack(reply, from, upto))
end
local all = table.concat(answer)
if is_written then
  write(KEYS[3], text(version))
  write(KEYS[4], pack("<d", seq) .. all)
  redis.call("MSET", unpack(writes))
end
return "D" .. all
