-- Requests, one after the other, on the rows that take-read.lua has made ready.

-- The names of the levels of a row.
local names_of = {}
local function name_of(i, k)
  if not names_of[i] then
    local all, own = {}, rows[i][texts_of(i) + 3]
    local _, names = parsed("<I4c0I4c0", values[i], own)
    for name in names:gmatch("[^\n]+") do
      all[#all + 1] = name
    end
    names_of[i] = all
  end
  return names_of[i][k]
end

-- What a request has changed so far: three a change, to take it back.
local log, log_top = {}, 0
local function set(of, place, value)
  log[log_top + 1], log[log_top + 2], log[log_top + 3] = of, place, of[place]
  log_top = log_top + 3
  of[place] = value
end
local function take_back(until_top)
  while log_top > until_top do
    log[log_top - 2][log[log_top - 1]] = log[log_top]
    log_top = log_top - 3
  end
end

-- The reply, as numbers.
local reply, reply_top = {}, 0
local function say(number)
  reply_top = reply_top + 1
  reply[reply_top] = number
end
local function say_levels(i)
  local row, sessions = rows[i], has_sessions[i]
  reply_top = reply_top + 1
  reply[reply_top] = sessions and 1 or 0
  local last = HEAD + MOVING * level_counts[i]
  for place = HEAD + TOKENS, last, MOVING do
    reply_top = reply_top + 1
    reply[reply_top] = row[place]
  end
  if sessions then
    for place = HEAD + WINDOW, last, MOVING do
      say(row[place])
    end
    say(row[VALID])
  end
end
local function json(number)
  return (number ~= number or number == math.huge) and "null" or text(number)
end
-- The levels that a claim has left, for a draft: those that were said last.
local function said_levels(from, i, passed)
  local tokens, windows, levels = {}, {}, level_counts[i]
  for k = 1, levels do
    tokens[k] = json(reply[from + 1 + k])
  end
  if not has_sessions[i] then
    return "[[" .. table.concat(tokens, ",") .. "],null,null,[" .. table.concat(passed or {}, ",") .. "]]"
  end
  for k = 1, levels do
    windows[k] = json(reply[from + 1 + levels + k])
  end
  local valid = json(reply[from + 2 + 2 * levels])
  return "[[" .. table.concat(tokens, ",") .. "],[" .. table.concat(windows, ",") .. "]," .. valid .. ",[" .. table.concat(passed or {}, ",") .. "]]"
end

local needs = {}
local function need(what, i, hour_ms)
  needs[#needs + 1] = pack("<ddd", what, i, hour_ms)
end
-- Whether a bucket has usage: by an hour of its that is among the keys, or by the one that the client has found.
local hours_at = at
local function has_usage(i)
  for h = 0, hour_count - 1 do
    if batch[hours_at + 4 * h + 1] == i and found[batch[hours_at + 4 * h + 3]] then
      return true
    end
  end
  if proofs[i] > 0 and found[proofs[i]] then
    return true
  elseif proofs[i] ~= 0 then
    need(NEEDS_PROOF, i, 0)
  end
  return false
end

local is_written, drafted = false, {}
for q = 1, request_count do
  local request = requests[q]
  if refused[q] then
    say(refused[q])
  else
    local kind, now, is_noted, claim_count = request[1], request[2], request[4] == 1, request[5]
    local outcome, said_from, lines_from, claim, said = APPLIED, reply_top, line_top, 6, {}
    local short = {}
    say(APPLIED)
    for c = 1, claim_count do
      local i, bypass, leave, more = request[claim + 1], request[claim + 6] == 1, request[claim + 7], request[claim + 8]
      local amounts = claim + 8
      local pins, origin, shadows, shadow_count, strays, stray_count
      if more > 0 then
        -- The parts that few claims have.
        local own = claim + more
        local has_pins, has_origin = request[own + 1] == 1, request[own + 2] == 1
        shadow_count, stray_count = request[own + 3], request[own + 4]
        pins = has_pins and own + 6 or nil
        own = own + 6 + (has_pins and 2 * (more - 8) or 0)
        origin = has_origin and own or nil
        own = own + (has_origin and 2 or 0)
        if shadow_count > 0 then
          shadows = {}
          for shadow = own, own + 2 * (shadow_count - 1), 2 do
            shadows[request[shadow + 1]] = request[shadow + 2]
          end
        end
        strays = own + 2 * shadow_count
      end
      local row = rows[i]
      local is_unborn = is_new[i] and changed[i] == 0
      local is_straight = row
        and signatures[i] == ARGV[first_text + request[claim + 3]]
        and not (counts and now >= row[OPEN] + HOUR)
        and not (kind < BACK and (now >= row[RENEW] or request[claim + 4] > row[MET]))
        and not (kind == BACK and not bypass and now >= row[VALID])
        and row[EPOCH] <= request[claim + 5]
        and not (is_unborn and (kind == BACK or now < row[EPOCH]))
      if is_straight and origin then
        local of_generation, is_generation = request[origin + 2], row[GENERATION]
        local is_same = of_generation == is_generation or (of_generation ~= of_generation and is_generation ~= is_generation)
        is_straight = request[origin + 1] == row[AS_OF] and is_same
      end
      if not is_straight then
        if not row or (kind == BACK and is_unborn) then
          outcome = max(outcome, kind == BACK and GONE or AGAIN)
        else
          outcome, shown[i] = AGAIN, true
        end
      else
        local log_from, is_short, passed, skipped, late = log_top, false, nil, nil, nil
        if changed[i] == 0 then
          set(changed, i, is_unborn and 2 or 1)
          -- A bucket begins with who first takes from it, not with somebody before in the batch who was refused.
          if is_unborn then
            set(row, EPOCH, now)
          end
        end
        local mode = bypass and 0 or kind
        local elapsed = now - row[EPOCH]
        local levels = level_counts[i]
        local staying = HEAD + MOVING * levels
        for k = 1, levels do
          local asked = request[amounts + k]
          if asked == asked and not (skipped and skipped[k]) then
            local own, terms = HEAD + MOVING * (k - 1), staying + STAYING * (k - 1)
            local pin = pins and request[pins + 2 * k - 1] or NONE
            local prior, is_full = row[own + COUNTED], false
            -- What is held in a slice is no usage: that is the limit's. Slots that come back after they were used stay counted.
            if counts and asked ~= 0 and row[terms + LENGTH] >= 0 and pin ~= FROM_USED and pin ~= SKIPPED_USED then
              local counted = (prior == prior and prior or 0) + (kind == BACK and -asked or asked)
              -- Past 2^53 it would no longer be exact: what was counted leaves the row first.
              if counted > SAFE or counted < -SAFE then
                is_full, outcome, shown[i] = true, AGAIN, true
              else
                set(row, own + COUNTED, counted)
              end
            end
            if is_full then
              -- The request is answered `again`.
            elseif mode == BACK then
              local tokens = row[own + TOKENS]
              if pin == FROM or pin == FROM_USED then
                -- Slots that were held: they come out of their slice, if it still has them. If not, how long they were held is not counted.
                local slice = HEAD + MOVING * (request[pins + 2 * k] - 1) + TOKENS
                if row[slice] >= asked then
                  set(row, slice, row[slice] - asked)
                  set(row, own + TOKENS, tokens + asked)
                else
                  late = late or {}
                  late[name_of(i, k) .. "#hu"] = true
                end
              elseif pin == INTO then
                -- Slots that are held on, in a later slice.
                local slice = HEAD + MOVING * (request[pins + 2 * k] - 1) + TOKENS
                if tokens >= asked then
                  set(row, own + TOKENS, tokens - asked)
                  set(row, slice, row[slice] + asked)
                else
                  outcome = max(outcome, GONE)
                end
              else
                local is_of = pin ~= pin
                if pin == row[terms + RESETS] then
                  local of_window, is_window = request[pins + 2 * k], row[own + WINDOW]
                  is_of = of_window == is_window or (of_window ~= of_window and is_window ~= is_window)
                end
                if is_of then
                  set(row, own + TOKENS, min(SAFE, tokens + asked))
                end
              end
            elseif mode > 0 then
              local refilled = refilled_in(row, terms, elapsed)
              local capacity, is_soft = row[terms + CAPACITY], row[terms + SOFT] == 1
              local remaining = min(row[own + TOKENS], capacity - refilled) - asked
              local least = 0
              if leave > 0 then
                -- Rounded up, as in domain/limits/limit-numbers.ts.
                local hundreds = floor(capacity / 100)
                least = hundreds * leave + math.ceil((capacity - 100 * hundreds) * leave / 100)
              end
              -- Also where a number of the row is damaged: nothing is at least anything then.
              if kind == TAKE and not is_soft and not (remaining + refilled >= least) then
                local slice = shadows and shadows[k]
                if slice then
                  -- What would be taken of it is not held in its slice either, which stands behind it.
                  passed, skipped = passed or {}, skipped or {}
                  passed[#passed + 1] = k
                  skipped[slice] = true
                  set(row, own + COUNTED, prior)
                else
                  is_short = true
                end
              elseif remaining + refilled < -DEBT and not is_soft then
                outcome = max(outcome, TOO_DEEP)
              else
                if is_soft and remaining + refilled < 0 then
                  -- As deep as numbers stay exact; there it stops, for a soft limit is never a reason to fail.
                  if remaining + refilled < -DEBT then
                    remaining = row[own + TOKENS]
                  end
                  if counts and kind == TAKE and remaining + refilled < 0 then
                    count(i, row[OPEN], name_of(i, k) .. "#od", 0, 1000)
                  end
                end
                set(row, own + TOKENS, remaining)
                local length, window = row[terms + LENGTH], row[own + WINDOW]
                if length > 0 and window ~= window and asked > 0 then
                  local began = max(now, row[EPOCH])
                  set(row, own + WINDOW, began)
                  set(row, VALID, min(row[VALID], began + length))
                  set(row, RENEW, min(row[RENEW], row[VALID]))
                end
              end
            end
          end
        end
        if counts and kind == TAKE then
          set(row, REQUESTS, row[REQUESTS] + 1)
        end
        if is_noted then
          local written = row[WRITTEN]
          set(row, WRITTEN, written == written and max(written, now) or now)
        end
        if counts and passed then
          for _, k in ipairs(passed) do
            count(i, row[OPEN], name_of(i, k) .. "#wr", 0, 1000)
          end
        end
        if counts and strays then
          for stray = strays, strays + 3 * (stray_count - 1), 3 do
            local counter = ARGV[first_text + request[stray + 1]]
            if not (late and late[counter]) then
              count(i, row[OPEN], counter, request[stray + 2], request[stray + 3])
            end
          end
        end
        if is_short then
          -- A claim that does not fit leaves the row as it found it: a further one on the same bucket goes by that.
          outcome, short[c] = max(outcome, SHORT), true
          take_back(log_from)
        elseif outcome == APPLIED then
          local levels_from = reply_top
          say_levels(i)
          if drafts[q] then
            said[c] = said_levels(levels_from, i, passed)
          end
          if shadows then
            say(passed and #passed or 0)
            for _, k in ipairs(passed or {}) do
              say(k)
            end
          end
        end
      end
      claim = claim + request[claim + 2]
    end
    if outcome == APPLIED then
      is_written, log_top = true, 0
      if drafts[q] then
        drafted[#drafted + 1] = { q, said }
      end
    else
      take_back(0)
      reply_top, line_top = said_from, lines_from
      say(outcome)
      if outcome == SHORT then
        claim = 6
        for c = 1, claim_count do
          say(short[c] and 1 or 0)
          say_levels(request[claim + 1])
          claim = claim + request[claim + 2]
        end
      elseif outcome == GONE and counts and request[14] > 0 then
        -- Usage of a bucket that is forgotten goes down all the same; one without any usage was deleted, and nothing brings it back.
        local more, i = 6 + request[14], request[7]
        local lost_count, lost = request[more + 5], 6 + request[more + 6]
        if lost_count > 0 and has_usage(i) then
          for line = lost, lost + 4 * (lost_count - 1), 4 do
            count(i, request[line + 1], ARGV[first_text + request[line + 2]], request[line + 3], request[line + 4])
          end
        end
      end
    end
  end
end

