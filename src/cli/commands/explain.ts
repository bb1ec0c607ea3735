import { HOUR_MS, hourOf } from "../../domain/charge/usage.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { waitText } from "../../domain/limits/durations.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { Availability, LevelExplanation, PastExplanation } from "../../entry/index.ts";
import { BUCKET_ARGUMENTS, type CommandContext, command, type OptionRow } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import {
  definitionText,
  type ExplainedRow,
  explainText,
  minuteText,
  type PastRow,
  pastRefusals,
  pastRows,
  pastText,
  reasonsOf,
  rowsOf,
  SOURCE_TEXTS,
  slotLines,
} from "../explain-text.ts";
import { limitText, tokensText } from "../limit-text.ts";
import { type CommandLimiter, onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { jsonOf, tableOf } from "../table.ts";
import { leavePercentOf, momentMs, tokensOf } from "../values.ts";

function questionOptions(about: { consume: string; leave: string; exitCode: string }) {
  return [
    ["-c, --consume <measure=n>", `${about.consume}; repeated or with commas`, "list"],
    ["--leave-percent <n>", `${about.leave} this many percent of every limit, 0 to 99`],
    ["--exit-code", `exit with 1 unless ${about.exitCode}`],
  ] as const satisfies readonly OptionRow[];
}

export const explain = command({
  arguments: BUCKET_ARGUMENTS,
  options: [
    ...questionOptions({
      consume: "how much the request takes",
      leave: "the request leaves",
      exitCode: "the request would be granted",
    }),
    [
      "--at <instant>",
      "what applied then, and what it refused in that minute: 14:03 (UTC, the last one), ISO 8601, 2h ago",
    ],
  ],
  examples: ["explain key-1 gpt-4", "explain key-1 gpt-4 -c tpm=9000 --json", "explain key-1 gpt-4 --at 14:03"],
  notes: ["Exit codes: 1 with --exit-code, unless the request would be granted; 4 no limits apply."],
  run: (context, options, [entityId = "", resource = ""]) => {
    const consume = options.consume === undefined ? undefined : tokensOf(options.consume, "-c");
    const asked = given({ entityId, resource, consume, leavePercent: leavePercentOf(options.leavePercent) });
    if (options.at !== undefined) {
      const [other] = Object.keys(
        given({ "-c": consume, "--leave-percent": asked.leavePercent, "--exit-code": options.exitCode }),
      );
      if (other !== undefined)
        throw new UsageError(`${other} is of a request now, and --at of another time; give one of them.`);
      const atMs = momentMs(options.at, "--at", Date.now());
      return onStore(context, async (limiter) =>
        explained(context, await limiter.explain({ entityId, resource, atMs })),
      );
    }
    return onStore(context, async (limiter) => {
      const explanation = await limiter.explain(asked);
      const draw = tableOf<ExplainedRow>(context, [
        { title: "ENTITY", text: (row) => row.entityId },
        {
          title: "AVAILABLE",
          text: ({ explained: { limit, available } }) => tokensText(limit, available),
          right: true,
        },
        { title: "CAPACITY", text: ({ explained: { limit, capacity } }) => tokensText(limit, capacity), right: true },
        {
          title: "LIMIT",
          text: ({ explained, isTotal }) => `${isTotal ? "*/" : ""}${definitionText(explained)}`,
          flexible: true,
        },
        { title: "FROM", text: ({ source }) => SOURCE_TEXTS[source] },
      ]);
      const { levels } = explanation;
      const shadows = context.options.json ? "" : await shadowLines(limiter, levels, resource, Date.now());
      await printValue(context, explanation, () => {
        const rows = rowsOf(levels);
        return `${explainText(explanation, consume)}\n${rows.length === 0 ? "" : `\n${draw(rows)}`}${slotLines(levels)}${shadows}${reasonsOf(levels)}`;
      });
      return options.exitCode === true && explanation.outcome !== "granted" ? EXIT.refused : EXIT.done;
    });
  },
});

/** Prints the limits that applied at an instant, and the refusals of that minute. */
async function explained(context: CommandContext, explanation: PastExplanation): Promise<number> {
  const draw = tableOf<PastRow>(context, [
    { title: "ENTITY", text: ({ entityId }) => entityId },
    {
      title: "LIMIT",
      text: ({ then, isTotal }) => `${isTotal ? "*/" : ""}${limitText(then.definition)}`,
      flexible: true,
    },
    { title: "FROM", text: ({ then }) => SOURCE_TEXTS[then.source] },
    { title: "SINCE", text: ({ then }) => (then.sinceMs === undefined ? "" : minuteText(then.sinceMs)) },
    { title: "UNTIL", text: ({ then }) => (then.untilMs === undefined ? "" : minuteText(then.untilMs)) },
  ]);
  await printValue(context, explanation, () => {
    const rows = pastRows(explanation.levels);
    return `${pastText(explanation)}\n${rows.length === 0 ? "" : `\n${draw(rows)}`}${pastRefusals(explanation)}`;
  });
  return EXIT.done;
}

/** A line for each shadow limit of a chain: `tpm of key-1  shadow  would have refused 12 of 340 this hour`. */
async function shadowLines(
  limiter: Pick<CommandLimiter, "usageSummary">,
  levels: readonly LevelExplanation[],
  resource: string,
  nowMs: number,
): Promise<string> {
  const lines: string[] = [];
  for (const { entityId, limits, totals } of levels) {
    for (const [on, some] of [[resource, limits] as const, [TOTAL_RESOURCE, totals] as const]) {
      const shadows = some.filter(({ shadow }) => shadow);
      if (shadows.length === 0) continue;
      const counted = await countsOf(limiter, { entityId, resource: on }, nowMs);
      for (const { limit } of shadows) {
        const name = on === TOTAL_RESOURCE ? `*/${limit}` : limit;
        const told =
          counted === undefined
            ? "refuses nothing"
            : `would have refused ${counted.wouldRefuse[limit] ?? 0} of ${counted.requests} this hour`;
        lines.push(`${name} of ${entityId}  shadow  ${told}\n`);
      }
    }
  }
  return lines.join("");
}

/** The usage of this hour; undefined: no usage is kept. */
async function countsOf(
  limiter: Pick<CommandLimiter, "usageSummary">,
  of: { readonly entityId: string; readonly resource: string },
  nowMs: number,
) {
  const fromMs = hourOf(nowMs);
  try {
    return await limiter.usageSummary({ ...of, window: "hourly", fromMs, toMs: fromMs + HOUR_MS });
  } catch (error) {
    if (error instanceof LimiterError && error.code === "usage_not_kept") return undefined;
    throw error;
  }
}

export const available = command({
  arguments: BUCKET_ARGUMENTS,
  options: questionOptions({
    consume: "show how long until this much fits",
    leave: "with -c: leaving",
    exitCode: "the amounts of -c fit now",
  }),
  examples: ["available key-1 gpt-4", "available key-1 gpt-4 -c tpm=500 --json"],
  notes: ["Exit codes: 1 with --exit-code, if the amounts do not fit; 4 no limits apply."],
  run: (context, options, [entityId = "", resource = ""]) => {
    const consume = options.consume === undefined ? undefined : tokensOf(options.consume, "-c");
    const leavePercent = leavePercentOf(options.leavePercent);
    const [option] = Object.keys(given({ "--exit-code": options.exitCode, "--leave-percent": options.leavePercent }));
    if (option !== undefined && consume === undefined) throw new UsageError(`${option} needs -c NAME=N; give both.`);
    return onStore(context, async (limiter) => {
      const items = await limiter.available({ entityId, resource });
      const asked = consume === undefined ? undefined : given({ entityId, resource, consume, leavePercent });
      const retryAfterMs = asked === undefined ? undefined : await limiter.timeUntilAvailable(asked);
      const { output } = context;
      if (context.options.ndjson === true) await output.write(items.map((item) => `${jsonOf(item)}\n`).join(""));
      else if (context.options.json === true) {
        await output.write(`${jsonOf(given({ items, retryAfterMs }))}\n`);
      } else {
        const draw = tableOf<Availability>(context, [
          { title: "ENTITY", text: (item) => item.entityId },
          {
            title: "LIMIT",
            text: (item) => (item.resource === resource ? item.limit : `${item.resource}/${item.limit}`),
          },
          { title: "COUNTS", text: ({ counts }) => counts },
          { title: "AVAILABLE", text: ({ limit, available }) => tokensText(limit, available), right: true },
          { title: "CAPACITY", text: ({ limit, capacity }) => tokensText(limit, capacity), right: true },
        ]);
        await output.write(draw(items));
        if (retryAfterMs !== undefined) await output.write(`\n${fitsText(retryAfterMs)}\n`);
      }
      return options.exitCode === true && retryAfterMs !== 0 ? EXIT.refused : EXIT.done;
    });
  },
});

function fitsText(retryAfterMs: number): string {
  if (retryAfterMs === 0) return "It fits now.";
  return retryAfterMs === Number.POSITIVE_INFINITY ? "It will never fit." : `It fits in ${waitText(retryAfterMs)}.`;
}
