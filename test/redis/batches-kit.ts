import assert from "node:assert/strict";
import { RedisBatches } from "../../src/adapters/redis/batches.ts";
import { type RedisConnection, scriptOf } from "../../src/adapters/redis/connection.ts";
import { namespaceKeys } from "../../src/adapters/redis/keys.ts";
import { luaText } from "../../src/adapters/redis/lua-texts.ts";

/** Takes on a connection, without a store around them. */
export function batchesOn(
  connection: RedisConnection,
  prefix: string,
  options: Partial<Pick<ConstructorParameters<typeof RedisBatches>[0], "now" | "onWrites" | "replicas">> = {},
): RedisBatches {
  let events = 0;
  return new RedisBatches({
    connection,
    keysOf: (namespaceId) => namespaceKeys(prefix, namespaceId),
    now: options.now ?? Date.now,
    onWrites: options.onWrites ?? (() => {}),
    isActive: () => Promise.resolve(true),
    audit: {
      next: () => Promise.resolve(events + 1),
      note: (_, count) => {
        events = count;
      },
      write: (at, number, event) => ({
        ...{ key: at.audit(number), text: `\n${JSON.stringify(event)}` },
        hints: at.auditHints(number, event.entityId ?? ""),
      }),
    },
    replicas: options.replicas ?? { count: 0, timeoutMs: 0 },
  });
}

const SCRIPTS = ["straight-line", "take-read", "take-judge", "take-write", "take-summed", "mark", "swap"]
  .map(luaText)
  .join("\n");

/** The connection, with a deliberate bug in the scripts of buckets. */
export function spoiled(connection: RedisConnection, from: string, to: string): RedisConnection {
  assert.equal(SCRIPTS.split(from).length, 2, `it stands once in the scripts: ${from}`);
  return {
    name: connection.name,
    run: (script, ...given) => {
      const isMeant = script.text.includes(from);
      const mutant = isMeant
        ? scriptOf(
            "mutant",
            script.text.replace(from, () => to),
          )
        : script;
      return connection.run(mutant, ...given);
    },
    send: (...given) => connection.send(...given),
    close: () => connection.close(),
  };
}

/** The connection, on which hints are sometimes lost: as if they had been swept before the script ran. */
export function forgetful(connection: RedisConnection, isLost: () => boolean): RedisConnection {
  return {
    name: connection.name,
    run: (script, keys, args, patience, beside = {}) => {
      const ahead = beside.ahead?.filter(() => !isLost()) ?? [];
      return connection.run(script, keys, args, patience, { ...beside, ahead });
    },
    send: (...given) => connection.send(...given),
    close: () => connection.close(),
  };
}

/** How summed takes fared; `inVain`: they were left to the general take. */
export interface SummedTally {
  summed: number;
  inVain: number;
}

/** The connection, which notes how summed takes fare. */
export function tallied(connection: RedisConnection, tally: SummedTally): RedisConnection {
  return {
    name: connection.name,
    run: async (script, ...given) => {
      const ran = await connection.run(script, ...given);
      if (script.name === "take-summed") tally[ran.reply === null ? "inVain" : "summed"]++;
      return ran;
    },
    send: (...given) => connection.send(...given),
    close: () => connection.close(),
  };
}
