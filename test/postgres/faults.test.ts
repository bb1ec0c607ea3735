import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import type { BucketStore, Claim } from "../../src/ports/bucket-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { bucketsOn } from "../straight/same-as-memory.ts";
import { CuttingProxy } from "./cutting-proxy.ts";
import { batchesOn, openSchema } from "./kit.ts";
import { describePostgres } from "./postgres.ts";
import { startPostgres } from "./postgres-process.ts";

const NOW = Date.UTC(2026, 2, 15, 12);
const CAPACITY = 1_000_000;

/**
 * Limits that nothing comes back to, as the clock stands: what is gone was taken. Of a session, takes are judged one by one; of a rate, those
 * of a batch are taken together.
 */
const SESSION = limitSet([Limit.quota("all", CAPACITY, { resetAfterMs: 86_400_000 })]);
const RATE = limitSet([Limit.perDay("all", CAPACITY)]);

function claimOf(entityId: string): Claim {
  return {
    bucket: bucketKey(entityId, "api"),
    set: entityId.startsWith("s-") ? SESSION : RATE,
    origin: { asOfMs: NOW, generation: 1 },
    take: [{ limit: "all", milli: 1000 }],
    bypass: false,
  };
}

const takeContext = (timeoutMs: number) => ({ nowMs: NOW, timeoutMs, generation: 1, atomic: true });

async function takenFrom(buckets: BucketStore, entityId: string): Promise<number> {
  const [state] = await buckets.read([bucketKey(entityId, "api")]);
  return CAPACITY - (state?.limits[0]?.tokensMilli ?? CAPACITY * 1000) / 1000;
}

await describePostgres("faults on PostgreSQL", ({ url, newSchema }) => {
  test("whose answer is lost learns what became of the take: nothing is charged twice, nothing is unknown", async () => {
    const random = new SeededRandom(7);
    const schema = newSchema();
    const direct = await openSchema(url, schema, { poolMax: 2, timeoutMs: 30_000 });
    const proxy = await CuttingProxy.before(Number(new URL(url).port), () =>
      random.weighted([
        [6, "pass"],
        [2, "beforeSending"],
        [2, "afterSending"],
      ]),
    );
    const cut = await openSchema(url.replace(/:\d+\//, `:${proxy.port}/`), schema, { poolMax: 4, timeoutMs: 30_000 });
    const buckets = bucketsOn(batchesOn(cut), random, { coalesce: true });
    const taken = { "s-": 0, "": 0 };
    for (let round = 0; round < 60; round++) {
      const claims = (round % 3 === 0 ? ["s-a", "s-org"] : ["a", "org"]).map(claimOf);
      const answers = await Promise.all(
        Array.from({ length: random.integer(1, 5) }, () => buckets.take(claims, takeContext(30_000))),
      );
      for (const answer of answers) {
        assert.ok(answer !== "stale");
        assert.deepEqual(
          answer.map(({ kind }) => kind),
          ["taken", "taken"],
        );
        taken[round % 3 === 0 ? "s-" : ""]++;
      }
    }
    assert.ok(proxy.cuts > 10, `only ${proxy.cuts} connections were cut`);
    const reading = bucketsOn(batchesOn(direct), random, { coalesce: true });
    for (const kind of ["s-", ""] as const) {
      for (const entity of ["a", "org"]) assert.equal(await takenFrom(reading, `${kind}${entity}`), taken[kind]);
    }
    await cut.close();
    await proxy.close();
    await direct.close();
  });

  test("random chains of 16 connections wait for each other and never deadlock, and every token is accounted for", async () => {
    const schema = newSchema();
    const first = await openSchema(url, schema, { poolMax: 2, timeoutMs: 60_000 });
    const deadlocks = async () => {
      const [row] = await first.query(
        "SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()",
        [],
      );
      return Number(row?.n);
    };
    const before = await deadlocks();
    const entities = Array.from({ length: 12 }, (_, i) => (i < 9 ? `e${i}` : `s-${i}`));
    const taken = new Map<string, number>();
    const connections = await Promise.all(
      Array.from({ length: 16 }, () => openSchema(url, schema, { poolMax: 1, timeoutMs: 60_000 })),
    );
    await Promise.all(
      connections.map(async (connection, i) => {
        const random = new SeededRandom(100 + i);
        const buckets = bucketsOn(batchesOn(connection), random, { coalesce: true });
        for (let n = 0; n < 40; n++) {
          const chains = Array.from({ length: random.integer(1, 4) }, () => {
            // Every other connection takes from all, so that both forms of the take meet on the same rows.
            const chain = entities
              .slice(0, i % 2 === 0 ? 9 : 12)
              .sort(() => random.next() - 0.5)
              .slice(0, random.integer(1, 6));
            return chain.map(claimOf);
          });
          await Promise.all(
            chains.map(async (claims) => {
              const answers = await buckets.take(claims, takeContext(60_000));
              assert.ok(answers !== "stale");
              assert.deepEqual([...new Set(answers.map(({ kind }) => kind))], ["taken"]);
              for (const { bucket } of claims) taken.set(bucket.entityId, (taken.get(bucket.entityId) ?? 0) + 1);
            }),
          );
        }
      }),
    );
    assert.equal((await deadlocks()) - before, 0);
    const reading = bucketsOn(batchesOn(first), new SeededRandom(1), { coalesce: true });
    for (const entity of entities) assert.equal(await takenFrom(reading, entity), taken.get(entity), entity);
    for (const connection of [...connections, first]) await connection.close();
  });

  test("after SIGKILL of the server under load everything that was answered is there", async () => {
    const server = await startPostgres([]);
    const connection = await openSchema(server.url, newSchema(), { poolMax: 4, timeoutMs: 30_000 });
    const random = new SeededRandom(3);
    const entities = ["a", "b", "c", "d", "e", "f"];
    const answered = new Map<string, number>();
    const asked = new Map<string, number>();
    let [isKilled, isOver] = [false, false];
    const count = (of: Map<string, number>, entity: string) => of.set(entity, (of.get(entity) ?? 0) + 1);
    const buckets = bucketsOn(batchesOn(connection), random, { coalesce: true });
    const callers = Array.from({ length: 24 }, async (_, i) => {
      const entity = entities[i % entities.length] as string;
      while (!isOver) {
        count(asked, entity);
        const [answer] = (await buckets.take([claimOf(entity)], takeContext(300))) as readonly { kind: string }[];
        if (answer?.kind === "taken") count(answered, entity);
        // On a busy machine one may be late before.
        else isOver = isKilled;
      }
    });
    const total = () => [...answered.values()].reduce((sum, n) => sum + n, 0);
    while (total() < 500) await new Promise((resolve) => setImmediate(resolve));
    await server.kill();
    isKilled = true;
    await Promise.all(callers);
    await server.restart();
    const after = await openSchema(server.url, connection.schema, { poolMax: 2, timeoutMs: 30_000 });
    const reading = bucketsOn(batchesOn(after), random, { coalesce: true });
    for (const entity of entities) {
      const stored = await takenFrom(reading, entity);
      const [least, most] = [answered.get(entity) ?? 0, asked.get(entity) ?? 0];
      assert.ok(stored >= least, `${entity}: ${least} takes were answered, ${stored} are stored`);
      assert.ok(stored <= most, `${entity}: ${most} takes were asked for, ${stored} are stored`);
    }
    await connection.close();
    await after.close();
    await server.kill();
  });
});
