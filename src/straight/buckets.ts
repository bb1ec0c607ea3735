import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import type { SourcedLimits } from "../domain/bucket/limited-bucket.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import { namespaceNotActive } from "../domain/config/namespace.ts";
import { operatedOfText, operatedText } from "../domain/lease/stored-amounts.ts";
import { MILLI_MAX } from "../domain/limits/limit-numbers.ts";
import { knowsMore, type SetOrigin } from "../domain/limits/limit-set.ts";
import { withoutShadowed } from "../domain/limits/shadow.ts";
import type { Crossed } from "../domain/limits/thresholds.ts";
import { ConflictError } from "../domain/names/errors.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type {
  Answer,
  BucketOwner,
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  ListedBucket,
  Operation,
  OperationReply,
  RenewReply,
  TakeContext,
  TakeReply,
  WriteReply,
} from "../ports/bucket-store.ts";
import {
  type BucketRecord,
  type OperatedRecord,
  type RecordContext,
  resetRecord,
  toppedUpRecord,
} from "../stored/bucket-record.ts";
import { limitsIn } from "../stored/current-limits.ts";
import { OPERATIONS_KEPT_MS } from "../stored/keeping.ts";
import type { Reply } from "./answers.ts";
import type { Lane, LaneParts, LaneScope } from "./lane.ts";
import { StraightMarks } from "./marks.ts";
import type { Call, HeldCall } from "./requests.ts";
import { recordOfRow, rowOf } from "./row-codec.ts";

/** Buckets of one namespace on a store that takes in batches. */
export class StraightBuckets implements BucketStore {
  readonly #scope: LaneScope;
  readonly #parts: LaneParts;
  readonly #lanes: readonly Lane[];
  readonly #requireOpen: () => void;
  readonly #marks: StraightMarks;
  /** Up to which generation buckets have met changes by writes that were no requests. */
  readonly #met = new Map<string, number>();

  constructor(scope: LaneScope, parts: LaneParts, lanes: readonly Lane[], requireOpen: () => void, id: string) {
    const { store, calendar, clock } = parts;
    const { namespaceId } = scope;
    this.#marks = new StraightMarks({ store, namespaceId, calendar, now: () => clock?.now() ?? 0 }, id);
    this.#scope = scope;
    this.#parts = parts;
    this.#lanes = lanes;
    this.#requireOpen = requireOpen;
  }

  async take(claims: readonly Claim[], context: TakeContext): Promise<TakeReply> {
    const { generation, lease } = context;
    const by = generation === undefined ? "lease" : "plan";
    const reply = (await this.#submit({ kind: "take", claims, by, generation, lease }, context)) as TakeReply;
    if (reply !== "stale") this.#looked(claims, reply, context.nowMs);
    return reply;
  }

  #looked(claims: readonly Claim[], answers: readonly Answer[], nowMs: number): void {
    for (let i = 0; i < claims.length; i++) {
      const claim = claims[i] as Claim;
      const answer = answers[i];
      // One take takes all claims or none.
      if (answer?.kind !== "taken" || answer.state.plain) continue;
      const taken = withoutShadowed(claim.take, answer.shadowed);
      this.#marks.look(claim, taken, answer.state, answer.readingMs ?? nowMs);
    }
  }

  watchThresholds(listener: (crossed: Crossed) => void): () => void {
    return this.#marks.keeper.listeners.watch(listener);
  }

  thresholdsTold(): Promise<void> {
    return this.#marks.keeper.told();
  }

  async debit(held: Held, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    const reply = (await this.#submitMet({ kind: "debit", held, amounts }, context)) as WriteReply;
    if (reply.kind === "applied") this.#marks.look(held, amounts, reply.state, context.nowMs);
    return reply;
  }

  // Not an async function: give-backs are answered in the order of their batch, with the takes beside them.
  credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    const isVast = amounts.some(({ milli }) => milli > MILLI_MAX);
    return isVast ? this.#creditInParts(held, amounts, context) : this.#credit(held, amounts, context);
  }

  // A lease that took more often than once may give back more than a row can count at once.
  async #creditInParts(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    let left = amounts;
    for (let given = 0; ; given++) {
      const share = left.map(({ limit, milli }) => ({ limit, milli: Math.min(milli, MILLI_MAX) }));
      const reply = await this.#credit(held, share, context);
      // What was given already must not be given again.
      if (reply.kind === "unavailable" && given > 0) return { ...reply, applied: "unknown" };
      left = left.map(({ limit, milli }) => ({ limit, milli: Math.max(0, milli - MILLI_MAX) }));
      if (reply.kind === "unavailable" || left.every(({ milli }) => milli === 0)) return reply;
    }
  }

  async #credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    const call = { kind: "credit", held, amounts, slots: context, undone: [] } as const;
    return (await this.#submitMet(call, context)) as WriteReply;
  }

  async renew(held: Held, amounts: readonly Amount[], context: CallContext): Promise<RenewReply> {
    return (await this.#submitMet({ kind: "renew", held, amounts }, context)) as RenewReply;
  }

  topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    return this.#operate(
      operation,
      (record, context) => toppedUpRecord(record, operation, amounts, context),
      "readable",
    );
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    const work = (record: BucketRecord | undefined, context: RecordContext) =>
      resetRecord(record, operation, limits, context);
    // Of everything: then it does not matter what it held, nor whether that can be read.
    return this.#operate(operation, work, limits === undefined ? "replaced" : "readable");
  }

  async read(keys: readonly BucketKey[]): Promise<readonly (BucketState | undefined)[]> {
    this.#requireOpen();
    const rows = await this.#parts.store.read(this.#scope.namespaceId, keys);
    return rows.map((row, i) =>
      row === undefined ? undefined : recordOfRow(row, keys[i] as BucketKey, this.#parts.calendar).state,
    );
  }

  listKeys(owner: BucketOwner, page: PageRequest): Promise<Page<BucketKey>> {
    this.#requireOpen();
    return this.#parts.store.listKeys(this.#scope.namespaceId, owner, page);
  }

  async listByResource(resource: string, page: PageRequest): Promise<Page<ListedBucket>> {
    this.#requireOpen();
    const { items, ...rest } = await this.#parts.store.listByResource(this.#scope.namespaceId, resource, page);
    return {
      ...rest,
      items: items.map(({ key, row }) => ({ key, state: recordOfRow(row, key, this.#parts.calendar).state })),
    };
  }

  /**
   * A write that is no take meets the changes of stored limits that its bucket has not met. Whether there may be any is compared in the
   * store: only where configuration has changed since the bucket was last known to have met all of it, it is read.
   */
  async #submitMet(call: UnmetCall, context: CallContext): Promise<Reply> {
    this.#requireOpen();
    const { waiting } = this.#parts;
    const untilMs = waiting.steadyMs() + context.timeoutMs;
    let stored: SourcedLimits | undefined;
    let generation = this.#metBy(call.held);
    for (let reads = 0; ; reads++) {
      const left = { ...context, timeoutMs: Math.max(1, untilMs - waiting.steadyMs()) };
      // Answered in as many steps as a take: what was one batch is heard in its order.
      const reply = await this.#laneOf(call).submit(this.#scope, { ...call, generation, stored }, left);
      if (reply !== "stale") {
        if (stored !== undefined && generation !== undefined) this.#noteMet(call.held, stored, generation);
        return reply;
      }
      // It is read after the number: a change in between is found once more, and met already.
      generation = this.#scope.generation();
      stored = await this.#storedOf(call.held.bucket, generation, context.nowMs);
      // Where that cannot be told, or is always overtaken, the write goes by what the bucket has and what was read last.
      if (stored === undefined || reads === READS_MAX) generation = undefined;
    }
  }

  async #storedOf(
    { entityId, resource }: BucketKey,
    generation: number,
    nowMs: number,
  ): Promise<SourcedLimits | undefined> {
    try {
      return limitsIn(await this.#scope.resolve(entityId, resource), resource, generation, nowMs);
    } catch {
      return undefined;
    }
  }

  /** Up to which generation a bucket is known to have met changes; undefined where it goes by limits of a request, as far as is known. */
  #metBy({ bucket: { id }, origin, bypass }: Held): number | undefined {
    const generations = [origin.generation, this.#originOf(id)?.generation, this.#met.get(id)];
    const known = generations.filter((one) => typeof one === "number");
    return bypass || known.length === 0 ? undefined : Math.max(...known);
  }

  /** A bucket that a debit has made goes by the limits of its lease: it has met nothing yet. */
  #noteMet({ bucket: { id } }: Held, stored: SourcedLimits, generation: number): void {
    const origin = this.#originOf(id);
    if (origin === undefined || (origin.generation !== null && knowsMore(stored.origin, origin))) return;
    if (this.#met.size >= MET_MAX) this.#met.clear();
    this.#met.set(id, generation);
  }

  #originOf(id: string): SetOrigin | undefined {
    return this.#scope.known.get(id)?.record.state.origin;
  }

  async #submit(call: Call, context: CallContext): Promise<Reply> {
    this.#requireOpen();
    return this.#laneOf(call).submit(this.#scope, call, context);
  }

  /** By the uppermost level: calls that would wait for each other's rows in the store are in one batch instead. */
  #laneOf(call: Call | UnmetCall): Lane {
    const entityId = call.kind === "take" ? (call.claims.at(-1)?.bucket.entityId ?? "") : call.held.bucket.entityId;
    let hash = 0;
    for (let i = 0; i < entityId.length; i++) hash = (Math.imul(hash, 31) + entityId.charCodeAt(i)) >>> 0;
    return this.#lanes[hash % this.#lanes.length] as Lane;
  }

  async #operate(
    operation: Operation,
    work: (record: BucketRecord | undefined, context: RecordContext) => OperatedRecord,
    needs: "readable" | "replaced",
  ): Promise<OperationReply> {
    this.#requireOpen();
    const { store, calendar, countsUsage, signatureOf } = this.#parts;
    const { namespaceId } = this.#scope;
    const { bucket, idempotencyKey, nowMs, event } = operation;
    const key = { namespaceId, bucket, idempotencyKey, forgottenMs: nowMs - OPERATIONS_KEPT_MS };
    for (let tries = 0; tries < OPERATIONS_TRIED_MAX; tries++) {
      const known = await store.operated(key);
      if (known !== undefined) return repeated(known, operation);
      const [row] = await store.read(namespaceId, [bucket]);
      const record = row === undefined ? undefined : readable(() => recordOfRow(row, bucket, calendar), needs);
      const context = { nowMs, calendar, generation: this.#scope.generation(), countsUsage, current: undefined };
      const operated = work(record, context);
      if (operated.kind === "tooLarge") return operated;
      const { amounts, record: next } = operated;
      const brought = { version: row?.version ?? 0, row: rowOf(next, signatureOf), left: next.left };
      const amountsText = operatedText({ asks: operation.asks, amounts });
      const reply = await store.operate({ ...key, nowMs, amountsText, event, brought });
      if (reply.kind === "done") return { kind: "done", repeated: false, amounts };
      if (reply.kind === "namespaceGone") throw namespaceNotActive(namespaceId);
      if (reply.kind === "known") return repeated(reply.amountsText, operation);
    }
    throw new ConflictError(
      "contended",
      `The bucket of ${bucket.entityId} on ${bucket.resource} was changed by others ${OPERATIONS_TRIED_MAX} times in a row; nothing was done. Try again.`,
    );
  }
}

/** Of so many buckets it is remembered what they have met. */
const MET_MAX = 10_000;

/** As often configuration is read again for one write. */
const READS_MAX = 4;

/** A call before it is known what its bucket has met. */
type UnmetCall = WithoutMet<HeldCall>;
type WithoutMet<One> = One extends unknown ? Omit<One, "generation" | "stored"> : never;

/** A hot bucket is written a thousand times a second; a read and a write of it take milliseconds. */
const OPERATIONS_TRIED_MAX = 200;

function readable(read: () => BucketRecord, needs: "readable" | "replaced"): BucketRecord | undefined {
  try {
    return read();
  } catch (error) {
    if (needs === "replaced" && error instanceof ItemUnreadable) return undefined;
    throw error;
  }
}

function repeated(text: string, { bucket, idempotencyKey }: Operation): OperationReply {
  const operated = operatedOfText(text);
  if (operated !== undefined) return { kind: "done", repeated: true, ...operated };
  const damage = { attribute: "amounts", value: text, wants: "a list of limits and millitokens" };
  throw new ItemUnreadable({ bucket, shard: 0, operation: idempotencyKey }, damage);
}
