import { levelMilli } from "../bucket/level.ts";
import { credit, debit, take } from "../bucket/take.ts";
import type { Amount } from "../domain/amounts.ts";
import { type BucketKey, bucketKey } from "../domain/bucket-key.ts";
import { LEASE_REMEMBERED_MS } from "../domain/lease-record.ts";
import type { Page, PageRequest } from "../domain/paging.ts";
import { HOUR_MS, overdraftOf } from "../domain/usage.ts";
import type {
  Batch,
  BatchClaim,
  BatchLease,
  BatchReply,
  BatchRequest,
  BatchStore,
  ClaimLevels,
  DraftedLease,
  LeftUsage,
  OperationKey,
  RequestReply,
  RowOperation,
  RowOperationReply,
  SeenRow,
  StoredBucket,
  StraightLevel,
  StraightRow,
  VersionedRow,
} from "../ports/batch-store.ts";
import type { BucketOwner } from "../ports/bucket-store.ts";
import type { KeyMark } from "../ports/lease-write.ts";
import { keyAfter, keyCursor, pageOf, textAfter } from "../stored/cursor.ts";
import type { CountedHour } from "./record-sums.ts";
import type { KeptByTakes, RecordTable } from "./record-table.ts";

/** Usage that has left the rows: millitokens by namespace, bucket, hour and counter. */
type UsageTable = Map<string, bigint>;

/** A row as a batch works on it. */
interface Working {
  readonly key: BucketKey;
  row: StraightRow;
  readonly version: number;
  isChanged: boolean;
  isShown: boolean;
}

/** Thrown where the row is not as the request expects it. */
const AGAIN = Symbol("again");

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
    const refused = batch.requests.map((request) => this.#refusedAtOnce(batch, request, generation, serverMs));
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
    const reply = { kind: "done", repeated: false, generation, serverMs, rows, replies } as const;
    if (isWritten) this.#lanes.set(batch.lane, { seq: batch.seq, reply });
    return reply;
  }

  async operate(operation: RowOperation): Promise<RowOperationReply> {
    const { namespaceId, bucket, idempotencyKey, amounts, brought } = operation;
    const name = `${idIn(namespaceId, bucket)}\n${idempotencyKey}`;
    const amountsText = await this.operated(operation);
    if (amountsText !== undefined) return { kind: "known", amountsText };
    const id = idIn(namespaceId, bucket);
    const version = this.rows.get(id)?.version ?? 0;
    if (version !== brought.version) return { kind: "moved" };
    if (this.#records !== undefined && !isActive(this.#records, namespaceId)) return { kind: "namespaceGone" };
    this.#records?.log(namespaceId, operation.event);
    this.rows.set(id, { ...brought.row, version: this.nextVersion() });
    this.count(id, brought.left);
    this.#operations.set(name, { atMs: operation.nowMs, amountsText: JSON.stringify(amounts) });
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

  async some(namespaceId: string, from: BucketKey, limitMax: number): Promise<readonly StoredBucket[]> {
    const found = this.#keysIn(namespaceId).filter((key) => !isAfter(from, [key.entityId, key.resource]));
    return found.slice(0, limitMax).map((key) => ({ key, row: this.rows.get(idIn(namespaceId, key)) as VersionedRow }));
  }

  async forget(
    namespaceId: string,
    idle: readonly { readonly key: BucketKey; readonly version: number }[],
  ): Promise<number> {
    let forgotten = 0;
    for (const { key, version } of idle) {
      const id = idIn(namespaceId, key);
      const row = this.rows.get(id);
      if (row?.version !== version) continue;
      const amounts = row.levels.flatMap(({ name, countedMilli }) =>
        countedMilli === null ? [] : [{ limit: name, milli: countedMilli }],
      );
      this.count(id, [{ hourMs: row.hourMs, requests: row.requests, amounts }]);
      this.rows.delete(id);
      forgotten++;
    }
    return forgotten;
  }

  /** What is refused whatever the rows are. */
  #refusedAtOnce(batch: Batch, request: BatchRequest, generation: number, serverMs: number): RequestReply | undefined {
    const { aheadMaxMs, namespaceId } = batch;
    if (aheadMaxMs !== undefined && request.nowMs > serverMs + aheadMaxMs) return { kind: "clock" };
    if (request.generation !== undefined && request.generation !== generation) return { kind: "stale" };
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

/** One batch on the rows of a store. */
class BatchWork {
  readonly #batch: Batch;
  readonly #store: StraightStore;
  readonly #rows: (Working | undefined)[];
  #left: { readonly id: string; readonly usage: LeftUsage }[] = [];

  constructor(batch: Batch, store: StraightStore, isRefused: (request: number) => boolean) {
    this.#batch = batch;
    this.#store = store;
    this.#rows = batch.buckets.map(({ key, brought }): Working | undefined => {
      const id = idIn(batch.namespaceId, key);
      const stored = store.rows.get(id);
      const version = stored?.version ?? 0;
      if (brought === undefined || brought.version !== version || isRefused(brought.request)) {
        return stored && { key, row: stored, version, isChanged: false, isShown: false };
      }
      for (const usage of brought.left) this.#left.push({ id, usage });
      return { key, row: brought.row, version, isChanged: version > 0, isShown: false };
    });
  }

  run(request: BatchRequest): RequestReply {
    const before = this.#rows.map((row) => row && { ...row });
    const leftBefore = this.#left;
    const outcomes = request.claims.map((claim) => this.#claimed(request, claim));
    const isAgain = outcomes.includes("again");
    if (outcomes.every((outcome): outcome is ClaimLevels => typeof outcome === "object")) {
      return { kind: "applied", claims: outcomes };
    }
    for (const [i, row] of before.entries())
      this.#rows[i] = row && { ...row, isShown: this.#rows[i]?.isShown === true };
    this.#left = leftBefore;
    if (isAgain) return { kind: "again" };
    if (outcomes.includes("gone")) return this.#gone(request);
    if (outcomes.includes("tooDeep")) return { kind: "tooDeep" };
    return {
      kind: "short",
      short: outcomes.map((outcome) => outcome === "short"),
      claims: request.claims.map(({ bucket }) => levelsOf((this.#rows[bucket] as Working).row)),
    };
  }

  /** Stores what was changed. */
  written(): { readonly rows: readonly (SeenRow | null)[]; readonly isWritten: boolean } {
    let isWritten = this.#left.length > 0;
    const rows = this.#rows.map((working): SeenRow | null => {
      if (working === undefined || (working.version === 0 && !working.isChanged)) return null;
      const version = working.isChanged ? this.#store.nextVersion() : working.version;
      if (working.isChanged) {
        isWritten = true;
        this.#store.rows.set(idIn(this.#batch.namespaceId, working.key), { ...working.row, version });
      }
      return seen(working.row, version, working.isShown);
    });
    for (const { id, usage } of this.#left) this.#store.count(id, [usage]);
    return { rows, isWritten };
  }

  #gone({ claims }: BatchRequest): RequestReply {
    const [{ bucket, lost } = { bucket: 0, lost: undefined }] = claims;
    const id = idIn(this.#batch.namespaceId, (this.#batch.buckets[bucket] as Batch["buckets"][0]).key);
    if (this.#batch.countsUsage && lost !== undefined && this.#store.hasUsage(id)) {
      this.#left = [...this.#left, { id, usage: lost }];
    }
    return { kind: "gone" };
  }

  #claimed(request: BatchRequest, claim: BatchClaim): ClaimLevels | "again" | "gone" | "tooDeep" | "short" {
    const working = this.#rows[claim.bucket];
    if (working === undefined || (request.kind === "credit" && working.version === 0 && !working.isChanged)) {
      return request.kind === "credit" ? "gone" : "again";
    }
    const isUnborn = working.version === 0 && !working.isChanged;
    const isEarlier = isUnborn && request.nowMs < working.row.epochMs;
    if (isEarlier || !isStraight(working.row, request, claim, this.#batch.countsUsage)) {
      working.isShown = true;
      return "again";
    }
    const { id } = working.key;
    const overdrawn: Amount[] = [];
    let outcome: StraightRow | "short" | "tooDeep" | typeof AGAIN;
    // A bucket begins with who first takes from it, not with somebody before him in the batch who was refused.
    const row = isUnborn ? { ...working.row, epochMs: request.nowMs } : working.row;
    outcome = changed(row, request, claim, this.#batch.countsUsage, overdrawn);
    if (outcome === AGAIN) {
      working.isShown = true;
      return "again";
    }
    if (outcome === "short" || outcome === "tooDeep") return outcome;
    working.row = outcome;
    working.isChanged = true;
    const counted = this.#batch.countsUsage ? [...overdrawn, ...claim.strays] : [];
    if (counted.length > 0) {
      const usage = { hourMs: outcome.hourMs, requests: 0, amounts: counted };
      this.#left = [...this.#left, { id: `${this.#batch.namespaceId}\n${id}`, usage }];
    }
    return levelsOf(outcome);
  }
}

function isStraight(row: StraightRow, { kind, nowMs }: BatchRequest, claim: BatchClaim, counts: boolean): boolean {
  if (row.signature !== claim.signature || (counts && nowMs >= row.hourMs + HOUR_MS)) return false;
  const { origin } = claim;
  if (origin !== undefined && (origin.asOfMs !== row.asOfMs || origin.generation !== row.generation)) return false;
  if (kind !== "credit") return nowMs < row.renewAtMs && claim.changedMs <= row.metMs;
  return claim.bypass || (nowMs < (row.validUntilMs ?? Number.POSITIVE_INFINITY) && row.epochMs <= claim.judgedMs);
}

/** The row after a claim that it is straight for. */
function changed(
  row: StraightRow,
  { kind, nowMs, isNoted }: BatchRequest,
  claim: BatchClaim,
  counts: boolean,
  overdrawn: Amount[],
): StraightRow | "short" | "tooDeep" | typeof AGAIN {
  let { validUntilMs, renewAtMs } = row;
  let [isShort, isDeep, isFull] = [false, false, false];
  const levels = row.levels.map((level, i): StraightLevel => {
    const asked = claim.amounts[i];
    if (asked === null || asked === undefined) return level;
    const countedMilli =
      counts && asked !== 0 ? (level.countedMilli ?? 0) + (kind === "credit" ? -asked : asked) : level.countedMilli;
    if (!Number.isSafeInteger(countedMilli ?? 0)) isFull = true;
    if (claim.bypass) return { ...level, countedMilli };
    if (kind === "credit") return { ...level, countedMilli, tokensMilli: givenBack(level, claim, i, asked) };
    const elapsedMs = nowMs - row.epochMs;
    const tokensMilli = level.soft
      ? (debit(level, level, elapsedMs, asked) ?? level.tokensMilli)
      : kind === "take"
        ? take(level, level, elapsedMs, asked)
        : debit(level, level, elapsedMs, asked);
    if (tokensMilli === undefined) {
      if (kind === "take") isShort = true;
      else isDeep = true;
      return level;
    }
    const after = { ...level, countedMilli, tokensMilli };
    if (counts && level.soft && kind === "take" && levelMilli(after, level, elapsedMs) < 0) {
      overdrawn.push({ limit: overdraftOf(level.name), milli: 1000 });
    }
    if (level.windowMs === 0 || level.windowStartMs !== null || asked <= 0) return after;
    const windowStartMs = Math.max(nowMs, row.epochMs);
    validUntilMs = Math.min(validUntilMs ?? Number.POSITIVE_INFINITY, windowStartMs + level.windowMs);
    renewAtMs = Math.min(renewAtMs, validUntilMs);
    return { ...after, windowStartMs };
  });
  if (isFull) return AGAIN;
  if (isDeep) return "tooDeep";
  if (isShort) return "short";
  const writtenMs = isNoted ? Math.max(row.writtenMs ?? nowMs, nowMs) : row.writtenMs;
  const requests = row.requests + (counts && kind === "take" ? 1 : 0);
  return { ...row, levels, validUntilMs, renewAtMs, writtenMs, requests };
}

function givenBack(level: StraightLevel, { pins }: BatchClaim, i: number, milli: number): number {
  const pin = pins?.[i];
  const isOfPeriod =
    pin === undefined || (pin !== "skip" && pin.resets === level.resets && pin.windowStartMs === level.windowStartMs);
  return isOfPeriod ? credit(level, milli) : level.tokensMilli;
}

function levelsOf({ levels, validUntilMs }: StraightRow): ClaimLevels {
  const hasSessions = levels.some(({ windowMs }) => windowMs > 0);
  return {
    tokensMilli: levels.map((level) => level.tokensMilli),
    windows: hasSessions ? levels.map((level) => level.windowStartMs) : undefined,
    validUntilMs: hasSessions ? validUntilMs : undefined,
  };
}

function seen({ levels, limitsText, ...row }: StraightRow, version: number, isShown: boolean): SeenRow {
  return {
    ...row,
    version,
    limitsText: isShown ? limitsText : undefined,
    tokensMilli: levels.map((level) => level.tokensMilli),
    remainders: levels.map((level) => level.remainder),
    countedMilli: levels.map((level) => level.countedMilli),
    windows: levels.map((level) => level.windowStartMs),
    topUpsMilli: levels.map((level) => level.topUpMilli),
    resets: levels.map((level) => level.resets),
  };
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

function idIn(namespaceId: string, { id }: BucketKey): string {
  return `${namespaceId}\n${id}`;
}

function isAfter({ entityId, resource }: BucketKey, [entity = "", on = ""]: readonly string[]): boolean {
  return entityId > entity || (entityId === entity && resource > on);
}
