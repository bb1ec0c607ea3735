import { barText } from "./chart.ts";
import type { Paint } from "./color.ts";
import { waitText } from "./limit-print.ts";
import { printable } from "./table.ts";
import type { WatchedBucket } from "./watch-sample.ts";

const LOG_LINES_MAX = 8;

/** When who began and ended to be blocked, as far as this screen saw it. */
export class BlockLog {
  readonly #blocked = new Set<string>();
  readonly #lines: string[] = [];

  observe(items: readonly WatchedBucket[], atMs: number): void {
    const now = new Set(items.filter(({ blocked }) => blocked).map(nameOf));
    for (const name of now) if (!this.#blocked.has(name)) this.#add(atMs, `${name} is blocked`);
    for (const name of this.#blocked) if (!now.has(name)) this.#add(atMs, `${name} is no longer blocked`);
    this.#blocked.clear();
    for (const name of now) this.#blocked.add(name);
  }

  lines(): readonly string[] {
    return this.#lines;
  }

  #add(atMs: number, what: string): void {
    this.#lines.unshift(`${new Date(atMs).toISOString().slice(11, 19)}  ${what}`);
    this.#lines.splice(LOG_LINES_MAX);
  }
}

/** The whole screen: a line a limit with its bar, then the log. */
export function screenText(
  items: readonly WatchedBucket[],
  shown: { readonly atMs: number; readonly columns: number; readonly paint: Paint; readonly log: readonly string[] },
): string {
  const { atMs, columns, paint, log } = shown;
  const head = `${items.length} limits  ${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")}Z\n`;
  if (items.length === 0) return `${head}\nNo tokens have been taken yet.\n`;
  const names = items.map((item) => printable(nameOf(item)));
  const name = Math.min(34, Math.max(...names.map(({ length }) => length)));
  const room = Math.max(8, columns - name - 44);
  const rows = items.map((item, i) => {
    const { available, capacity, takenPerSecond, blocked, retryAfterMs } = item;
    const used = capacity === 0 ? 1 : (capacity - available) / capacity;
    const bar = barText(used, room).padEnd(room);
    const paintBar = available < 0 || blocked ? "red" : used > 0.8 ? "yellow" : "green";
    const state = blocked ? `blocked ${waitText(retryAfterMs)}` : available < 0 ? "debt" : "";
    const left = `${available}/${capacity}`.padStart(17);
    const rate = `${takenPerSecond}/s`.padStart(8);
    return `${cut(names[i] ?? "", name)}  ${paint(paintBar, bar)}${left}${rate}  ${state}`.trimEnd();
  });
  const logged = log.length === 0 ? "" : `\n${log.map((line) => paint("dim", line)).join("\n")}\n`;
  return `${head}\n${rows.join("\n")}\n${logged}`;
}

function nameOf({ entityId, resource, limit }: WatchedBucket): string {
  return `${entityId} ${resource} ${limit}`;
}

function cut(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}…`;
}
