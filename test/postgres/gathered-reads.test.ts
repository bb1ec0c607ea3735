import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import { Connection, type PostgresClient, type Session } from "../../src/adapters/postgres/connection.ts";
import { GatheredReads } from "../../src/adapters/postgres/gathered-reads.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import type { RecordKey } from "../../src/ports/record-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describePostgres } from "./postgres.ts";

const entity = (id: string): RecordKey => ({ kind: "entity", key: [id] });

test("keys that are asked for while a statement is under way go into the next one, each once", async () => {
  const { asked, begun, turn, answerAll } = slowReads();
  const answers = [begun("a"), begun("b")];
  await turn();
  answers.push(begun("b"));
  await turn();
  answers.push(begun("c", "d"), begun("d", "e"));
  await turn();
  answers.push(begun("a"));
  await turn();
  assert.deepEqual(asked, [["a", "b"]]);
  answerAll();
  await turn();
  await turn();
  assert.deepEqual(asked.slice(1), [["b", "c", "d", "e", "a"]]);
  answerAll();
  assert.deepEqual(await Promise.all(answers), [["a"], ["b"], ["b"], ["c", "d"], ["d", "e"], ["a"]]);
});

test("a second statement goes beside the first one once 128 callers wait, and no third", async () => {
  const { asked, begun, turn, answerAll } = slowReads();
  const answers = [begun("first")];
  await turn();
  for (let i = 0; i < 127; i++) answers.push(begun(`id-${i}`));
  await turn();
  assert.equal(asked.length, 1);
  for (let i = 127; i < 300; i++) answers.push(begun(`id-${i}`));
  await turn();
  assert.deepEqual(
    asked.map((keys) => keys.length),
    [1, 128],
  );
  answerAll();
  await turn();
  await turn();
  answerAll();
  await turn();
  await turn();
  answerAll();
  assert.equal((await Promise.all(answers)).length, 301);
  assert.deepEqual(
    asked.map((keys) => keys.length),
    [1, 128, 128, 44],
  );
});

/** Reads whose statements are answered when the test says so. */
function slowReads() {
  const asked: string[][] = [];
  const ends: (() => void)[] = [];
  const reads = new GatheredReads(async (_, keys) => {
    asked.push(keys.map(({ key }) => key[0] as string));
    await new Promise<void>((resolve) => ends.push(resolve));
    return { generation: 1, records: keys.map((key) => ({ ...key, version: 1, body: key.key[0] })) };
  });
  return {
    asked,
    begun: async (...ids: string[]) => {
      const { records } = await reads.get("ns", ids.map(entity), 1);
      return records.map((record) => record?.body);
    },
    turn: () => new Promise((resolve) => setImmediate(resolve)),
    answerAll: () => {
      for (const end of ends.splice(0)) end();
    },
  };
}

test("one statement asks for one namespace, and what fails fails for those who asked", async () => {
  const asked: string[] = [];
  const reads = new GatheredReads(async (scope, keys) => {
    asked.push(scope);
    if (scope === "broken") throw new Error("no answer");
    return { generation: 1, records: keys.map(() => undefined) };
  });
  const replies = await Promise.allSettled(["one", "broken", "one"].map((scope) => reads.get(scope, [entity("a")], 1)));
  assert.deepEqual(
    replies.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  assert.deepEqual(asked, ["one", "broken"]);
});

test("a long list on the connection for everything else does not hold up the limits of a request", async () => {
  const ran: string[] = [];
  let end = () => {};
  const others: Session = {
    run: async (text) => {
      ran.push(`others ${text}`);
      if (text === "list") await new Promise<void>((resolve) => (end = resolve));
      return [];
    },
    close: async () => {},
  };
  const takes: Session = {
    run: async (text) => {
      ran.push(`takes ${text}`);
      return [];
    },
    close: async () => {},
  };
  const connection = new Connection({ name: "test", schema: "s", takes, others, adminTimeoutMs: 1_000 });
  await connection.readAgain("read", []);
  const listed = connection.queryAgain("list", [], "always");
  await connection.readAgain("read", []);
  end();
  await listed;
  await connection.readAgain("read", []);
  assert.deepEqual(ran, ["others read", "others list", "takes read", "others read"]);
});

await describePostgres("reads of limits on PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  after(() => pool.end());

  test("the limits of 200 new ids are read in two statements, and each id has its own", async () => {
    const texts: string[] = [];
    const client: PostgresClient = {
      query: (text, values) => {
        texts.push(text);
        return pool.query(text, values);
      },
    };
    const limiter = await RateLimiter.open({
      store: await openPostgres({ client, schema: newSchema() }),
      timeoutMs: 60_000,
    });
    await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 10)]);
    await limiter.setLimits("id-7", [Limit.perMinute("rpm", 5)], { resource: "api" });
    await limiter.tryAcquire({ entityId: "id-0", resource: "api", consume: { rpm: 1 } });
    await limiter.tryAcquire({ entityId: "id-7", resource: "api", consume: { rpm: 1 } });
    texts.length = 0;
    const ids = Array.from({ length: 200 }, (_, i) => `id-${i + 1}`);
    const outcomes = await Promise.all(
      ids.map((entityId) => limiter.tryAcquire({ entityId, resource: "api", consume: { rpm: 5 } })),
    );
    assert.deepEqual(
      outcomes.flatMap(({ ok }, i) => (ok ? [] : [ids[i]])),
      ["id-7"],
    );
    assert.equal(texts.filter((text) => text.includes(".read_2(")).length, 2);
    await limiter.close();
  });

  test("fifty new ids that ask at once cost one read and one take, which has what they all go by once", async () => {
    const sent: { readonly text: string; readonly values: readonly unknown[] }[] = [];
    const client: PostgresClient = {
      query: (text, values) => {
        sent.push({ text, values: values ?? [] });
        return pool.query(text, values);
      },
    };
    const clock = new SimulatedClock(Date.UTC(2026, 2, 15, 12));
    const store = await openPostgres({ client, schema: newSchema(), clock });
    const limiter = await RateLimiter.open({ store, clock, timeoutMs: 60_000 });
    await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 10), Limit.perDay("daily", 100)]);
    const take = (entityId: string) => limiter.tryAcquire({ entityId, resource: "api", consume: { rpm: 3, daily: 1 } });
    // A lane begins with the general take.
    await take("first");
    sent.length = 0;
    const ids = Array.from({ length: 50 }, (_, i) => `id-${i}`);
    const outcomes = await Promise.all(ids.map(take));
    assert.ok(outcomes.every(({ ok }) => ok));
    // New rows make the limiter look for idle ones, which is no function.
    const functions = sent.flatMap(({ text }) => /\.(\w+)\(/.exec(text)?.[1] ?? []);
    assert.deepEqual(functions, ["read_2", "take_made_2"]);
    const made = sent.find(({ text }) => text.includes("take_made_2"));
    assert.equal((JSON.parse(String(made?.values[7])) as readonly unknown[]).length, 1);
    const [left] = await limiter.available({ entityId: "id-7", resource: "api" });
    assert.equal(left?.available, 7);
    await limiter.close();
  });

  test("a page of buckets makes the JSON of its own buckets alone", async () => {
    const asked: { readonly text: string; readonly values: unknown[] }[] = [];
    const client: PostgresClient = {
      query: (text, values) => {
        asked.push({ text, values: values ?? [] });
        return pool.query(text, values);
      },
    };
    const limiter = await RateLimiter.open({ store: await openPostgres({ client, schema: newSchema() }) });
    await limiter.listBuckets({ resource: "api", limit: 2 });
    const { text, values } = asked.findLast((one) => one.text.includes("AS found FROM")) as (typeof asked)[0];
    const { rows } = await pool.query(`EXPLAIN (VERBOSE, FORMAT JSON) ${text}`, values);
    const plan = JSON.stringify(rows[0]["QUERY PLAN"][0].Plan);
    assert.match(plan, /to_jsonb/);
    const limit = JSON.stringify(nodeOf(rows[0]["QUERY PLAN"][0].Plan, "Limit"));
    assert.doesNotMatch(limit, /to_jsonb/);
    await limiter.close();
  });
});

interface PlanNode {
  readonly "Node Type": string;
  readonly Plans?: readonly PlanNode[];
}

function nodeOf(plan: PlanNode, type: string): PlanNode | undefined {
  if (plan["Node Type"] === type) return plan;
  for (const below of plan.Plans ?? []) {
    const found = nodeOf(below, type);
    if (found !== undefined) return found;
  }
  return undefined;
}
