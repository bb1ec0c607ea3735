import { isSlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Answer, Claim, Held } from "../../src/ports/bucket-store.ts";
import type { Item, ItemKey, WriteTrace } from "../../src/ports/item-store.ts";
import type { AppliedChange } from "../kit/conditional-table.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import { ModelSlots } from "../kit/model-slots.ts";
import type { StoredBucket } from "../kit/model-stored.ts";
import { calendar } from "./calendar.ts";
import type { Asked, ConditionalCalls } from "./conditional-calls.ts";
import type { Part } from "./conditional-item-rules.ts";
import { readItem } from "./item-reader.ts";
import type { Journal } from "./journal.ts";
import { shownKey } from "./operation.ts";
import { endsIn, inSlices, type SlotsBefore } from "./slot-records.ts";
import { balanceProblems, coverProblems, ToldHolds, takenProblems } from "./slot-rules.ts";
import type { UsageLedger } from "./usage-ledger.ts";

const HOUR_MS = 3_600_000;

/** Keeps every hold by what its holder was told, and looks at the item of a bucket after each write. */
export class ConditionalSlots {
  readonly told = new ToldHolds();
  readonly #journal: Journal;
  readonly #items = new Map<string, { readonly state: StoredBucket; readonly isSplit: boolean }>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** A take or a renewal was told. */
  heard(bucketId: string, ticket: Ticket, amounts: readonly Amount[]): void {
    if (!ticket.pins.some(isSlotPin)) return;
    this.told.addAll(bucketId, ticket, amounts, 1);
    this.#cover(bucketId, "an answer");
  }

  /** Its holder gives it back, or has it renewed: from now on it does not count on it. */
  gone(bucketId: string, ticket: Ticket, amounts: readonly Amount[]): void {
    this.told.addAll(bucketId, ticket, amounts, -1);
  }

  changed(changes: readonly AppliedChange[]): void {
    for (const { key, before, after, trace } of changes) {
      if (key.sheet !== undefined || key.operation !== undefined || key.shard > 0) continue;
      if (after === undefined) {
        this.#items.delete(key.bucket.id);
        continue;
      }
      this.#look(key, before, after, trace);
    }
  }

  #look(key: ItemKey, before: Item | undefined, after: Item, trace: WriteTrace | undefined): void {
    const { id } = key.bucket;
    const { state, shardCount } = readItem(key, after, calendar);
    const by = `${trace?.form ?? "a mark"} of ${trace?.parts.map(({ kind }) => kind).join()}`;
    const wasMs = Number(before?.rf ?? 0);
    if (state.epochMs < wasMs) {
      const slicesOf = (limit: string) => state.limits.find(({ name }) => name === limit)?.slices ?? [];
      this.told.setBack(id, wasMs, (limit) => Math.max(0, ...slicesOf(limit).map(({ endMs }) => endMs)));
    }
    this.#items.set(id, { state, isSplit: shardCount > 1 });
    for (const { name, limit, tokensMilli, terms, slices = [] } of state.limits) {
      if (limit.holdMs === undefined) continue;
      const tell = (problems: readonly string[]) => this.#tell(id, name, problems, by);
      // A bucket that was split while it dripped has no slots to hold until it is joined.
      if (shardCount > 1) {
        tell(slices.some(({ heldMilli }) => heldMilli > 0) ? ["slots are held of a bucket in shards"] : []);
        continue;
      }
      tell(balanceProblems(tokensMilli, terms.capacityMilli, slices));
      const takes = (trace?.parts ?? []).some(
        ({ kind, of, amounts }) =>
          kind === "take" && !(of as Claim).bypass && amounts.some((one) => one.limit === name && one.milli > 0),
      );
      if (takes && !limit.soft && !limit.shadow) tell(takenProblems(tokensMilli));
    }
    this.#cover(id, by);
  }

  #cover(bucketId: string, by: string): void {
    const { state, isSplit } = this.#items.get(bucketId) ?? {};
    if (state === undefined || isSplit) return;
    for (const { name, limit, quota, slices = [] } of state.limits) {
      if (limit.holdMs === undefined) continue;
      const live = this.told.liveIn(bucketId, name, { resets: quota?.resets ?? 0, epochMs: state.epochMs });
      if (live.length > 0) this.#journal.count("looks at live holds");
      this.#tell(bucketId, name, coverProblems(slices, live), by);
    }
  }

  #tell(bucketId: string, limit: string, problems: readonly string[], by: string): void {
    for (const problem of problems)
      this.#journal.violation(`${shownKey(bucketId)}: of ${limit} ${problem}, after ${by}`);
  }
}

/** A hold lasts at least for its time, and at most a quarter of the limit's longer, unless no place for a slice was left. */
export function lastingProblems(claim: Claim, { process, readingMs }: Asked, answer: Answer): string[] {
  if (answer.kind !== "taken") return [];
  const { state } = answer;
  const earliestMs = Math.min(readingMs, answer.readingMs ?? readingMs);
  const latestMs = Math.max(readingMs, answer.readingMs ?? readingMs, process.clock.now(), state.epochMs);
  return answer.ticket.pins.filter(isSlotPin).flatMap(({ limit: name, endMs }) => {
    const held = state.limits.find((one) => one.name === name);
    const sets = [...claim.set.limits, ...(held === undefined ? [] : [held.limit])];
    // After a lost answer, limits may have been changed between two sendings.
    const holds = sets.filter((one) => one.name === name).flatMap(({ holdMs }) => holdMs ?? []);
    const own = claim.holdMs ?? Number.POSITIVE_INFINITY;
    const [least, most] = [Math.min(own, ...holds), Math.min(own, Math.max(...holds)) + Math.max(...holds) / 4];
    const isFull = (held?.slices.length ?? 0) >= 8;
    return [
      ...(endMs < earliestMs + least ? [`a hold of ${name} for ${least} ms ends after ${endMs - earliestMs}`] : []),
      ...(endMs > latestMs + most && !isFull ? [`a hold of ${name} for ${least} ms ends in ${endMs - latestMs}`] : []),
    ];
  });
}

/** What is written down of slots, beside the model. */
interface SlotUse {
  readonly usage: UsageLedger;
  readonly calls: ConditionalCalls;
  readonly journal: Journal;
}

/** Slots are given back to the model: into their own slice, or nowhere. */
export function slotsBack(
  model: ModelBucket,
  { of, undoes }: Part,
  amount: Amount,
  { trace, after, key }: { readonly trace: WriteTrace; readonly after: Item; readonly key: ItemKey },
  { usage, calls, journal }: SlotUse,
): void {
  const held = of as Held;
  for (const { limit: name, pin, milli } of inSlices(held.ticket, [amount])) {
    const limit = model.limit(name);
    const isHeld = limit instanceof ModelSlots && isOfBeginning(limit, held, calls) && limit.held.has(pin.endMs, milli);
    journal.count(isHeld ? "slots given back" : "slots given back too late");
    if (!isHeld) continue;
    limit.write("credit", milli, trace.readingMs, { endMs: pin.endMs });
    const ms = Math.max(0, Math.max(trace.readingMs, trace.form === "credit" ? 0 : model.epochMs) - pin.sinceMs);
    if (undoes === undefined) usage.held(key.bucket, name, BigInt(milli) * BigInt(ms), Number(after.uh) * HOUR_MS);
  }
}

/** Slots are renewed in the model: all of them are held, or nothing is written. */
export function slotsRenewed(
  model: ModelBucket,
  { of, amounts }: Pick<Part, "of" | "amounts">,
  { trace, after, key }: { readonly trace: WriteTrace; readonly after: Item; readonly key: ItemKey },
  { usage, calls, journal }: SlotUse,
): string[] {
  const held = of as Held;
  const atMs = Math.max(trace.readingMs, model.epochMs);
  return inSlices(held.ticket, amounts).flatMap(({ limit: name, pin, milli }) => {
    const limit = model.limit(name);
    if (!(limit instanceof ModelSlots)) return [`slots of ${name} were renewed, and it has none`];
    if (!isOfBeginning(limit, held, calls)) return [`slots of ${name} were renewed that are of another beginning`];
    if (!limit.held.renew(pin.endMs, milli, limit.endFor(atMs, held.holdMs)))
      return [`slots of ${name} were renewed that are held no more`];
    const isMoved = limit.held.latestEndMs !== pin.endMs;
    journal.count(isMoved ? "slots renewed" : "renewals that end no later");
    const ms = BigInt(Math.max(0, atMs - pin.sinceMs));
    if (isMoved) usage.held(key.bucket, name, BigInt(milli) * ms, Number(after.uh) * HOUR_MS);
    return [];
  });
}

/** Whether slots were taken since the limit began anew: after a reset, or an epoch that was set back, those of before mean nothing. */
function isOfBeginning(limit: ModelSlots, held: Held, calls: ConditionalCalls): boolean {
  return calls.pinsOf(held, limit.limit.name).some(({ period }) => limit.isOf(period) !== "no");
}

/** Holds that ended by themselves with a write: usage has each for its whole time. */
export function slotsEnded(before: SlotsBefore, after: Item, { usage, journal }: SlotUse): void {
  for (const { name, holdMs, slots } of before.held) {
    const milli = slots.endedBy(Number(after.rf));
    if (milli === 0n) continue;
    journal.count("holds that ended by themselves");
    usage.held(before.bucket, name, milli * BigInt(holdMs), Number(after.uh) * HOUR_MS);
  }
}

/** Whether an amount that is given back are slots, by its ticket. */
export function isOfSlots(of: Claim | Held, { limit }: Amount): boolean {
  return "ticket" in of && endsIn(of.ticket).has(limit);
}
