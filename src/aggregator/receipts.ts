import type { Records } from "../adapters/dynamodb/records.ts";
import { putRecord } from "../adapters/dynamodb/records-write.ts";
import { ARCHIVE_LOCATION, EVENT_COUNT, OBJECT_KEY, PK, REGISTRY, SK, systemPk } from "../adapters/dynamodb/schema.ts";

/** That an object was put: what `audit verify` looks for later. */
export interface Receipt {
  /** YYYY-MM-DD. */
  readonly day: string;
  readonly key: string;
  /** How many events the object has. */
  readonly events: number;
}

/**
 * What was archived, in the table: without it nobody could tell an object that was lost from one that never was. The same
 * object has the same receipt, so a replay changes nothing.
 */
export class Receipts {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  async put(location: string, { day, key, events }: Receipt): Promise<void> {
    const item = {
      [ARCHIVE_LOCATION]: { S: location },
      [OBJECT_KEY]: { S: key },
      [EVENT_COUNT]: { N: String(events) },
    };
    await this.#records.transact([putRecord({ pk: systemPk(REGISTRY), sk: receiptSk(day, key) }, item, undefined)]);
  }

  /** Those of one archive, by day. */
  async *list(location: string): AsyncGenerator<Receipt> {
    const query = { partition: [PK, systemPk(REGISTRY)] as const, range: { name: SK, prefix: PREFIX } };
    for await (const item of this.#records.query({ ...query, consistent: true })) {
      if (item[ARCHIVE_LOCATION]?.S !== location) continue;
      const day = (item[SK]?.S ?? "").slice(PREFIX.length, PREFIX.length + "YYYY-MM-DD".length);
      yield { day, key: item[OBJECT_KEY]?.S ?? "", events: Number(item[EVENT_COUNT]?.N ?? 0) };
    }
  }
}

const PREFIX = "#ARCHIVE#";

function receiptSk(day: string, key: string): string {
  return `${PREFIX}${day}#${key.slice(key.lastIndexOf("/") + 1)}`;
}
