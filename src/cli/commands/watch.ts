import { setTimeout as sleep } from "node:timers/promises";
import { isMoney, waitText } from "../../domain/limits/durations.ts";
import { type CommandContext, command, SCOPE_OPTIONS } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { toldText } from "../explain-text.ts";
import { tokensText } from "../limit-text.ts";
import { type CommandLimiter, onStore } from "../on-store.ts";
import { bucketQuery } from "../store-option.ts";
import { barText, jsonOf, type Paint, paintOf, printable } from "../table.ts";
import { durationMs, tokensOf } from "../values.ts";
import { type BucketReading, byUse, limitKey, lookAt, readBuckets, type WatchedBucket } from "../watch-look.ts";

const LOG_LINES_MAX = 8;

/** When who began and ended to be blocked, as far as this screen saw it. */
export class BlockLog {
  /** By key, the name. */
  readonly #blocked = new Map<string, string>();
  readonly #lines: string[] = [];

  /** A limit that was blocked, and for which there was no room now, counts as blocked until it is seen again or is gone. */
  observe(items: readonly WatchedBucket[], { atMs, limits }: BucketReading): void {
    const seen = new Map(items.map((item) => [limitKey(item), item]));
    const ended = [...this.#blocked].filter(([key]) => !(seen.get(key)?.blocked ?? limits.has(key)));
    for (const [key, item] of seen) {
      if (!item.blocked || this.#blocked.has(key)) continue;
      this.#blocked.set(key, nameOf(item));
      this.#add(atMs, `${nameOf(item)} is blocked`);
    }
    for (const [key, name] of ended) {
      this.#blocked.delete(key);
      this.#add(atMs, `${name} is no longer blocked`);
    }
  }

  lines(): readonly string[] {
    return this.#lines;
  }

  #add(atMs: number, what: string): void {
    this.#lines.unshift(`${new Date(atMs).toISOString().slice(11, 19)}  ${what}`);
    this.#lines.splice(LOG_LINES_MAX);
  }
}

/** The head, the empty line under it, the line of those left out, and the one that the cursor stands on. */
const OTHER_LINES = 4;

/** Drawn also where the screen is too small for them. */
const LIMITS_LEAST = 5;

/** How many limits a screen of so many rows has room for, above a log of so many lines. */
function limitsOnScreen(rows: number, log: readonly string[]): number {
  const logRows = log.length === 0 ? 0 : 1 + log.length;
  return Math.max(LIMITS_LEAST, rows - OTHER_LINES - logRows);
}

/** The whole screen: a line a limit with its bar, then the log. */
function screenText(
  items: readonly WatchedBucket[],
  shown: {
    readonly atMs: number;
    readonly columns: number;
    readonly paint: Paint;
    readonly log: readonly string[];
    /** The number of limits besides `items`. */
    readonly further: number;
  },
): string {
  const { atMs, columns, paint, log, further } = shown;
  const head = `${items.length + further} limits  ${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")}Z\n`;
  if (items.length === 0) return `${head}\nNo tokens have been taken yet.\n`;
  const names = items.map((item) => printable(nameOf(item)));
  const name = names.reduce((widest, { length }) => Math.max(widest, Math.min(34, length)), 0);
  const room = Math.max(8, columns - name - 44);
  const rows = items.map((item, i) => {
    const { limit, available, capacity, takenPerSecond, blocked, retryAfterMs, notified = [] } = item;
    const used = capacity === 0 ? 1 : (capacity - available) / capacity;
    const bar = barText(used, room).padEnd(room);
    const paintBar = available < 0 || blocked ? "red" : used > 0.8 ? "yellow" : "green";
    const told = notified.length === 0 ? [] : [toldText(notified)];
    const held = blocked ? [`blocked ${waitText(retryAfterMs)}`] : available < 0 ? ["debt"] : [];
    const state = [...held, ...told].join(", ");
    const left = `${tokensText(limit, available)}/${tokensText(limit, capacity)}`.padStart(17);
    const rate = `${rateText(limit, takenPerSecond)}/s`.padStart(8);
    return `${cut(names[i] ?? "", name)}  ${paint(paintBar, bar)}${left}${rate}  ${state}`.trimEnd();
  });
  const logged = log.length === 0 ? "" : `\n${log.map((line) => paint("dim", line)).join("\n")}\n`;
  const more = further === 0 ? "" : `${paint("dim", `${further} more, less used`)}\n`;
  return `${head}\n${rows.join("\n")}\n${more}${logged}`;
}

/** A rate has a part of a token; less than a micro-dollar is nothing. */
function rateText(limit: string, perSecond: number): string {
  return tokensText(limit, isMoney(limit) ? Math.round(perSecond) : perSecond);
}

function nameOf({ entityId, resource, limit }: WatchedBucket): string {
  return `${entityId} ${resource} ${limit}`;
}

function cut(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}…`;
}

export const watch = command({
  endsByInterrupt: true,
  options: [
    ...SCOPE_OPTIONS,
    ["-c, --consume <measure=n>", "mark limits that would refuse this much; default one token; repeated", "list"],
    ["--interval <duration>", "refresh interval; default 1s"],
    ["--once", "print once and exit"],
  ],
  examples: ["watch -r gpt-4 --once", "watch -e key-1 --once --json"],
  notes: ["On a terminal, watch draws the most used limits until Ctrl-C. Elsewhere it needs --once or --ndjson."],
  run: (context, options) => {
    const intervalMs = durationMs(options.interval ?? "1s", "--interval");
    if (intervalMs < 10) throw new UsageError(`--interval is "${options.interval}"; give at least 10ms.`);
    const consume = tokensOf(options.consume ?? [], "-c");
    const query = bucketQuery(context, options);
    const { once = false } = options;
    const isScreen = !once && context.options.ndjson !== true;
    if (isScreen && (!context.terminal.stdout || context.options.json === true)) {
      throw new UsageError("watch draws only on a terminal; elsewhere give --once, or --ndjson to continue.");
    }
    return onStore(context, async (limiter) => {
      const read = () => readBuckets(limiter, query, Date.now);
      // Rates need two readings. Nothing is shown of the first, so that nothing more is asked.
      let before: BucketReading | undefined = once ? await read() : undefined;
      if (once) await pause(intervalMs, context);
      const log = isScreen ? new BlockLog() : undefined;
      do {
        const now = await read();
        await show(context, { limiter, consume, now, before, log });
        before = now;
        if (once || context.output.isClosed) break;
        await pause(intervalMs, context);
      } while (!context.interrupted.aborted);
      return EXIT.done;
    });
  },
});

function pause(ms: number, { interrupted }: CommandContext): Promise<void> {
  return sleep(ms, undefined, { signal: interrupted }).catch(() => {});
}

interface Shown {
  readonly limiter: CommandLimiter;
  readonly consume: Readonly<Record<string, number>>;
  readonly now: BucketReading;
  readonly before: BucketReading | undefined;
  /** The blocks of the screen that is drawn again and again; undefined where everything is printed. */
  readonly log: BlockLog | undefined;
}

async function show(context: CommandContext, shown: Shown): Promise<void> {
  const { output, terminal } = context;
  const { limiter, now, log } = shown;
  const limits = [...now.limits.values()];
  const all = { ...shown, itemsMax: Number.POSITIVE_INFINITY };
  if (context.options.ndjson === true || context.options.json === true) {
    const { items } = await lookAt(limiter, limits, all);
    if (context.options.ndjson === true) return output.write(items.map((item) => `${jsonOf(item)}\n`).join(""));
    return output.write(`${jsonOf({ items })}\n`);
  }
  limits.sort(byUse);
  const drawn = { atMs: now.atMs, columns: terminal.columns ?? 80, paint: paintOf(context) };
  if (log === undefined) {
    const { items } = await lookAt(limiter, limits, all);
    return output.write(screenText(items, { ...drawn, log: [], further: 0 }));
  }
  const rows = terminal.rows ?? 24;
  const { items, unasked } = await lookAt(limiter, limits, { ...shown, itemsMax: limitsOnScreen(rows, []) });
  log.observe(items, now);
  const lines = log.lines();
  const fitting = items.slice(0, limitsOnScreen(rows, lines));
  const further = items.length - fitting.length + unasked;
  await output.write(`\x1b[H\x1b[2J${screenText(fitting, { ...drawn, log: lines, further })}`);
}
