import type { Availability } from "../../src/entry/index.ts";
import { CALLERS, type CallEvent, PROJECT } from "./gateway.ts";
import type { Counts, Tally, Usage } from "./tally.ts";

const LABEL_WIDTH = 12;

/** What a newcomer is looking at. */
export const INTRODUCTION: readonly string[] = [
  "A call takes 1 rpm and its estimated tpm from key and project, or nothing.",
  "steady waits its turn; bursty sends 8 calls at once; greedy never backs off.",
];

/** One sentence about a call: for the last events on the screen, and for the lines where there is no screen. */
export function eventWords(event: CallEvent): string {
  switch (event.kind) {
    case "answered": {
      const more = event.actual - event.estimate;
      const settled = more > 0 ? `${whole(more)} more charged` : `${whole(-more)} given back`;
      // Less than that is only the way to the store and back.
      const waited = event.waitedMs < 50 ? "" : `; waited ${seconds(event.waitedMs)}`;
      return `${whole(event.estimate)} estimated, ${whole(event.actual)} used: ${settled}${waited}`;
    }
    case "refused": {
      const { entityId, limit, available, requested } = event.primary;
      const has = available < 0 ? `${whole(-available)} in debt` : `${whole(available)} left`;
      return `${entityId} ${limit}: ${has}, wants ${whole(requested)}; retry in ${secondsUp(event.retryAfterMs)}`;
    }
    case "failed":
      return `model overloaded: 1 rpm, ${whole(event.estimate)} tpm given back`;
    case "cut":
      return `the run ended: 1 rpm, ${whole(event.estimate)} tpm given back`;
  }
}

/** "cut" is short for a table; a reader wants a word that says what happened. */
export function eventName(event: CallEvent): string {
  return event.kind === "cut" ? "cut short" : event.kind;
}

export function eventLine(event: CallEvent, elapsedMs: number): string {
  return `${seconds(elapsedMs).padStart(7)}  ${event.key}  ${eventName(event).padEnd(9)}  ${eventWords(event)}`;
}

/** All levels in one line, for where there is no screen. */
export function levelsLine(levels: readonly Availability[], elapsedMs: number): string {
  const entities = [...new Set(levels.map(({ entityId }) => entityId))].map((id) => {
    const held = levels.filter(({ entityId }) => entityId === id);
    return `${id} ${held.map(({ limit, available }) => `${whole(available)} ${limit}`).join(" ")}`;
  });
  return `${seconds(elapsedMs).padStart(7)}  tokens left: ${entities.join(", ")}`;
}

/** Rows of the table of calls, its heading first; without tokens where there is little room. */
export function callRows(tally: Tally, withTokens: boolean): string[] {
  const row = (label: string, cells: readonly string[]) =>
    label.padEnd(LABEL_WIDTH) + cells.map((cell) => cell.padStart(10)).join("");
  const cells = (counts: Counts) => {
    const numbers = [counts.answered, counts.failed, counts.refused];
    return (withTokens ? [...numbers, counts.estimated, counts.used] : numbers).map(whole);
  };
  const heads = ["answered", "failed", "refused", ...(withTokens ? ["estimated", "used"] : [])];
  return [
    row("calls", heads),
    ...CALLERS.map(({ key }) => row(key, cells(tally.byKey.get(key) as Counts))),
    row("all", cells(tally.total())),
  ];
}

export function refusedByWords(tally: Tally): string {
  const most = [...tally.refusedBy].sort(([, a], [, b]) => b - a);
  return most.length === 0 ? "nobody yet" : most.map(([limit, count]) => `${limit} ${count}`).join(", ");
}

export function summaryLines(summary: {
  readonly elapsedMs: number;
  readonly tally: Tally;
  readonly usage: ReadonlyMap<string, Usage>;
  readonly file: string;
}): string[] {
  const { elapsedMs, tally, usage, file } = summary;
  const { cut } = tally.total();
  const stored = [PROJECT, ...CALLERS.map(({ key }) => key)].map((id) => {
    const { requests, rpm, tpm } = usage.get(id) ?? { requests: 0, rpm: 0, tpm: 0 };
    return `  ${id.padEnd(LABEL_WIDTH)}${whole(requests).padStart(8)}${whole(rpm).padStart(10)}${whole(tpm).padStart(10)}`;
  });
  return [
    `Summary after ${seconds(elapsedMs)}`,
    "",
    ...callRows(tally, true).map((row) => `  ${row}`),
    "",
    `  refused by: ${refusedByWords(tally)}`,
    ...(cut === 0 ? [] : [`  cut short at the end, all given back: ${cut}`]),
    "",
    "Usage of this run, read back with limiter.usage: failed calls were granted,",
    "but cost nothing.",
    "",
    `  ${"".padEnd(LABEL_WIDTH)}${"granted".padStart(8)}${"rpm".padStart(10)}${"tpm".padStart(10)}`,
    ...stored,
    "",
    `The data lies in ${file}; the next run goes on from there.`,
    `Remove it with: rm ${file}*`,
  ];
}

export function whole(value: number): string {
  return value.toLocaleString("en-GB");
}

// Rounded up: "retry in 0.0 s" would be untrue.
function secondsUp(ms: number): string {
  return seconds(Math.ceil(ms / 100) * 100);
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
