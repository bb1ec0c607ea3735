import type { Also } from "../../domain/charge/amounts.ts";
import { shortfallText } from "../../domain/charge/status.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { waitText } from "../../domain/limits/durations.ts";
import { ResourceDisabled, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { alsoOf as partsOf } from "../../engine/acquire/also.ts";
import type { Refusal } from "../../engine/refusal/refusal.ts";
import type { Availability, Explanation } from "../../entry/index.ts";
import type { RateLimiter } from "../../entry/rate-limiter.ts";
import type { LeaseView } from "../../leases/lease-view.ts";
import { ALLOW_UNKNOWN, ALSO, BUCKET_ARGUMENTS, type CommandContext, command } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { requireAllKnown } from "../known.ts";
import { tokensText } from "../limit-text.ts";
import { type CommandLimiter, clientOf, onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { alsoOf, countOf, durationMs, leavePercentOf, tokensOf } from "../values.ts";

export const acquire = command({
  arguments: BUCKET_ARGUMENTS,
  options: [
    ["-c, --consume <measure=n>", "how much to take of a measure; repeated or with commas", "list"],
    ALSO,
    ["--leave-percent <n>", "leave at least this many percent of every limit, 0 to 99"],
    ["--wait <duration>", "wait at most this long for the tokens"],
    ["--give-back", "give the tokens back at once"],
    ["--hold-ms <ms>", "keep slots of concurrent limits this long; default: give them back at once"],
    ["--request-id <id>", "an id that events carry"],
    ALLOW_UNKNOWN,
  ],
  examples: [
    "acquire key-1 gpt-4 -c rpm=1 -c tpm=500",
    "acquire key-1 gpt-4 -c rpm=1,tpm=500 --wait 2s --give-back --json",
    "acquire key-1 gpt-4 -c rpm=1 --also gpt-4@proj-1:rpm=1",
  ],
  notes: [
    "Each acquire takes 1 of the measure requests, unless -c names requests. Without -c, some limit must count requests.",
    "--dry-run asks about each part of --also by itself.",
    "Exit codes: 1 refused or disabled, 4 no such entity or resource.",
  ],
  run: (context, options, [entityId = "", resource = ""]) => {
    const { consume, also, wait, giveBack = false, holdMs, requestId, allowUnknown } = options;
    if (giveBack && holdMs !== undefined) {
      throw new UsageError("--give-back and --hold-ms exclude each other; give one of them.");
    }
    const request = given({
      entityId,
      resource,
      consume: tokensOf(consume ?? [], "-c"),
      also: alsoOf(also),
      leavePercent: leavePercentOf(options.leavePercent),
      wait: wait === undefined ? undefined : { maxMs: durationMs(wait, "--wait") },
      holdMs: holdMs === undefined ? undefined : countOf(holdMs, "--hold-ms"),
      requestId,
      signal: context.interrupted,
    });
    return onStore(context, async (limiter) => {
      await requireAllKnown(limiter, { ...request, allowUnknown });
      if (context.options.dryRun === true) return dryRun(context, limiter, request);
      return printTaken(context, await take(limiter, request, giveBack));
    });
  },
});

/** A lease that has ended, or the refusal. */
type Taken =
  | {
      readonly ok: true;
      readonly lease: Pick<LeaseView, "consumed" | "overdrawn" | "shadowed" | "bypassed" | "degraded" | "status">;
      readonly remaining: readonly Availability[];
      /** The amounts of each part; undefined: all parts are of the entity itself. */
      readonly parts: LeaseView["parts"];
    }
  | Pick<Refusal, "ok" | "statuses" | "primary" | "retryAfterMs">;

/**
 * Takes and settles, or gives back at once. With a hold it does neither: slots are free when the hold ends. A service charges without a
 * lease if nothing is to be given back.
 */
async function take(
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
  const isCharged = client !== undefined && !givesBack && !isHeld;
  const outcome = isCharged
    ? await chargedAtOnce(client, request)
    : await (limiter as unknown as RateLimiter).tryAcquire(request);
  if (!outcome.ok) return outcome;
  const { lease } = outcome;
  if (givesBack) await lease.rollback();
  else if (!isHeld && lease.status === "open") await lease.settle();
  const isOfSeveral = lease.parts.some((part) => part.entityId !== request.entityId);
  const parts = lease.parts.map((part) => ({ ...part, consumed: lease.part(part).consumed }));
  const { remaining } = lease;
  return { ok: true, lease: lease as unknown as LeaseView, remaining, parts: isOfSeveral ? parts : undefined };
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

async function printTaken(context: CommandContext, outcome: Taken): Promise<number> {
  if (outcome.ok) {
    const { lease, remaining, parts } = outcome;
    const { consumed, overdrawn, shadowed, bypassed, degraded, status } = lease;
    const granted = { ok: true, consumed, ...given({ parts }), overdrawn, shadowed, bypassed, degraded, status };
    return printValue(context, granted, () => grantedText(status, remaining));
  }
  const { statuses, primary, retryAfterMs } = outcome;
  const when = retryAfterMs === Number.POSITIVE_INFINITY ? "will never fit" : `fits in ${waitText(retryAfterMs)}`;
  const text = () => `Refused: ${shortfallText(primary)}. It ${when}.\n`;
  await printValue(context, { ok: false, statuses, primary, retryAfterMs }, text);
  return EXIT.refused;
}

interface Asked {
  readonly entityId: string;
  readonly resource: string;
  readonly consume: Readonly<Record<string, number>>;
  readonly also?: Also;
  readonly leavePercent?: number;
}

/** Prints the answer that a request would get; nothing is taken. Each part is asked about by itself. */
async function dryRun(context: CommandContext, limiter: CommandLimiter, request: Asked): Promise<number> {
  const { entityId, resource, consume, leavePercent = 0 } = request;
  const told: Explanation[] = [];
  for (const part of [{ entityId, resource, consume }, ...partsOf(request)]) {
    told.push(await limiter.explain({ ...part, consume: part.consume ?? {}, leavePercent }));
  }
  for (const one of told) throwErrorOf(one);
  const refused = told.filter(({ outcome }) => outcome !== "granted");
  const primary = refused.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)[0];
  const statuses = refused.flatMap((one) => one.primary ?? []);
  if (primary === undefined) {
    const lease = {
      consumed: consumedBy(consume, told[0]),
      overdrawn: [],
      shadowed: [],
      bypassed: false,
      degraded: false,
    };
    const value = { ok: true, ...lease, status: "open", dryRun: true };
    return printValue(context, value, () => "The request would be granted; nothing was taken.\n");
  }
  const value = { ok: false, statuses, primary: primary.primary, retryAfterMs: primary.retryAfterMs, dryRun: true };
  const reasons = refused.map(({ reason }) => reason).join("; ");
  await printValue(context, value, () => `The request would be refused: ${reasons}.\n`);
  return EXIT.refused;
}

/** The amounts that a lease would hold, by measure. */
function consumedBy(
  consume: Readonly<Record<string, number>>,
  explanation: Explanation | undefined,
): Readonly<Record<string, number>> {
  const counted = new Set(explanation?.levels.flatMap(({ limits }) => limits.map(({ counts }) => counts)));
  const used = { ...consume, ...(consume.requests === undefined ? { requests: 1 } : {}) };
  return Object.fromEntries(Object.entries(used).filter(([measure]) => counted.has(measure)));
}

/** Throws the errors of the real command, in the same words. */
function throwErrorOf({ outcome, entityId, resource, reason = "", levels, frozen }: Explanation): void {
  if (outcome === "never") throw new ValidationError("amount_above_capacity", reason);
  if (outcome !== "disabled") return;
  if (frozen !== undefined) throw new ResourceDisabled({ entityId, resource, level: "system", frozen });
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
