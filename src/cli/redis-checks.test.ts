import assert from "node:assert/strict";
import { test } from "node:test";
import type { RedisInspection } from "../entry/redis-admin.ts";
import { redisChecks } from "./redis-checks.ts";

type Facts = NonNullable<RedisInspection["facts"]>;

const FACTS: Facts = {
  ...{
    version: "7.0.15",
    isValkey: false,
    isReplica: false,
    isCluster: false,
    clusterState: undefined,
    evictionPolicy: "noeviction",
  },
  ...{ usedBytes: 50_000_000, maxBytes: 0, hasAppendLog: true, appendFsync: "always", replicas: [], user: "default" },
  isDefaultUserOff: false,
};

const SOUND: RedisInspection = {
  ...{ facts: FACTS, aheadMs: -3, slow: { count: 0, slowestMs: 0 }, refused: [], isLocal: true, isEncrypted: false },
};

/** The rows by name: whether they are well, their words, and their remedy. */
function rowsOf(found: RedisInspection): ReadonlyMap<string, readonly [ok: boolean, text: string]> {
  const rows = new Map<string, readonly [boolean, string]>();
  redisChecks(found, (name, ok, detail, remedy) => rows.set(name, [ok, [detail, remedy].join(" | ")]));
  return rows;
}

test("a sound server is told as it is, row by row", () => {
  assert.deepEqual(
    [...rowsOf(SOUND)],
    [
      ["server", [true, "Redis 7.0.15, a primary | "]],
      ["eviction", [true, "nothing is removed when the memory is full | "]],
      ["memory", [true, "48 MB used, without a bound | "]],
      ["durability", [true, "a crash of the server loses nothing that was answered, nor does a loss of power | "]],
      ["replicas", [true, "none | "]],
      ["slow", [true, "the slow log has none of its scripts | "]],
      ["tls", [true, "not encrypted, and the server is on this machine | "]],
      ["clock", [true, "this machine is 3 ms behind the server, whose clock counts | "]],
      ["permissions", [true, "every command that was tried is allowed | "]],
    ],
  );
});

const CASES: readonly (readonly [row: string, of: Partial<Facts>, ok: boolean, text: RegExp])[] = [
  ["server", { isReplica: true }, false, /a replica, which only reads \| Give the address of the primary/],
  [
    "server",
    { isValkey: true, version: "8.0.1", isCluster: true },
    true,
    /^Valkey 8.0.1, a primary, a node of a cluster/,
  ],
  [
    "server",
    { isCluster: true, clusterState: "fail" },
    false,
    /a node of a cluster whose state is fail.* \| CLUSTER NODES/,
  ],
  ["server", { isCluster: true, clusterState: "ok" }, true, /a primary, a node of a cluster \| $/],
  ["durability", { isDefaultUserOff: true }, true, /default user is off, some servers drop transactions/],
  [
    "eviction",
    { evictionPolicy: "allkeys-lru" },
    false,
    /allkeys-lru: a full memory resets limits.*Set maxmemory-policy noeviction/,
  ],
  ["memory", { usedBytes: 95e6, maxBytes: 100e6 }, true, /91 MB used of 96 MB \| Raise maxmemory/],
  ["memory", { usedBytes: 80e6, maxBytes: 100e6 }, true, /77 MB used of 96 MB \| $/],
  ["durability", { hasAppendLog: false }, true, /loses everything since its last snapshot \| Set appendonly yes/],
  ["durability", { appendFsync: "everysec" }, true, /up to 2 s \(appendfsync everysec\)/],
  ["durability", { appendFsync: undefined }, true, /is not shown \(CONFIG GET\)/],
  ["replicas", { replicas: [{ name: "10.0.0.7:6379", lagS: 1 }] }, true, /10\.0\.0\.7:6379 \(1 s behind\).* \| $/],
  [
    "replicas",
    { replicas: [{ name: "10.0.0.7:6379", lagS: 60 }] },
    true,
    /\(60 s behind\).*Look why a replica is behind/,
  ],
];
for (const [row, of, ok, text] of CASES) {
  test(`the row ${row} of a server with ${JSON.stringify(of)}`, () => {
    const [isWell, told] = rowsOf({ ...SOUND, facts: { ...FACTS, ...of } }).get(row) as readonly [boolean, string];
    assert.equal(isWell, ok);
    assert.match(told, text);
  });
}

test("scripts that were slow are told with the slowest of them, and where to look", () => {
  const [isWell, text] = rowsOf({ ...SOUND, slow: { count: 3, slowestMs: 45.678 } }).get("slow") ?? [];
  assert.equal(isWell, true);
  assert.match(text ?? "", /has 3 of its scripts, the slowest of 45\.7 ms \| Look what keeps the server busy/);
});

test("a user with few rights is told what is not shown, and which right to give", () => {
  const unseen = { facts: undefined, aheadMs: undefined, slow: undefined };
  const rows = rowsOf({ ...unseen, refused: ["NOPERM mget"], isLocal: false, isEncrypted: false });
  for (const name of ["server", "eviction", "memory", "durability", "replicas"]) {
    assert.deepEqual(rows.get(name), [true, "not shown: this user may not ask INFO | Allow INFO to see it."]);
  }
  assert.deepEqual(rows.get("slow"), [true, "the slow log is not shown to this user | Allow SLOWLOG to see it."]);
  assert.match(rows.get("tls")?.[1] ?? "", /cross the network as they are \| Give rediss/);
  assert.match(rows.get("clock")?.[1] ?? "", /TIME is not allowed.* \| Allow TIME/);
  assert.deepEqual(rows.get("permissions")?.[0], false);
  assert.match(rows.get("permissions")?.[1] ?? "", /NOPERM mget/);
});
