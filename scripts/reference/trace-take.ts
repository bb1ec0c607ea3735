import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RateLimiter as Limiter } from "../../src/entry/index.ts";
import { filesEntered } from "./trace-hooks.ts";

// node scripts/reference/trace-take.ts STORE [ENDPOINT]: prints as JSON which files of `src` a warm take enters.

const [, , store, endpoint] = process.argv;

// Loaded after the hooks, which note what is imported from here on.
const { Limit, RateLimiter } = await import("../../src/entry/index.ts");
const folder = mkdtempSync(join(tmpdir(), "zael-trace-"));
const limiter = await opened();
await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 600), Limit.perMinute("tpm", 60_000)]);
const request = { entityId: "key-1", resource: "api", consume: { rpm: 1, tpm: 50 } };
for (let i = 0; i < 5; i++) await (await limiter.acquire(request)).settle();
// What only some takes enter is work that a process does beside them, now and then: a timer that rings, a record that is written.
const takes: (readonly string[])[] = [];
for (let i = 0; i < 5; i++)
  takes.push(await filesEntered(async () => assert.ok((await limiter.tryAcquire(request)).ok)));
const files = takes.reduce((common, take) => common.filter((file) => take.includes(file)));
await limiter.close();
rmSync(folder, { recursive: true });
process.stdout.write(JSON.stringify(files));
process.exit();

async function opened(): Promise<Limiter> {
  switch (store) {
    case "sqlite":
      return RateLimiter.open({ store: `sqlite:${join(folder, "trace.db")}` });
    case "postgres": {
      const { PGlite } = await import("@electric-sql/pglite");
      const { openPostgres } = await import("../../src/entry/postgres.ts");
      return RateLimiter.open({ store: await openPostgres({ client: new PGlite() }) });
    }
    case "dynamodb": {
      process.env.AWS_ACCESS_KEY_ID = "trace";
      process.env.AWS_SECRET_ACCESS_KEY = "trace";
      assert.ok(endpoint, "give the address of DynamoDB Local");
      const table = { stack: `trace-${process.pid}`, endpoint, region: "us-east-1" };
      const { createTable, openDynamo } = await import("../../src/entry/dynamodb.ts");
      await createTable(table);
      return RateLimiter.open({ store: await openDynamo(table) });
    }
    default:
      return RateLimiter.open({ store: "memory" });
  }
}
