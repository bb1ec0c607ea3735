import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import pg from "pg";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { describeOn } from "../engines/describe-on.ts";
import { newSchema } from "./postgres.ts";
import { hasBinaries, startPostgres } from "./postgres-process.ts";
import { smallDisk } from "./small-disk.ts";

// A server whose disk is full. Where its tables have no room, single statements fail, and are certain not to have been done; where its log
// has none, it stops as a whole. Either way it goes on where it was once there is room.

const CAPACITY = 1_000_000;
const clock = { now: () => Date.UTC(2026, 2, 15, 12) };

const found = hasBinaries() ? smallDisk(48) : "PostgreSQL is not installed.";

describeOn(
  "smallDisk",
  "a full disk under PostgreSQL",
  typeof found === "string" ? found : { disk: found },
  ({ disk }) => {
    const opened = async (t: TestContext, store: string, timeoutMs: number) => {
      const limiter = await RateLimiter.open({ store, clock, timeoutMs, adminTimeoutMs: 60_000 });
      t.after(() => limiter.close());
      // Nothing comes back to it: what is gone was taken.
      await limiter.setSystemDefaults([Limit.quota("all", CAPACITY, { resetAfterMs: 86_400_000 })]);
      return limiter;
    };
    const sql = async (url: string, text: string) => {
      const client = new pg.Client({ connectionString: url });
      client.on("error", () => {});
      await client.connect();
      try {
        return (await client.query(text)).rows as readonly Readonly<Record<string, unknown>>[];
      } finally {
        await client.end();
      }
    };

    test("tables without room: no take is made, none is unknown, and all goes on when there is room", async (t) => {
      const server = await startPostgres([]);
      t.after(() => server.kill());
      await sql(server.url, `CREATE TABLESPACE small LOCATION '${disk.folder}'`);
      await sql(server.url, "ALTER DATABASE postgres SET default_tablespace = 'small'");
      const limiter = await opened(t, `${server.url}?schema=${newSchema()}`, 20_000);
      await limiter.createEntity({ id: "org" });
      const answered = new Map<string, number>();
      const take = async (entityId: string) => {
        await limiter.acquire({ entityId, resource: "api", consume: { all: 1 } });
        answered.set(entityId, (answered.get(entityId) ?? 0) + 1);
      };
      await take("org");
      disk.fill();
      // Every new bucket is a new row; sooner or later one needs a new page.
      let full: unknown;
      for (let i = 0; full === undefined && i < 5_000; i++) {
        await take(`key-${i}`).catch((error: unknown) => {
          full = error;
        });
      }
      assert.ok(full instanceof RateLimiterUnavailable, String(full));
      assert.match(String((full.cause as Error | undefined)?.message), /53100: could not extend file/);
      // Neither is any change.
      const made: string[] = [];
      let refused: unknown;
      while (refused === undefined && made.length < 5_000) {
        const id = `entity-${made.length}`;
        await limiter.createEntity({ id }).then(
          () => made.push(id),
          (error: unknown) => {
            refused = error;
          },
        );
      }
      assert.ok(refused instanceof RateLimiterUnavailable, String(refused));

      disk.makeRoom();
      await take("org");
      await take("later");
      for (const [entityId, count] of answered) {
        const [left] = await limiter.available({ entityId, resource: "api" });
        assert.equal(CAPACITY - (left?.available ?? 0), count, entityId);
      }
      assert.equal((await limiter.getEntity(made.at(-1) ?? "org")).id, made.at(-1) ?? "org");
      await limiter.createEntity({ id: `entity-${made.length}` });
    });

    test("a log without room: the server stops, nothing that was answered is lost, and a limiter goes on when it is back", async (t) => {
      const log = smallDisk(64);
      assert.ok(typeof log !== "string", String(log));
      // Not before the disk is full is anything of the log removed.
      const server = await startPostgres(["max_wal_size=10GB", "checkpoint_timeout=1d"]);
      const limiter = await opened(t, `${server.url}?schema=${newSchema()}`, 2_000);
      await server.kill();
      const place = join(server.sockets, "data", "pg_wal");
      execFileSync("cp", ["-a", place, join(log.folder, "pg_wal")]);
      rmSync(place, { recursive: true });
      symlinkSync(join(log.folder, "pg_wal"), place);
      await server.restart();

      await limiter.createEntity({ id: "org" });
      await limiter.createEntity({ id: "key-1", parentId: "org" });
      let [asked, answered, isFull, isOver] = [0, 0, false, false];
      const call = async () => {
        while (!isOver) {
          asked++;
          await limiter.acquire({ entityId: "key-1", resource: "api", consume: { all: 1 } }).then(
            () => answered++,
            (error: unknown) => {
              assert.ok(error instanceof RateLimiterUnavailable, String(error));
              // On a busy machine one may be late before.
              isOver = isFull;
            },
          );
        }
      };
      const load = Promise.all(Array.from({ length: 8 }, call));
      while (answered < 50) await new Promise((resolve) => setImmediate(resolve));
      log.fill();
      isFull = true;
      // Somebody else writes, too, until the log is at its end.
      const stranger = "CREATE TABLE stranger AS SELECT repeat(md5(i::text), 50) FROM generate_series(1, 1000000) i";
      await assert.rejects(sql(server.url, stranger), /No space left on device|terminat/);
      await load;
      log.makeRoom();
      await server.kill();
      await server.restart();

      asked++;
      await limiter.acquire({ entityId: "key-1", resource: "api", consume: { all: 1 } });
      answered++;
      const left = await limiter.available({ entityId: "key-1", resource: "api" });
      const stored = left.map(({ available }) => CAPACITY - available);
      assert.equal(new Set(stored).size, 1, `a chain: ${stored}`);
      assert.ok((stored[0] ?? 0) >= answered, `${answered} takes were answered, ${stored[0]} are stored`);
      assert.ok((stored[0] ?? 0) <= asked, `${asked} takes were asked for, ${stored[0]} are stored`);
      await server.kill();
    });
  },
);
