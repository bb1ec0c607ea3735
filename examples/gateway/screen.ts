import type { Availability } from "../../src/entry/index.ts";
import type { CallEvent } from "./gateway.ts";
import type { Tally } from "./tally.ts";
import {
  callRows,
  dashboardLine,
  eventName,
  eventWords,
  INTRODUCTION,
  proxyLine,
  refusedByWords,
  seconds,
  whole,
} from "./words.ts";

/** Everything the screen shows. */
export interface Board {
  readonly elapsedMs: number;
  /** Undefined: until somebody ends it. */
  readonly totalMs: number | undefined;
  /** Of the dashboard. */
  readonly url: string;
  /** Of the proxy. */
  readonly proxyUrl: string;
  readonly levels: readonly Availability[];
  readonly tally: Tally;
  readonly events: readonly LoggedEvent[];
}

export interface LoggedEvent {
  readonly event: CallEvent;
  readonly atMs: number;
  /** Refusals of one key by one limit in a row are shown once. */
  readonly times: number;
}

export interface Room {
  readonly columns: number;
  readonly rows: number;
  readonly colour: boolean;
}

type Tone = "plain" | "bold" | "dim" | "good" | "low" | "bad";
type Line = readonly { readonly text: string; readonly tone: Tone }[];

const BLANK: Line = [];
const INTRODUCTION_LINES: readonly Line[] = INTRODUCTION.map((text) => line("dim", text));

const LABEL_WIDTH = 14;
const BAR_MAX = 30;
const UNITS: Readonly<Record<string, string>> = { rpm: "rpm, requests a minute", tpm: "tpm, tokens a minute" };
/** Below this width the bars of an entity stand one below the other. */
const WIDE_COLUMNS = 76;
const EVENTS_MIN = 3;

/** The log with one more event, no longer than a screen can show. */
export function logged(events: readonly LoggedEvent[], event: CallEvent, atMs: number): readonly LoggedEvent[] {
  const last = events.at(-1);
  if (last !== undefined && sameRefusal(last.event, event)) {
    return [...events.slice(0, -1), { event, atMs, times: last.times + 1 }];
  }
  return [...events, { event, atMs, times: 1 }].slice(-100);
}

/** The screen as lines that fit the room. Pure: a test or a pipe can look at it too. */
export function draw(board: Board, room: Room): string[] {
  const { columns, rows } = room;
  const wide = columns >= WIDE_COLUMNS;
  const bars = wide ? wideBars(board, columns) : narrowBars(board, columns);
  const calls = callLines(board, wide);
  // Where not everything fits, the bars and the last events matter most.
  const addresses = wide ? [dashboardLine(board.url), proxyLine(board.proxyUrl)] : [board.url];
  const head = [titleLine(board, columns, wide), ...(wide ? INTRODUCTION_LINES : [])];
  const parts = [...head, ...addresses.map((text) => line("bold", text)), BLANK, ...bars, BLANK];
  const top = parts.length + calls.length + EVENTS_MIN <= rows ? [...parts, ...calls, BLANK] : parts;
  const shown = Math.max(0, rows - top.length);
  const events = shown === 0 ? [] : board.events.slice(-shown).map(eventLine);
  return [...top, ...events].slice(0, rows).map((one) => rendered(one, room));
}

function titleLine({ elapsedMs, totalMs }: Board, columns: number, wide: boolean): Line {
  const title = "zae-limiter: an LLM gateway";
  const ran =
    totalMs === undefined ? seconds(elapsedMs) : `${seconds(Math.min(elapsedMs, totalMs))} of ${seconds(totalMs)}`;
  const time = `${ran}${wide ? ", Ctrl-C ends it" : ""}`;
  const gap = " ".repeat(Math.max(1, columns - title.length - time.length));
  return [...line("bold", title), ...line("dim", gap + time)];
}

function callLines({ tally }: Board, wide: boolean): Line[] {
  return [
    ...callRows(tally, wide).map((row, i) => line(i === 0 ? "dim" : "plain", row)),
    [...line("dim", "refused by  "), ...line("plain", refusedByWords(tally))],
  ];
}

function wideBars({ levels }: Board, columns: number): Line[] {
  const limits = limitsOf(levels);
  const numberWidths = limits.map((limit) => numberWidth(levels, limit));
  const left = columns - LABEL_WIDTH - sum(numberWidths) - limits.length * 3;
  const barWidth = Math.max(4, Math.min(BAR_MAX, Math.floor(left / Math.max(1, limits.length))));
  const head = limits.map((limit, i) => (UNITS[limit] ?? limit).padEnd(barWidth + 3 + (numberWidths[i] ?? 0))).join("");
  return [
    line("dim", "tokens left".padEnd(LABEL_WIDTH) + head),
    ...entitiesOf(levels).map((id, row) => [
      ...line("plain", labelOf(id, row).padEnd(LABEL_WIDTH)),
      ...limits.flatMap((limit, i) => {
        const level = levels.find((one) => one.entityId === id && one.limit === limit);
        if (level === undefined) return line("plain", " ".repeat(barWidth + 3 + (numberWidths[i] ?? 0)));
        return [...bar(level, barWidth), ...line("plain", ` ${numbers(level).padStart(numberWidths[i] ?? 0)}  `)];
      }),
    ]),
  ];
}

function narrowBars({ levels }: Board, columns: number): Line[] {
  const width = Math.max(...levels.map((level) => numbers(level).length), 0);
  const barWidth = Math.max(4, Math.min(BAR_MAX, columns - LABEL_WIDTH - 5 - width));
  return entitiesOf(levels).flatMap((id, row) =>
    levels
      .filter(({ entityId }) => entityId === id)
      .map((level, i) => [
        ...line("plain", (i === 0 ? labelOf(id, row) : "").padEnd(LABEL_WIDTH)),
        ...line("dim", `${level.limit} `),
        ...bar(level, barWidth),
        ...line("plain", ` ${numbers(level).padStart(width)}`),
      ]),
  );
}

function bar({ available, capacity }: Availability, width: number): Line {
  const share = Math.max(0, Math.min(1, available / capacity));
  const full = Math.round(share * width);
  const tone = share > 0.5 ? "good" : share > 0.2 ? "low" : "bad";
  return [...line(tone, "█".repeat(full)), ...line("dim", "░".repeat(width - full))];
}

function eventLine({ event, atMs, times }: LoggedEvent): Line {
  const tone = event.kind === "answered" ? "good" : event.kind === "refused" ? "bad" : "low";
  const name = times === 1 ? eventName(event) : `${eventName(event)} x${times}`;
  return [
    ...line("dim", `${seconds(atMs).padStart(6)} `),
    ...line("plain", `${event.key} `),
    ...line(tone, `${name.padEnd(11)} `),
    ...line("plain", eventWords(event)),
  ];
}

// The project stands first; its keys hang below it.
function labelOf(id: string, row: number): string {
  return row === 0 ? id : `  ${id}`;
}

function numbers({ available, capacity }: Availability): string {
  return `${whole(available)}/${whole(capacity)}`;
}

// Room for a debt, so that the columns stand still when one comes.
function numberWidth(levels: readonly Availability[], limit: string): number {
  return Math.max(...levels.filter((one) => one.limit === limit).map((level) => numbers(level).length), 5);
}

function entitiesOf(levels: readonly Availability[]): string[] {
  return [...new Set(levels.map(({ entityId }) => entityId))];
}

function limitsOf(levels: readonly Availability[]): string[] {
  return [...new Set(levels.map(({ limit }) => limit))];
}

function sameRefusal(a: CallEvent, b: CallEvent): boolean {
  if (a.kind !== "refused" || b.kind !== "refused" || a.key !== b.key) return false;
  return a.primary.entityId === b.primary.entityId && a.primary.limit === b.primary.limit;
}

function line(tone: Tone, text: string): Line {
  return [{ tone, text }];
}

const SGR: Readonly<Record<Tone, string>> = { plain: "", bold: "1", dim: "2", good: "32", low: "33", bad: "31" };

function rendered(spans: Line, { columns, colour }: Room): string {
  let left = columns;
  let text = "";
  for (const span of spans) {
    const part = span.text.slice(0, left);
    left -= part.length;
    const code = SGR[span.tone];
    text += colour && code !== "" && part !== "" ? `\x1b[${code}m${part}\x1b[0m` : part;
  }
  return text;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
