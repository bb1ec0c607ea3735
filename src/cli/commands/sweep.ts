import { hostname } from "node:os";
import { given } from "../../domain/names/given.ts";
import type { FollowOptions, FollowReport, LogLevel, MetricName } from "../../entry/aggregator.ts";
import type { RetentionOptions } from "../../entry/retention.ts";
import type { Swept } from "../../ports/store.ts";
import { type CommandContext, command, type OptionRow, type OptionsOf } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { isMissing, timeoutOf } from "../on-store.ts";
import { isJson, printValue } from "../print.ts";
import { chosenStore, requiredTable } from "../store-option.ts";
import type { StoreTarget } from "../stores.ts";
import { jsonOf } from "../table.ts";
import { choiceOf, durationMs } from "../values.ts";

/** Removes all of what processes that acquire remove bit by bit. */
export const sweep = command({
  options: [
    ["--usage-keep <duration>", "how long usage and refusals are kept; default 400d"],
    ["--audit-keep <duration>", "how long audit events are kept; default 400d"],
  ],
  examples: ["sweep --store postgres", "sweep --store postgres --audit-keep 3650d"],
  notes: [
    "PostgreSQL only, in all namespaces. Removes buckets that are full again, and usage, refusals, audit events, leases\n" +
      "and idempotency keys that are too old. Processes that acquire do the same, a few rows at a time: sweep is for\n" +
      "cron. Give the durations that your programs keep usage and audit events for, if they are not the default.",
  ],
  run: async (context, { usageKeep, auditKeep }) => {
    const target = chosenStore(context);
    if (target.sweptBy !== undefined) {
      throw new UsageError(`sweep is for PostgreSQL, and the store is ${target.name}: ${target.sweptBy}`);
    }
    if (context.options.namespace !== undefined) {
      throw new UsageError("sweep goes through all namespaces; leave --namespace out.");
    }
    if (context.options.dryRun === true) {
      throw new UsageError("sweep cannot tell beforehand what it would remove; leave --dry-run out.");
    }
    const removed = await sweepStore(target, {
      adminTimeoutMs: timeoutOf(context),
      ...given({
        usage: usageKeep === undefined ? undefined : { keepMs: durationMs(usageKeep, "--usage-keep") },
        auditKeepMs: auditKeep === undefined ? undefined : durationMs(auditKeep, "--audit-keep"),
      }),
    });
    const { buckets, rows } = removed;
    return printValue(context, removed, () => `Removed ${buckets} idle buckets and ${rows} old rows.\n`);
  },
});

async function sweepStore(
  target: StoreTarget,
  options: RetentionOptions & { readonly adminTimeoutMs: number },
): Promise<Swept> {
  const { openNamed } = await import("../../entry/rate-limiter.ts");
  const opening = { ...target.place, ...target.ofCommand, create: false, ...options };
  const store = await openNamed(opening).catch(async (error: unknown) => {
    throw isMissing(error) ? await target.missing(options.adminTimeoutMs, error) : error;
  });
  try {
    return (await store.sweep?.()) ?? { buckets: 0, rows: 0 };
  } finally {
    await store.close();
  }
}

const AGGREGATE_OPTIONS = [
  ["--archive <location>", "s3://BUCKET[/PREFIX] for expired audit events; without it, only sweep"],
  ["--s3-endpoint <url>", "URL of S3"],
  ["--from <where>", "oldest or latest: where to start if there is no checkpoint", { default: "oldest" }],
  ["--once", "read the stream to its current end, sweep all past hours, and exit"],
  ["--no-sweep", "read the stream only; do not sweep"],
  ["--sweep-after <hours>", "close an hour this many hours after its end; default 2"],
  ["--snapshots <list>", "hourly, daily or both: copy closed usage for readers of the original"],
  ["--runner <name>", "a unique name of this runner; default: host and process"],
] as const satisfies readonly OptionRow[];

/** Follows the table's stream and sweeps, until it is ended; with --once, once. */
export const aggregate = command({
  options: AGGREGATE_OPTIONS,
  examples: [
    "aggregate --store dynamodb:limits --archive s3://my-archive",
    "aggregate --store dynamodb:limits --once --json",
  ],
  run: async (context, options) => {
    const { output, interrupted } = context;
    const table = requiredTable(context, "aggregate");
    // Lines of metrics are what a running service answers with; a run with an end has one answer.
    const onMetrics = (values: Readonly<Partial<Record<MetricName, number>>>) => {
      if (options.once === true || interrupted.aborted) return;
      void output.write(`${jsonOf({ atMs: Date.now(), stack: table.stack, metrics: values })}\n`);
    };
    const { follow } = await import("../../entry/aggregator.ts");
    const write = (line: string) => output.note(`${line}\n`);
    const runner = follow({ ...table, ...followOptions(context, options), onMetrics, write });
    interrupted.addEventListener("abort", () => void runner.stop(), { once: true });
    const report = await runner.done;
    return printValue(context, report, () => sentence(report));
  },
});

function followOptions(
  context: CommandContext,
  options: OptionsOf<typeof AGGREGATE_OPTIONS>,
): Omit<FollowOptions, "stack"> {
  const { archive, s3Endpoint, from, once, sweep, sweepAfter, snapshots, runner } = options;
  const isQuiet = isJson(context) || context.options.quiet === true;
  return given({
    from: choiceOf(from, ["oldest", "latest"], "--from"),
    once,
    sweep,
    runner: runner ?? `${hostname()}-${process.pid}`,
    archive,
    s3Endpoint,
    sweepAfterHours: sweepAfter === undefined ? undefined : hoursOf(sweepAfter),
    snapshots: snapshots?.split(",") as ("hourly" | "daily")[] | undefined,
    logLevel: (context.env.LOG_LEVEL || (isQuiet ? "error" : "info")) as LogLevel,
  });
}

function hoursOf(text: string): number {
  if (/^\d+$/.test(text)) return Number(text);
  throw new UsageError(`--sweep-after is "${text}"; give a whole number of hours.`);
}

function sentence({ records, archived, gaps, sweep }: FollowReport): string {
  const parts = [`${records} records read, ${archived} audit events archived`];
  if (gaps > 0) parts.push(`${gaps} gaps: records expired before they were read`);
  if (sweep !== undefined) parts.push(`${sweep.bucketsSwept} buckets swept, ${sweep.hoursClosed} hours closed`);
  return `${parts.join("; ")}.\n`;
}
