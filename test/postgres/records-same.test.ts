import assert from "node:assert/strict";
import { after, test } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import type { Connection, PostgresClient } from "../../src/adapters/postgres/connection.ts";
import type { MaybePromise } from "../../src/ports/bucket-store.ts";
import type {
  CommitGuard,
  CountStore,
  RecordCommit,
  RecordDeletion,
  RecordKey,
  RecordList,
  RecordPut,
  RecordStore,
} from "../../src/ports/record-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { atDepth, isDeep, seeds } from "../depth.ts";
import { RecordTable } from "../kit/record-table.ts";
import { describePostgres, newSchema } from "./postgres.ts";
import { connectionOn, recordsOn } from "./record-kit.ts";

// Random commits and questions on a table in memory and on a server: the same answers to all of them.

const HOUR = 3_600_000;
const SCOPES = ["", "n1", "n2"];
const IDS = ["a", "a.b", "aB", "ab", "b", "Z"];
const RESOURCES = ["", "*", "api", "Api", "z/z"];
/** Names and metadata are any texts. */
const TEXTS = ["plain", "ü\u0000€", "lone \ud800 surrogate", '"quoted\\"', ""];

class World {
  readonly random: SeededRandom;
  readonly table = new RecordTable();
  readonly records: RecordStore & CountStore;
  readonly connection: Connection;
  #events = 0;

  private constructor(seed: number, records: RecordStore & CountStore, connection: Connection) {
    this.random = new SeededRandom(seed);
    this.records = records;
    this.connection = connection;
  }

  /** On a schema of its own. */
  static async on(client: PostgresClient, seed: number): Promise<World> {
    const schema = newSchema();
    return new World(seed, await recordsOn(client, schema), connectionOn(client, schema));
  }

  of<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.random.next() * items.length)] as Item;
  }

  maybe<Item>(items: readonly Item[]): Item | undefined {
    return this.random.next() < 0.3 ? undefined : this.of(items);
  }

  async both<Answer>(ask: (store: RecordStore & CountStore) => MaybePromise<Answer>): Promise<Answer> {
    const [expected, answered] = [await ask(this.table), await ask(this.records)];
    assert.deepEqual(answered, expected);
    return expected;
  }

  put(): RecordPut {
    const body = { text: this.of(TEXTS), n: Math.floor(this.random.next() * Number.MAX_SAFE_INTEGER) };
    const [id, owner, resource] = [this.of(IDS), this.of(["", ...IDS]), this.of(RESOURCES)];
    const ms = () => this.maybe([1, 2, 9, 10]);
    return this.of<RecordPut>([
      {
        kind: "namespace",
        key: [this.of(["n1", "n2", "n3"])],
        by: { name: `name-${id}-${this.random.next()}`, status: this.of(["active", "deleted"]) },
        body,
      },
      {
        kind: "entity",
        key: [id],
        by: { parentId: this.maybe(IDS.filter((one) => one < id)), planId: this.maybe(["p", "q"]) },
        body,
      },
      { kind: "plan", key: [id], by: {}, body },
      {
        kind: "config",
        key: [this.of(["entity", "plan"]), owner, resource],
        ...this.said(body),
      },
      { kind: "history", key: [this.of(["entity", "plan", "stints"]), owner, resource], by: {}, body: this.of(TEXTS) },
      { kind: "owner", key: [id], by: {}, body },
      { kind: "owned", key: [id], by: {}, body },
      { kind: "lease", key: [id], by: { entityId: owner, resource, dueAtMs: ms(), forgottenAtMs: ms() }, body },
      { kind: "leaseKey", key: [id], by: { forgottenAtMs: ms() ?? 3 }, body },
      {
        kind: "refusal",
        key: [String(HOUR * Math.floor(this.random.next() * 60)), id, this.of(["api", "gpu"]), this.of(["w1", "w2"])],
        by: {},
        body: { version: 1, counts: [this.refused(), this.refused()] },
      },
    ]);
  }

  /** What a scope says: limits, an override, both or neither. */
  said(body: object) {
    const limits = this.of([[], [{ name: "rpm" }]]);
    const untilMs = this.maybe([1, 2, 5, 50]);
    const override = untilMs === undefined ? {} : { override: { fromMs: 0, untilMs, limits: [{ name: "tpm" }] } };
    const hasLimits = limits.length > 0 || untilMs !== undefined;
    return { by: { hasLimits }, body: { ...body, limits, ...override } };
  }

  refused() {
    return {
      limit: this.of(["rpm", "tpm"]),
      level: this.of(IDS),
      total: this.random.next() < 0.5,
      count: this.of([1, 5]),
    };
  }

  deletion(): RecordDeletion {
    const { kind, key } = this.put();
    return this.of<RecordDeletion>([
      { kind, key },
      { kind, key },
      { kind: "everythingOf", entityId: this.of(IDS) },
    ]);
  }

  list(): RecordList {
    const id = this.of(IDS);
    const untilMs = this.of([1, 5, 100]);
    return this.of<RecordList>([
      { kind: "namespace", of: "active" },
      { kind: "namespace", of: "orphans" },
      { kind: "namespace", of: "due", untilMs },
      { kind: "entity", of: "all" },
      { kind: "entity", of: "parent", parentId: id },
      { kind: "entity", of: "plan", planId: this.of(["p", "q"]) },
      { kind: "entity", of: "above", id },
      { kind: "plan", of: "all" },
      { kind: "config", of: "all" },
      { kind: "config", of: "owner", owner: [this.of(["entity", "plan"] as const), id] },
      { kind: "config", of: "entity", entityId: id, nowMs: untilMs },
      { kind: "config", of: "resource", resource: this.of(RESOURCES), nowMs: untilMs },
      { kind: "config", of: "defaults", nowMs: untilMs },
      { kind: "owned", of: "all" },
      { kind: "lease", of: "due" },
      { kind: "lease", of: "due", untilMs, entityId: id },
      { kind: "lease", of: "due", resource: this.of(RESOURCES) },
    ]);
  }

  /** The guard as each of the two has versions; mostly one that holds. */
  async guards(scope: string): Promise<readonly [CommitGuard, CommitGuard]> {
    if (this.random.next() < 0.5) {
      const { generation } = await this.table.get(scope, []);
      const guard = { kind: "generation", generation: generation + (this.random.next() < 0.2 ? 1 : 0) } as const;
      return [guard, guard];
    }
    const keys: readonly RecordKey[] = [this.put(), this.put()].map(({ kind, key }) => ({ kind, key }));
    const isWrong = this.random.next() < 0.2;
    const guardOf = async (store: RecordStore): Promise<CommitGuard> => {
      const found = await store.get(scope, keys);
      const versions = keys.map((key, i) => ({
        ...key,
        version: (found.records[i]?.version ?? 0) + (isWrong ? 1 : 0),
      }));
      return { kind: "versions", versions };
    };
    return [await guardOf(this.table), await guardOf(this.records)];
  }

  async commit(): Promise<void> {
    const scope = this.of(SCOPES);
    const [ours, theirs] = await this.guards(scope);
    const isChange = ours.kind === "generation";
    const distinct = new Map([this.put(), this.put()].map((put) => [JSON.stringify([put.kind, put.key]), put]));
    const event = {
      eventId: `e${++this.#events}`,
      atMs: 5,
      action: "limits_set",
      entityId: this.of(IDS),
      details: {},
    } as const;
    const commit: Omit<RecordCommit, "guard"> = {
      scope,
      puts: [...distinct.values()],
      deletes: this.random.next() < 0.3 ? [this.deletion()] : [],
      event: isChange ? { event, auditIn: this.of(SCOPES) } : undefined,
      bumps: isChange ? [...new Set([scope, this.of(SCOPES)])] : [],
      touched: this.random.next() < 0.1 ? undefined : IDS.filter(() => this.random.next() < 0.3),
      sent: "first",
    };
    const expected = await this.table.commit({ ...commit, guard: ours });
    assert.deepEqual(await this.records.commit({ ...commit, guard: theirs }), expected);
    if (isChange && expected.kind === "done" && this.random.next() < 0.3) {
      // The answer was lost: it is not made a second time, whatever the generation is by now.
      await this.both((store) => store.commit({ ...commit, guard: ours, sent: "again" }));
    }
  }

  async read(): Promise<void> {
    const scope = this.of(SCOPES);
    const keys = Array.from({ length: 6 }, () => this.put()).map(({ kind, key }) => ({ kind, key }));
    const { generation: last } = await this.table.get(scope, []);
    const since = this.of([undefined, 1, last - 1, last - 3, last]);
    await this.both(async (store) => {
      const { generation, changes = [], records: found } = await store.get(scope, keys, since);
      const latest = changes.filter(([number]) => number > last - 4);
      return { generation, latest, found: found.map((one) => one && { kind: one.kind, key: one.key, body: one.body }) };
    });
    const list = this.list();
    let after: readonly string[] | undefined;
    for (let pages = 0; pages < 3; pages++) {
      const page = await this.both((store) => store.list(scope, list, after, 2));
      after = page.records.at(-1)?.place;
      if (after === undefined || list.of === "above" || list.of === "due") return;
    }
  }

  /** Places in the log are numbers of the store's own. */
  async readLog(): Promise<void> {
    const scope = this.of(SCOPES);
    const filter = this.random.next() < 0.5 ? {} : { entityId: this.of(IDS) };
    const pages = async (store: RecordStore) => {
      const bodies: unknown[] = [];
      for (let after: readonly string[] | undefined; ; ) {
        const page = await store.list(scope, { kind: "audit", of: "all", ...filter }, after, 3);
        bodies.push(...page.records.map(({ key, body }) => ({ key, body })));
        if (page.records.length < 3) return bodies;
        after = page.records.at(-1)?.place;
      }
    };
    await this.both(pages);
  }

  async sum(kind: "usage" | "refusal"): Promise<void> {
    const scope = this.of(["n1", "n2"]);
    const startMs = HOUR * Math.floor(this.random.next() * 60);
    const length = this.of([1, 5, 24]) * HOUR;
    const spans = [0, 1, 2].map((n) => ({ startMs: startMs + n * length, endMs: startMs + (n + 1) * length }));
    const of = { entityId: this.maybe(IDS), resource: this.of([undefined, "api"]) };
    const limit = kind === "refusal" ? this.of([undefined, "rpm"]) : undefined;
    const query = { kind, spans, ...of, limit, limitMax: this.of([2, 100]) };
    const { sums } = await this.both((store) => store.sums(scope, { ...query, after: undefined }));
    const inFirst = sums.filter((sum) => sum.startMs === startMs);
    if (inFirst.length === 0) return;
    const { key: after } = this.of(inFirst);
    await this.both((store) => store.sums(scope, { ...query, after }));
  }

  /** As takes count: an hour that has left its bucket. */
  async count(): Promise<void> {
    const [scope, entity, resource] = [this.of(["n1", "n2"]), this.of(IDS), this.of(["api", "gpu"])];
    const hourMs = HOUR * Math.floor(this.random.next() * 60);
    // Sums of many takes pass 2^53.
    const milli = BigInt(this.of([1, 1000, Number.MAX_SAFE_INTEGER]));
    const counter = this.of(["rpm", "tpm", "rpm#od", "#requests"]);
    this.table.count(scope, { hourMs, key: [entity, resource], counts: { [counter]: milli } });
    await this.connection.query(
      `INSERT INTO @.usage AS u VALUES ($1, $2::bigint, $3, $4, $5, $6::text::numeric)
       ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE SET milli = u.milli + excluded.milli`,
      [scope, hourMs, entity, resource, counter, String(milli)],
    );
  }
}

function tellOn(client: PostgresClient, where: string): void {
  for (const seed of seeds(1, 3)) {
    test(`random commits, lists and sums ${where} have the answers of a table in memory, seed ${seed}`, async () => {
      const world = await World.on(client, seed);
      for (let step = 0; step < atDepth(60, 120); step++) {
        await world.commit();
        await world.count();
        await world.read();
        if (step % 5 === 0) await world.readLog();
        if (step % 4 === 0) await world.sum("usage");
        if (step % 4 === 2) await world.sum("refusal");
      }
    });
  }
}

await describePostgres("records on PostgreSQL are those of a table in memory", ({ url }) => {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  after(() => pool.end());
  tellOn(pool, "on a server");

  test("lists by what is in force read bodies whatever texts are in them", async () => {
    const records = await recordsOn(pool, newSchema());
    const put = (text: string, resource: string): RecordPut => {
      const body = { limits: [{ name: "rpm" }], text };
      return { kind: "config", key: ["entity", "", resource], by: { hasLimits: true }, body };
    };
    const puts = TEXTS.map((text, i) => put(text, `r${i}`));
    const guard = { kind: "versions", versions: [] } as const;
    const rest = { scope: "n1", guard, deletes: [], event: undefined, bumps: [], touched: [], sent: "first" } as const;
    await records.commit({ ...rest, puts });
    const { records: found } = await records.list("n1", { kind: "config", of: "defaults", nowMs: 1 }, undefined, 10);
    assert.deepEqual(
      found.map(({ key }) => key[2]),
      TEXTS.map((_, i) => `r${i}`),
    );
  });
});

if (isDeep) tellOn((await PGlite.create()) as PostgresClient, "on PGlite");
