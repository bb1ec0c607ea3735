import { setTimeout as sleep } from "node:timers/promises";
import { type BucketQueryOptions, bucketQuery } from "../bucket-query.ts";
import { paintOf } from "../color.ts";
import { type CommandContext, type CommandFile, examples, repeated } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { jsonOf } from "../print.ts";
import { durationMs, tokensOf } from "../values.ts";
import { takeSample, type WatchedBucket, type WatchSample } from "../watch-sample.ts";
import { BlockLog, screenText } from "../watch-screen.ts";

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
      .addHelpText("after", "\nOn a terminal, watch draws until Ctrl-C. Elsewhere it needs --once or --ndjson.\n");
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
      let before: WatchSample | undefined =
        options.once === true ? await takeSample(limiter, { query, consume, before: undefined }) : undefined;
      if (options.once === true) await pause(intervalMs, context);
      const log = new BlockLog();
      do {
        const now = await takeSample(limiter, { query, consume, before });
        before = now;
        await show(context, options, now, { log, isScreen });
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

async function show(
  context: CommandContext,
  options: WatchOptions,
  { items, atMs }: WatchSample,
  { log, isScreen }: { readonly log: BlockLog; readonly isScreen: boolean },
): Promise<void> {
  const { output, terminal } = context;
  if (options.ndjson === true) return output.write(items.map((item) => `${jsonOf(item)}\n`).join(""));
  if (options.json === true) return output.write(`${jsonOf({ items })}\n`);
  const sorted = [...items].sort(byUse);
  log.observe(sorted, atMs);
  const screen = screenText(sorted, {
    atMs,
    columns: terminal.columns ?? 80,
    paint: paintOf(context, options),
    log: isScreen ? log.lines() : [],
  });
  await output.write(isScreen ? `\x1b[H\x1b[2J${screen}` : screen);
}

/** Fullest use first: debt, then what is nearest to nothing. */
function byUse(a: WatchedBucket, b: WatchedBucket): number {
  return a.available / a.capacity - b.available / b.capacity;
}
