import { shortfallText } from "../../domain/charge/status.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { ResourceDisabled, ValidationError } from "../../domain/names/errors.ts";
import type { Refusal } from "../../engine/refusal/refusal.ts";
import type { Availability, Explanation } from "../../entry/index.ts";
import type { RateLimiter } from "../../entry/rate-limiter.ts";
import type { LeaseView } from "../../leases/lease-view.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { type CommandLimiter, clientOf } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { allowUnknownOption, requireKnown } from "../known.ts";
import { tokensText, waitText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { countOf, durationMs, leavePercentOf, tokensOf } from "../values.ts";

interface AcquireOptions extends GlobalOptions {
  readonly consume?: readonly string[];
  readonly also?: readonly string[];
  readonly leavePercent?: string;
  readonly wait?: string;
  readonly giveBack?: boolean;
  readonly holdMs?: string;
  readonly requestId?: string;
  readonly allowUnknown?: boolean;
}

export const acquire: CommandFile<AcquireOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .option("-c, --consume <measure=n>", "how much to take of a measure; repeated or with commas", repeated)
      .option("--also <resource:name=n>", "also take from another resource, all or nothing; repeated", repeated)
      .option("--leave-percent <n>", "leave at least this many percent of every limit, 0 to 99")
      .option("--wait <duration>", "wait at most this long for the tokens")
      .option("--give-back", "give the tokens back at once")
      .option("--hold-ms <ms>", "keep slots of concurrent limits this long; default: give them back at once")
      .option("--request-id <id>", "an id that events carry")
      .addOption(allowUnknownOption())
      .addHelpText(
        "after",
        examples(
          "zae-limiter acquire key-1 gpt-4 -c rpm=1 -c tpm=500",
          "zae-limiter acquire key-1 gpt-4 -c rpm=1,tpm=500 --wait 2s --give-back --json",
        ),
      )
      .addHelpText(
        "after",
        "\nEach acquire takes 1 of the measure requests, unless -c names requests. Without -c, some limit must count requests.\n",
      )
      .addHelpText("after", "\nExit codes: 1 refused or disabled, 4 no such entity or resource.\n");
  },
  run: (context, options, [entityId = "", resource = ""]) => {
    const { consume, wait, requestId, allowUnknown } = options;
    if (options.giveBack === true && options.holdMs !== undefined) {
      throw new UsageError("--give-back and --hold-ms exclude each other; give one of them.");
    }
    const request = {
      entityId,
      resource,
      consume: consume === undefined ? {} : tokensOf(consume, "-c"),
      ...(options.also === undefined ? {} : { also: alsoOf(options.also) }),
      ...leavePercentOf(options.leavePercent),
      ...(wait === undefined ? {} : { wait: { maxMs: durationMs(wait, "--wait") } }),
      ...(options.holdMs === undefined ? {} : { holdMs: countOf(options.holdMs, "--hold-ms") }),
      ...(requestId === undefined ? {} : { requestId }),
      signal: context.interrupted,
    };
    return onStore(context, options, async (limiter) => {
      await requireKnown(limiter, { entityId, resource, allowUnknown });
      for (const other of Object.keys(request.also ?? {})) {
        await requireKnown(limiter, { resource: other, allowUnknown });
      }
      if (options.dryRun === true) return dryRun(context, options, limiter, request);
      return answered(context, options, await taken(limiter, request, options.giveBack === true));
    });
  },
};

/** What became of it: a lease that has ended, or why there is none. */
type Taken =
  | {
      readonly ok: true;
      readonly lease: Pick<LeaseView, "consumed" | "overdrawn" | "shadowed" | "bypassed" | "degraded" | "status">;
      readonly remaining: readonly Availability[];
    }
  | Pick<Refusal, "ok" | "statuses" | "primary" | "retryAfterMs">;

/**
 * Takes and settles, or gives back at once; with a hold it does neither, and slots are free when that is over. A service charges without a
 * lease where nothing is to be given back.
 */
async function taken(
  limiter: CommandLimiter,
  request: Asked & {
    readonly signal: AbortSignal;
    readonly wait?: { readonly maxMs: number };
    readonly holdMs?: number;
  },
  givesBack: boolean,
): Promise<Taken> {
  const client = clientOf(limiter);
  const isHeld = request.holdMs !== undefined;
  const outcome =
    client === undefined
      ? await (limiter as unknown as RateLimiter).tryAcquire(request)
      : givesBack || isHeld
        ? await client.tryAcquire(request)
        : await chargedAtOnce(client, request);
  if (!outcome.ok) return outcome;
  const { lease } = outcome;
  if (givesBack) await lease.rollback();
  else if (!isHeld && lease.status === "open") await lease.settle();
  return { ok: true, lease: lease as unknown as LeaseView, remaining: lease.remaining };
}

/** Slots cannot be charged at once: then there is a lease, which is settled. */
async function chargedAtOnce(
  client: NonNullable<ReturnType<typeof clientOf>>,
  request: Parameters<typeof client.tryAcquire>[0],
): ReturnType<typeof client.tryAcquire> {
  try {
    return await client.tryAcquire({ ...request, holdMs: 0 });
  } catch (error) {
    if (!(error instanceof ValidationError) || error.code !== "hold_needed") throw error;
    return client.tryAcquire(request);
  }
}

async function answered(context: CommandContext, options: GlobalOptions, outcome: Taken): Promise<number> {
  if (outcome.ok) {
    const { lease, remaining } = outcome;
    const { consumed, overdrawn, shadowed, bypassed, degraded, status } = lease;
    const granted = { ok: true, consumed, overdrawn, shadowed, bypassed, degraded, status };
    await printValue(context, options, granted, () => grantedText(status, remaining));
    return EXIT.done;
  }
  const { statuses, primary, retryAfterMs } = outcome;
  await printValue(context, options, { ok: false, statuses, primary, retryAfterMs }, () => {
    return (
      `Refused: ${shortfallText(primary)}. ` +
      `${retryAfterMs === Number.POSITIVE_INFINITY ? "It will never fit." : `It fits in ${waitText(retryAfterMs)}.`}\n`
    );
  });
  return EXIT.refused;
}

interface Asked {
  readonly entityId: string;
  readonly resource: string;
  readonly consume: Readonly<Record<string, number>>;
  readonly also?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly leavePercent?: number;
}

/** What would be answered now; nothing is taken. Resources share no bucket, so each can be asked about by itself. */
async function dryRun(
  context: CommandContext,
  options: GlobalOptions,
  limiter: CommandLimiter,
  { entityId, resource, consume, also = {}, leavePercent = 0 }: Asked,
): Promise<number> {
  const parts = [[resource, consume] as const, ...Object.entries(also)];
  const told: Explanation[] = [];
  for (const [each, amounts] of parts) {
    told.push(await limiter.explain({ entityId, resource: each, consume: amounts, leavePercent }));
  }
  for (const one of told) throwWhatItWould(one);
  const refused = told.filter(({ outcome }) => outcome !== "granted");
  const primary = refused.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)[0];
  const statuses = refused.flatMap((one) => one.primary ?? []);
  const value =
    primary === undefined
      ? {
          ok: true,
          consumed: consumedBy(consume, told[0]),
          overdrawn: [],
          shadowed: [],
          bypassed: false,
          degraded: false,
          status: "open",
          dryRun: true,
        }
      : { ok: false, statuses, primary: primary.primary, retryAfterMs: primary.retryAfterMs, dryRun: true };
  await printValue(context, options, value, () =>
    primary === undefined
      ? "The request would be granted; nothing was taken.\n"
      : `The request would be refused: ${refused.map(({ reason }) => reason).join("; ")}.\n`,
  );
  return primary === undefined ? EXIT.done : EXIT.refused;
}

/** What a lease would hold, by measure. */
function consumedBy(
  consume: Readonly<Record<string, number>>,
  explanation: Explanation | undefined,
): Readonly<Record<string, number>> {
  const counted = new Set(explanation?.levels.flatMap(({ limits }) => limits.map(({ counts }) => counts)));
  const used = { ...consume, ...(consume.requests === undefined ? { requests: 1 } : {}) };
  return Object.fromEntries(Object.entries(used).filter(([measure]) => counted.has(measure)));
}

/** What is an error of the real command is one here, with the same words. */
function throwWhatItWould({ outcome, resource, reason = "", levels }: Explanation): void {
  if (outcome === "never") throw new ValidationError("amount_above_capacity", reason);
  if (outcome !== "disabled") return;
  // A resource that is off for everybody counts at the entity itself only.
  const off = levels.find(
    ({ access, accessSource }, i) => access === "disabled" && (i === 0 || accessSource !== "resource"),
  );
  if (off !== undefined) throw new ResourceDisabled({ entityId: off.entityId, resource, level: off.accessSource });
}

const ENDINGS: Readonly<Record<string, string>> = { settled: "", open: ", and held", rolledBack: ", and given back" };

function grantedText(status: string, remaining: readonly Availability[]): string {
  const left = remaining.map(
    ({ entityId, resource, limit, available, capacity }) =>
      `  ${entityId} ${resource === TOTAL_RESOURCE ? `${resource}/` : ""}${limit}: ${tokensText(limit, available)} of ${tokensText(limit, capacity)} left\n`,
  );
  return `Granted${ENDINGS[status] ?? ENDINGS.rolledBack}.\n${left.join("")}`;
}

/** `RESOURCE:NAME=N`; a resource may have a ":" itself, so the last one counts. */
function alsoOf(texts: readonly string[]): Readonly<Record<string, Readonly<Record<string, number>>>> {
  const parts = new Map<string, string[]>();
  for (const text of texts) {
    const [, resource, amounts] = /^(.+):([^:]+=[^:]*)$/.exec(text) ?? [];
    if (resource === undefined || amounts === undefined) {
      throw new UsageError(`--also is "${text}"; give RESOURCE:NAME=N, such as --also gpu:slots=1.`);
    }
    parts.set(resource, [...(parts.get(resource) ?? []), amounts]);
  }
  return Object.fromEntries(Array.from(parts, ([resource, amounts]) => [resource, tokensOf(amounts, "--also")]));
}
