import { setTimeout as sleep } from "node:timers/promises";
import { type BucketQueryOptions, bucketQuery } from "../bucket-query.ts";
import { paintOf } from "../color.ts";
import { type CommandContext, type CommandFile, examples, repeated } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { jsonOf } from "../printable.ts";
import { durationMs, tokensOf } from "../values.ts";
import { type BucketReading, byUse, lookAt, readBuckets } from "../watch-look.ts";
import { BlockLog, limitsOnScreen, screenText } from "../watch-screen.ts";

interface WatchOptions extends BucketQueryOptions {
  readonly consume?: readonly string[];
  readonly interval?: string;
  readonly once?: boolean;
}

export const watch: CommandFile<WatchOptions> = {
  endsByInterrupt: true,
  configure: (command) => {
    command
      .option("-e, --entity <id>", "only this entity")
      .option("-r, --resource <resource>", "only this resource")
      .option(
        "-c, --consume <measure=n>",
        "mark limits that would refuse this much; default one token; repeated",
        repeated,
      )
      .option("--interval <duration>", "refresh interval; default 1s")
      .option("--once", "print once and exit")
      .addHelpText("after", examples("zae-limiter watch -r gpt-4 --once", "zae-limiter watch -e key-1 --once --json"))
      .addHelpText(
        "after",
        "\nOn a terminal, watch draws the most used limits until Ctrl-C. Elsewhere it needs --once or --ndjson.\n",
      );
  },
  run: (context, options) => {
    const intervalMs = durationMs(options.interval ?? "1s", "--interval");
    if (intervalMs < 10) throw new UsageError(`--interval is "${options.interval}"; give at least 10ms.`);
    const consume = options.consume === undefined ? {} : tokensOf(options.consume, "-c");
    const query = bucketQuery(context, options);
    const isScreen = options.once !== true && options.ndjson !== true;
    if (isScreen && (!context.terminal.stdout || options.json === true)) {
      throw new UsageError("watch draws only on a terminal; elsewhere give --once, or --ndjson to continue.");
    }
    return onStore(context, options, async (limiter) => {
      const read = () => readBuckets(limiter, query, Date.now);
      // Rates need two readings. Nothing is shown of the first, so that nothing more is asked.
      let before: BucketReading | undefined = options.once === true ? await read() : undefined;
      if (options.once === true) await pause(intervalMs, context);
      const log = isScreen ? new BlockLog() : undefined;
      do {
        const now = await read();
        await show(context, options, { limiter, consume, now, before, log });
        before = now;
        if (options.once === true || context.output.isClosed) break;
        await pause(intervalMs, context);
      } while (!context.interrupted.aborted);
      return EXIT.done;
    });
  },
};

function pause(ms: number, { interrupted }: CommandContext): Promise<void> {
  return sleep(ms, undefined, { signal: interrupted }).catch(() => {});
}

interface Shown {
  readonly limiter: CommandLimiter;
  readonly consume: Readonly<Record<string, number>>;
  readonly now: BucketReading;
  readonly before: BucketReading | undefined;
  /** Of the screen that is drawn again and again; undefined where everything is printed. */
  readonly log: BlockLog | undefined;
}

async function show(context: CommandContext, options: WatchOptions, shown: Shown): Promise<void> {
  const { output, terminal } = context;
  const { limiter, now, log } = shown;
  const limits = [...now.limits.values()];
  const all = { ...shown, itemsMax: Number.POSITIVE_INFINITY };
  if (options.ndjson === true || options.json === true) {
    const { items } = await lookAt(limiter, limits, all);
    if (options.ndjson === true) return output.write(items.map((item) => `${jsonOf(item)}\n`).join(""));
    return output.write(`${jsonOf({ items })}\n`);
  }
  limits.sort(byUse);
  const drawn = { atMs: now.atMs, columns: terminal.columns ?? 80, paint: paintOf(context, options) };
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
