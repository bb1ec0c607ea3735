import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import { namedCounts } from "../../domain/charge/usage.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type {
  BatchStore,
  IdleBucket,
  LeftUsage,
  LookedAtBucket,
  OperationKey,
  RowOperation,
  RowOperationReply,
  StoredBucket,
  StraightRow,
  VersionedRow,
} from "../../ports/batch-store.ts";
import type { BucketOwner } from "../../ports/bucket-store.ts";
import type { CopiedRows } from "../../ports/copy-store.ts";
import { keyAfter, keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { REQUESTS_COUNTER } from "../../stored/open-hour.ts";
import { bytesOfRow, leavingOf, rowOfBytes, VERSION_BYTES } from "./bucket-bytes.ts";
import { type RedisConnection, scriptOf, textOf } from "./connection.ts";
import { thrownFor } from "./faults.ts";
import { type Hint, type NamespaceKeys, partsOf } from "./keys.ts";
import { luaText } from "./lua-texts.ts";
import { byHour, textWith, usageText } from "./usage-text.ts";
import { type Replicas, SCRIPT_PATIENCE, type Swap, Values } from "./values.ts";

const MARK = scriptOf("mark", luaText("mark"));

/** A swap is tried so often: the values beside the one that it is about are changed by others. */
const SWAPS_MAX = 20;

/** Keys of buckets are looked for in so many entries of an index at once. */
const ENTRIES_AT_ONCE = 500;

const NO_REPLICAS: Replicas = { count: 0, timeoutMs: 0 };

/** So many rows of a copy are written at once. */
const COPIED_AT_ONCE = 100;

/** Numbers and forms of the events of the audit log. */
interface AuditTrail {
  /** The number of the next event, as far as is known. */
  next(at: NamespaceKeys): Promise<number>;
  /** The number of events that there are. */
  note(at: NamespaceKeys, count: number): void;
  /** The text has no version yet. */
  write(
    at: NamespaceKeys,
    number: number,
    event: AuditEvent,
  ): { readonly key: string; readonly text: string; readonly hints: readonly Hint[] };
}

export interface RowsParts {
  readonly connection: RedisConnection;
  readonly keysOf: (namespaceId: string) => NamespaceKeys;
  readonly audit: AuditTrail;
  readonly isActive: (namespaceId: string) => Promise<boolean>;
  /** A batch, or a purchase, is answered when this many have confirmed it. */
  readonly replicas: Replicas;
}

/** Rows of buckets on a server, beside what takes do to them. */
export class BucketRows implements Omit<BatchStore, "apply"> {
  readonly #parts: RowsParts;
  readonly #connection: RedisConnection;
  readonly #values: Values;

  constructor(parts: RowsParts) {
    this.#parts = parts;
    this.#connection = parts.connection;
    this.#values = new Values(parts.connection);
  }

  async operate(operation: RowOperation): Promise<RowOperationReply> {
    return this.#values.asked(async () => {
      for (let tries = 0; tries < SWAPS_MAX; tries++) {
        const reply = await this.#operateOnce(operation);
        if (reply !== undefined) return reply;
      }
      return { kind: "moved" };
    });
  }

  /** Undefined: another one was faster at something else than the row. */
  async #operateOnce(operation: RowOperation): Promise<RowOperationReply | undefined> {
    const { namespaceId, bucket, idempotencyKey, nowMs, forgottenMs, amountsText, event, brought } = operation;
    const { entityId, resource } = bucket;
    const { keysOf, audit, isActive, replicas } = this.#parts;
    const at = keysOf(namespaceId);
    const operationKey = at.operation(entityId, resource, idempotencyKey);
    const [active, [known = null, stored = null]] = await Promise.all([
      isActive(namespaceId),
      this.#values.of([operationKey, at.bucket(bucket)]),
    ]);
    if (!active) return { kind: "namespaceGone" };
    const remembered = operationIn(known);
    if (remembered !== undefined && remembered.atMs > forgottenMs) {
      return { kind: "known", amountsText: remembered.amountsText };
    }
    const row = rowOfBytes(stored);
    if ((row?.version ?? 0) !== brought.version) return { kind: "moved" };
    const number = await audit.next(at);
    const written = audit.write(at, number, event);
    const swaps: Swap[] = [
      rowSwap(at.bucket(bucket), stored, bytesOfRow(brought.row, brought.version, row?.marks ?? null)),
      { key: operationKey, form: "text", is: known ?? "", becomes: `${nowMs} ${amountsText}` },
      { key: at.auditCount, form: "text", is: number === 1 ? "" : String(number - 1), becomes: String(number) },
      { key: written.key, form: "record", is: "", becomes: written.text },
      ...(await this.#usageSwaps(at, bucket, brought.left)),
    ];
    const hints = [
      ...at.bucketHints(bucket),
      ...at.operationHints(entityId, resource, idempotencyKey, nowMs),
      ...usageHints(at, bucket, brought.left),
      ...written.hints,
    ];
    const changed = await this.#values.swapped(at, swaps, hints, replicas);
    if (changed === "done") audit.note(at, number);
    else if (changed?.key === at.auditCount) audit.note(at, await this.#auditCount(at));
    return changed === "done" ? { kind: "done" } : undefined;
  }

  async #auditCount(at: NamespaceKeys): Promise<number> {
    const [count] = await this.#values.of([at.auditCount]);
    return Number(textOf(count ?? null) ?? 0);
  }

  async operated({ namespaceId, bucket, idempotencyKey, forgottenMs }: OperationKey): Promise<string | undefined> {
    return this.#values.asked(async () => {
      const { entityId, resource } = bucket;
      const key = this.#parts.keysOf(namespaceId).operation(entityId, resource, idempotencyKey);
      const [known = null] = await this.#values.of([key]);
      const found = operationIn(known);
      return found === undefined || found.atMs <= forgottenMs ? undefined : found.amountsText;
    });
  }

  async mark(
    namespaceId: string,
    key: BucketKey,
    { seen, next }: { readonly seen: string | null; readonly next: string },
  ): Promise<boolean> {
    const at = this.#parts.keysOf(namespaceId);
    try {
      const { reply } = await this.#connection.run(
        MARK,
        [at.writes, at.bucket(key)],
        [seen ?? "", next],
        SCRIPT_PATIENCE,
      );
      return Number(reply) === 1;
    } catch (error) {
      throw thrownFor(error, this.#connection.name);
    }
  }

  async read(namespaceId: string, keys: readonly BucketKey[]): Promise<readonly (VersionedRow | undefined)[]> {
    const at = this.#parts.keysOf(namespaceId);
    return this.#values.asked(async () => (await this.#values.of(keys.map((key) => at.bucket(key)))).map(rowOfBytes));
  }

  async listKeys(namespaceId: string, { entityId }: BucketOwner, page: PageRequest): Promise<Page<BucketKey>> {
    const [entity, resource] = keyAfter(page.cursor, 2) ?? [entityId ?? "", ""];
    const at = this.#parts.keysOf(namespaceId);
    const from = `(${at.hint("bucketsByEntity", String(entity), String(resource)).member}`;
    const to = entityId === undefined ? "+" : `(${entityId}\n\xff`;
    const found = await this.#values.asked(() => this.#buckets(at, from, to, page.limit + 1));
    return pageOf(
      found.map(({ key }) => key),
      page.limit,
      (key) => keyCursor(key.entityId, key.resource),
    );
  }

  async some(
    namespaceId: string,
    from: BucketKey,
    { limitMax, epochBeforeMs }: Parameters<BatchStore["some"]>[2],
  ): Promise<readonly LookedAtBucket[]> {
    const at = this.#parts.keysOf(namespaceId);
    const first = `[${at.hint("bucketsByEntity", from.entityId, from.resource).member}`;
    const found = await this.#values.asked(() => this.#buckets(at, first, "+", limitMax));
    return found.map(({ key, row }) => ({ key, row: row.epochMs < epochBeforeMs ? row : undefined }));
  }

  async listByResource(namespaceId: string, resource: string, page: PageRequest): Promise<Page<StoredBucket>> {
    const at = this.#parts.keysOf(namespaceId);
    const from = `(${at.hint("bucketsByResource", resource, textAfter(page.cursor)).member}`;
    const found = await this.#values.asked(() =>
      this.#buckets(at, from, `(${resource}\n\xff`, page.limit + 1, "byResource"),
    );
    return pageOf(found, page.limit, ({ key }) => keyCursor(key.entityId));
  }

  async forget(namespaceId: string, idle: readonly IdleBucket[]): Promise<number> {
    const at = this.#parts.keysOf(namespaceId);
    const gone = await Promise.all(idle.map((one) => this.#values.asked(() => this.#forgotten(at, one))));
    return gone.filter(Boolean).length;
  }

  async #forgotten(at: NamespaceKeys, { key, version, left }: IdleBucket): Promise<boolean> {
    for (let tries = 0; tries < SWAPS_MAX; tries++) {
      const [stored = null] = await this.#values.of([at.bucket(key)]);
      const row = rowOfBytes(stored);
      if (row === undefined || row.version !== version) return false;
      const all = [...leavingOf(row), ...left];
      const swaps = [rowSwap(at.bucket(key), stored, ""), ...(await this.#usageSwaps(at, key, all))];
      const changed = await this.#values.swapped(at, swaps, usageHints(at, key, all), NO_REPLICAS);
      if (changed === "done") return true;
    }
    return false;
  }

  /** What the hours of a bucket become with more counted in them. */
  async #usageSwaps(at: NamespaceKeys, key: BucketKey, left: readonly LeftUsage[]): Promise<readonly Swap[]> {
    const hours = [...byHour(left)];
    const keys = hours.map(([hourMs]) => at.usage(key.entityId, key.resource, hourMs));
    const values = await this.#values.of(keys);
    return hours.map(([, counts], i) => {
      const is = values[i] ?? "";
      return { key: keys[i] as string, form: "text", is, becomes: usageText(textOf(is), counts) };
    });
  }

  /** Buckets that there are, by an index; an index may name some that are no more. */
  async #buckets(
    at: NamespaceKeys,
    from: string,
    to: string,
    limitMax: number,
    order: "byEntity" | "byResource" = "byEntity",
  ): Promise<readonly StoredBucket[]> {
    const index = at.index(order === "byEntity" ? "bucketsByEntity" : "bucketsByResource");
    const found: StoredBucket[] = [];
    for (let after = from; ; ) {
      const size = Math.min(ENTRIES_AT_ONCE, limitMax - found.length);
      const members = await this.#values.range(index, after, to, size);
      const keys = members.map((member) => {
        const [first = "", second = ""] = partsOf(member);
        return order === "byEntity" ? bucketKey(first, second) : bucketKey(second, first);
      });
      const values = await this.#values.of(keys.map((key) => at.bucket(key)));
      for (const [i, key] of keys.entries()) {
        const row = rowOfBytes(values[i] ?? null);
        if (row !== undefined) found.push({ key, row });
      }
      if (members.length < size || found.length >= limitMax) return found;
      after = `(${members.at(-1)}`;
    }
  }

  /** Writes rows of a copy in place of those that there are. Nobody else writes to them meanwhile. */
  async putBuckets(namespaceId: string, rows: readonly CopiedRow[]): Promise<void> {
    const at = this.#parts.keysOf(namespaceId);
    await this.#put(at, rows, async (some) => {
      const stored = await this.#values.of(some.map(({ key }) => at.bucket(key)));
      return some.map(({ key, row, marks }, i) => ({
        swap: rowSwap(at.bucket(key), stored[i] ?? null, bytesOfRow(row, 0, marks)),
        hints: at.bucketHints(key),
      }));
    });
  }

  /** Writes counts of a copy in place of those that there are. Nobody else writes to them meanwhile. */
  async putUsage(namespaceId: string, rows: readonly CopiedRows["usage"][]): Promise<void> {
    const at = this.#parts.keysOf(namespaceId);
    await this.#put(at, rows, async (some) => {
      const keys = some.map(({ entityId, resource, windowStartMs }) => at.usage(entityId, resource, windowStartMs));
      const stored = await this.#values.of(keys);
      return some.map((row, i) => {
        const is = stored[i] ?? "";
        const becomes = textWith(textOf(is), countersIn(row));
        const hints = at.usageHints(row.entityId, row.resource, row.windowStartMs);
        return { swap: { key: keys[i] as string, form: "text", is, becomes }, hints };
      });
    });
  }

  async #put<Row>(
    at: NamespaceKeys,
    rows: readonly Row[],
    writesOf: (some: readonly Row[]) => Promise<readonly { readonly swap: Swap; readonly hints: readonly Hint[] }[]>,
  ): Promise<void> {
    for (let from = 0; from < rows.length; from += COPIED_AT_ONCE) {
      await this.#values.asked(async () => {
        for (let tries = 0; tries < SWAPS_MAX; tries++) {
          const writes = await writesOf(rows.slice(from, from + COPIED_AT_ONCE));
          const [swaps, hints] = [writes.map(({ swap }) => swap), writes.flatMap((write) => write.hints)];
          if ((await this.#values.swapped(at, swaps, hints, NO_REPLICAS)) === "done") return;
        }
        throw new Error(`Others kept writing to the namespace ${at.namespaceId}, which is being copied to.`);
      });
    }
  }
}

/** A bucket of a copy. */
interface CopiedRow {
  readonly key: BucketKey;
  readonly row: StraightRow;
  readonly marks: string | null;
}

/** The counts of an hour; requests among them. */
function countersIn(row: CopiedRows["usage"]): readonly { readonly counter: string; readonly milli: bigint }[] {
  const counted = namedCounts(row).map(([counter, count]) => ({ counter, milli: BigInt(count) * 1000n }));
  return row.requests === 0 ? counted : [...counted, { counter: REQUESTS_COUNTER, milli: BigInt(row.requests) }];
}

function rowSwap(key: string, stored: Uint8Array | null, becomes: Uint8Array | string): Swap {
  const is = stored?.subarray(VERSION_BYTES.from, VERSION_BYTES.to) ?? "";
  return { key, form: "row", is, becomes };
}

function usageHints(at: NamespaceKeys, { entityId, resource }: BucketKey, left: readonly LeftUsage[]): readonly Hint[] {
  return [...byHour(left).keys()].flatMap((hourMs) => at.usageHints(entityId, resource, hourMs));
}

/** The operation that is remembered under a key: its time, and what it gained. */
function operationIn(value: Uint8Array | null): { readonly atMs: number; readonly amountsText: string } | undefined {
  const text = textOf(value);
  const [atMs = ""] = text?.split(" ", 1) ?? [];
  return text === undefined ? undefined : { atMs: Number(atMs), amountsText: text.slice(atMs.length + 1) };
}
