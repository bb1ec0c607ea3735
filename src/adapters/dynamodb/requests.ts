import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Clause, Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import { eventItem } from "./audit.ts";
import type { DynamoOperation } from "./client.ts";
import { encodeMembers, encodeOperation } from "./codec.ts";
import type { RecordWrite } from "./records-write.ts";
import { checkName, Shapes } from "./requests-shape.ts";
import {
  auditKey,
  ENTITY_INDEX,
  entityPk,
  itemPlace,
  itemTableKey,
  NAMESPACE_INDEX,
  PK,
  RESOURCE_INDEX,
  resourceBucketRange,
  resourcePk,
  SK,
  type TableIndex,
  type TableKey,
} from "./schema.ts";

/** A call of DynamoDB: its body is JSON text. */
export interface DynamoRequest {
  readonly operation: DynamoOperation;
  readonly body: string;
}

/** An event with its id in the table and its retention in seconds. */
interface AuditRecord {
  readonly event: AuditEvent;
  readonly auditId: string;
  readonly keptS: number;
}

/** A page of a query: its size, and where the previous one ended. */
export interface QueryPage {
  readonly from: unknown;
  readonly count: number;
}

/** Buckets of one partition of an index, after one of them. `shown`: the attributes of the answer. */
interface BucketQuery {
  readonly index: TableIndex;
  readonly partition: string;
  readonly after: string | undefined;
  readonly shown: string;
}

const TRANSACT_ITEMS_MAX = 100;

interface RequestsOptions {
  readonly tableName: string;
  readonly namespaceId: string;
}

/** Builds the requests for the items of one namespace; sends nothing. */
export class ItemRequests {
  readonly #namespaceId: string;
  readonly #name: string;
  /** The beginning of every request. */
  readonly #table: string;
  readonly #shapes = new Shapes();
  /** The beginning of requests for an item. A bucket's path keeps its key object, so that the text is built once. */
  readonly #places = new WeakMap<ItemKey, string>();

  constructor({ tableName, namespaceId }: RequestsOptions) {
    this.#namespaceId = namespaceId;
    this.#name = JSON.stringify(tableName);
    this.#table = `{"TableName":${this.#name}`;
  }

  write(write: ItemWrite): DynamoRequest {
    switch (write.kind) {
      case "update":
        return { operation: "UpdateItem", body: `${this.#update(write)}${UPDATE_TAIL}` };
      case "put":
        return { operation: "PutItem", body: `${this.#put(write)}${OTHER_TAIL}` };
      case "delete":
        return { operation: "DeleteItem", body: `${this.#delete(write)}${OTHER_TAIL}` };
      // A transaction is the only way to check a condition without writing.
      case "check": {
        const check = `{"ConditionCheck":${this.#check(write)},${OLD_ON_FAILURE}}}`;
        return { operation: "TransactWriteItems", body: `{"TransactItems":[${check}]}` };
      }
    }
  }

  /** All writes or none. The same arguments give the same text, which DynamoDB compares with the token. */
  transaction(
    writes: readonly ItemWrite[],
    token: string,
    audit: AuditRecord | undefined,
    ...checks: readonly RecordWrite[]
  ): DynamoRequest {
    const items = [...writes.map((write) => this.#transactItem(write)), ...checks.map((check) => this.#record(check))];
    if (audit !== undefined) items.push(`{"Put":${this.#auditPut(audit)}}}`);
    if (items.length < 1 || items.length > TRANSACT_ITEMS_MAX) {
      throw new RangeError(
        `A transaction of ${items.length} items, its event included; it holds from 1 to ${TRANSACT_ITEMS_MAX}.`,
      );
    }
    const body = `{"ClientRequestToken":${JSON.stringify(token)},"TransactItems":[${items.join(",")}]}`;
    return { operation: "TransactWriteItems", body };
  }

  /** A put on condition of further checks; on failure it returns the item in its way. */
  checkedPut(write: ItemWrite, checks: readonly RecordWrite[]): DynamoRequest {
    const items = [`{"Put":${this.#put(write)},${OLD_ON_FAILURE}}}`, ...checks.map((check) => this.#record(check))];
    return { operation: "TransactWriteItems", body: `{"TransactItems":[${items.join(",")}]}` };
  }

  keyOf(key: ItemKey): TableKey {
    return itemTableKey(this.#namespaceId, key);
  }

  /** Shards of the buckets of a resource, ordered by entity, after an entity. */
  bucketsOf(resource: string, after: string | undefined, page: QueryPage): DynamoRequest {
    const partition = resourcePk(this.#namespaceId, resource);
    return this.#query({ index: RESOURCE_INDEX, partition, after, shown: RESOURCE_INDEX.sk }, page);
  }

  /** Shards of the buckets of one entity or of all, ordered by entity id and resource, after a bucket. */
  bucketKeys(entityId: string | undefined, after: BucketKey | undefined, page: QueryPage): DynamoRequest {
    const shown = `${PK},${SK}`;
    if (entityId === undefined) {
      const bucket = after && `${after.entityId}#${after.resource}`;
      return this.#query({ index: NAMESPACE_INDEX, partition: this.#namespaceId, after: bucket, shown }, page);
    }
    const partition = entityPk(this.#namespaceId, entityId);
    return this.#query({ index: ENTITY_INDEX, partition, after: after?.resource, shown }, page);
  }

  #query({ index, partition, after, shown }: BucketQuery, page: QueryPage): DynamoRequest {
    const { name, pk, sk } = index;
    const range = resourceBucketRange(after);
    const values = encodeMembers({ ":0": partition, ":1": range.from, ":2": range.to });
    const start = page.from === undefined ? "" : `,"ExclusiveStartKey":${JSON.stringify(page.from)}`;
    const body =
      `${this.#table},"IndexName":"${name}",` +
      `"KeyConditionExpression":"${pk} = :0 AND ${sk} BETWEEN :1 AND :2",` +
      `"ProjectionExpression":"${shown}","ExpressionAttributeValues":{${values}},` +
      `"Limit":${page.count}${start}}`;
    return { operation: "Query", body };
  }

  #transactItem(write: ItemWrite): string {
    switch (write.kind) {
      case "update":
        // A transaction refuses an update without effects. On an existing item, a check does the same.
        return isIdle(write) ? `{"ConditionCheck":${this.#check(write)}}}` : `{"Update":${this.#update(write)}}}`;
      case "put":
        return `{"Put":${this.#put(write)}}}`;
      case "delete":
        return `{"Delete":${this.#delete(write)}}}`;
      case "check":
        return `{"ConditionCheck":${this.#check(write)}}}`;
    }
  }

  // Each of the following texts is left open at its end, for further members.

  #update({ key, item, when, set, add, remove, copy }: ItemWrite): string {
    // An update that may create the item sets its index keys too. Setting them to the same values changes no index.
    const place = item === "exists" ? NOTHING : itemPlace(this.#namespaceId, key);
    return `${this.#at(key)}${this.#shapes.members({ item, when, set, place, add, remove, copy })}`;
  }

  #put({ key, item, when, set }: ItemWrite): string {
    for (const name in set) checkName(name);
    const { pk, sk } = this.keyOf(key);
    const place = encodeMembers({ [PK]: pk, [SK]: sk, ...itemPlace(this.#namespaceId, key) });
    const own = key.operation === undefined ? encodeMembers(set) : encodeOperation(set);
    const members = this.#shapes.members({ ...WITHOUT_EFFECTS, item, when });
    return `${this.#table},"Item":{${place}${own === "" ? "" : ","}${own}}${members}`;
  }

  #delete({ key, item, when }: ItemWrite): string {
    return `${this.#at(key)}${this.#shapes.members({ ...WITHOUT_EFFECTS, item, when })}`;
  }

  #check({ key, item, when }: ItemWrite): string {
    // A check must have a condition, even if any item will do.
    const nothing = item === "either" && when.length === 0;
    return `${this.#at(key)}${this.#shapes.members({ ...WITHOUT_EFFECTS, item, when: nothing ? ANYTHING : when })}`;
  }

  #record({ kind, input }: RecordWrite): string {
    return `{"${kind}":{"TableName":${this.#name},${JSON.stringify(input).slice(1)}}`;
  }

  #at(key: ItemKey): string {
    let text = this.#places.get(key);
    if (text === undefined) {
      text = `${this.#table},"Key":${keyText(this.keyOf(key))}`;
      this.#places.set(key, text);
    }
    return text;
  }

  #auditPut({ event, auditId, keptS }: AuditRecord): string {
    const { pk, sk } = auditKey(this.#namespaceId, event.entityId, auditId);
    // Based on the event's own time, because a repeated transaction must be identical.
    const untilS = Math.ceil(event.atMs / 1000) + keptS;
    const own = eventItem(this.#namespaceId, event, auditId, untilS);
    return `${this.#table},"Item":${JSON.stringify({ [PK]: { S: pk }, [SK]: { S: sk }, ...own })}`;
  }
}

const OLD_ON_FAILURE = `"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`;
/** The end of a write of one item: an update returns the item after it; a failed condition returns the item before it. */
const OTHER_TAIL = `,${OLD_ON_FAILURE}}`;
const UPDATE_TAIL = `,"ReturnValues":"ALL_NEW"${OTHER_TAIL}`;
const NOTHING: Item = Object.freeze({});
const WITHOUT_EFFECTS = { set: NOTHING, place: NOTHING, add: {}, remove: [] } as const;
const ANYTHING: readonly Clause[] = [
  [
    { name: PK, is: "present" },
    { name: PK, is: "absent" },
  ],
];

function isIdle({ item, set, add, remove, copy = {} }: ItemWrite): boolean {
  return item === "exists" && isEmpty(set) && isEmpty(add) && remove.length === 0 && isEmpty(copy);
}

function isEmpty(record: object): boolean {
  for (const _ in record) return false;
  return true;
}

function keyText({ pk, sk }: TableKey): string {
  return `{"${PK}":{"S":${JSON.stringify(pk)}},"${SK}":{"S":${JSON.stringify(sk)}}}`;
}
