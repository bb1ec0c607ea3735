import type { UsageSnapshot } from "../../entry/index.ts";
import { chartText, type Series } from "../chart.ts";
import { paintOf } from "../color.ts";
import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { printValue, unlessInterrupted } from "../print.ts";
import { noUsage, type UsageOptions, usageOptions, usageRequest, windowText } from "../usage-options.ts";

interface UsageChartOptions extends UsageOptions {
  readonly limit?: string;
}

export const usageChart: CommandFile<UsageChartOptions> = {
  configure: (command) => {
    usageOptions(command)
      .option("-l, --limit <name>", "only this limit")
      .addHelpText(
        "after",
        examples("zae-limiter usage chart -r gpt-4 --from 24h", "zae-limiter usage chart -w daily -l tpm --from 30d"),
      );
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    return onStore(context, options, async (limiter) => {
      const series = await unlessInterrupted(context, seriesOf(limiter.usage(request), options.limit));
      const columns = context.terminal.columns ?? 80;
      const paint = paintOf(context, options);
      await printValue(context, options, { window: request.window, series }, () =>
        series.length === 0
          ? `${noUsage(request)}\n`
          : series
              .map((one) => chartText(one, { columns, paint, labelOf: (ms) => windowText(request.window, ms) }))
              .join("\n"),
      );
      return EXIT.done;
    });
  },
};

/** What all entities and resources that were asked for used together, window by window. */
async function seriesOf(snapshots: AsyncIterable<UsageSnapshot>, only: string | undefined): Promise<readonly Series[]> {
  const limits = new Map<string, Map<number, number>>();
  for await (const { windowStartMs, counters } of snapshots) {
    for (const [limit, tokens] of Object.entries(counters)) {
      if (only !== undefined && limit !== only) continue;
      const points = limits.get(limit) ?? new Map<number, number>();
      limits.set(limit, points);
      points.set(windowStartMs, (points.get(windowStartMs) ?? 0) + tokens);
    }
  }
  return [...limits]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([limit, points]) => ({
      limit,
      points: Array.from(points, ([windowStartMs, tokens]) => ({ windowStartMs, tokens })).sort(
        (a, b) => a.windowStartMs - b.windowStartMs,
      ),
    }));
}
