import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Clause, Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import { eventItem } from "./audit-record.ts";
import type { DynamoOperation } from "./client.ts";
import { encodeMembers, encodeOperation } from "./codec.ts";
import type { RecordWrite } from "./records-write.ts";
import { checkName, Shapes } from "./requests-shape.ts";
import {
  auditKey,
  ENTITY_INDEX,
  entityPk,
  GSI2PK,
  GSI2SK,
  GSI3PK,
  GSI3SK,
  GSI4PK,
  GSI4SK,
  itemPlace,
  itemTableKey,
  NAMESPACE_INDEX,
  PK,
  RESOURCE_INDEX,
  resourceBucketRange,
  resourcePk,
  SK,
  type TableKey,
} from "./schema.ts";

/** A call of DynamoDB: its body is JSON text. */
export interface DynamoRequest {
  readonly operation: DynamoOperation;
  readonly body: string;
}

/** An event as the table keeps it: where it stands among the others, and how long, in seconds. */
interface AuditRecord {
  readonly event: AuditEvent;
  readonly auditId: string;
  readonly keptS: number;
}

const TRANSACT_ITEMS_MAX = 100;

interface RequestsOptions {
  readonly tableName: string;
  readonly namespaceId: string;
}

/** Requests for the items of one namespace: text in, text out; nothing is sent. */
export class ItemRequests {
  readonly #namespaceId: string;
  readonly #name: string;
  /** How a request begins. */
  readonly #table: string;
  readonly #shapes = new Shapes();
  /** How a request for an item begins. The way to a bucket keeps its key, so that the text is put together once. */
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
      // The one way to look at a condition without writing.
      case "check": {
        const check = `{"ConditionCheck":${this.#check(write)},${OLD_ON_FAILURE}}}`;
        return { operation: "TransactWriteItems", body: `{"TransactItems":[${check}]}` };
      }
    }
  }

  /** All or none. The same writes, token and record give the same text: that is what the store compares. */
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

  /** A put that happens only where the checks hold; it shows the item that was in its way. */
  checkedPut(write: ItemWrite, checks: readonly RecordWrite[]): DynamoRequest {
    const items = [`{"Put":${this.#put(write)},${OLD_ON_FAILURE}}}`, ...checks.map((check) => this.#record(check))];
    return { operation: "TransactWriteItems", body: `{"TransactItems":[${items.join(",")}]}` };
  }

  keyOf(key: ItemKey): TableKey {
    return itemTableKey(this.#namespaceId, key);
  }

  /** Shards of buckets of a resource, in the order of entities; `after` an entity, and on from where a page ended. */
  bucketsOf(
    resource: string,
    page: { readonly after: string | undefined; readonly from: unknown; readonly count: number },
  ): DynamoRequest {
    const range = resourceBucketRange(page.after);
    const values = encodeMembers({ ":0": resourcePk(this.#namespaceId, resource), ":1": range.from, ":2": range.to });
    const start = page.from === undefined ? "" : `,"ExclusiveStartKey":${JSON.stringify(page.from)}`;
    const body =
      `${this.#table},"IndexName":"${RESOURCE_INDEX}",` +
      `"KeyConditionExpression":"${GSI2PK} = :0 AND ${GSI2SK} BETWEEN :1 AND :2",` +
      `"ProjectionExpression":"${GSI2SK}","ExpressionAttributeValues":{${values}},` +
      `"Limit":${page.count}${start}}`;
    return { operation: "Query", body };
  }

  /** The shards of the buckets of one entity or of all, by entity id and resource. */
  bucketKeys(
    entityId: string | undefined,
    page: { readonly after: BucketKey | undefined; readonly from: unknown; readonly count: number },
  ): DynamoRequest {
    const { after } = page;
    const [index, pk, sk, owner] =
      entityId === undefined
        ? [NAMESPACE_INDEX, GSI4PK, GSI4SK, this.#namespaceId]
        : [ENTITY_INDEX, GSI3PK, GSI3SK, entityPk(this.#namespaceId, entityId)];
    const named = after && (entityId === undefined ? `${after.entityId}#${after.resource}` : after.resource);
    const range = resourceBucketRange(named);
    const values = encodeMembers({ ":0": owner, ":1": range.from, ":2": range.to });
    const start = page.from === undefined ? "" : `,"ExclusiveStartKey":${JSON.stringify(page.from)}`;
    const body =
      `${this.#table},"IndexName":"${index}",` +
      `"KeyConditionExpression":"${pk} = :0 AND ${sk} BETWEEN :1 AND :2",` +
      `"ProjectionExpression":"${PK},${SK}","ExpressionAttributeValues":{${values}},` +
      `"Limit":${page.count}${start}}`;
    return { operation: "Query", body };
  }

  #transactItem(write: ItemWrite): string {
    switch (write.kind) {
      case "update":
        // A transaction wants an effect of an update. Without one, and of an item that is there, it is a check.
        return isIdle(write) ? `{"ConditionCheck":${this.#check(write)}}}` : `{"Update":${this.#update(write)}}}`;
      case "put":
        return `{"Put":${this.#put(write)}}}`;
      case "delete":
        return `{"Delete":${this.#delete(write)}}}`;
      case "check":
        return `{"ConditionCheck":${this.#check(write)}}}`;
    }
  }

  // Each of the following is left open at its end: what else a request says is added there.

  #update({ key, item, when, set, add, remove, copy }: ItemWrite): string {
    // What may be made by it gets its place with it; setting it again to the same changes no index.
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
    // A check must have a condition, also where everything will do.
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
    // By the event's own time: a transaction that is repeated must say the same.
    const untilS = Math.ceil(event.atMs / 1000) + keptS;
    const own = eventItem(this.#namespaceId, event, auditId, untilS);
    return `${this.#table},"Item":${JSON.stringify({ [PK]: { S: pk }, [SK]: { S: sk }, ...own })}`;
  }
}

const OLD_ON_FAILURE = `"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`;
/** How a write of one item ends: one that changes it shows it after, all of them before, where a condition fails. */
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
