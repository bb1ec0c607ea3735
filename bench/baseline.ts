import { type Clock, median, quantile } from "./measure.ts";

// The arithmetic of comparing with the baseline: no clock, no file.

/** Which ratio it is. */
export interface RatioName {
  readonly bench: string;
  readonly title: string;
  readonly name: string;
  readonly by: Clock;
}

/** A ratio as several runs measured it. Above 1 is cheaper than what it is compared with. */
export interface Spread {
  /** The median of the runs' medians. */
  readonly ratio: number;
  /** The noise: from the lowest to the highest that the middle half of the pairs of any run reached. */
  readonly low: number;
  readonly high: number;
}

export interface BaselineRow extends RatioName, Spread {}

/** One run's ratios of a row, a pair each. */
export interface RunRatios extends RatioName {
  readonly ratios: readonly number[];
}

/** What became of a ratio. It fell or rose only where all of its noise lies outside of all the noise of the baseline. */
export type Change =
  | { readonly kind: "fell" | "rose" | "same"; readonly before: BaselineRow; readonly now: BaselineRow }
  | { readonly kind: "new"; readonly now: BaselineRow }
  | { readonly kind: "gone"; readonly before: BaselineRow };

/** Rows from the ratios of all runs, in the order in which they were first measured. */
export function rowsOf(measured: readonly RunRatios[]): BaselineRow[] {
  const rows = new Map<string, { readonly of: RatioName; readonly runs: (readonly number[])[] }>();
  for (const { ratios, ...of } of measured) {
    const row = rows.get(keyOf(of));
    if (row === undefined) rows.set(keyOf(of), { of, runs: [ratios] });
    else row.runs.push(ratios);
  }
  return Array.from(rows.values(), ({ of, runs }) => ({ ...of, ...spreadOf(runs) }));
}

/** Between runs a ratio differs by more than within one, as code is compiled and memory laid out anew: so all runs count. */
export function spreadOf(runs: readonly (readonly number[])[]): Spread {
  return {
    ratio: rounded(median(runs.map(median))),
    low: rounded(Math.min(...runs.map((ratios) => quantile(ratios, 0.25)))),
    high: rounded(Math.max(...runs.map((ratios) => quantile(ratios, 0.75)))),
  };
}

export function changesSince(before: readonly BaselineRow[], now: readonly BaselineRow[]): Change[] {
  const left = new Map(before.map((row) => [keyOf(row), row]));
  const changes = now.map((row): Change => {
    const known = left.get(keyOf(row));
    left.delete(keyOf(row));
    return known === undefined ? { kind: "new", now: row } : { kind: moved(known, row), before: known, now: row };
  });
  return [...changes, ...Array.from(left.values(), (row): Change => ({ kind: "gone", before: row }))];
}

function moved(before: Spread, now: Spread): "fell" | "rose" | "same" {
  if (now.high < before.low) return "fell";
  return now.low > before.high ? "rose" : "same";
}

const ORDER: readonly Change["kind"][] = ["fell", "gone", "new", "rose", "same"];

/** What changed, losses first, and one sentence at the end. */
export function reportOf(changes: readonly Change[]): string {
  const lines = ORDER.flatMap((kind) => changes.filter((change) => change.kind === kind).map(lineOf));
  return `${[...lines, "", sumOf(changes)].join("\n")}\n`;
}

function lineOf(change: Change): string {
  const about = (row: RatioName) => `${change.kind.padEnd(5)}${row.title}: ${row.name}, by ${row.by}:`;
  switch (change.kind) {
    case "new":
      return `${about(change.now)} ${shown(change.now)}`;
    case "gone":
      return `${about(change.before)} was ${shown(change.before)}`;
    default: {
      const percent = Math.round((change.now.ratio / change.before.ratio - 1) * 100);
      const sign = percent > 0 ? "+" : "";
      return `${about(change.now)} ${shown(change.now)}, was ${shown(change.before)}: ${sign}${percent} %`;
    }
  }
}

function sumOf(changes: readonly Change[]): string {
  const count = (kind: Change["kind"]) => changes.filter((change) => change.kind === kind).length;
  const known = changes.length - count("new") - count("gone");
  const unmatched = count("new") + count("gone");
  return (
    `${count("fell")} of ${known} ratios fell by more than their noise, ${count("rose")} rose.` +
    (unmatched === 0 ? "" : ` New: ${count("new")}, gone: ${count("gone")}; --save brings the baseline up to date.`)
  );
}

function shown({ ratio, low, high }: Spread): string {
  return `${ratio} (${low} to ${high})`;
}

function keyOf({ bench, title, name, by }: RatioName): string {
  return JSON.stringify([bench, title, name, by]);
}

/** A ratio may be a hundredth: so many digits, wherever the point is. */
function rounded(value: number): number {
  return Number(value.toPrecision(3));
}
