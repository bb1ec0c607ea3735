import { after } from "node:test";
import * as ioredis from "ioredis";
import { addressOf } from "../../src/adapters/redis/address.ts";
import { openHourOf, rowOfBytes } from "../../src/adapters/redis/bucket-bytes.ts";
import { Connection, type Reply, textOf, type Wire } from "../../src/adapters/redis/connection.ts";
import { RedisRecords } from "../../src/adapters/redis/records.ts";
import { wireOfIoredis } from "../../src/adapters/redis/wires.ts";
import type { BatchStore, VersionedRow } from "../../src/ports/batch-store.ts";
import type { CountStore, RecordStore } from "../../src/ports/record-store.ts";
import { ensureDefault } from "../../src/records/namespaces.ts";
import { recordParts } from "../../src/records/scoped-records.ts";
import { SeenGenerations } from "../../src/records/seen-changes.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import type { BatchWorld } from "../simulation/straight-ground.ts";
import { batchesOn } from "./batches-kit.ts";
import { newPrefix } from "./kit.ts";

/** Longer than any call takes. */
const WAIT_MS = 30_000;

/**
 * A prefix of a server as the world of a simulation. After every write its rows are read, before anybody hears of the write: so the judge
 * sees what the server has stored, at the step at which it was stored. The simulation waits for whatever is asked of the server: how
 * quickly that answers changes nothing.
 */
export async function judgedWorld(url: string): Promise<BatchWorld> {
  const prefix = newPrefix();
  let underWay = 0;
  const line = wireOfIoredis(ioredis, addressOf(url), { timeoutMs: WAIT_MS, random: Math.random });
  const wire = overriding<Wire>(line, {
    pipeline: async (commands) => {
      underWay++;
      try {
        return await line.pipeline(commands);
      } finally {
        underWay--;
      }
    },
  });
  const connection = new Connection({ name: "redis://test", prefix, wire, adminTimeoutMs: WAIT_MS });
  after(() => connection.close());
  const records = new RedisRecords(connection, WAIT_MS, openHourOf);
  await ensureDefault(recordParts(records, new SeenGenerations()));
  const rows = new Map<string, VersionedRow>();
  // One after the other: of two writes at once the first would be told by rows that are the second's already.
  let last: Promise<unknown> = Promise.resolve();
  const written = <Answer>(write: () => Promise<Answer>): Promise<Answer> => {
    const next = last.then(async () => {
      const answer = await write();
      await readAll(connection, prefix, rows);
      return answer;
    });
    last = next.catch(() => {});
    return next;
  };
  const batches = batchesOn(connection, prefix);
  const watched = overriding<BatchStore>(batches, {
    apply: (batch) => written(() => batches.apply(batch, WAIT_MS)),
    operate: (operation) => written(() => batches.operate(operation)),
    forget: (namespaceId, idle) => written(() => batches.forget(namespaceId, idle)),
  });
  return {
    batches: Object.assign(watched, { rows }),
    records: overriding<RecordStore & CountStore>(records, {
      commit: (commit) => written(async () => records.commit(commit)),
    }),
    underWay: () => underWay,
  };
}

async function readAll(connection: Connection, prefix: string, rows: Map<string, VersionedRow>): Promise<void> {
  const [found] = await connection.send([["KEYS", `{${prefix}:*}b#*`]]);
  const keys = (found as readonly Reply[]).map((key) => textOf(key) ?? "").sort();
  rows.clear();
  if (keys.length === 0) return;
  const [values] = await connection.send([["MGET", ...keys]]);
  for (const [i, key] of keys.entries()) {
    const row = rowOfBytes((values as readonly (Uint8Array | null)[])[i] ?? null);
    const [, namespaceId, entityId, resource] = /^\{[^:]*:([^}]*)\}b#([^#]*)#(.*)$/.exec(key) ?? [];
    if (row !== undefined) rows.set([namespaceId, entityId, resource].join("\n"), row);
  }
}
