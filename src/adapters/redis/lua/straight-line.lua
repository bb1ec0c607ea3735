-- What both takes go by: how rows are read and written, and what drips into a level between two boundaries. Numbers are packed doubles, as
-- batch-bytes.ts and summed-bytes.ts write them; NaN is "none". What a row is made of says bucket-bytes.ts.

local SAFE, HOUR, MOST = 9007199254740991, 3600000, 4000
local VERSION, EPOCH, RENEW, VALID, WRITTEN, AS_OF, GENERATION, MET, OPEN, REQUESTS, HEAD = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10
-- Of a level: what takes change, and what stays.
local TOKENS, COUNTED, WINDOW, MOVING = 1, 2, 3, 3
local CAPACITY, AMOUNT, PERIOD, SOFT, LENGTH, REMAINDER, RESETS, STAYING = 1, 2, 3, 4, 5, 6, 7, 8
-- The forms of an answer.
local JUDGED, SUMMED, SUMMED_SHORT = 0, 1, 2

local floor, min = math.floor, math.min
local pack, parsed, repeated = struct.pack, struct.unpack, string.rep

local function numbers(bytes)
  local count = #bytes / 8
  if count <= MOST then
    return { parsed("<" .. repeated("d", count), bytes) }
  end
  local all = {}
  for from = 0, count - 1, MOST do
    local size = min(MOST, count - from)
    local some = { parsed("<" .. repeated("d", size), bytes, from * 8 + 1) }
    for k = 1, size do
      all[from + k] = some[k]
    end
  end
  return all
end

local function text(number)
  return string.format("%.0f", number)
end

-- How a row of so many levels is read.
local row_forms = {}
-- The numbers that a row is made of, and behind them its signature, its marks, and where its other texts begin; how many levels it has; 1: one of
-- them is a session. Nil: it is in no form that is known.
local function row_in(value)
  local form, sessions, levels = parsed("<BBI2", value)
  if form ~= 1 then
    return nil
  end
  local row_form = row_forms[levels]
  if not row_form then
    row_form = "<" .. repeated("d", HEAD + (MOVING + STAYING) * levels) .. "Bc0I4c0"
    row_forms[levels] = row_form
  end
  return { parsed(row_form, value, 9) }, levels, sessions
end

local moving_forms = {}
-- The numbers of a row that takes change, as they are stored; behind them stands what stays.
local function moving_of(row, levels)
  local moving = HEAD + MOVING * levels
  local form = moving_forms[levels]
  if not form then
    form = "<" .. repeated("d", moving)
    moving_forms[levels] = form
  end
  return pack(form, unpack(row, 1, moving))
end

-- (elapsed * amount + remainder) / period, rounded down, where the product passes 2^53: 13 bits of the amount at a time. The rest is below the
-- period, which is at most 10^12, and what is elapsed at most 3.6 * 10^6, so that each step stays below 2^53.
local function refilled_exactly(elapsed, amount, remainder, period)
  local quotient, rest, unit = 0, 0, 2 ^ 52
  while unit >= 1 do
    local digit = floor(amount / unit)
    amount = amount - digit * unit
    rest = rest * 8192 + elapsed * digit
    local whole = floor(rest / period)
    quotient, rest, unit = quotient * 8192 + whole, rest - whole * period, unit / 8192
  end
  return quotient + floor((rest + remainder) / period)
end

-- What has dripped into a level since the epoch of its row.
local function refilled_in(row, terms, elapsed)
  local amount = row[terms + AMOUNT]
  if elapsed > 0 and amount > 0 then
    local product = elapsed * amount + row[terms + REMAINDER]
    return product <= SAFE and floor(product / row[terms + PERIOD])
      or refilled_exactly(elapsed, amount, row[terms + REMAINDER], row[terms + PERIOD])
  end
  return 0
end
