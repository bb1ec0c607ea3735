
-- The summed take: a batch of takes from limits that are neither soft nor shadows nor sessions nor slots, its amounts summed by bucket and reading
-- (straight/summed-take.ts). It takes everything or nothing: one MGET, one MSET. Nil: nothing was done, and the general take judges the requests one by
-- one under the same number.
--
-- KEYS: generation, writes, lane, the buckets. ARGV: numbers; the signature of each bucket.
-- Reply: the value of the lane, which has the head of the answer and of each bucket the tokens before each step and its row as it is now, with neither
-- the eight bytes in front of its numbers nor the text of its limits; where somebody is short, 1 in place of the tokens of who has not enough.

local KEYS_BEFORE = 3

local found = redis.call("MGET", unpack(KEYS))
local batch = numbers(ARGV[1])
local seq, planned, counts, server_ms, is_alone = batch[1], batch[2], batch[3] == 1, batch[4], batch[5] == 1
local lane = found[3]
-- Only the general take begins a lane, and answers what was done before.
if not lane or lane == "" or parsed("<d", lane) >= seq or tonumber(found[1] or 0) ~= planned then
  return false
end

local version = tonumber(found[2] or 0) + 1
local shown, shorts, is_short, writes, told = {}, {}, false, {}, { "" }
-- How a row and the tokens before each step are told.
local told_forms = {}
local at = 5
for i = 1, #KEYS - KEYS_BEFORE do
  local value = found[KEYS_BEFORE + i]
  if not value or value == "" then
    return false
  end
  local row, levels = row_in(value)
  local requests, change, step_count = batch[at + 1], batch[at + 2], batch[at + 3]
  at = at + 3
  local width = row and HEAD + (MOVING + STAYING) * levels
  if not row or row[width + 1] ~= ARGV[1 + i] or change > row[MET] then
    return false
  end
  local staying, own_short, before, before_top = HEAD + MOVING * levels, 0, {}, 0
  for _ = 1, step_count do
    local now = batch[at + 1]
    if now >= row[RENEW] or (counts and now >= row[OPEN] + HOUR) then
      return false
    end
    at = at + 1
    local elapsed = now - row[EPOCH]
    for k = 1, levels do
      local asked, own, terms = batch[at + k], HEAD + MOVING * (k - 1), staying + STAYING * (k - 1)
      local tokens = row[own + TOKENS]
      before_top = before_top + 1
      before[before_top] = tokens
      if asked == asked then
        if counts and asked > 0 then
          local counted = row[own + COUNTED]
          counted = (counted == counted and counted or 0) + asked
          -- What was counted leaves the row first.
          if counted > SAFE then
            return false
          end
          row[own + COUNTED] = counted
        end
        local refilled = refilled_in(row, terms, elapsed)
        -- What stands over the brim is cut off in the same step in which tokens leave.
        local remaining = min(tokens, row[terms + CAPACITY] - refilled) - asked
        -- Also where a number of the row is damaged: nothing is at least anything then.
        if remaining + refilled >= 0 then
          row[own + TOKENS] = remaining
        elseif is_alone then
          is_short, own_short = true, 1
        else
          return false
        end
      end
    end
    at = at + levels
  end
  shown[i], shorts[i] = row[width + 3] - 1, own_short
  if not is_short then
    row[VERSION] = version
    if counts then
      row[REQUESTS] = row[REQUESTS] + requests
    end
    local moving, behind = moving_of(row, levels), 9 + 8 * staying
    writes[2 * i - 1], writes[2 * i] = KEYS[KEYS_BEFORE + i], value:sub(1, 8) .. moving .. value:sub(behind)
    local told_form = told_forms[before_top]
    if not told_form then
      told_form = "<I4" .. repeated("d", before_top)
      told_forms[before_top] = told_form
    end
    told[3 * i - 1] = pack(told_form, shown[i] - 8, unpack(before, 1, before_top))
    told[3 * i], told[3 * i + 1] = moving, value:sub(behind, shown[i])
  end
end

if is_short then
  told = { pack("<ddddB", seq, planned, server_ms, version - 1, SUMMED_SHORT) }
  for i, upto in ipairs(shown) do
    told[i + 1] = pack("<I4d", upto - 8, shorts[i]) .. found[KEYS_BEFORE + i]:sub(9, upto)
  end
  return table.concat(told)
end
told[1] = pack("<ddddB", seq, planned, server_ms, version, SUMMED)
local answer, top = table.concat(told), #writes
writes[top + 1], writes[top + 2], writes[top + 3], writes[top + 4] = KEYS[2], text(version), KEYS[3], answer
redis.call("MSET", unpack(writes))
return answer
