import assert from "node:assert/strict";
import { test } from "node:test";
import type { PostgresInspection } from "../entry/postgres-admin.ts";
import { type Check, permissionsCheck, serverChecks } from "./check.ts";

const WELL: PostgresInspection = {
  ...{ serverVersion: "15.18", isStandby: false, isolation: "read committed", fsync: true, fullPageWrites: true },
  ...{ synchronousCommit: "on", lossMaxMs: 600, synchronousStandbyNames: "", standbys: [], oldest: undefined },
  ...{ hiddenSessions: 0, rows: { live: 10, dead: 4 }, connectionsLeft: 90, connectionsMax: 97, isEncrypted: true },
  ...{
    user: "web",
    hasTables: true,
    rights: { role: "owner", lacks: [] },
    aheadMs: 3,
    isLocal: false,
    isVerified: true,
  },
};

/** What is said of a server, by the name of the check. */
function saidOf(found: Partial<PostgresInspection>): Readonly<Record<string, Check>> {
  const said: Record<string, Check> = {};
  const add = (name: Check["name"], ok: boolean, detail: string, remedy?: string) => {
    said[name] = { name, ok, detail, ...(remedy === undefined ? {} : { remedy }) };
  };
  serverChecks({ ...WELL, ...found }, add);
  permissionsCheck({ ...WELL, ...found }, add);
  return said;
}

test("of a server that is well, every check is well and none has advice", () => {
  const said = saidOf({});
  assert.deepEqual(
    Object.values(said).filter(({ ok, remedy }) => !ok || remedy !== undefined),
    [],
  );
  assert.match(said.durability?.detail ?? "", /a crash loses nothing.*durability normal, up to 600 ms/);
});

test("what keeps a limiter from working, or from keeping its promise, fails", () => {
  for (const [found, name, detail, remedy] of [
    [{ isStandby: true }, "server", /a standby, which only reads/, /the primary/],
    [{ isolation: "serializable" }, "isolation", /transactions of web are serializable/, /^ALTER ROLE web SET/],
    [{ isolation: "serializable", user: "Web App" }, "isolation", /./, /^ALTER ROLE "Web App" SET/],
    [{ fsync: false }, "durability", /^fsync is off/, /^Set fsync = on at the server/],
    [
      { fsync: false, fullPageWrites: false },
      "durability",
      /^fsync and full_page_writes are off/,
      /full_page_writes = on/,
    ],
    [
      { rights: { role: "acquire", lacks: ["EXECUTE take_2(json)"] } },
      "permissions",
      /EXECUTE take_2/,
      /init --grants/,
    ],
  ] as const) {
    const check = saidOf(found)[name];
    assert.equal(check?.ok, false);
    assert.match(check?.detail ?? "", detail);
    assert.match(check?.remedy ?? "", remedy);
  }
});

test("what could be better is advice, and no failure", () => {
  const standbys = [{ name: "west", state: "async" }];
  const oldest = { pid: 42, user: "report", application: "psql", state: "idle in transaction", ageMs: 200_000 };
  for (const [found, name, detail, remedy] of [
    [{ standbys }, "durability", /failover to west loses what it has not received/, /synchronous_standby_names/],
    [
      { standbys, synchronousStandbyNames: "west", synchronousCommit: "local" },
      "durability",
      /synchronous_commit is local/,
      /synchronous_commit = on/,
    ],
    [{ isEncrypted: false, isVerified: false }, "tls", /cross the network as they are/, /sslmode=verify-full/],
    [{ isVerified: false }, "tls", /is not verified/, /sslrootcert=FILE/],
    [{ connectionsLeft: 3 }, "connections", /^3 of 97/, /lower poolMax/],
    [{ oldest }, "transactions", /open for 3 min: report \(psql\), process 42, idle/, /pg_terminate_backend\(42\)/],
    [{ hiddenSessions: 5 }, "transactions", /5 sessions of others are hidden/, /GRANT pg_read_all_stats TO web/],
    [{ rows: { live: 10, dead: 20_000 } }, "rows", /20000 dead rows/, /VACUUM/],
  ] as const) {
    const check = saidOf(found)[name];
    assert.equal(check?.ok, true);
    assert.match(check?.detail ?? "", detail);
    assert.match(check?.remedy ?? "", remedy);
  }
  const waiting = saidOf({ standbys, synchronousStandbyNames: "west" }).durability;
  assert.deepEqual([waiting?.ok, waiting?.remedy], [true, undefined]);
  assert.match(waiting?.detail ?? "", /nor does a failover, for takes wait for west/);
  assert.equal(saidOf({ isEncrypted: false, isVerified: false, isLocal: true }).tls?.remedy, undefined);
});

test("each role is told what it may do, and a long list of missing rights is cut", () => {
  const lacks = Array.from({ length: 8 }, (_, i) => `SELECT t${i}`);
  assert.match(saidOf({ rights: { role: "read", lacks } }).permissions?.detail ?? "", /SELECT t4 and 3 more$/);
  for (const role of ["admin", "acquire", "read"] as const) {
    assert.equal(saidOf({ rights: { role, lacks: [] } }).permissions?.ok, true);
  }
});
