import assert from "node:assert/strict";
import type { DisciplinedClock } from "../../clock/disciplined-clock.ts";
import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type {
  Batch,
  BatchReply,
  BatchStore,
  IdleBucket,
  OperationKey,
  RowOperation,
  RowOperationReply,
  StoredBucket,
  VersionedRow,
} from "../../ports/batch-store.ts";
import type { BucketOwner } from "../../ports/bucket-store.ts";
import { keyAfter, keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { leftRows, replyOf, rowJson, TAKE_TEXT, takeValues, texts } from "./batch-text.ts";
import { BUCKET_JSON, type BucketJson, rowOfJson } from "./bucket-json.ts";
import type { Connection } from "./connection.ts";
import { faultOf, thrownFor } from "./faults.ts";

/** A lock is given up so much earlier than the caller, so that what became of the take is still told in time. */
const SPARE_MS = 50;

/** Takes and rows of buckets on a server. */
export class PostgresBatches implements BatchStore {
  readonly #connection: Connection;
  readonly #durability: "normal" | "full";

  readonly #clock: DisciplinedClock | undefined;

  /** `clock`: kept to the time of the server by what it answers. */
  constructor(connection: Connection, durability: "normal" | "full", clock: DisciplinedClock | undefined) {
    this.#connection = connection;
    this.#durability = durability;
    this.#clock = clock;
  }

  async apply(batch: Batch, timeoutMs: number): Promise<BatchReply> {
    const lockMs = Math.max(1, timeoutMs - SPARE_MS);
    const values = takeValues(batch, { durability: this.#durability, lockMs });
    const sent = this.#clock?.stamp();
    try {
      // Longer than anybody waits: what lands late is still heard of, and given back. After that the connection is ended.
      const patience = { connectMs: lockMs, answerMs: 2 * timeoutMs };
      const [row] = await this.#connection.runTake(TAKE_TEXT, values, patience);
      const reply = replyOf(row?.answer);
      // The answer to a repeat has the time of then.
      if (sent !== undefined && reply.kind === "done" && !reply.repeated) {
        this.#clock?.observe({ dateMs: reply.serverMs, sent });
      }
      return reply;
    } catch (error) {
      return this.#failed(error);
    }
  }

  async operate(operation: RowOperation): Promise<RowOperationReply> {
    const { namespaceId, bucket, idempotencyKey, nowMs, forgottenMs, amountsText, event, brought } = operation;
    const row = { version: brought.version, left: leftRows(brought.left), ...rowJson(brought.row) };
    // Under its key it may be sent again, whatever became of it.
    const [answer] = await this.#connection.queryAgain(
      "SELECT @.operate_1($1, $2, $3, $4, $5::bigint, $6::bigint, $7, $8::text::json, $9::text::jsonb) AS answer",
      [
        ...[namespaceId, bucket.entityId, bucket.resource, idempotencyKey, nowMs, forgottenMs],
        ...[amountsText, eventText(event), JSON.stringify(row)],
      ],
      "always",
    );
    return JSON.parse(String(answer?.answer)) as RowOperationReply;
  }

  async mark(
    namespaceId: string,
    { entityId, resource }: BucketKey,
    { seen, next }: { readonly seen: string | null; readonly next: string },
  ): Promise<boolean> {
    const [row] = await this.#connection.queryAgain(
      "SELECT @.mark_1($1, $2, $3, $4, $5) AS marked",
      [namespaceId, entityId, resource, seen, next],
      "rolledBack",
    );
    return row?.marked === true;
  }

  async operated({ namespaceId, bucket, idempotencyKey, forgottenMs }: OperationKey): Promise<string | undefined> {
    const [row] = await this.#read(
      `SELECT amounts FROM @.operation
       WHERE namespace = $1 AND entity = $2 AND resource = $3 AND key = $4 AND at_ms > $5::bigint`,
      [namespaceId, bucket.entityId, bucket.resource, idempotencyKey, forgottenMs],
    );
    return row === undefined ? undefined : String(row.amounts);
  }

  async read(namespaceId: string, keys: readonly BucketKey[]): Promise<readonly (VersionedRow | undefined)[]> {
    if (keys.length === 0) return [];
    const found = await this.#read(
      `SELECT ${BUCKET_JSON} AS found FROM unnest($2::text::text[], $3::text::text[]) WITH ORDINALITY AS w (entity, resource, i)
       LEFT JOIN @.bucket b ON b.namespace = $1 AND b.entity = w.entity AND b.resource = w.resource ORDER BY w.i`,
      [namespaceId, texts(keys.map(({ entityId }) => entityId)), texts(keys.map(({ resource }) => resource))],
    );
    assert(found.length === keys.length, `${keys.length} buckets were asked for, ${found.length} answered`);
    return found.map((row) => (row.found === null ? undefined : rowOfJson(row.found as BucketJson)));
  }

  async listKeys(namespaceId: string, { entityId }: BucketOwner, page: PageRequest): Promise<Page<BucketKey>> {
    const [entity, resource] = keyAfter(page.cursor, 2) ?? [entityId ?? "", ""];
    const found = await this.#read(
      `SELECT entity, resource FROM @.bucket WHERE namespace = $1 AND (entity, resource) > ($2, $3)
         AND ($4::text IS NULL OR entity = $4) ORDER BY entity, resource LIMIT $5::bigint`,
      [namespaceId, entity, resource, entityId ?? null, page.limit + 1],
    );
    const items = found.map((row) => bucketKey(String(row.entity), String(row.resource)));
    return pageOf(items, page.limit, (key) => keyCursor(key.entityId, key.resource));
  }

  async listByResource(namespaceId: string, resource: string, page: PageRequest): Promise<Page<StoredBucket>> {
    const found = await this.#read(
      `SELECT entity, ${BUCKET_JSON} AS found FROM @.bucket b
       WHERE namespace = $1 AND resource = $2 AND entity > $3 ORDER BY entity LIMIT $4::bigint`,
      [namespaceId, resource, textAfter(page.cursor), page.limit + 1],
    );
    const items = found.map((row) => ({
      key: bucketKey(String(row.entity), resource),
      row: rowOfJson(row.found as BucketJson),
    }));
    return pageOf(items, page.limit, ({ key }) => keyCursor(key.entityId));
  }

  async some(namespaceId: string, from: BucketKey, limitMax: number): Promise<readonly StoredBucket[]> {
    const found = await this.#read(
      `SELECT entity, resource, ${BUCKET_JSON} AS found FROM @.bucket b
       WHERE namespace = $1 AND (entity, resource) >= ($2, $3) ORDER BY entity, resource LIMIT $4::bigint`,
      [namespaceId, from.entityId, from.resource, limitMax],
    );
    return found.map(({ entity, resource, found: row }) => ({
      key: bucketKey(String(entity), String(resource)),
      row: rowOfJson(row as BucketJson),
    }));
  }

  async forget(namespaceId: string, idle: readonly IdleBucket[]): Promise<number> {
    const [row] = await this.#connection.queryAgain(
      "SELECT @.forget_1($1, $2::text::text[], $3::text::text[], $4::text::bigint[], $5::text::json) AS forgotten",
      [
        ...[namespaceId, texts(idle.map(({ key }) => key.entityId)), texts(idle.map(({ key }) => key.resource))],
        ...[
          `{${idle.map(({ version }) => version).join(",")}}`,
          JSON.stringify(idle.map(({ left }) => leftRows(left))),
        ],
      ],
      "rolledBack",
    );
    return Number(row?.forgotten);
  }

  #read(text: string, values: readonly unknown[]) {
    return this.#connection.queryAgain(text, values, "always");
  }

  /** What an error means for a batch. What asking again would not help against is thrown. */
  #failed(error: unknown): BatchReply {
    switch (faultOf(error)) {
      case "rolledBack":
        return { kind: "rolledBack", cause: thrownFor(error, this.#connection.name) };
      case "unknown":
        return { kind: "unavailable", applied: "unknown", cause: thrownFor(error, this.#connection.name) };
      case "notApplied":
      case "standby":
      case "refused":
        return { kind: "unavailable", applied: "no", cause: thrownFor(error, this.#connection.name) };
      default:
        throw isolationWrong(error) ?? thrownFor(error, this.#connection.name);
    }
  }
}

/** The event is a text within the JSON: what it holds may be such as the server's JSON refuses (\\u0000). */
function eventText(event: AuditEvent): string {
  const { eventId, entityId, atMs } = event;
  return JSON.stringify({ eventId, entityId, atMs, body: JSON.stringify(event) });
}

function isolationWrong(error: unknown): LimiterError | undefined {
  if (!(error instanceof Error) || (error as { code?: unknown }).code !== "ZA001") return undefined;
  return new LimiterError(
    "isolation_wrong",
    `The server refused a take: ${error.message}. Leave default_transaction_isolation of the role at read committed.`,
  );
}
