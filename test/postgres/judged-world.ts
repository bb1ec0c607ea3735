import type { Connection, PostgresClient } from "../../src/adapters/postgres/connection.ts";
import { PostgresRecords } from "../../src/adapters/postgres/records.ts";
import { BUCKET_JSON, type RowJson, rowOfJson } from "../../src/adapters/postgres/row-fields.ts";
import type { BatchStore, VersionedRow } from "../../src/ports/batch-store.ts";
import type { CountStore, RecordStore } from "../../src/ports/record-store.ts";
import { ensureDefault } from "../../src/records/namespaces.ts";
import { recordParts } from "../../src/records/scoped-records.ts";
import { SeenGenerations } from "../../src/records/seen-changes.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import type { BatchWorld } from "../simulation/straight-ground.ts";
import { batchesOn } from "./kit.ts";
import { connectionOn, emptied, WAIT_MS } from "./record-kit.ts";

/** A lock that is not had by then never is: nobody else is on the server. */
const LOCK_MS = 10_000;

/**
 * A schema of a server as the world of a simulation. After every write its rows are read, before anybody hears of the write: so the judge
 * sees what the server has stored, at the step at which it was stored. The simulation waits for whatever is asked of the server: how
 * quickly that answers changes nothing.
 */
export async function judgedWorld(client: PostgresClient, schema: string): Promise<BatchWorld> {
  await emptied(client, schema);
  let underWay = 0;
  const query: PostgresClient["query"] = async (text, values) => {
    underWay++;
    try {
      return await client.query(text, values);
    } finally {
      underWay--;
    }
  };
  const connection = connectionOn({ query }, schema);
  const records = new PostgresRecords(connection, WAIT_MS);
  await ensureDefault(recordParts(records, new SeenGenerations()));
  const rows = new Map<string, VersionedRow>();
  // One after the other: of two writes at once the first would be told by rows that are the second's already.
  let last: Promise<unknown> = Promise.resolve();
  const written = <Reply>(write: () => Promise<Reply>): Promise<Reply> => {
    const next = last.then(async () => {
      const reply = await write();
      await readAll(connection, rows);
      return reply;
    });
    last = next.catch(() => {});
    return next;
  };
  const batches = batchesOn(connection);
  const watched = overriding<BatchStore>(batches, {
    apply: (batch, timeoutMs) => written(() => batches.apply(batch, Math.min(timeoutMs, LOCK_MS))),
    operate: (operation) => written(() => batches.operate(operation)),
    forget: (namespaceId, idle) => written(() => batches.forget(namespaceId, idle)),
  });
  return {
    batches: Object.assign(watched, { rows }),
    records: overriding<RecordStore & CountStore>(records, {
      commit: (commit) => written(() => records.commit(commit)),
    }),
    underWay: () => underWay,
  };
}

async function readAll(connection: Connection, rows: Map<string, VersionedRow>): Promise<void> {
  const found = await connection.query(
    `SELECT namespace, entity, resource, ${BUCKET_JSON} AS found FROM @.bucket b ORDER BY namespace, entity, resource`,
    [],
  );
  rows.clear();
  for (const { namespace, entity, resource, found: row } of found) {
    rows.set(`${namespace}\n${entity}\n${resource}`, rowOfJson(row as RowJson));
  }
}
