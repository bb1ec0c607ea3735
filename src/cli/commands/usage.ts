import { isMoney, waitText } from "../../domain/limits/durations.ts";
import { given } from "../../domain/names/given.ts";
import { checkSpan } from "../../domain/names/instant.ts";
import type { UsageRequest, UsageSnapshot, UsageSummary } from "../../entry/index.ts";
import {
  type CommandContext,
  type CommandGroup,
  command,
  ENTITY_ID,
  type OptionRow,
  type OptionsOf,
  SCOPE_OPTIONS,
} from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { minuteText, secondText } from "../explain-text.ts";
import { tokensText } from "../limit-text.ts";
import { type CommandLimiter, onStore } from "../on-store.ts";
import { writeWhole } from "../output.ts";
import { list, show } from "../plain-commands.ts";
import { fieldsText, isJson, pageFrom, progressLine, requireUninterrupted } from "../print.ts";
import { chartText, type Series } from "../table.ts";
import { choiceOf, countOf, instantMs } from "../values.ts";

const SPAN_OPTIONS = [
  ["--from, --start <instant>", "start: ISO 8601, or a duration ago such as 7d"],
  ["--to, --end <instant>", "end: ISO 8601, or a duration ago"],
] as const satisfies readonly OptionRow[];

const USAGE_OPTIONS = [
  ...SCOPE_OPTIONS,
  ENTITY_ID,
  ["-w, --window <hourly|daily|monthly>", "length of the windows; default hourly"],
  ...SPAN_OPTIONS,
] as const satisfies readonly OptionRow[];

const ZONED_OPTIONS = [
  ...USAGE_OPTIONS,
  ["--tz <zone>", "daily and monthly windows begin at midnight there; default UTC"],
] as const satisfies readonly OptionRow[];

type UsageOptions = OptionsOf<typeof USAGE_OPTIONS> & Partial<Pick<OptionsOf<typeof ZONED_OPTIONS>, "tz">>;

function usageRequest({ entity, entityId = entity, resource, start, end, window, tz }: UsageOptions): UsageRequest {
  const nowMs = Date.now();
  const fromMs = start === undefined ? undefined : instantMs(start, "--from", nowMs);
  const toMs = end === undefined ? undefined : instantMs(end, "--to", nowMs);
  checkSpan({ name: "--from", ms: fromMs }, { name: "--to", ms: toMs });
  const windows = choiceOf(window ?? "hourly", ["hourly", "daily", "monthly"], "--window");
  return { window: windows, ...given({ tz, entityId, resource, fromMs, toMs }) };
}

const TOTALS_OPTION = ["--totals", "rows of totals over all resources, too"] as const satisfies OptionRow;

const WINDOW_COLUMNS = [
  {
    title: "WINDOW",
    text: ({ windowStartMs, ...window }: Pick<UsageSnapshot, "window" | "windowStartMs" | "tz">) =>
      windowText(window, windowStartMs),
  },
  { title: "ENTITY", text: ({ entityId }: { readonly entityId: string }) => entityId },
  { title: "RESOURCE", text: ({ resource }: { readonly resource: string }) => resource },
] as const;

const NO_REFUSALS = "No refusals in that time.";

export const USAGE_COMMANDS: CommandGroup = {
  "usage list": list({
    options: [...ZONED_OPTIONS, TOTALS_OPTION],
    examples: ["usage list -e key-1 --from 24h", "usage list -w daily --tz Europe/Berlin --ndjson"],
    read: (options) => ({ ...usageRequest(options), ...given({ totals: options.totals }) }),
    source: (limiter, request) => ({
      page: (page) => pageFrom(limiter.usage({ ...request, ...page })),
      columns: [
        ...WINDOW_COLUMNS,
        { title: "REQUESTS", text: ({ requests }) => String(requests), right: true },
        { title: "TOKENS", text: ({ counters, wouldRefuse }) => usedText(counters, wouldRefuse), flexible: true },
      ],
      empty: () => nothingFound(limiter, request),
    }),
  }),
  "usage summary": show({
    options: ZONED_OPTIONS,
    examples: ["usage summary -e key-1 --from 7d"],
    read: usageRequest,
    isLong: true,
    get: (limiter, request) => limiter.usageSummary(request),
    text: (summary, _, request) => summaryText(summary, request),
  }),
  "usage totals": show({
    options: [...ZONED_OPTIONS, ["--by <entity|resource>", "what to group by; default entity"]],
    examples: ["usage totals --from 30d", "usage totals --by resource -e proj-1 -w daily --from 30d"],
    notes: ["The sum of a parent includes its children: add up entities of one level only."],
    read: (options) => ({
      ...usageRequest(options),
      by: choiceOf(options.by ?? "entity", ["entity", "resource"], "--by"),
    }),
    isLong: true,
    get: async (limiter, request) => ({ items: await limiter.usageTotals(request) }),
    text: async ({ items }, view, request, limiter) => {
      if (items.length === 0) return `${await nothingFound(limiter, request)}\n`;
      return view.table(
        [
          { title: request.by.toUpperCase(), text: ({ entityId, resource }) => entityId ?? resource ?? "" },
          { title: "REQUESTS", text: ({ requests }) => String(requests), right: true },
          { title: "TOKENS", text: (sum) => usedText(sum.total, sum.wouldRefuse, sum.inTotal), flexible: true },
        ],
        items,
      );
    },
  }),
  "usage chart": show({
    options: [...ZONED_OPTIONS, ["-l, --limit <name>", "only this limit"]],
    examples: ["usage chart -r gpt-4 --from 24h", "usage chart -w daily -l tpm --from 30d"],
    read: (options) => ({ request: usageRequest(options), limit: options.limit }),
    isLong: true,
    get: async (limiter, { request, limit }) => ({
      window: request.window,
      ...given({ tz: request.tz }),
      series: await seriesOf(limiter.usage(request), limit),
    }),
    text: async ({ series, ...window }, view, { request }, limiter) => {
      if (series.length === 0) return `${await nothingFound(limiter, request)}\n`;
      const labelOf = (ms: number) => windowText(window, ms);
      return series.map((one) => chartText(one, { ...view, labelOf })).join("\n");
    },
  }),
  "usage export": command({
    options: [
      ...ZONED_OPTIONS,
      TOTALS_OPTION,
      ["--format <csv|ndjson|json>", "default csv"],
      ["-o, --output <file>", "default: stdout"],
    ],
    examples: ["usage export -w daily --from 30d -o usage.csv", "usage export --format ndjson"],
    run: (context, options) => {
      const request = { ...usageRequest(options), ...given({ totals: options.totals }) };
      const { json, ndjson } = context.options;
      const word = options.format ?? (ndjson === true ? "ndjson" : json === true ? "json" : "csv");
      const format = choiceOf(word, ["csv", "ndjson", "json"], "--format");
      return onStore(context, async (limiter) => {
        const pieces = limiter.exportUsage({ ...request, format });
        if (options.output === undefined) await toOutput(context, pieces);
        else await toFile(context, pieces, options.output);
        return EXIT.done;
      });
    },
  }),
  "refusals list": list({
    options: [...USAGE_OPTIONS, ["-l, --limit <name>", "only refusals by this limit"]],
    examples: ["refusals list -e key-1 --from 24h", "refusals list -w daily -l tpm --ndjson"],
    read: (options) => ({ ...usageRequest(options), ...given({ limit: options.limit }) }),
    source: (limiter, request) => ({
      page: ({ limit: pageSize, ...page }) => pageFrom(limiter.refusals({ ...request, pageSize, ...page })),
      columns: [
        ...WINDOW_COLUMNS,
        { title: "LIMIT", text: ({ limit }) => limit },
        { title: "OF", text: ({ level, total }) => (total ? `${level} in total` : level) },
        { title: "REFUSED", text: ({ count }) => String(count), right: true },
      ],
      empty: NO_REFUSALS,
    }),
  }),
  "refusals log": list({
    options: [...SCOPE_OPTIONS, ENTITY_ID, ["-l, --limit <name>", "only refusals by this limit"], ...SPAN_OPTIONS],
    examples: ["refusals log -e key-1 --from 2h", "refusals log -r gpt-4 -l tpm --ndjson"],
    notes: ["Of each entity and hour the first 20 and the last 20 of each process, for 48 hours; counts are whole."],
    read: (options) => {
      const { window: _, ...about } = usageRequest(options);
      return { ...about, ...given({ limit: options.limit }) };
    },
    source: (limiter, request) => ({
      page: ({ limit: pageSize, ...page }) => pageFrom(limiter.refusalLog({ ...request, pageSize, ...page })),
      columns: [
        { title: "WHEN", text: ({ atMs }) => `${minuteText(atMs).slice(0, 10)} ${secondText(atMs)}` },
        { title: "ENTITY", text: ({ entityId }) => entityId },
        { title: "RESOURCE", text: ({ resource }) => resource },
        { title: "LIMIT", text: ({ limit }) => limit },
        { title: "OF", text: ({ level, total }) => (total ? `${level} in total` : level) },
        { title: "ASKED", text: ({ limit, requested }) => tokensText(limit, requested), right: true },
        { title: "HAD", text: ({ limit, available }) => tokensText(limit, available), right: true },
        {
          title: "WAIT",
          text: ({ retryAfterMs }) => (retryAfterMs === null ? "never" : waitText(retryAfterMs)),
          right: true,
        },
        { title: "REQUEST", text: ({ requestId = "" }) => requestId, flexible: true },
      ],
      empty: NO_REFUSALS,
    }),
  }),
  "refusals top": show({
    options: [
      ["--by <entity|resource|limit>", "what to group by; default entity"],
      ["--top <n>", "how many; default 10"],
      ...SPAN_OPTIONS,
    ],
    examples: ["refusals top --from 24h", "refusals top --by limit --top 3"],
    read: (options) => {
      const { window: _, ...span } = usageRequest(options);
      const by = choiceOf(options.by ?? "entity", ["entity", "resource", "limit"], "--by");
      return { ...span, by, top: options.top === undefined ? 10 : countOf(options.top, "--top") };
    },
    isLong: true,
    get: async (limiter, request) => ({ items: await limiter.refusalTotals(request) }),
    text: ({ items }, view, { by }) => {
      if (items.length === 0) return `${NO_REFUSALS}\n`;
      return view.table(
        [
          { title: by.toUpperCase(), text: ({ entityId, resource, limit }) => entityId ?? resource ?? limit ?? "" },
          { title: "REFUSED", text: ({ count }) => String(count), right: true },
        ],
        items,
      );
    },
  }),
};

/** `2026-06-01 12:00`, `2026-06-01` or `2026-06`, by the window and its zone. */
function windowText({ window, tz }: Pick<UsageRequest, "window" | "tz">, startMs: number): string {
  const iso = tz === undefined ? new Date(startMs).toISOString() : dayIn(tz, startMs);
  if (window === "monthly") return iso.slice(0, 7);
  return window === "daily" ? iso.slice(0, 10) : iso.slice(0, 16).replace("T", " ");
}

function dayIn(tz: string, atMs: number): string {
  const format = new Intl.DateTimeFormat("en", { timeZone: tz, year: "numeric", month: "2-digit", day: "2-digit" });
  const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
  return ["year", "month", "day"].map((name) => parts.get(name as "year")).join("-");
}

/** Rows of totals are left out of lists, so that nothing is counted twice: who finds nothing is told where there is something. */
async function nothingFound(
  limiter: CommandLimiter,
  { entityId, resource, window, tz, fromMs, toMs }: UsageRequest,
): Promise<string> {
  if (resource !== undefined) return noUsage(resource, false);
  const asked = { window, resource: "*", ...given({ entityId, tz, fromMs, toMs }) };
  for await (const _ of limiter.usage(asked)) return noUsage(resource, true);
  return noUsage(resource, false);
}

function noUsage(resource: string | undefined, isInTotals: boolean): string {
  if (isInTotals) return "No usage on resources in that time; of totals there is: -r '*'";
  return `No usage in that time.${resource === undefined ? " Usage of totals is under -r '*'." : ""}`;
}

/** `rpm=3 tpm=500 (would refuse rpm=1) (in total usd=$2.00)`: of shadow limits, and of totals over all resources. */
function usedText(
  counters: Readonly<Record<string, number>>,
  wouldRefuse: Readonly<Record<string, number>>,
  inTotal?: UsageSummary["inTotal"],
): string {
  const refused = Object.entries(wouldRefuse).map(([limit, requests]) => `${limit}=${requests}`);
  const parts = [
    countersText(counters),
    ...(refused.length === 0 ? [] : [`(would refuse ${refused.join(" ")})`]),
    ...(inTotal === undefined ? [] : [`(in total ${countersText(inTotal.total)})`]),
  ];
  return parts.filter((part) => part !== "").join(" ");
}

function countersText(counters: Readonly<Record<string, number>>): string {
  return Object.entries(counters)
    .map(([limit, tokens]) => `${limit}=${tokensText(limit, tokens)}`)
    .join(" ");
}

function summaryText(summary: UsageSummary, request: UsageRequest): string {
  const { snapshotCount, total, average, requests, overdrafts, bypassed, wouldRefuse, heldMs } = summary;
  const { firstWindowStartMs, lastWindowStartMs, inTotal } = summary;
  if (firstWindowStartMs === undefined || lastWindowStartMs === undefined) {
    return `${noUsage(request.resource, inTotal !== undefined)}\n`;
  }
  const rounded = Object.fromEntries(
    Object.entries(average).map(([limit, tokens]) => [
      limit,
      isMoney(limit) ? Math.round(tokens) : Math.round(tokens * 10) / 10,
    ]),
  );
  const some = (counted: Readonly<Record<string, number>>) => countersText(counted) || undefined;
  return fieldsText({
    from: windowText(request, firstWindowStartMs),
    to: windowText(request, lastWindowStartMs),
    windows: String(snapshotCount),
    requests: String(requests),
    total: countersText(total),
    average: countersText(rounded),
    overdrafts: some(overdrafts),
    bypassed: some(bypassed),
    wouldRefuse: some(wouldRefuse),
    heldMs: some(heldMs),
    inTotal: inTotal && some(inTotal.total),
  });
}

/** Adds up the usage of all entities and resources that were asked for, window by window. */
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

async function toOutput(context: CommandContext, pieces: AsyncIterable<string>): Promise<void> {
  for await (const piece of pieces) {
    if (context.output.isClosed) return;
    requireUninterrupted(context);
    await context.output.write(piece);
  }
}

async function toFile(context: CommandContext, pieces: AsyncIterable<string>, file: string): Promise<void> {
  const progress = progressLine(context, 1_000);
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
  if (context.options.quiet !== true && !isJson(context)) {
    context.output.note(`${lines} lines written to ${file}.\n`);
  }
}
