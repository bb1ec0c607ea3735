import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { LEASE_REMEMBERED_MS } from "../../src/domain/lease/lease-record.ts";
import type { Page, PageRequest } from "../../src/domain/names/paging.ts";
import type {
  Batch,
  BatchLease,
  BatchReply,
  BatchRequest,
  BatchStore,
  ClaimLevels,
  DraftedLease,
  IdleBucket,
  LeftUsage,
  LookedAtBucket,
  OperationKey,
  RequestReply,
  RowOperation,
  RowOperationReply,
  SeenRow,
  StoredBucket,
  VersionedRow,
} from "../../src/ports/batch-store.ts";
import type { BucketOwner, KeyMark } from "../../src/ports/bucket-store.ts";
import { keyAfter, keyCursor, pageOf, textAfter } from "../../src/stored/cursor.ts";
import type { CountedHour } from "./record-sums.ts";
import type { KeptByTakes, RecordTable } from "./record-table.ts";
import { BatchWork, idIn } from "./straight-batch.ts";

/** Usage that has left the rows: millitokens by namespace, bucket, hour and counter. */
type UsageTable = Map<string, bigint>;

/**
 * A `BatchStore` in memory, by the functions of `bucket/`: what a take in a database has to answer, and what the simulation runs on.
 * Every call is one step.
 */
export class StraightStore implements BatchStore, KeptByTakes {
  readonly #serverMs: () => number;
  readonly #records: RecordTable | undefined;
  readonly rows = new Map<string, VersionedRow>();
  readonly usage: UsageTable = new Map();
  readonly generations = new Map<string, number>();
  readonly #lanes = new Map<string, { readonly seq: number; readonly reply: Extract<BatchReply, { kind: "done" }> }>();
  #version = 0;
  readonly #operations = new Map<string, { readonly atMs: number; readonly amountsText: string }>();

  /** `records`: of the same store, whose configuration and leases takes go by; undefined: `generations` has that of each namespace. */
  constructor(serverMs: () => number, records?: RecordTable) {
    this.#serverMs = serverMs;
    this.#records = records;
    records?.join(this);
  }

  async apply(batch: Batch): Promise<BatchReply> {
    const lane = this.#lanes.get(batch.lane);
    if (lane !== undefined && lane.seq === batch.seq) return { ...lane.reply, repeated: true };
    if (lane !== undefined && lane.seq > batch.seq) return { kind: "superseded" };
    const generation = this.#records?.generationOf(batch.namespaceId) ?? this.generations.get(batch.namespaceId) ?? 0;
    const serverMs = this.#serverMs();
    const { changes, isTouched } = this.#changesFor(batch, generation);
    const compared = isTouched ? generation : undefined;
    const refused = batch.requests.map((request) => this.#refusedAtOnce(batch, request, compared, serverMs));
    const work = new BatchWork(batch, this, (request) => refused[request] !== undefined);
    const replies = batch.requests.map((request, i) => refused[i] ?? work.run(request));
    const { rows, isWritten } = work.written();
    for (const [i, { draft, nowMs, claims }] of batch.requests.entries()) {
      const reply = replies[i];
      if (draft === undefined || reply?.kind !== "applied") continue;
      const buckets = claims.map(({ bucket }, c) => {
        const { key } = batch.buckets[bucket] as Batch["buckets"][0];
        const { limitsText } = this.rows.get(idIn(batch.namespaceId, key)) as VersionedRow;
        return { key, levels: reply.claims[c] as ClaimLevels, row: { ...(rows[bucket] as SeenRow), limitsText } };
      });
      this.#draftWritten(batch.namespaceId, draft, { leaseId: draft.leaseId, text: draft.text, nowMs, buckets });
    }
    const reply = { kind: "done", repeated: false, generation, changes, serverMs, rows, replies } as const;
    if (isWritten || batch.isRepeat) this.#lanes.set(batch.lane, { seq: batch.seq, reply });
    return reply;
  }

  async mark(
    namespaceId: string,
    key: BucketKey,
    { seen, next }: { readonly seen: string | null; readonly next: string },
  ): Promise<boolean> {
    const id = idIn(namespaceId, key);
    const row = this.rows.get(id);
    if (row === undefined || row.marks !== seen) return false;
    this.rows.set(id, { ...row, marks: next, version: this.nextVersion() });
    return true;
  }

  async operate(operation: RowOperation): Promise<RowOperationReply> {
    const { namespaceId, bucket, idempotencyKey, brought } = operation;
    const name = `${idIn(namespaceId, bucket)}\n${idempotencyKey}`;
    const known = await this.operated(operation);
    if (known !== undefined) return { kind: "known", amountsText: known };
    const id = idIn(namespaceId, bucket);
    const version = this.rows.get(id)?.version ?? 0;
    if (version !== brought.version) return { kind: "moved" };
    if (this.#records !== undefined && !isActive(this.#records, namespaceId)) return { kind: "namespaceGone" };
    this.#records?.log(namespaceId, operation.event);
    this.rows.set(id, { ...brought.row, version: this.nextVersion(), marks: this.rows.get(id)?.marks ?? null });
    this.count(id, brought.left);
    this.#operations.set(name, { atMs: operation.nowMs, amountsText: operation.amountsText });
    return { kind: "done" };
  }

  async operated({ namespaceId, bucket, idempotencyKey, forgottenMs }: OperationKey): Promise<string | undefined> {
    const found = this.#operations.get(`${idIn(namespaceId, bucket)}\n${idempotencyKey}`);
    return found === undefined || found.atMs <= forgottenMs ? undefined : found.amountsText;
  }

  async read(namespaceId: string, keys: readonly BucketKey[]): Promise<readonly (VersionedRow | undefined)[]> {
    return keys.map((key) => this.rows.get(idIn(namespaceId, key)));
  }

  async listKeys(namespaceId: string, { entityId }: BucketOwner, page: PageRequest): Promise<Page<BucketKey>> {
    const after = keyAfter(page.cursor, 2);
    const found = this.#keysIn(namespaceId).filter(
      (key) => (entityId === undefined || key.entityId === entityId) && (after === undefined || isAfter(key, after)),
    );
    return pageOf(found.slice(0, page.limit + 1), page.limit, (key) => keyCursor(key.entityId, key.resource));
  }

  async listByResource(namespaceId: string, resource: string, page: PageRequest): Promise<Page<StoredBucket>> {
    const after = textAfter(page.cursor);
    const found = this.#keysIn(namespaceId).filter((key) => key.resource === resource && key.entityId > after);
    const items = found.slice(0, page.limit + 1).map((key) => {
      return { key, row: this.rows.get(idIn(namespaceId, key)) as VersionedRow };
    });
    return pageOf(items, page.limit, ({ key }) => keyCursor(key.entityId));
  }

  async some(
    namespaceId: string,
    from: BucketKey,
    { limitMax, epochBeforeMs }: Parameters<BatchStore["some"]>[2],
  ): Promise<readonly LookedAtBucket[]> {
    const found = this.#keysIn(namespaceId).filter((key) => !isAfter(from, [key.entityId, key.resource]));
    return found.slice(0, limitMax).map((key) => {
      const row = this.rows.get(idIn(namespaceId, key)) as VersionedRow;
      return { key, row: row.epochMs < epochBeforeMs ? row : undefined };
    });
  }

  async forget(namespaceId: string, idle: readonly IdleBucket[]): Promise<number> {
    let forgotten = 0;
    for (const { key, version, left } of idle) {
      const id = idIn(namespaceId, key);
      const row = this.rows.get(id);
      if (row?.version !== version) continue;
      const amounts = row.levels.flatMap(({ name, countedMilli }) =>
        countedMilli === null ? [] : [{ limit: name, milli: countedMilli }],
      );
      this.count(id, [{ hourMs: row.hourMs, requests: row.requests, amounts }, ...left]);
      this.rows.delete(id);
      forgotten++;
    }
    return forgotten;
  }

  /** What changed since the oldest generation of the requests, and whether any of them may go by it. */
  #changesFor({ namespaceId, requests, buckets, goesBy }: Batch, generation: number) {
    const known = requests.flatMap((request) => (request.generation === undefined ? [] : [request.generation]));
    if (known.every((one) => one === generation)) return { changes: undefined, isTouched: false };
    const since = Math.min(...known);
    const changes = this.#records?.changesSince(namespaceId, since) ?? [];
    const names = new Set([...buckets.flatMap(({ key }) => [key.entityId, key.resource]), ...goesBy]);
    const isComplete = changes.length === generation - since;
    return {
      changes,
      isTouched: !isComplete || changes.some(([, touched]) => touched.some((name) => names.has(name))),
    };
  }

  /** What is refused whatever the rows are. `generation`: undefined where requests of any other are as good. */
  #refusedAtOnce(
    batch: Batch,
    request: BatchRequest,
    generation: number | undefined,
    serverMs: number,
  ): RequestReply | undefined {
    const { aheadMaxMs, namespaceId } = batch;
    if (aheadMaxMs !== undefined && request.nowMs > serverMs + aheadMaxMs) return { kind: "clock" };
    if (generation !== undefined && request.generation !== undefined && request.generation !== generation) {
      return { kind: "stale" };
    }
    return this.#isKeyOurs(namespaceId, request.draft?.key) ? undefined : { kind: "keyLost" };
  }

  #isKeyOurs(namespaceId: string, mark: KeyMark | undefined): boolean {
    if (mark === undefined) return true;
    const body = this.#records?.readAtOnce(namespaceId, { kind: "leaseKey", key: [mark.key] })?.body as
      | KeyBody
      | undefined;
    return body?.mark === mark.mark && body.answer === undefined && body.drafted === undefined;
  }

  #draftWritten(
    namespaceId: string,
    { leaseId, entityId, resource, holdMs, key }: BatchLease,
    drafted: DraftedLease,
  ): void {
    const { nowMs } = drafted;
    const body = { draft: drafted };
    if (leaseId !== undefined) {
      const by = { entityId, resource, dueAtMs: nowMs + holdMs, forgottenAtMs: undefined };
      this.#records?.putAtOnce(namespaceId, { kind: "lease", key: [leaseId], by, body });
    }
    if (key === undefined) return;
    const known = this.#records?.readAtOnce(namespaceId, { kind: "leaseKey", key: [key.key] })?.body as KeyBody;
    const forgottenAtMs = nowMs + LEASE_REMEMBERED_MS;
    const answered = { ...known, forgottenAtMs, drafted: body };
    this.#records?.putAtOnce(namespaceId, { kind: "leaseKey", key: [key.key], by: { forgottenAtMs }, body: answered });
  }

  hoursIn(scope: string): readonly CountedHour[] {
    const open = this.#keysIn(scope).map(({ entityId, resource, id }) => {
      const { hourMs, requests, levels } = this.rows.get(`${scope}\n${id}`) as VersionedRow;
      const counts = levels.flatMap(({ name, countedMilli }) =>
        countedMilli === null ? [] : [[name, BigInt(countedMilli)]],
      );
      const all = requests === 0 ? counts : [...counts, ["#requests", BigInt(requests)]];
      return { hourMs, key: [entityId, resource], counts: Object.fromEntries(all) as Record<string, bigint> };
    });
    const left = Array.from(this.usage, ([name, milli]) => {
      const [namespace, entityId = "", resource = "", hourMs, counter = ""] = name.split("\n");
      return { namespace, hourMs: Number(hourMs), key: [entityId, resource], counts: { [counter]: milli } };
    });
    return [
      ...open.filter(({ counts }) => Object.keys(counts).length > 0),
      ...left.filter((one) => one.namespace === scope),
    ];
  }

  dropEntity(scope: string, entityId: string): void {
    for (const kept of [this.rows, this.usage, this.#operations]) {
      for (const name of kept.keys()) if (name.startsWith(`${scope}\n${entityId}\n`)) kept.delete(name);
    }
  }

  dropSome(scope: string, limitMax: number): number {
    let dropped = 0;
    for (const kept of [this.rows, this.#operations, this.usage]) {
      for (const name of [...kept.keys()].filter((one) => one.startsWith(`${scope}\n`)).slice(0, limitMax - dropped)) {
        kept.delete(name);
        dropped++;
      }
    }
    return dropped;
  }

  dropHours(untilMs: number): number {
    const old = [...this.usage.keys()].filter((name) => Number(name.split("\n")[3]) <= untilMs);
    for (const name of old) this.usage.delete(name);
    return old.length;
  }

  /** Never the same twice: a row that is made anew is another one. */
  nextVersion(): number {
    return ++this.#version;
  }

  /** Adds to the table of usage. */
  count(id: string, left: readonly LeftUsage[]): void {
    for (const { hourMs, requests, amounts } of left) {
      const all = requests === 0 ? amounts : [...amounts, { limit: "#requests", milli: requests }];
      for (const { limit, milli } of all) {
        const name = `${id}\n${hourMs}\n${limit}`;
        this.usage.set(name, (this.usage.get(name) ?? 0n) + BigInt(milli));
      }
    }
  }

  hasUsage(id: string): boolean {
    return [...this.usage.keys()].some((name) => name.startsWith(`${id}\n`));
  }

  #keysIn(namespaceId: string): readonly BucketKey[] {
    return [...this.rows.keys()]
      .map((id) => id.split("\n") as [string, string, string])
      .filter(([namespace]) => namespace === namespaceId)
      .map(([, entityId, resource]) => bucketKey(entityId, resource))
      .sort((a, b) => (isAfter(a, [b.entityId, b.resource]) ? 1 : -1));
  }
}

/** As records/leases.ts has it. */
interface KeyBody {
  readonly mark: string;
  readonly answer?: string;
  readonly drafted?: unknown;
}

function isActive(records: RecordTable, namespaceId: string): boolean {
  const found = records.readAtOnce("", { kind: "namespace", key: [namespaceId] })?.body;
  return (found as { readonly status?: string } | undefined)?.status === "active";
}

function isAfter({ entityId, resource }: BucketKey, [entity = "", on = ""]: readonly string[]): boolean {
  return entityId > entity || (entityId === entity && resource > on);
}
