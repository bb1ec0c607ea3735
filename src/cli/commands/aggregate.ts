import { hostname } from "node:os";
import type { FollowOptions, FollowReport, LogLevel, MetricName } from "../../entry/aggregator.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { isJson, printValue } from "../print.ts";
import { jsonOf } from "../printable.ts";
import { requiredTable } from "../store-option.ts";

interface AggregateOptions extends GlobalOptions {
  readonly archive?: string;
  readonly s3Endpoint?: string;
  readonly from: string;
  readonly once?: boolean;
  readonly sweep: boolean;
  readonly sweepAfter?: string;
  readonly snapshots?: string;
  readonly runner?: string;
}

/** Follows the table's stream and sweeps, until it is ended; with --once, once. */
export const aggregate: CommandFile<AggregateOptions> = {
  configure: (command) => {
    command
      .option("--archive <location>", "s3://BUCKET[/PREFIX] for expired audit events; without it, only sweep")
      .option("--s3-endpoint <url>", "URL of S3")
      .option("--from <where>", "oldest or latest: where to start if there is no checkpoint", "oldest")
      .option("--once", "read the stream to its current end, sweep all past hours, and exit")
      .option("--no-sweep", "read the stream only; do not sweep")
      .option("--sweep-after <hours>", "close an hour this many hours after its end; default 2")
      .option("--snapshots <list>", "hourly, daily or both: copy closed usage for readers of the original")
      .option("--runner <name>", "a unique name of this runner; default: host and process")
      .addHelpText(
        "after",
        examples(
          "zae-limiter aggregate --store dynamodb:limits --archive s3://my-archive",
          "zae-limiter aggregate --store dynamodb:limits --once --json",
        ),
      );
  },
  run: async (context, options) => {
    const { output, interrupted } = context;
    const { stack } = requiredTable(options, context, "aggregate");
    // Lines of metrics are what a running service answers with; a run with an end has one answer.
    const onMetrics = (values: Readonly<Partial<Record<MetricName, number>>>) => {
      if (options.once === true || interrupted.aborted) return;
      void output.write(`${jsonOf({ atMs: Date.now(), stack, metrics: values })}\n`);
    };
    const { follow } = await import("../../entry/aggregator.ts");
    const runner = follow({ ...followOptions(options, context), onMetrics, write: (line) => output.note(`${line}\n`) });
    interrupted.addEventListener("abort", () => void runner.stop(), { once: true });
    const report = await runner.done;
    await printValue(context, options, report, () => sentence(report));
    return EXIT.done;
  },
};

function followOptions(options: AggregateOptions, context: CommandContext): FollowOptions {
  const { archive, s3Endpoint, from, once = false, sweep, sweepAfter, snapshots, runner } = options;
  const isQuiet = isJson(options) || options.quiet === true;
  if (from !== "oldest" && from !== "latest") throw new UsageError(`--from is "${from}"; give oldest or latest.`);
  return {
    ...requiredTable(options, context, "aggregate"),
    ...{ from, once, sweep },
    runner: runner ?? `${hostname()}-${process.pid}`,
    ...(archive === undefined ? {} : { archive }),
    ...(s3Endpoint === undefined ? {} : { s3Endpoint }),
    ...(sweepAfter === undefined ? {} : { sweepAfterHours: hoursOf(sweepAfter) }),
    ...(snapshots === undefined ? {} : { snapshots: snapshots.split(",") as ("hourly" | "daily")[] }),
    logLevel: (context.env.LOG_LEVEL || (isQuiet ? "error" : "info")) as LogLevel,
  };
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
