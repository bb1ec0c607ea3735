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
  LookedAtBucket,
  OperationKey,
  RowOperation,
  RowOperationReply,
  StoredBucket,
  VersionedRow,
} from "../../ports/batch-store.ts";
import type { BucketOwner } from "../../ports/bucket-store.ts";
import { keyAfter, keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { SummedTries } from "../../straight/summed-take.ts";
import {
  type AnswerJson,
  broughtRow,
  leftRows,
  replyOf,
  type SummedJson,
  SummedStatement,
  TAKE_TEXT,
  type TakeSettings,
  takeValues,
  texts,
} from "./batch-text.ts";
import type { Connection, Patience } from "./connection.ts";
import { faultOf, thrownFor } from "./faults.ts";
import { BUCKET_JSON, type RowJson, rowOfJson } from "./row-fields.ts";

/** A lock is given up so much earlier than the caller, so that what became of the take is still told in time. */
const SPARE_MS = 50;

interface BatchesParts {
  readonly connection: Connection;
  readonly durability: "normal" | "full";
  /** Kept to the time of the server by what it answers; undefined: readings come from elsewhere. */
  readonly clock: DisciplinedClock | undefined;
  readonly steadyMs: () => number;
}

/** Takes and rows of buckets on a server. */
export class PostgresBatches implements BatchStore {
  readonly #connection: Connection;
  readonly #parts: BatchesParts;
  /** The lanes that have a row on the server, which only the general take makes. */
  readonly #lanes = new Map<string, SummedTries>();

  constructor(parts: BatchesParts) {
    this.#connection = parts.connection;
    this.#parts = parts;
  }

  async apply(batch: Batch, timeoutMs: number): Promise<BatchReply> {
    const { clock, steadyMs } = this.#parts;
    const untilMs = steadyMs() + timeoutMs;
    const tries = this.#lanes.get(batch.lane);
    const summed = SummedStatement.of(batch);
    try {
      const sent = clock?.stamp();
      const isTried = summed && tries?.isWorthIt(batch);
      const together = isTried ? await this.#together(summed, timeoutMs) : undefined;
      const reply = together ?? (await this.#oneByOne(batch, summed, Math.max(1, untilMs - steadyMs())));
      if (isTried) tries?.note(batch, together === undefined ? reply : undefined);
      // The answer to a repeat has the time of then.
      if (sent !== undefined && reply.kind === "done" && !reply.repeated) {
        clock?.observe({ dateMs: reply.serverMs, sent });
      }
      return reply;
    } catch (error) {
      return this.#failed(error);
    }
  }

  async #together(summed: SummedStatement, timeoutMs: number): Promise<BatchReply | undefined> {
    const { values, patience } = this.#sending(timeoutMs);
    const [row] = await this.#connection.runTake(...summed.call(values), patience);
    return typeof row?.answer === "string" ? summed.replyOf(JSON.parse(row.answer) as SummedJson) : undefined;
  }

  async #oneByOne(batch: Batch, summed: SummedStatement | undefined, timeoutMs: number): Promise<BatchReply> {
    const { values, patience } = this.#sending(timeoutMs);
    const [row] = await this.#connection.runTake(TAKE_TEXT, takeValues(batch, values), patience);
    const answer = JSON.parse(String(row?.answer)) as AnswerJson | SummedJson;
    // A repeat of a batch that was done together.
    if ("summed" in answer) return summed?.replyOf(answer) as BatchReply;
    const reply = replyOf(answer);
    const isKept = batch.isRepeat || (reply.kind === "done" && reply.replies.some(({ kind }) => kind === "applied"));
    if (isKept && !this.#lanes.has(batch.lane)) this.#lanes.set(batch.lane, new SummedTries());
    return reply;
  }

  #sending(timeoutMs: number): { readonly values: TakeSettings; readonly patience: Patience } {
    const lockMs = Math.max(1, timeoutMs - SPARE_MS);
    // Longer than anybody waits: what lands late is still heard of, and given back. After that the connection is ended.
    const patience = { connectMs: lockMs, answerMs: 2 * timeoutMs };
    return { values: { durability: this.#parts.durability, lockMs }, patience };
  }

  async operate(operation: RowOperation): Promise<RowOperationReply> {
    const { namespaceId, bucket, idempotencyKey, nowMs, forgottenMs, amountsText, event, brought } = operation;
    // Under its key it may be sent again, whatever became of it.
    const [answer] = await this.#connection.queryAgain(
      "SELECT @.operate_1($1, $2, $3, $4, $5::bigint, $6::bigint, $7, $8::text::json, $9::text::jsonb) AS answer",
      [
        ...[namespaceId, bucket.entityId, bucket.resource, idempotencyKey, nowMs, forgottenMs],
        ...[amountsText, eventText(event), JSON.stringify(broughtRow(brought))],
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
    return found.map((row) => (row.found === null ? undefined : rowOfJson(row.found as RowJson)));
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
    const found = await this.#read(firstBuckets("namespace = $1 AND resource = $2 AND entity > $3", "entity"), [
      namespaceId,
      resource,
      textAfter(page.cursor),
      page.limit + 1,
    ]);
    const items = found.map((row) => ({
      key: bucketKey(String(row.entity), resource),
      row: rowOfJson(row.found as RowJson),
    }));
    return pageOf(items, page.limit, ({ key }) => keyCursor(key.entityId));
  }

  async some(
    namespaceId: string,
    from: BucketKey,
    { limitMax, epochBeforeMs }: Parameters<BatchStore["some"]>[2],
  ): Promise<readonly LookedAtBucket[]> {
    // The namespace as a bound of the walk: of one that is equal a server without statistics expects so few rows that it sorts all that follow.
    const condition = "(namespace, entity, resource) >= ($1, $2, $3) AND namespace <= $1";
    const found = await this.#read(firstBuckets(condition, "namespace, entity, resource", "epoch_ms < $5::bigint"), [
      namespaceId,
      from.entityId,
      from.resource,
      limitMax,
      epochBeforeMs,
    ]);
    return found.map(({ entity, resource, found: row }) => ({
      key: bucketKey(String(entity), String(resource)),
      row: row === null ? undefined : rowOfJson(row as RowJson),
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

  /** The reply for an error. One that asking again would not help against is thrown. */
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

/**
 * The first `$4` buckets. Their JSON, which costs much more than finding them, is made of these alone, and of those that are wanted.
 */
function firstBuckets(condition: string, order: string, wanted = "true"): string {
  const first = `SELECT * FROM @.bucket WHERE ${condition} ORDER BY ${order} LIMIT $4::bigint`;
  return `SELECT entity, resource, CASE WHEN ${wanted} THEN ${BUCKET_JSON} END AS found FROM (${first}) b ORDER BY ${order}`;
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
