import assert from "node:assert/strict";
import { after, type TestContext, test } from "node:test";
import pg from "pg";
import { migrate } from "../../src/adapters/postgres/migrations.ts";
import { functionText } from "../../src/adapters/postgres/schema-takes.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { atDepth, firstSeed } from "../depth.ts";
import {
  batchOf,
  birthOf,
  broughtTo,
  claimOn,
  difference,
  KEYS,
  lateFirst,
  randomLevel,
  T0,
  takeOf,
} from "../straight/summed-stories.ts";
import { batchesOn } from "./kit.ts";
import { describePostgres } from "./postgres.ts";
import { connectionOn } from "./record-kit.ts";

/** How takes fared: all at once, refused alone, or left to the general take. */
interface Tally {
  together: number;
  /** All at once, with rows that are new. */
  made: number;
  short: number;
  oneByOne: number;
}

await describePostgres("takes that are summed, on PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  after(() => pool.end());

  const opened = async (t: TestContext, tally: Tally = { together: 0, made: 0, short: 0, oneByOne: 0 }) => {
    const sent: string[] = [];
    // Its own: a connection that has plans of many schemas looks through all of them for each table that is made.
    const own = new pg.Pool({ connectionString: url, max: 2 });
    t.after(() => own.end());
    const query = async (text: string, values?: unknown[]) => {
      sent.push(text);
      const reply = await own.query(text, values);
      const [row] = reply.rows as { readonly answer?: string | null }[];
      if (/take_(summed_2|made_2)/.test(text) && text.startsWith("SELECT")) {
        if (text.includes("take_made_2") && row?.answer != null) tally.made++;
        tally[row?.answer == null ? "oneByOne" : row.answer.includes('"short"') ? "short" : "together"]++;
      }
      return reply;
    };
    const schema = newSchema();
    const connection = connectionOn({ query }, schema);
    await migrate(connection);
    await connection.query("INSERT INTO @.generation VALUES ('default', 1)", []);
    return { connection, store: batchesOn(connection), schema, tally, sent };
  };

  test("random batches, of one reading or of several: the same answers and the same rows as one by one", async (t) => {
    const one = await opened(t);
    const other = await opened(t);
    for (let i = 0; i < atDepth(30, 600); i++) {
      assert.equal(await difference(firstSeed() + i, [one.store, other.store]), undefined);
    }
    const { together, made, short, oneByOne: left } = one.tally;
    const [togetherMin, madeMin] = atDepth([30, 5], [100, 30]);
    assert.ok(together > togetherMin && made > madeMin && short > 10 && left > 20, JSON.stringify(one.tally));
    assert.deepEqual(other.tally, { together: 0, made: 0, short: 0, oneByOne: 0 });
  });

  const MADE_TOKENS = "f.reset_after, f.levels[cardinality(f.levels) - 2 * f.n + 1 : cardinality(f.levels) - f.n]";
  const MUTANTS: readonly (readonly [
    name: string,
    of: Parameters<typeof functionText>[0],
    from: string,
    to: string,
    /** The seed that found it when this was written. */
    seed: number,
  ])[] = [
    ["goes by the latest reading of the batch", "levels_after_1", "nums[at] - epoch_ms", "nums[6] - epoch_ms", 7],
    ["forgets the brim", "levels_after_1", "least(tokens[k], capacity[k] - refilled)", "tokens[k]", 2],
    ["forgets what was left over", "levels_after_1", "* amount[k] + remainder[k]) /", "* amount[k]) /", 2],
    ["lets one millitoken too many go", "levels_after_1", "asked + refilled < 0", "asked + refilled < -1", 12],
    ["counts past 2^53", "levels_after_1", "> 9007199254740991", "> 9007199254750000", 18],
    ["counts one request of many", "take_summed_2", "f.requests + nums[f.o]", "f.requests + 1", 2],
    ["passes by a change of limits", "take_summed_2", "AND nums[b.o + 1] <= b.met_ms", "", 10],
    ["passes by a boundary", "take_summed_2", "AND latest < b.renew_at_ms", "", 5],
    ["counts in an hour that is over", "take_summed_2", "AND NOT (counts AND latest >= b.hour_ms + 3600000)", "", 19],
    ["passes by the generation", "take_summed_2", "= nums[4]", "< 99", 12],
    ["takes what was taken already", "take_summed_2", "< lane_seq", "<= lane_seq", 9],
    ["takes from rows of other limits", "take_summed_2", "b.signature = signatures[b.i]", "true", 12],
    ["makes rows for those who are refused", "take_made_2", "OR NOT bool_or(f.is_new)", "OR true", 1],
    [
      "makes a row without counting who takes from it",
      "take_made_2",
      "THEN f.requests + nums[f.o] ELSE f.requests END, f.cap",
      "THEN 0 END, f.cap",
      2,
    ],
    ["makes a row as its first reading left it", "take_made_2", MADE_TOKENS, "f.reset_after, f.levels[1 : f.n]", 7],
    ["makes every row like the first one", "take_made_2", "fresh[places[w.i]]", "fresh[1]", 55],
    ["makes a row that passes by a boundary", "take_made_2", "AND latest < b.renew_at_ms", "", 48],
  ];
  for (const [name, of, from, to, seed] of MUTANTS) {
    test(`a summed take that ${name} is found`, async (t) => {
      const one = await opened(t);
      const other = await opened(t);
      const text = functionText(of);
      assert.ok(text.includes(from), from);
      await one.connection.query(text.replace(from, to), []);
      let found = await difference(seed, [one.store, other.store]);
      for (let next = 1; next <= 200 && found === undefined; next++) {
        found = await difference(next, [one.store, other.store]);
      }
      assert.ok(found !== undefined);
    });
  }

  test("of two that make a bucket at once the second waits, and then takes from what the first one has made", async (t) => {
    const { store, schema, sent } = await opened(t);
    const level = { ...randomLevel(new SeededRandom(1), 0), tokensMilli: 9_000, capacityMilli: 9_000, remainder: 0 };
    const row = [{ ...level, refillAmountMilli: 0, countedMilli: null }];
    for (const lane of ["one", "other"]) await store.apply(birthOf(lane, [row]), 60_000);
    const made = (lane: string, seq: number) =>
      broughtTo(batchOf({ lane, seq }, [takeOf([claimOn(1, [5_000])], T0)]), KEYS, [row, row], T0);
    const first = await pool.connect();
    await first.query("BEGIN");
    // This process has not taken by that lane: it goes by the general take.
    const ahead = await batchesOn(connectionOn(first, schema)).apply(made("one", 2), 60_000);
    assert.ok(ahead.kind === "done" && ahead.replies[0]?.kind === "applied");
    sent.length = 0;
    const behind = store.apply(made("other", 2), 60_000);
    for (let waits = false; !waits; ) {
      const { rows } = await first.query("SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted");
      waits = rows[0].n > 0;
    }
    await first.query("COMMIT");
    first.release();
    assert.equal((await behind).kind, "rolledBack");
    assert.match(sent.join("\n"), /^SELECT "[^"]*"\.take_made_2\(.*$/);
    const again = await store.apply(made("other", 2), 60_000);
    assert.ok(again.kind === "done" && again.replies[0]?.kind === "short");
  });

  test("who takes from a bucket that another process takes from waits before its row is looked up, and then goes by what is left", async (t) => {
    const { store, schema } = await opened(t);
    const level = { ...randomLevel(new SeededRandom(1), 0), tokensMilli: 9_000, capacityMilli: 9_000, remainder: 0 };
    const row = [{ ...level, refillAmountMilli: 0, countedMilli: null }];
    for (const lane of ["one", "other"]) await store.apply(birthOf(lane, [row]), 60_000);
    const take = (lane: string, seq: number) => batchOf({ lane, seq }, [takeOf([claimOn(0, [3_000])], T0)]);
    const first = await pool.connect();
    const ahead = batchesOn(connectionOn(first, schema));
    // This process has not taken by that lane: its first batch goes by the general take, which is over before.
    await ahead.apply(take("one", 2), 60_000);
    await first.query("BEGIN");
    await ahead.apply(take("one", 3), 60_000);
    const behind = store.apply(take("other", 2), 60_000);
    let waitsFor: readonly { readonly locktype: string }[] = [];
    while (waitsFor.length === 0) {
      const text =
        "SELECT locktype FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND query LIKE $1";
      waitsFor = (await first.query(text, [`%"${schema}".take%`])).rows;
    }
    await first.query("COMMIT");
    first.release();
    assert.deepEqual(waitsFor, [{ locktype: "advisory" }]);
    const reply = await behind;
    assert.deepEqual(reply.kind === "done" && reply.replies, [
      { kind: "applied", claims: [{ tokensMilli: [0], windows: undefined, validUntilMs: undefined }] },
    ]);
  });

  test("a batch that was refused when it was repeated is not done when the first one arrives at last", async (t) => {
    for (const isSummable of [true, false]) await lateFirst((await opened(t)).store, isSummable);
  });
});
