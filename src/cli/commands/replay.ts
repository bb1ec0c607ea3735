import { waitText } from "../../domain/limits/durations.ts";
import { given } from "../../domain/names/given.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import type { Manifest } from "../../manifest/manifest.ts";
import type { ReadLog } from "../../replay/read-log.ts";
import type { Replayed, ReplayRow } from "../../replay/replay.ts";
import type { ReplayedLimits } from "../../replay/replayed-limits.ts";
import { type CommandContext, command } from "../command.ts";
import { CommandEnd, EXIT, UsageError } from "../exit-code.ts";
import { namespaceFor, withManifest } from "../manifest-options.ts";
import { textGiven } from "../output.ts";
import { printValue, progressLine, requireUninterrupted } from "../print.ts";
import { type Column, printable, tableOf } from "../table.ts";
import { countOf } from "../values.ts";

/** Makes recorded requests again, on limits in memory. */
export const replay = command({
  arguments: [["<files...>", "logs, one JSON object per line; - is stdin"]],
  options: [
    ["-f, --file <file>", "the new limits, a manifest; - is stdin"],
    ["--old <file>", "the limits until now, a manifest, to show what changes"],
    [
      "--field <name=pointer>",
      "where another log has a field: entityId=/user/id, consume.tpm=/usage/total; repeated",
      "list",
    ],
    ["--fail-above <percent>", "exit with 1 if more than this percentage of the requests is refused"],
    ["--top <n>", "show the limits that refuse most", { default: "20" }],
  ],
  examples: ["replay --help"],
  notes: [
    "A line is { at | atMs, entityId, resource, consume?, actual?, endMs?, also? }, or one that `events follow` printed:\n" +
      "zae-limiter limits export -o now.yaml && zae-limiter replay requests.ndjson -f limits.yaml --old now.yaml",
    "No store is opened: the limits are applied to stores in memory, whose clock is set to each line.",
    "Exit codes: 1 more is refused than --fail-above allows, 2 a manifest is invalid or no line is a request, 4 a parent is missing.",
  ],
  run: async (context, options, files) => {
    const top = countOf(options.top, "--top");
    const failAbove = options.failAbove === undefined ? undefined : percentOf(options.failAbove);
    refuseSharedInput([...files, options.file, options.old]);
    const { fieldMapOf } = await import("../../replay/request-line.ts");
    const fields = fieldMapOf(options.field ?? []);
    return withManifest(context, given({ file: options.file }), (made) =>
      withOld(context, options.old, async (old) => {
        const { readLog } = await import("../../replay/read-log.ts");
        const log = await readLog(
          files.map((name) => ({ name, text: textGiven(name, "The log", context.interrupted) })),
          fields,
        );
        tellProblems(context, log);
        if (log.requests.length === 0) throw nothingToReplay(log);
        const replayed = await replayedOn(context, log, { made, old, top });
        await printValue(context, replayed, () => replayedText(context, replayed));
        const isAbove = failAbove !== undefined && replayed.new.refused * 100 > failAbove * replayed.used;
        return isAbove ? EXIT.refused : EXIT.done;
      }),
    );
  },
});

function withOld(
  context: CommandContext,
  file: string | undefined,
  work: (manifest: Manifest | undefined) => Promise<number>,
): Promise<number> {
  return file === undefined ? work(undefined) : withManifest(context, { file }, work);
}

interface ReplayedManifests {
  readonly made: Manifest;
  readonly old: Manifest | undefined;
  readonly top: number;
}

async function replayedOn(
  context: CommandContext,
  { requests, lines }: ReadLog,
  { made, old, top }: ReplayedManifests,
): Promise<Replayed> {
  const [{ replay: replayOn }, { systemTurns }] = await Promise.all([
    import("../../replay/replay.ts"),
    import("../../adapters/system/clock.ts"),
  ]);
  const opened: Opened[] = [];
  const open = async (manifest: Manifest) => {
    const one = await openLimits(context, manifest, requests.fromMs);
    opened.push(one);
    return one.limits;
  };
  const progress = progressLine(context, 500);
  try {
    return await replayOn({
      ...{ requests, lines, top, turns: systemTurns },
      old: old && (await open(old)),
      new: await open(made),
      onProgress: (decided) => {
        requireUninterrupted(context);
        progress.tell(`${decided} of ${requests.length} requests`);
      },
    });
  } finally {
    progress.end();
    for (const { limiter } of opened) await limiter.close();
  }
}

interface Opened {
  readonly limits: ReplayedLimits;
  readonly limiter: Limiter;
}

/** Applies a manifest to an empty store in memory, at the instant of the first request. */
async function openLimits(context: CommandContext, manifest: Manifest, nowMs: number): Promise<Opened> {
  const [{ RateLimiter }, { applyManifest, planManifest }, { ReplayedLimits }] = await Promise.all([
    import("../../entry/rate-limiter.ts"),
    import("../../entry/manifest.ts"),
    import("../../replay/replayed-limits.ts"),
  ]);
  const clock = { nowMs, now: () => clock.nowMs };
  const limiter = await RateLimiter.open({
    ...{ store: "memory", namespace: "default", clock, usage: false, countRefusals: false, unnamedLimits: "allow" },
    // The limits never change, so they are read once.
    configTtlMs: Number.MAX_SAFE_INTEGER,
  });
  try {
    const namespace = namespaceFor(manifest, context);
    if (namespace !== "default") await limiter.registerNamespace(namespace);
    const tenant = limiter.namespace(namespace);
    await applyManifest(tenant, await planManifest(tenant, manifest));
    return { limits: new ReplayedLimits(tenant, clock), limiter };
  } catch (error) {
    await limiter.close();
    throw error;
  }
}

function percentOf(text: string): number {
  const percent = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (percent <= 100) return percent;
  throw new UsageError(`--fail-above is "${text}"; give a percentage from 0 to 100, such as 1 or 0.5.`);
}

function refuseSharedInput(files: readonly (string | undefined)[]): void {
  if (files.filter((file) => file === "-").length < 2) return;
  throw new UsageError("- is given twice, and stdin can be read once; name a file for one of them.");
}

function nothingToReplay({ lines, unreadable }: ReadLog): CommandEnd {
  const others = lines - unreadable;
  const why =
    lines === 0
      ? "it is empty"
      : `${unreadable} of its lines cannot be read${others === 0 ? "" : `, and ${others} are events that are no requests`}`;
  const remedy = "A line is { atMs, entityId, resource, consume }; --field says where another log has them.";
  return new CommandEnd({
    code: "replay_empty",
    message: `The log has no request: ${why}. ${remedy}`,
    exitCode: EXIT.usage,
  });
}

function tellProblems({ output, options }: CommandContext, { problems, unreadable }: ReadLog): void {
  if (unreadable === 0 || options.quiet === true) return;
  for (const problem of problems) output.note(`${printable(problem)}\n`);
  const more = unreadable - problems.length;
  if (more > 0) output.note(`And ${more} more lines that cannot be read.\n`);
}

function replayedText(context: CommandContext, replayed: Replayed): string {
  const { used, lines, skipped, fromMs, toMs, old, newlyRefused, newlyGranted, rows } = replayed;
  const share = (refused: number) => `${refused} refused (${percentText(refused, used)})`;
  const change = old === undefined ? "" : `, ${newlyRefused} newly refused, ${newlyGranted} newly granted`;
  const head = [
    `${used} requests from ${iso(fromMs)} to ${iso(toMs)}${skipped === 0 ? "" : `; ${skipped} of ${lines} lines skipped`}`,
    ...(old === undefined ? [] : [`old limits: ${old.granted} granted, ${share(old.refused)}`]),
    `new limits: ${replayed.new.granted} granted, ${share(replayed.new.refused)}${change}`,
  ];
  const table = rows.length === 0 ? "" : `\n${tableOf(context, columnsOf(old !== undefined))(rows)}`;
  return `${head.join("\n")}\n${table}`;
}

function columnsOf(hasOld: boolean): readonly Column<ReplayRow>[] {
  return [
    { title: "ENTITY", text: ({ entityId }) => entityId },
    { title: "RESOURCE", text: ({ resource }) => resource },
    { title: "LIMIT", text: limitText, flexible: true },
    ...(hasOld
      ? [{ title: "OLD", text: ({ old }: ReplayRow) => String(old?.refused ?? 0), right: true as const }]
      : []),
    { title: "NEW", text: ({ new: { refused } }) => String(refused), right: true },
    { title: "FIRST", text: ({ new: { firstAtMs } }) => (firstAtMs === undefined ? "" : iso(firstAtMs)) },
    { title: "LONGEST WAIT", text: ({ new: { waitMaxMs } }) => (waitMaxMs === undefined ? "" : waitText(waitMaxMs)) },
  ];
}

function limitText({ entityId, limit, level, total }: ReplayRow): string {
  if (limit === null) return `disabled (${level})`;
  return `${limit}${total ? ", a total" : ""}${level === entityId ? "" : ` of ${level}`}`;
}

function percentText(part: number, whole: number): string {
  return `${((100 * part) / whole).toFixed(2)} %`;
}

function iso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.000Z$/, "Z");
}
