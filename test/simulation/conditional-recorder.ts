import { TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { BucketStore, Claim, Held } from "../../src/ports/bucket-store.ts";
import type { Item, ItemKey, ItemWrite, WriteTrace } from "../../src/ports/item-store.ts";
import { LW, RF, SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import { readableImage } from "../../src/protocol/item/codec.ts";
import { OWN } from "../../src/protocol/item/dialect.ts";
import { isShardKey } from "../../src/protocol/item/write-builder.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import type { AppliedChange } from "../kit/conditional-table.ts";
import { itemId } from "../kit/conditional-write.ts";
import { ModelBucket } from "../kit/model-bucket.ts";
import type { StoredBucket } from "../kit/model-stored.ts";
import { ConditionalCalls } from "./conditional-calls.ts";
import { belongs, givenBack, windowClosed } from "./conditional-give-back.ts";
import {
  countedIn,
  counterProblems,
  cutProblems,
  epochProblems,
  isRepair,
  newestOf,
  type Part,
  readingOf,
  readingProblems,
  repairProblems,
  shownItem,
  slotWritten,
  stampProblems,
  vuProblems,
  writtenProblems,
} from "./conditional-item-rules.ts";
import { Lending } from "./conditional-lending.ts";
import { Nonces } from "./conditional-nonces.ts";
import { Purchased } from "./conditional-operations.ts";
import type { Process } from "./conditional-process.ts";
import { PromiseLedger } from "./conditional-promise.ts";
import { countedApart, countsKept, owedElsewhere, type Shard, sharesMoved } from "./conditional-shares.ts";
import { isOfSlots, slotsBack, slotsEnded, slotsRenewed } from "./conditional-slots.ts";
import { AppliedUsage, hourProblems, sheetProblems, withoutParts } from "./conditional-usage.ts";
import { Forgotten } from "./forgotten.ts";
import { type ReadItem, readItem } from "./item-reader.ts";
import type { Journal } from "./journal.ts";
import { belowFloor, brimOfAll, kindIn } from "./model-questions.ts";
import type { MostLedger } from "./most-ledger.ts";
import { type Operation, shownKey } from "./operation.ts";
import type { Profile } from "./profile.ts";
import { passedApart, passedCountProblems, splitProblems } from "./shadow-items.ts";
import { ShadowWatch } from "./shadow-watch.ts";
import { type SlotsBefore, slotsBefore } from "./slot-records.ts";
import type { ThresholdLedger } from "./threshold-ledger.ts";
import type { Truth } from "./truth.ts";

export interface RecorderContext {
  readonly journal: Journal;
  readonly clock: SimulatedClock;
  readonly calendar: Calendar;
  readonly profile: Profile;
  readonly usageKeptS: number;
  readonly truth: Truth;
  readonly mosts: MostLedger;
  readonly thresholds: ThresholdLedger;
  /** Of what the recorder draws. */
  readonly random: SeededRandom;
}

/** With clocks that are off: the oldest reading with which something may still be written. */
const READING_AGE_MAX_MS = 660_000;

/**
 * Watches a table and knows every change of every item in the order in which it was made. Each shard has a model of its
 * own, which is told of the same writes and compared with the item after each.
 */
export class ConditionalRecorder {
  /** Grows with everything that can lower a level or move a limit. */
  disturbances = 0;
  readonly usage: AppliedUsage;
  readonly #context: RecorderContext;
  readonly #shards = new Map<string, Shard>();
  readonly #removals = new Map<string, number>();
  /** The latest that each item said of when it was taken from. */
  readonly #writtenMs = new Map<string, number>();
  readonly #promise = new PromiseLedger();
  readonly #calls: ConditionalCalls;
  readonly #purchased: Purchased;
  readonly #nonces: Nonces;
  readonly #forgotten: Forgotten;
  readonly #shadows: ShadowWatch;
  readonly #takers = new Map<string, Set<Operation>>();
  readonly #processes = new Set<Process>();
  #errorMaxMs = 0;

  constructor(context: RecorderContext) {
    this.#context = context;
    const { journal, calendar } = context;
    this.#forgotten = new Forgotten(journal);
    this.#shadows = new ShadowWatch(journal);
    this.#nonces = new Nonces(journal);
    this.usage = new AppliedUsage(context.usageKeptS * 1000, () => context.clock.now());
    const buckets = {
      calendar,
      shardsOf: (bucketId: string) => this.#shardsOf(bucketId).map(({ model }) => model),
      removals: (bucketId: string) => this.#removals.get(bucketId) ?? 0,
    };
    const lending = new Lending(context.random);
    this.#calls = new ConditionalCalls(journal, () => context.clock.now(), buckets, lending, this.#shadows);
    this.#purchased = new Purchased({ ...context, calls: this.#calls, promise: this.#promise });
  }

  /** The buckets of one process, with every call of them noted. */
  watched(store: BucketStore, process: Process): BucketStore {
    this.#processes.add(process);
    return this.#calls.watched(store, process);
  }

  sent({ trace }: ItemWrite): void {
    if (trace !== undefined) this.#nonces.sent(trace);
  }

  /** Nobody knows whether it was applied; of a give-back nobody will be told, where its request has not been answered yet. */
  lost({ key, trace }: ItemWrite): void {
    if (trace === undefined) return;
    this.#nonces.lost(trace);
    for (const { of, kind } of trace.parts) {
      const counted = this.#calls.countedFor(of);
      if (kind === "take" && counted !== undefined) counted.isLost = true;
      if (kind !== "credit") continue;
      this.#calls.of(of)?.operation?.uncertain.add(key.bucket.id);
      this.#calls.lostBack(of);
      this.usage.lost(of, trace, counted);
    }
  }

  /** What an answer that came too late says. Of a take that was applied: nobody was granted anything for it. */
  heardLate({ trace }: ItemWrite, isApplied: boolean): void {
    for (const { of, kind } of trace?.parts ?? []) {
      if (isApplied && kind === "take") this.#calls.landedLate(of);
      if (trace !== undefined && !isApplied && kind === "credit") {
        this.usage.notApplied(of, trace, this.#calls.countedFor(of));
      }
    }
  }

  /** A process gave up giving back to a bucket, and told so. */
  gaveUp(processId: string, bucket: { readonly entityId: string; readonly resource: string }): void {
    this.#calls.gaveUp(processId, bucket);
  }

  /** What was found out to have been taken for nobody, and was never given back. */
  lateProblems(): string[] {
    return this.#calls.lateProblems();
  }

  /** Changes that were made together. */
  changed(changes: readonly AppliedChange[]): void {
    try {
      this.#told(changes);
    } catch (error) {
      this.#context.journal.violation(`the recorder failed: ${error instanceof Error ? error.stack : error}`);
    }
    this.#calls.slots.changed(changes);
    for (const { bucket } of new Map(changes.map(({ key }) => [key.bucket.id, key])).values()) {
      this.#calls.moved(bucket.id);
      const shards = this.#shardsOf(bucket.id).map(({ model }) => model);
      this.#context.mosts.note(bucket.id, shards);
      for (const problem of this.#promise.conserved(bucket.id, shards)) {
        this.#context.journal.violation(`${shownKey(bucket.id)}: ${problem}`);
      }
    }
  }

  #told(changes: readonly AppliedChange[]): void {
    const [first] = changes;
    for (const change of changes) if (change.key.sheet !== undefined) this.#tell(change.key, this.#sheet(change));
    const items = changes.filter(({ key }) => isShardKey(key));
    this.usage.together();
    if (items.length === 0) return;
    for (const change of items) {
      if (change.by === "ttl") this.#expired(change);
      if (change.by === "removed") this.#removed(change);
    }
    if (first?.by === "ttl" || first?.by === "removed") return;
    for (const { key, before, after, trace } of items) {
      if (after !== undefined) this.#tell(key, hourProblems(before, after, trace));
    }
    if (items.some(({ trace }) => trace?.form === "share")) this.#shared(items);
    else if (items.some(({ trace }) => trace?.form === "operation")) {
      this.disturbances++;
      this.#epochs(items);
      this.#drippedByAnyone();
      const slots = items.map(({ key }) => slotsBefore(key.bucket, this.#shards.get(itemId(key))?.model));
      this.#purchased.applied(items, this.#shards);
      for (const [i, { after }] of items.entries())
        if (after !== undefined) slotsEnded(slots[i] as SlotsBefore, after, this.#slotUse);
    } else {
      const isGathered = items.length > new Set(items.map(({ key }) => key.bucket.id)).size;
      if (isGathered) this.#context.journal.count("gathers");
      for (const change of items) this.#wrote(change);
      this.#leavesOfAll(items);
    }
  }

  #sheet(change: AppliedChange): string[] {
    if (change.by !== "write") return [];
    this.#context.journal.count("sheets written");
    return sheetProblems(change);
  }

  #wrote(change: AppliedChange): void {
    const { key, before, after, trace, atMs, transaction } = change;
    const { journal, calendar } = this.#context;
    if (before === undefined) this.#context.truth.made(key.bucket);
    if (after === undefined) {
      this.#tell(key, ["it was deleted by a write that is no merging of shards"]);
      return;
    }
    if (trace === undefined) {
      this.#announced(key, before, after);
      return;
    }
    journal.count(`forms ${trace.form}${transaction === undefined ? "" : " together"}`);
    const parts = trace.parts.map((part) => ({ ...passedApart(part), asked: this.#calls.of(part.of) })) as Part[];
    // Shards are told of newer limits before they are joined: that is nobody's, and takes nothing.
    const odd = parts.filter(({ asked, amounts }) => asked === undefined && amounts.length > 0);
    if (odd.length > 0) this.#tell(key, ["a write that nobody asked for"]);
    const spends = parts.some(({ kind }) => kind !== "credit");
    if (spends) this.#disturbed(parts);
    const readingMs = readingOf(parts, trace, before);
    if (isRepair(before, after, trace)) {
      this.#repaired(key, before, after, { parts, atMs });
      return;
    }
    const model = this.#modelFor(key, before, parts, readingMs);
    if (model === undefined) return;
    const slots = slotsBefore(key.bucket, model);
    this.#tell(key, epochProblems(before, after, trace));
    const newest = newestOf(parts);
    if (spends && newest !== undefined) this.#brought(key, model, newest, { readingMs, trace, before });
    const mostMs = Math.max(this.#writtenMs.get(itemId(key)) ?? 0, Number(before?.[LW] ?? 0));
    this.#tell(key, writtenProblems(before, after, trace, parts, mostMs));
    this.#writtenMs.set(itemId(key), Math.max(mostMs, Number(after[LW] ?? 0)));
    if (before !== undefined && Number(after[RF]) > Number(before[RF])) model.advance(Number(after[RF]));
    for (const name of model.names) this.#goesBy(key, model, name);
    if (transaction === undefined) this.#tell(key, this.#nonces.problems(key, { trace, parts }, before, after));
    else if (before !== undefined && slotWritten(before, after) !== undefined) {
      this.#tell(key, ["a transaction wrote over the nonce of a take"]);
    }
    this.#tell(
      key,
      cutProblems(model, trace, parts, () => journal.count("tolerant cuts")),
    );
    if (before !== undefined && before.uh !== after.uh) journal.count("hours closed");
    const image = this.#decoded(key, after);
    for (const [i, part] of parts.entries()) {
      this.#shadowed(key, model, part, withoutParts(image.state, parts.slice(i + 1)), trace);
      this.#moved(key, model, part, { trace, before, after, atMs });
      this.#leaves(key, model, part, { readingMs: trace.readingMs, shards: image.shardCount });
      const shard = { model, state: withoutParts(image.state, parts.slice(i + 1)) };
      if (part.kind !== "credit" && !part.of.bypass) {
        this.#used({ key, before, after }, part, parts.slice(i + 1), trace);
      }
      const counted = this.#calls.countedFor(part.of);
      this.usage.wrote(part, change, part.of.bypass ? undefined : shard, trace.readingMs, counted, countedIn(part));
    }
    slotsEnded(slots, after, this.#slotUse);
    // One that was refused may have left its reading with the others.
    const { asOfMs } = image.state.origin;
    if (asOfMs > model.origin.asOfMs && this.#calls.hasRead(key.bucket.id, asOfMs)) model.readAsOf(asOfMs);
    this.#tell(key, model.problems(image.state, trace.readingMs));
    this.#forgotten.note(
      itemId(key),
      image.state.limits.map(({ name }) => name),
    );
    this.#tell(key, [...vuProblems(model, parts, before, after), ...counterProblems(model, parts, before, after)]);
    const takes = trace.parts.filter(({ kind, of }) => kind === "take" && !(of as Claim).bypass);
    const names = takes.flatMap(({ amounts }) => amounts.map(({ limit }) => limit));
    this.#tell(key, [...passedCountProblems(model.names, trace, before, after), ...splitProblems(image, names)]);
    for (const { kind, of, amounts } of parts) {
      if (kind === "take" && !of.bypass) this.#tell(key, model.overAdmissions(amounts, trace.readingMs));
    }
    this.#shards.set(itemId(key), { key, model, count: image.shardCount, calendar });
  }

  /** What shadows made of one part of a write. They decide by the whole bucket, so none is in shards that are taken from. */
  #shadowed(key: ItemKey, model: ModelBucket, part: Part, state: StoredBucket, { readingMs: nowMs }: WriteTrace): void {
    const { of: held, kind, amounts, passed = [], asked: by } = part;
    if (kind !== "take" && kind !== "debit") return;
    const shadowed = passed.map(({ limit }) => limit);
    const write = { kind, held, asked: [...amounts, ...passed], nowMs, operation: by?.operation };
    this.#tell(key, this.#shadows.wrote(write, { state, shadowed }, model));
    if (kind === "take" && by !== undefined) by.passed = shadowed;
  }

  /** A request with a floor leaves it: of a bucket in shards the whole, which is judged once all of them are written. */
  #leaves(
    key: ItemKey,
    model: ModelBucket,
    { of, kind, amounts }: Part,
    { readingMs, shards }: { readonly readingMs: number; readonly shards: number },
  ): void {
    const { leavePercent = 0 } = of as Claim;
    if (kind !== "take" || of.bypass || leavePercent === 0) return;
    this.#context.journal.count("takes with a floor");
    if (shards === 1) this.#tell(key, belowFloor(model, amounts, readingMs, leavePercent));
  }

  /** The same for a bucket in shards, each to within a millitoken. */
  #leavesOfAll(items: readonly AppliedChange[]): void {
    for (const { key, trace } of items) {
      for (const { of, kind, amounts } of trace?.parts ?? []) {
        const { leavePercent = 0, bypass } = of as Claim;
        const shards = this.#shardsOf(key.bucket.id).map(({ model }) => model);
        if (kind !== "take" || bypass || leavePercent === 0 || shards.length < 2 || trace === undefined) continue;
        this.#context.journal.count("takes with a floor from shards");
        for (const { limit: name } of amounts) {
          const limits = shards.flatMap((model) => model.limit(name) ?? []);
          if (limits.length < shards.length || limits.some(({ limit }) => limit.soft)) continue;
          const held = limits.reduce((sum, limit) => sum + limit.levelMilli(trace.readingMs), 0n);
          const floor = (brimOfAll(limits) * BigInt(leavePercent) + 99n) / 100n;
          if (held + BigInt(shards.length) >= floor) continue;
          this.#tell(key, [`${held} of ${name} are left where ${floor} had to be`]);
        }
      }
    }
  }

  #modelFor(
    key: ItemKey,
    before: Item | undefined,
    parts: readonly Part[],
    readingMs: number,
  ): ModelBucket | undefined {
    const known = this.#shards.get(itemId(key));
    if (before !== undefined) {
      if (known === undefined) this.#tell(key, ["it exists, and was never made"]);
      return known?.model;
    }
    if (known !== undefined) this.#tell(key, ["it was made, and exists already"]);
    if (key.shard > 0) this.#tell(key, ["a shard was made by itself"]);
    const newest = newestOf(parts);
    if (newest === undefined) this.#tell(key, ["it was made by a give-back"]);
    return newest && new ModelBucket(newest.set, newest.origin, readingMs, this.#context.calendar);
  }

  #moved(
    key: ItemKey,
    model: ModelBucket,
    { of, kind, amounts, asked, undoes }: Part,
    at: { trace: WriteTrace; before: Item | undefined; after: Item; atMs: number },
  ): void {
    const { journal } = this.#context;
    const { trace, after } = at;
    journal.detail(
      () =>
        `  ${kind} for ${asked?.operation?.name} on ${shownItem(key)} at ${trace.readingMs}: ${JSON.stringify(amounts)}`,
    );
    if (kind === "renew") {
      this.#tell(key, slotsRenewed(model, { of, amounts }, { ...at, key }, this.#slotUse));
      const pins = amounts.flatMap(({ limit }) => {
        const { period } = model.limit(limit) ?? {};
        return period === undefined ? [] : [[limit, period] as const];
      });
      this.#calls.pinned(asked, key.bucket.id, new Map(pins));
      return;
    }
    const refund = asked?.refund;
    if (refund === undefined) asked?.operation?.moved(kind === "credit" ? "back" : "in", key.bucket, amounts);
    else asked?.operation?.gaveBack(key.bucket, amounts);
    if (asked?.operation !== undefined) {
      this.#takers.set(key.bucket.id, (this.#takers.get(key.bucket.id) ?? new Set()).add(asked.operation));
    }
    if (kind === "credit") {
      journal.count("give-backs");
      const over = asked?.operation?.overReturned();
      if (over !== undefined) journal.violation(over);
    }
    if (of.bypass) {
      journal.count("claims bypassed");
      return;
    }
    const spent = kind === "credit" ? undefined : model.spend(kind, amounts, trace.readingMs, of);
    // Of no slots there is nothing to give back, whatever its ticket says; nor of a shard that gave nothing, where others did.
    const isNothing = (name: string) =>
      model.limit(name)?.limit.holdMs !== undefined || Number(after[SHARD_COUNT] ?? 1) > 1;
    const isNamed = (name: string) => isTaken(amounts, name) || !isNothing(name);
    const pins = spent && new Map([...spent].filter(([name]) => isNamed(name)));
    if (pins !== undefined) this.#calls.pinned(asked, key.bucket.id, pins);
    if (kind === "debit") journal.count("debits");
    if (key.bucket.resource === TOTAL_RESOURCE) journal.count(`${kind}s on totals`);
    for (const amount of amounts) {
      const limit = model.limit(amount.limit);
      if (kind === "credit" && isOfSlots(of, amount)) {
        slotsBack(
          model,
          { of, kind, amounts, asked, ...(undoes === undefined ? {} : { undoes }) },
          amount,
          { ...at, key },
          this.#slotUse,
        );
        continue;
      }
      if (limit === undefined) continue;
      journal.count(`${kind}s from ${kindIn(model, amount.limit)}`);
      let { milli } = amount;
      if (refund !== undefined) {
        model.cross(trace.readingMs);
        this.#tell(key, refund.gives(amount, limit, trace));
        limit.write("credit", milli, trace.readingMs);
      } else if (kind === "credit") {
        const back = { ...at, model, amount, held: of as Held, calls: this.#calls };
        const overMilli = limit.levelMilli(trace.readingMs) + BigInt(amount.milli) - limit.brimMilli;
        const isOf = givenBack(back);
        if (isOf) asked?.giving?.over(amount.limit, overMilli);
        // What a full shard of a quota cut off comes back to no period.
        if (limit.period !== undefined && overMilli > 0n) milli = Math.max(0, milli - Number(overMilli));
        if (!isOf) journal.count("give-backs that came too late");
        if (!(limit.period === undefined ? isOf : belongs(back, isOf))) continue;
      }
      // At most so many at once is no promise about runs of writes, but about each of them.
      if (limit.limit.holdMs !== undefined) continue;
      const { process, readingMs } = asked ?? {};
      const trueMs = process?.clock.trueMs(readingMs ?? 0) ?? Number.NEGATIVE_INFINITY;
      this.#errorMaxMs = Math.max(this.#errorMaxMs, process?.errorMaxMs() ?? 0);
      this.#tell(
        key,
        this.#promise.wrote({
          bucketId: key.bucket.id,
          limit: limit.limit,
          period: limit.period,
          kind,
          milli,
          readingMs: Math.max(trace.readingMs, model.epochMs),
          shards: Number(after[SHARD_COUNT] ?? 1),
          owedElsewhere: owedElsewhere(this.#shardsOf(key.bucket.id), key, amount.limit, trace.readingMs),
          atMs: at.atMs,
          // A clock that heard from the store in between was read again.
          ageMs: Number.isFinite(trueMs) ? at.atMs - trueMs : READING_AGE_MAX_MS,
          errorMs: this.#errorMaxMs + 1_000,
        }),
      );
    }
    if (kind === "credit") this.#calls.yieldedBack(of);
    if (undoes !== undefined) for (const { limit } of amounts) windowClosed(model, limit, after);
    this.#tell(key, readingProblems(asked, trace));
  }

  get #slotUse() {
    return { usage: this.usage, calls: this.#calls, journal: this.#context.journal };
  }

  /** Limits come to a shard. What was taken last by other limits is on the item, or was told to be now. */
  #brought(
    { bucket }: ItemKey,
    model: ModelBucket,
    { set, origin }: Claim | Held,
    { readingMs, trace, before }: { readingMs: number; trace: WriteTrace; before: Item | undefined },
  ): void {
    const heldMs = Math.max(trace.heldMs ?? 0, Number(before?.[LW] ?? 0));
    const since = this.#context.journal.countMet(origin, model.metNumber);
    const isChanged = this.#promise.brought(bucket.id, model, () =>
      model.bring(set, origin, Math.max(readingMs, model.epochMs), heldMs),
    );
    if (!isChanged || since === 0) return;
    // What was promised by the limits in between is not that of any one set.
    for (const limit of model.limits) this.#promise.lost(bucket.id, limit);
  }

  #goesBy({ bucket }: ItemKey, model: ModelBucket, name: string): void {
    const limit = model.limit(name);
    if (limit !== undefined) this.#promise.goesBy(bucket.id, limit.limit, limit.period);
  }

  #epochs(changes: readonly AppliedChange[]): void {
    for (const { key, before, after, trace } of changes)
      if (after !== undefined) this.#tell(key, epochProblems(before, after, trace));
  }

  /** What one part of a write used, for what has to be told of it: the item shows what all of them left. */
  #used(
    { key, before, after }: { key: ItemKey; before: Item | undefined; after: Item },
    { of, kind, amounts, asked }: Part,
    later: readonly Part[],
    { readingMs }: WriteTrace,
  ): void {
    const { thresholds, calendar } = this.#context;
    const { state } = readableImage(key, after, { calendar, dialect: OWN, like: undefined, set: undefined });
    const limits = state.limits.map((held) => {
      const sums = later
        .flatMap((part) => (part.of.bypass ? [] : part.amounts))
        .filter(({ limit }) => limit === held.name);
      return { ...held, tokensMilli: sums.reduce((sum, { milli }) => sum + milli, held.tokensMilli) };
    });
    // A transaction has no nonce, and shows nobody what was used: its process goes by what it knew.
    const isEstimated = slotWritten(before, after) === undefined;
    // Who has not heard that there is something to tell leaves it to the next.
    const isHeard = of.set.isBeyondRates;
    const taking = { nowMs: readingMs, marks: false, isEstimated, isHeard };
    const use = () => thresholds.took(key.bucket, { ...state, limits }, amounts, taking);
    if (kind === "take" && asked !== undefined && Number(after[SHARD_COUNT] ?? 1) === 1) asked.use = use;
    else use();
  }

  #announced(key: ItemKey, before: Item | undefined, after: Item): void {
    if (before !== undefined && isMark(before, after)) {
      this.#context.journal.count("marks written");
      return;
    }
    this.disturbances++;
    if (before === undefined) {
      this.#tell(key, ["it was made by an announcement"]);
      return;
    }
    this.#tell(key, stampProblems(before, after));
  }

  #shared(changes: readonly AppliedChange[]): void {
    const { journal, calendar } = this.#context;
    this.disturbances++;
    this.#epochs(changes);
    this.#drippedByAnyone();
    const images = changes.map(({ key, after }) => (after === undefined ? undefined : this.#decoded(key, after)));
    const bucketId = (changes[0] as AppliedChange).key.bucket.id;
    const shards = this.#shardsOf(bucketId);
    const count = images.find((image) => image !== undefined)?.shardCount ?? 0;
    journal.count(`shards become ${count}`);
    const isHeld = [...(this.#takers.get(bucketId) ?? [])].some(({ lease }) => lease?.status === "open");
    if (count < shards.length && isHeld) journal.count("joins with a lease out");
    const left = images.filter((image) => image !== undefined);
    if (count > shards.length) for (const image of left) this.#tell(image.key, splitProblems(image));
    for (const problem of [...sharesMoved(shards, left), ...countsKept(changes, calendar)]) {
      journal.violation(`${shownKey(bucketId)}, ${shards.length} shards become ${count}: ${problem}`);
    }
    // A shard that is split hands its own period on; one that is joined, those of all.
    const beforeOf = ({ shard }: ItemKey) => {
      const own = count > shards.length ? shards.filter(({ key }) => key.shard === shard % shards.length) : shards;
      return own.map(({ model }) => model);
    };
    if (count < shards.length) {
      for (const { limit, untilMs } of countedApart(changes, calendar))
        this.#promise.joinedApart(bucketId, limit, untilMs);
    }
    const { atMs } = changes[0] as AppliedChange;
    this.#promise.reshaped(bucketId, left[0]?.state.epochMs ?? atMs, atMs - this.#errorMaxMs - 1_000);
    for (const [i, { key }] of changes.entries()) {
      const image = images[i];
      if (image === undefined) {
        this.#shards.delete(itemId(key));
        continue;
      }
      const part = count === 1 ? undefined : { index: key.shard, count };
      const model = ModelBucket.seeded(image.state, part, beforeOf(key), calendar);
      this.#shards.set(itemId(key), { key, model, count, calendar });
    }
    if (this.#shardsOf(bucketId).length !== count) {
      journal.violation(`${shownKey(bucketId)} has ${this.#shardsOf(bucketId).length} shards of ${count}`);
    }
  }

  /** Who splits, joins, buys or resets takes nothing and is not known; what has dripped in meanwhile is by its clock. */
  #drippedByAnyone(): void {
    for (const process of this.#processes) this.#errorMaxMs = Math.max(this.#errorMaxMs, process.errorMaxMs());
  }

  /** An epoch far ahead of the store's time is somebody's damage, and is set back; how much was credited nobody can say. */
  #repaired(
    key: ItemKey,
    before: Item | undefined,
    after: Item,
    { parts, atMs }: { readonly parts: readonly Part[]; readonly atMs: number },
  ): void {
    const { journal, calendar } = this.#context;
    journal.count("epochs set back");
    // What had dripped in ahead of its time is gone.
    this.disturbances++;
    this.#tell(key, repairProblems(before, after, atMs));
    this.usage.doubtHeld(key.bucket);
    for (const { asked, amounts, kind } of parts) {
      asked?.operation?.moved(kind === "credit" ? "back" : "in", key.bucket, amounts);
    }
    const { state, shardCount: count } = this.#decoded(key, after);
    const part = count === 1 ? undefined : { index: key.shard, count };
    const known = this.#shards.get(itemId(key));
    const model =
      known === undefined
        ? ModelBucket.seeded(state, part, [], calendar)
        : ModelBucket.setBack(state, part, known.model, calendar);
    // Also of the period that was begun too early: it will be begun once more.
    // Also of limits that it no longer has: the wrong clock may have forgotten them.
    this.#promise.forgetAll(key.bucket.id);
    for (const limit of [...(known?.model.limits ?? []), ...model.limits]) this.#promise.lost(key.bucket.id, limit);
    this.#shards.set(itemId(key), { key, model, count, calendar });
  }

  #expired({ key, atMs }: AppliedChange): void {
    const { profile, journal } = this.#context;
    journal.count("items that expired");
    const model = this.#shards.get(itemId(key))?.model;
    const oldestMs = atMs - profile.skewMs - this.#errorMaxMs - READING_AGE_MAX_MS;
    if (model !== undefined && !model.isForgettable(oldestMs)) this.#tell(key, ["it vanished while it was not full"]);
    this.#vanished(key);
  }

  #removed({ key }: AppliedChange): void {
    this.disturbances++;
    this.usage.deleted(key.bucket.entityId);
    this.#promise.forgetAll(key.bucket.id);
    this.#purchased.forget(key.bucket.id);
    this.#vanished(key);
  }

  #vanished(key: ItemKey): void {
    this.#forgotten.note(itemId(key), []);
    this.#shards.delete(itemId(key));
    this.#removals.set(key.bucket.id, (this.#removals.get(key.bucket.id) ?? 0) + 1);
  }

  // Whoever did it himself is not disturbed by it; all others are, also those who left in the same write.
  #disturbed(parts: readonly Part[]): void {
    const operations = new Set(parts.map(({ asked }) => asked?.operation));
    this.disturbances += operations.size;
    for (const operation of operations) if (operation !== undefined) operation.disturbances++;
  }

  #shardsOf(bucketId: string): Shard[] {
    return [...this.#shards.values()].filter(({ key }) => key.bucket.id === bucketId);
  }

  #decoded(key: ItemKey, item: Item): ReadItem {
    return readItem(key, item, this.#context.calendar);
  }

  #tell(key: ItemKey, problems: readonly string[]): void {
    for (const problem of problems) this.#context.journal.violation(`${shownItem(key)}: ${problem}`);
  }
}

function isTaken(amounts: Part["amounts"], name: string): boolean {
  return amounts.some(({ limit, milli }) => limit === name && milli > 0);
}

/** Whether a write changed nothing but what was told of limits. */
function isMark(before: Item, after: Item): boolean {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = names.filter((name) => before[name] !== after[name]);
  return changed.length > 0 && changed.every((name) => /^b_.+_t[hb]$/.test(name));
}
