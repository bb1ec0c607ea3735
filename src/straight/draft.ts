import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { Batch, BatchBucket, BatchRequest } from "../ports/batch-store.ts";
import { type BucketRecord, recordFor } from "../stored/bucket-record.ts";
import type { RuleContext } from "../stored/bucket-rules.ts";
import { ANY_PLAN } from "../stored/config-keys.ts";
import { type Call, claimOf, type Part, partsOf, readyFor } from "./requests.ts";
import { rowOf, type SignatureOf } from "./row-codec.ts";
import { formOf, type RowForm } from "./row-form.ts";

/** A row as this process last saw it. */
interface KnownRow {
  readonly version: number;
  readonly record: BucketRecord;
}

/**
 * The rows of one namespace as they were last seen. They may be older than the store's: a request that goes by an old one is answered
 * `again`. What is not known is taken not to be there.
 */
export class KnownRows {
  readonly #max: number;
  #rows = new Map<string, KnownRow>();
  #older = new Map<string, KnownRow>();

  /** `max`: so many are meant to be in use at once; of those that were not used for longest, up to as many more are kept. */
  constructor(max: number) {
    this.#max = max;
  }

  get(id: string): KnownRow | undefined {
    const row = this.#rows.get(id);
    if (row !== undefined) return row;
    const older = this.#older.get(id);
    if (older !== undefined) this.set(id, older);
    return older;
  }

  set(id: string, row: KnownRow): void {
    this.#rows.set(id, row);
    if (this.#rows.size < this.#max) return;
    this.#older = this.#rows;
    this.#rows = new Map();
  }

  forget(id: string): void {
    this.#rows.delete(id);
    this.#older.delete(id);
  }
}

/** A bucket of a batch: the row as it is known, and as the first request of the batch wants it. */
export interface DraftBucket {
  readonly index: number;
  readonly key: BucketKey;
  readonly known: KnownRow | undefined;
  /** Undefined: none is known, and only credits were asked for so far. */
  ready: BucketRecord | undefined;
  /** The request that it is ready for, by its place in the batch. */
  request: number;
  /** Credits expect this form of a row that is not known. */
  guessed: RowForm | undefined;
}

/** The plan of the entity is not known of amounts that are held. */
const HELD_GOES_BY: readonly string[] = [ANY_PLAN];

function goesBy(call: Call): readonly string[] {
  return call.kind === "take" ? call.goesBy : HELD_GOES_BY;
}

/** A batch has at most so many requests. */
export const REQUESTS_MAX = 64;
const BUCKETS_MAX = 256;

/** A batch that is being put together. */
export class BatchDraft {
  readonly #knownOf: (id: string) => KnownRow | undefined;
  readonly #signatureOf: SignatureOf;
  readonly #buckets = new Map<string, DraftBucket>();
  readonly #requests: BatchRequest[] = [];
  readonly #goesBy = new Set<string>();

  constructor(knownOf: (id: string) => KnownRow | undefined, signatureOf: SignatureOf) {
    this.#knownOf = knownOf;
    this.#signatureOf = signatureOf;
  }

  /**
   * Adds a call, if it may be done in one transaction with those before it: rows are brought before the first of them, so one that
   * wants a row otherwise waits for the next batch. Where the first call wants one row in several ways, the last of them is brought.
   */
  add(call: Call, context: RuleContext): boolean {
    const request = this.#requests.length;
    if (request >= REQUESTS_MAX) return false;
    const parts = partsOf(call);
    const slots = new Map<string, DraftBucket>();
    for (const part of parts) {
      const slot = this.#slot(part, slots);
      const ready = readyFor(slot.ready ?? slot.known?.record, call.kind, part, context);
      const isSettled = slot.ready !== undefined && request > 0;
      if (isSettled && ready !== slot.ready) return false;
      slots.set(part.of.bucket.id, isSettled ? slot : { ...slot, ready, request });
    }
    if (request > 0 && this.#buckets.size + slots.size > BUCKETS_MAX) return false;
    this.#keep(slots);
    if (call.generation !== undefined) for (const name of goesBy(call)) this.#goesBy.add(name);
    this.#requests.push(this.#request(call, parts, context));
    return true;
  }

  /** The buckets in the order of the batch. */
  get buckets(): readonly DraftBucket[] {
    return [...this.#buckets.values()];
  }

  bucketOf(id: string): DraftBucket {
    return this.#buckets.get(id) as DraftBucket;
  }

  batch(head: Pick<Batch, "namespaceId" | "lane" | "seq" | "countsUsage" | "aheadMaxMs">): Batch {
    const buckets = this.buckets.map(({ key, known, ready, request }): BatchBucket => {
      if (ready === undefined || ready === known?.record) return { key, brought: undefined };
      const row = rowOf(ready, this.#signatureOf);
      return { key, brought: { version: known?.version ?? 0, row, left: ready.left, request } };
    });
    return { ...head, isRepeat: false, buckets, requests: this.#requests, goesBy: [...this.#goesBy] };
  }

  #slot({ of }: Part, own: ReadonlyMap<string, DraftBucket>): DraftBucket {
    const { id } = of.bucket;
    const found = own.get(id) ?? this.#buckets.get(id);
    if (found !== undefined) return found;
    return {
      index: this.#buckets.size + own.size,
      key: of.bucket,
      known: this.#knownOf(id),
      ready: undefined,
      request: 0,
      guessed: undefined,
    };
  }

  #keep(slots: ReadonlyMap<string, DraftBucket>): void {
    let index = this.#buckets.size;
    for (const [id, slot] of slots) {
      const before = this.#buckets.get(id);
      // Most requests of a batch find their buckets as those before them want them.
      if (before === slot) continue;
      this.#buckets.set(id, { ...slot, index: before?.index ?? index++ });
    }
  }

  #request(call: Call, parts: readonly Part[], context: RuleContext): BatchRequest {
    const isTake = call.kind === "take";
    return {
      kind: call.kind,
      nowMs: context.nowMs,
      generation: call.generation,
      isNoted: isTake ? call.limitsFrom === "lease" : call.kind === "debit",
      draft: isTake && call.lease !== undefined ? { ...call.lease.data(), key: call.lease.key } : undefined,
      claims: parts.map((part) => {
        const bucket = this.bucketOf(part.of.bucket.id);
        const { index, ready } = bucket;
        const form = formOf(ready ?? recordFor(undefined, part.of, context));
        if (ready === undefined) bucket.guessed = form;
        const row = { record: ready, form, signature: this.#signatureOf(form.text) };
        return claimOf(index, call.kind, part, row, context);
      }),
    };
  }
}
