import { durationMs, durationText } from "../durations.ts";
import type { FieldJson } from "../limit-field.ts";
import { PERIOD_MAX_MS, wholeSecondsMs } from "../limit-numbers.ts";
import {
  type KindFields,
  type KindForm,
  type KindRules,
  type KindStored,
  type KindText,
  NO_MARKS,
  type QuotaMarks,
} from "./kind.ts";

// A quota whose period begins with its first use and lasts a fixed time. Between periods it is closed: full, whatever it holds.

const NEVER_MS = Number.POSITIVE_INFINITY;

export const SESSION_RULES: KindRules = {
  refillsSteadily: false,
  hasPeriods: true,
  opensWindow: true,
  isWhole: true,
  holdsSlots: false,
  marks: NO_MARKS,
  isClosed,
  endMs: (fields, marks, atMs) => windowEndMs(fields, { windowStartMs: marks.windowStartMs ?? atMs }),
  windowEndMs,
  // Closed, or over by then: full at what it holds then, whatever lay between.
  filledMs: (fields, marks, atMs) => (isClosed(marks) || windowEndMs(fields, marks) <= atMs ? atMs : -NEVER_MS),
  lengthMs: ({ resetAfterMs = NEVER_MS }) => resetAfterMs,
  isSameRule: () => true,
  pin: () => ({ reset: undefined, untilMs: NEVER_MS }),
  isOf: (fields, marks, _, nowMs) => !isClosed(marks) && nowMs < windowEndMs(fields, marks),
};

export const SESSION_FORM: KindForm = {
  checked: (name, resetAfterMs) => wholeSecondsMs(name, "resetAfterMs", resetAfterMs),
};

export const SESSION_STORED: KindStored = {
  field: "resetAfterMs",
  attribute: "rsa",
  type: "number",
  prefix: "w",
  encoded: ({ resetAfterMs }) => resetAfterMs && resetAfterMs / 1000,
  decoded: (seconds) => ({ kind: "decoded", value: { resetAfterMs: Number(seconds) * 1000 } }),
  isSound: ({ resetAfterMs = 0 }) => Number.isSafeInteger(resetAfterMs) && resetAfterMs >= 1,
};

export const SESSION_TEXT: KindText = {
  word: "after",
  read: (text) => {
    const resetAfterMs = durationMs(text);
    if (resetAfterMs !== undefined) return { resetAfterMs };
    return `after=${text} is not a duration; give one such as after=30s, 5m, 5h or 1d`;
  },
  written: ({ resetAfterMs }) => (resetAfterMs === undefined ? undefined : durationText(resetAfterMs)),
};

export const SESSION_JSON: FieldJson = {
  service: { type: "number", description: "Of a session quota: in ms after its first use." },
  manifest: {
    key: "reset_after_seconds",
    unit: "seconds",
    schema: { type: "integer", minimum: 1, maximum: PERIOD_MAX_MS / 1000 },
  },
};

type Window = Pick<QuotaMarks, "windowStartMs">;

function isClosed({ windowStartMs }: Window): boolean {
  return windowStartMs === undefined;
}

function windowEndMs({ resetAfterMs = NEVER_MS }: KindFields, { windowStartMs = NEVER_MS }: Window): number {
  return windowStartMs + resetAfterMs;
}
