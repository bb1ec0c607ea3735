import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { Batch, BatchBucket, BatchRequest } from "../ports/batch-store.ts";
import { type BucketRecord, brought, type RecordContext } from "../stored/bucket-record.ts";
import type { KnownRow } from "./known-rows.ts";
import { type Call, claimOf, type Part, partsOf, readyFor } from "./requests.ts";
import { rowOf, type SignatureOf } from "./row-codec.ts";
import { formOf, type RowForm } from "./row-form.ts";

/** A bucket of a batch: the row as it is known, and as the first request of the batch wants it. */
export interface DraftBucket {
  readonly index: number;
  readonly key: BucketKey;
  readonly known: KnownRow | undefined;
  /** Undefined: none is known, and only credits were asked for so far. */
  ready: BucketRecord | undefined;
  /** The request that it is ready for, by its place in the batch. */
  request: number;
  /** What credits expect of a row that is not known. */
  guessed: RowForm | undefined;
}

const REQUESTS_MAX = 64;
const BUCKETS_MAX = 256;

/** A batch that is being put together. */
export class BatchDraft {
  readonly #knownOf: (id: string) => KnownRow | undefined;
  readonly #signatureOf: SignatureOf;
  readonly #buckets = new Map<string, DraftBucket>();
  readonly #requests: BatchRequest[] = [];

  constructor(knownOf: (id: string) => KnownRow | undefined, signatureOf: SignatureOf) {
    this.#knownOf = knownOf;
    this.#signatureOf = signatureOf;
  }

  /**
   * Adds a call, if it may be done in one transaction with those before it: rows are brought before the first of them, so one that
   * wants a row otherwise waits for the next batch.
   */
  add(call: Call, context: RecordContext): boolean {
    if (this.#requests.length >= REQUESTS_MAX) return false;
    const parts = partsOf(call);
    const slots = new Map<string, DraftBucket>();
    for (const part of parts) {
      const slot = this.#slot(part, slots);
      const ready = readyFor(slot.ready ?? slot.known?.record, call.kind, part, context);
      const isSettled = slot.ready !== undefined;
      if (isSettled && ready !== slot.ready) return this.#requests.length === 0 ? this.#first(call, context) : false;
      slots.set(part.of.bucket.id, isSettled ? slot : { ...slot, ready, request: this.#requests.length });
    }
    if (this.#requests.length > 0 && this.#buckets.size + slots.size > BUCKETS_MAX) return false;
    this.#keep(slots);
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
    return { ...head, buckets, requests: this.#requests };
  }

  // A call whose own claims want one row in several ways: the last of them says how it is brought.
  #first(call: Call, context: RecordContext): boolean {
    const parts = partsOf(call);
    const slots = new Map<string, DraftBucket>();
    for (const part of parts) {
      const slot = this.#slot(part, slots);
      slots.set(part.of.bucket.id, {
        ...slot,
        ready: readyFor(slot.ready ?? slot.known?.record, call.kind, part, context),
      });
    }
    this.#keep(slots);
    this.#requests.push(this.#request(call, parts, context));
    return true;
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
      this.#buckets.set(id, { ...slot, index: before?.index ?? index++ });
    }
  }

  #request(call: Call, parts: readonly Part[], context: RecordContext): BatchRequest {
    const isTake = call.kind === "take";
    return {
      kind: call.kind,
      nowMs: context.nowMs,
      generation: call.generation,
      isNoted: isTake ? call.by === "lease" : call.kind === "debit",
      draft: isTake && call.lease !== undefined ? { ...call.lease.data(), key: call.lease.key } : undefined,
      claims: parts.map((part) => {
        const bucket = this.bucketOf(part.of.bucket.id);
        const { index, ready } = bucket;
        const form = formOf(ready ?? brought(undefined, part.of, context));
        if (ready === undefined) bucket.guessed = form;
        const row = { record: ready, form, signature: this.#signatureOf(form.text) };
        return claimOf(index, call.kind, part, row, context);
      }),
    };
  }
}
