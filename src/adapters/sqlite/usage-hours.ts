import type { HourCount } from "../../stored/open-hour.ts";
import { addAmounts, addText, type Counters, textOf } from "../../stored/usage-counters.ts";
import type { Connection, Statement } from "./connection.ts";

interface BucketName {
  readonly namespaceId: string;
  readonly entityId: string;
  readonly resource: string;
}

/** The table of usage: one row per bucket and hour that is over. Always inside a write transaction. */
export class UsageHours {
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #any: Statement;
  #added = 0;

  constructor(connection: Connection) {
    this.#get = connection.prepare(
      "SELECT requests, counters FROM usage WHERE namespace = ? AND hour_ms = ? AND entity = ? AND resource = ?",
    );
    this.#put = connection.prepare(
      `INSERT INTO usage (namespace, hour_ms, entity, resource, requests, counters) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET requests = excluded.requests, counters = excluded.counters`,
    );
    this.#any = connection.prepare(
      `SELECT 1 FROM usage INDEXED BY usage_entity WHERE namespace = ? AND entity = ? AND resource = ? LIMIT 1`,
    );
  }

  /** Whether there is any usage of a bucket. */
  has({ namespaceId, entityId, resource }: BucketName): boolean {
    return this.#any.get(namespaceId, entityId, resource) !== undefined;
  }

  add({ namespaceId, entityId, resource }: BucketName, count: HourCount): void {
    const row = this.#get.get(namespaceId, count.hourMs, entityId, resource);
    const requests = (row === undefined ? 0 : (row[0] as number)) + count.requests;
    const counters: Counters = new Map();
    if (row === undefined) this.#added++;
    else addText(counters, row[1] as string);
    addAmounts(counters, count);
    this.#put.run(namespaceId, count.hourMs, entityId, resource, requests, textOf(counters));
  }

  /** How many rows were added since this was last asked. */
  takeAdded(): number {
    const added = this.#added;
    this.#added = 0;
    return added;
  }
}
