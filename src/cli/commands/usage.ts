import { isMoney } from "../../domain/limits/money-words.ts";
import type { UsageRequest, UsageSnapshot, UsageSummary, UsageTotal } from "../../entry/index.ts";
import { chartText, type Series } from "../chart.ts";
import { paintOf } from "../color.ts";
import { type CommandContext, type CommandFile, type CommandGroup, examples, listOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { writeWhole } from "../files.ts";
import { onStore } from "../on-store.ts";
import { fieldsText, pageFrom, printList, printValue, requireUninterrupted, unlessInterrupted } from "../print.ts";
import { progressOf } from "../progress.ts";
import { tableOf } from "../table.ts";
import {
  countersText,
  noUsage,
  type UsageOptions,
  usageOptions,
  usageRequest,
  usedText,
  windowText,
} from "../usage-options.ts";
import { choiceOf } from "../values.ts";

const usageList: CommandFile<UsageOptions> = {
  configure: (command) => {
    usageOptions(listOptions(command)).addHelpText(
      "after",
      examples("zae-limiter usage list -e key-1 --from 24h", "zae-limiter usage list -w daily --ndjson"),
    );
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    return onStore(context, options, (limiter) =>
      printList(context, options, {
        page: (page) => pageFrom(limiter.usage({ ...request, ...page })),
        columns: [
          { title: "WINDOW", text: ({ window, windowStartMs }) => windowText(window, windowStartMs) },
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "RESOURCE", text: ({ resource }) => resource },
          { title: "REQUESTS", text: ({ requests }) => String(requests), right: true },
          { title: "TOKENS", text: ({ counters, wouldRefuse }) => usedText(counters, wouldRefuse), flexible: true },
        ],
        empty: noUsage(request),
      }),
    );
  },
};

const usageSummary: CommandFile<UsageOptions> = {
  configure: (command) => {
    usageOptions(command).addHelpText("after", examples("zae-limiter usage summary -e key-1 --from 7d"));
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    return onStore(context, options, async (limiter) => {
      const summary = await unlessInterrupted(context, limiter.usageSummary(request));
      await printValue(context, options, summary, () => summaryText(summary, request));
      return EXIT.done;
    });
  },
};

function summaryText(summary: UsageSummary, request: UsageRequest): string {
  const { window } = request;
  const { snapshotCount, total, average, requests, overdrafts, bypassed, wouldRefuse, heldMs } = summary;
  const { firstWindowStartMs, lastWindowStartMs } = summary;
  if (firstWindowStartMs === undefined || lastWindowStartMs === undefined) return `${noUsage(request)}\n`;
  const rounded = Object.fromEntries(
    Object.entries(average).map(([limit, tokens]) => [
      limit,
      isMoney(limit) ? Math.round(tokens) : Math.round(tokens * 10) / 10,
    ]),
  );
  const some = (counted: Readonly<Record<string, number>>) => countersText(counted) || undefined;
  return fieldsText({
    from: windowText(window, firstWindowStartMs),
    to: windowText(window, lastWindowStartMs),
    windows: String(snapshotCount),
    requests: String(requests),
    total: countersText(total),
    average: countersText(rounded),
    overdrafts: some(overdrafts),
    bypassed: some(bypassed),
    wouldRefuse: some(wouldRefuse),
    heldMs: some(heldMs),
  });
}

interface UsageTotalsOptions extends UsageOptions {
  readonly by?: string;
}

const usageTotals: CommandFile<UsageTotalsOptions> = {
  configure: (command) => {
    usageOptions(command)
      .option("--by <entity|resource>", "what to group by; default entity")
      .addHelpText(
        "after",
        examples(
          "zae-limiter usage totals --from 30d",
          "zae-limiter usage totals --by resource -e proj-1 -w daily --from 30d",
        ),
      )
      .addHelpText("after", "\nThe sum of a parent includes its children: add up entities of one level only.\n");
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    const by = choiceOf(options.by ?? "entity", ["entity", "resource"], "--by");
    return onStore(context, options, async (limiter) => {
      const items = await unlessInterrupted(context, limiter.usageTotals({ ...request, by }));
      const draw = tableOf<UsageTotal>(context, options, [
        { title: by.toUpperCase(), text: ({ entityId, resource }) => entityId ?? resource ?? "" },
        { title: "REQUESTS", text: ({ requests }) => String(requests), right: true },
        { title: "TOKENS", text: ({ total, wouldRefuse }) => usedText(total, wouldRefuse), flexible: true },
      ]);
      await printValue(context, options, { items }, () => (items.length === 0 ? `${noUsage(request)}\n` : draw(items)));
      return EXIT.done;
    });
  },
};

interface UsageChartOptions extends UsageOptions {
  readonly limit?: string;
}

const usageChart: CommandFile<UsageChartOptions> = {
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

interface UsageExportOptions extends UsageOptions {
  readonly format?: string;
  readonly output?: string;
}

const usageExport: CommandFile<UsageExportOptions> = {
  configure: (command) => {
    usageOptions(command)
      .option("--format <csv|ndjson|json>", "default csv")
      .option("-o, --output <file>", "default: stdout")
      .addHelpText(
        "after",
        examples(
          "zae-limiter usage export -w daily --from 30d -o usage.csv",
          "zae-limiter usage export --format ndjson",
        ),
      );
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    const word = options.format ?? (options.ndjson === true ? "ndjson" : options.json === true ? "json" : "csv");
    const format = choiceOf(word, ["csv", "ndjson", "json"], "--format");
    return onStore(context, options, async (limiter) => {
      const pieces = limiter.exportUsage({ ...request, format });
      if (options.output === undefined) await toOutput(context, pieces);
      else await toFile(context, options, pieces, options.output);
      return EXIT.done;
    });
  },
};

async function toOutput(context: CommandContext, pieces: AsyncIterable<string>): Promise<void> {
  for await (const piece of pieces) {
    if (context.output.isClosed) return;
    requireUninterrupted(context);
    await context.output.write(piece);
  }
}

async function toFile(
  context: CommandContext,
  options: UsageExportOptions,
  pieces: AsyncIterable<string>,
  file: string,
): Promise<void> {
  const progress = progressOf(context, options);
  let lines = 0;
  const counted = (async function* () {
    for await (const piece of pieces) {
      requireUninterrupted(context);
      lines += piece.split("\n").length - 1;
      progress.tell(`${lines} lines written`);
      yield piece;
    }
  })();
  try {
    await writeWhole(file, counted);
  } finally {
    progress.end();
  }
  if (options.quiet !== true && options.json !== true && options.ndjson !== true) {
    context.output.note(`${lines} lines written to ${file}.\n`);
  }
}

export const USAGE_COMMANDS: CommandGroup = {
  "usage list": usageList,
  "usage summary": usageSummary,
  "usage totals": usageTotals,
  "usage export": usageExport,
  "usage chart": usageChart,
};
