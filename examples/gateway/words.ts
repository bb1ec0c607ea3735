import type { Availability } from "../../src/entry/index.ts";
import { CALLERS, type CallEvent, KEY_TERMS, MODEL, PROJECT, PROJECT_TERMS, type Terms } from "./gateway.ts";
import type { Counts, Tally, Usage } from "./tally.ts";

const LABEL_WIDTH = 12;

/** What a newcomer is looking at. */
export const INTRODUCTION: readonly string[] = [
  "Each call takes 1 rpm and its estimated tpm from key and project: both or none.",
  "steady waits its turn; bursty sends 8 calls at once; greedy never backs off.",
  `Each key:    ${termsWords(KEY_TERMS)}.`,
  `The project: ${termsWords(PROJECT_TERMS)}.`,
];

/** Where to look. */
export function dashboardLine(url: string): string {
  return `Dashboard: ${url} (open to this machine while it runs)`;
}

/** Where to send calls of one's own. */
export function proxyLine(url: string): string {
  return `OpenAI clients: base_url ${url}, any key, model ${MODEL}`;
}

/** Nothing that is printed is wider: it would wrap on a terminal of the usual size. */
const WIDTH = 80;

/** One sentence about a call: for the last events on the screen, and for the lines where there is no screen. */
export function eventWords(event: CallEvent): string {
  switch (event.kind) {
    case "answered": {
      const more = event.actual - event.estimate;
      const settled = more > 0 ? `${whole(more)} more charged` : `${whole(event.estimate - event.actual)} given back`;
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
      return "stopped with the run: request and input paid";
  }
}

/** "cut" is short for a table; a reader wants a word that says what happened. */
export function eventName(event: CallEvent): string {
  return event.kind === "cut" ? "cut short" : event.kind;
}

export function eventLine(event: CallEvent, elapsedMs: number): string {
  return `${seconds(elapsedMs).padStart(6)}  ${event.key}  ${eventName(event).padEnd(9)} ${eventWords(event)}`;
}

/** All levels, a line for each limit, for where there is no screen. */
export function levelsLines(levels: readonly Availability[], elapsedMs: number): string[] {
  const limits = [...new Set(levels.map(({ limit }) => limit))];
  return limits.map((limit, i) => {
    const held = levels.filter((level) => level.limit === limit);
    const cells = held.map(({ entityId, available }) => `${entityId} ${whole(available)}`.padEnd(14));
    return `${(i === 0 ? seconds(elapsedMs) : "").padStart(6)}  ${limit} left: ${cells.join(" ")}`.trimEnd();
  });
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
  return most.length === 0 ? "none yet" : most.map(([limit, count]) => `${limit} ${count}`).join(", ");
}

export function summaryLines(summary: {
  readonly elapsedMs: number;
  readonly tally: Tally;
  readonly usage: ReadonlyMap<string, Usage>;
  readonly file: string;
  readonly proof: Proof;
}): string[] {
  const { elapsedMs, tally, usage, file, proof } = summary;
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
    ...wrapped(`  refused by: ${refusedByWords(tally)}`),
    ...(cut === 0 ? [] : [`  stopped with the run, request and input paid: ${cut}`]),
    "",
    "Usage of this run, from limiter.usage. Failed calls were granted,",
    "and their tokens given back.",
    "",
    `  ${"".padEnd(LABEL_WIDTH)}${"granted".padStart(8)}${"rpm".padStart(10)}${"tpm".padStart(10)}`,
    ...stored,
    "",
    `The data is in ${file}; the next run continues with it.`,
    `Remove it with: rm ${file}*`,
    "",
    proofLine(proof),
  ];
}

/** What the project's tokens were in a run: used, and what there can have been. */
export interface Proof {
  readonly used: number;
  /** From before the first call until after the balance was read. */
  readonly elapsedMs: number;
  /** What was left at the end; below zero where answers cost more than their estimates. */
  readonly left: number;
  /** Somebody changed limits or buckets meanwhile: then what there can have been is not known. */
  readonly isChanged: boolean;
}

/**
 * That nobody got more than there was: full at the beginning, refilled meanwhile. What an answer costs beyond its estimate
 * is charged although it is not there, and is owed until it is refilled; that is counted as used, too.
 */
export function proofLine({ used, elapsedMs, left, isChanged }: Proof): string {
  if (isChanged) return `${PROJECT}: used ${whole(used)}; limits were changed by hand, so the maximum is unknown`;
  const { perMinute, burst } = PROJECT_TERMS.tpm;
  // Rounded up, so that what is shown can be checked by hand and the bound is not below the true one.
  const tenths = Math.ceil(elapsedMs / 100);
  const most = burst + Math.ceil((tenths * perMinute) / 600) + Math.max(0, -left);
  const owed = left < 0 ? ` + ${whole(-left)} owed` : "";
  const bound = `${whole(burst)} + ${seconds(tenths * 100)} x ${whole(perMinute / 60)}/s${owed} = ${whole(most)}`;
  return `${PROJECT}: used ${whole(used)} of at most ${bound}${used > most ? ": TOO MUCH" : ""}`;
}

function termsWords(terms: Readonly<Record<string, Terms>>): string {
  const each = Object.entries(terms).map(
    ([name, { perMinute, burst }]) => `${whole(perMinute)} ${name}, burst ${whole(burst)}`,
  );
  return each.join("; ");
}

/** Broken at its commas, so that no line is wider than a terminal. */
function wrapped(text: string): string[] {
  const lines: string[] = [];
  let line = "";
  for (const part of text.split(/(?<=,) /)) {
    if (line !== "" && line.length + 1 + part.length > WIDTH) {
      lines.push(line);
      line = `    ${part}`;
    } else line = line === "" ? part : `${line} ${part}`;
  }
  return [...lines, line];
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
