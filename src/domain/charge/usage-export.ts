import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";
import { USAGE_COUNTERS, type UsageSnapshot } from "./usage.ts";

/** The format of exported usage. */
export type UsageFormat = "csv" | "ndjson" | "json";

const COLUMNS = [
  ...["entityId", "resource", "window", "windowStart", "windowEnd", "requests"],
  ...["limit", ...USAGE_COUNTERS.map((counter) => (counter === "counters" ? "tokens" : counter))],
];

/** The text of an export, in pieces that each end with a whole line; rows name the zone where one was asked for. An unknown format is refused before anything is read. */
export function exportedUsage(
  snapshots: AsyncIterable<UsageSnapshot>,
  format: UsageFormat,
  tz: string | undefined,
): AsyncIterable<string> {
  switch (format) {
    case "csv":
      return csvOf(snapshots, tz === undefined ? [] : [["tz", tz]]);
    case "ndjson":
      return ndjsonOf(snapshots);
    case "json":
      return jsonOf(snapshots);
    default:
      throw new ValidationError("format_invalid", `format is ${shown(format)}; give "csv", "ndjson" or "json".`);
  }
}

/** `last`: names and values of further columns, the same in all rows. */
async function* csvOf(
  snapshots: AsyncIterable<UsageSnapshot>,
  last: readonly (readonly [name: string, value: string])[],
): AsyncGenerator<string, void, undefined> {
  const values = last.map(([, value]) => value);
  yield `${[...COLUMNS, ...last.map(([name]) => name)].join(",")}\n`;
  for await (const snapshot of snapshots) {
    yield csvRows(snapshot)
      .map((row) => `${[...row, ...values].map(csvField).join(",")}\n`)
      .join("");
  }
}

async function* ndjsonOf(snapshots: AsyncIterable<UsageSnapshot>): AsyncGenerator<string, void, undefined> {
  for await (const snapshot of snapshots) yield `${JSON.stringify(snapshot)}\n`;
}

async function* jsonOf(snapshots: AsyncIterable<UsageSnapshot>): AsyncGenerator<string, void, undefined> {
  let before = '{"items":[\n';
  for await (const snapshot of snapshots) {
    yield `${before}${JSON.stringify(snapshot)}`;
    before = ",\n";
  }
  yield before.startsWith("{") ? '{"items":[]}\n' : "\n]}\n";
}

/** A row a limit; requests are those of the snapshot, on each of its rows. One that counted no tokens has a row without a limit. */
function csvRows(snapshot: UsageSnapshot): readonly (readonly (string | number)[])[] {
  const { entityId, resource, window, windowStartMs, windowEndMs, requests } = snapshot;
  const counts = USAGE_COUNTERS.map((counter) => new Map(Object.entries(snapshot[counter])));
  const limits = [...new Set(counts.flatMap((counted) => [...counted.keys()]))].sort();
  const times = [new Date(windowStartMs).toISOString(), new Date(windowEndMs).toISOString()];
  const shared = [entityId, resource, window, ...times, requests];
  if (limits.length === 0) return [[...shared, "", ...counts.map(() => 0)]];
  return limits.map((limit) => [...shared, limit, ...counts.map((counted) => counted.get(limit) ?? 0)]);
}

/** As RFC 4180 has it. */
function csvField(value: string | number): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
