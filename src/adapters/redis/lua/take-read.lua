
-- A batch of requests of one namespace, one after the other. Only the straight line of bucket/take.ts is worked out here: a row that is not
-- straight for a request is answered `again`, and the client brings it. One MGET, the decisions, one MSET of everything or nothing at all.
--
-- KEYS: generation, changes, writes, lane, the buckets; then those that ARGV names by their places: hours, leases, idempotency keys, indexes.
-- ARGV: numbers of the batch; names that it goes by; rows that are brought; a request each; four a draft; texts that numbers name by place.
--
-- Replies: "S", a later batch of the lane was done; "N", what the client has to send as well (nothing was done); "D" or "R" with the answer:
-- of now, or of the same batch that was done before.

local DEBT, NONE, KEYS_BEFORE = 9000000000000000, 0 / 0, 4
local TAKE, BACK = 1, 3
local APPLIED, SHORT, TOO_DEEP, GONE, AGAIN, STALE, CLOCK, KEY_LOST = 0, 1, 2, 3, 4, 5, 6, 7
local SKIPPED_USED, FROM, FROM_USED, INTO = -4, -2, -3, -5
local NEEDS_HOUR, NEEDS_PROOF, NEEDS_HINTS = 1, 2, 3

local max = math.max

local found = redis.call("MGET", unpack(KEYS))
for k = 1, #KEYS do
  if found[k] == "" then
    found[k] = false
  end
end
local batch = numbers(ARGV[1])
local seq, is_repeat, counts, server_ms, latest_ms = batch[1], batch[2] == 1, batch[3] == 1, batch[4], batch[5]
local bucket_count, request_count, draft_count, brought_count, hour_count, hint_count = unpack(batch, 6, 11)
local lane_hint, is_confirmed = batch[12], batch[13] == 1
local at = 13
local lane = found[4]
if lane then
  local last = parsed("<d", lane)
  if last == seq then
    if is_confirmed then
      -- WAIT is about what its own connection has written, and the batch may have come by another one.
      redis.call("MSET", KEYS[4], lane)
    end
    return "R" .. lane:sub(9)
  elseif last > seq then
    return "S"
  end
end
local first_request = 2 + brought_count
local first_draft = first_request + request_count
local first_text = first_draft + 4 * draft_count

-- Requests of an older generation go on if nothing that any of the batch goes by was touched since.
local generation = tonumber(found[1] or 0)
local requests, since, is_moved, is_touched, changes = {}, SAFE, false, false, ""
for q = 1, request_count do
  local request = numbers(ARGV[first_request + q])
  requests[q] = request
  local planned = request[3]
  if planned == planned then
    since = min(since, planned)
    is_moved = is_moved or planned ~= generation
  end
end
if is_moved then
  local names, told = {}, {}
  for name in ARGV[2]:gmatch("[^\n]+") do
    names[name] = true
  end
  for _, change in ipairs(found[2] and cjson.decode(found[2]) or {}) do
    if change[1] > max(since, generation - 128) then
      told[#told + 1] = "[" .. text(change[1]) .. "," .. (#change[2] == 0 and "[]" or cjson.encode(change[2])) .. "]"
      for _, name in ipairs(change[2]) do
        is_touched = is_touched or names[name] == true
      end
    end
  end
  is_touched = is_touched or #told ~= generation - since
  changes = "[" .. table.concat(told, ",") .. "]"
end

-- The key of a draft must be of work that is under way, and whose that is who sends this.
local refused, drafts, key_bodies = {}, {}, {}
for q = 1, request_count do
  local request = requests[q]
  local draft = request[6]
  if draft > 0 then
    local own = first_draft + 4 * (draft - 1)
    drafts[q] = numbers(ARGV[own + 1])
    local key_at = drafts[q][2]
    if key_at > 0 then
      local kept = found[key_at]
      local body = kept and cjson.decode(kept:match("^[^\n]*\n[^\n]*\n(.*)$"))
      local is_answered = body and ((body.answer or cjson.null) ~= cjson.null or (body.drafted or cjson.null) ~= cjson.null)
      if not body or body.mark ~= ARGV[own + 2] or is_answered then
        refused[q] = KEY_LOST
      end
      key_bodies[q] = body
    end
  end
  if is_touched and request[3] == request[3] and request[3] ~= generation then
    refused[q] = STALE
  end
  if request[2] > latest_ms then
    refused[q] = CLOCK
  end
end

-- Rows, each the numbers that it is made of, and behind them its signature, its marks, and where its other texts begin.
local rows, values, level_counts, signatures, has_sessions, is_new, shown = {}, {}, {}, {}, {}, {}, {}
-- 0: as it is stored. 1: somebody has taken from it, or it was brought. 2: it is new, and somebody has taken from it.
local changed = {}
local function texts_of(i)
  return HEAD + (MOVING + STAYING) * level_counts[i]
end
local function open(i, value)
  local row, levels, sessions = row_in(value)
  if not row then
    return false
  end
  rows[i], values[i], level_counts[i], has_sessions[i] = row, value, levels, sessions == 1
  signatures[i] = row[texts_of(i) + 1]
  return true
end

-- What is counted besides the rows: five numbers and texts a line.
local lines, line_top = {}, 0
local function count(i, hour_ms, counter, high, low)
  lines[line_top + 1], lines[line_top + 2], lines[line_top + 3], lines[line_top + 4], lines[line_top + 5] = i, hour_ms, counter, high, low
  line_top = line_top + 5
end

-- What is brought replaces a row of exactly that version, unless the request that it was worked out for is refused: a reading that is
-- ahead must not get into a row, nor limits that are no longer. Where there is none, it is worked with, and stored once it is taken from.
local brought, bucket_hints, proofs = 2, {}, {}
for i = 1, bucket_count do
  local stored = found[KEYS_BEFORE + i]
  if stored and not open(i, stored) then
    return redis.error_reply("ZAROW the bucket under " .. KEYS[KEYS_BEFORE + i] .. " is in no form that is known")
  end
  changed[i] = 0
  local version, request, left_count = batch[at + 1], batch[at + 2], batch[at + 5]
  bucket_hints[i], proofs[i] = batch[at + 3], batch[at + 4]
  at = at + 5
  if version >= 0 then
    brought = brought + 1
    if (stored and rows[i][VERSION] or 0) == version and not refused[request] then
      local value = ARGV[brought]
      if stored then
        -- The marks are not brought: they stay.
        local marks = rows[i][texts_of(i) + 2]
        local _, _, levels = parsed("<BBI2", value)
        local marks_at = 9 + 8 * (HEAD + (MOVING + STAYING) * levels)
        marks_at = marks_at + 1 + value:byte(marks_at)
        value = value:sub(1, marks_at - 1) .. pack("<I4", #marks) .. marks .. value:sub(marks_at + 4)
        changed[i] = 1
      end
      open(i, value)
      is_new[i] = not stored
      for line = 0, left_count - 1 do
        count(i, batch[at + 4 * line + 1], ARGV[first_text + batch[at + 4 * line + 2]], batch[at + 4 * line + 3], batch[at + 4 * line + 4])
      end
    end
    at = at + 4 * left_count
  end
end

