import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { deepTest } from "../deep-test.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { describePostgres, postgresOrReason } from "../postgres/postgres.ts";
import {
  copyAndCompare,
  everythingOf,
  goOn,
  memoryPlace,
  type OpenPlace,
  START_MS,
  sqlitePlace,
  tellStory,
} from "./kit.ts";
import { dynamoPlace, postgresPlace } from "./places.ts";

function testDirection(name: string, openFrom: OpenPlace, openTo: OpenPlace, declare: typeof deepTest = test): void {
  declare(`${name}: a copy says what its source says, and goes on as it would have`, async (t) => {
    const fromClock = new SimulatedClock(START_MS);
    const from = await (await openFrom(t)).open(fromClock);
    const place = await openTo(t);
    await tellStory(from, fromClock);
    const clock = new SimulatedClock(fromClock.now());
    const report = await copyAndCompare(from, await place.open(clock));
    const [copied] = report.namespaces;
    assert.ok(
      Object.entries(copied?.copied ?? {}).every(([, rows]) => rows > 0),
      JSON.stringify(copied),
    );
    const to = await place.open(clock);
    assert.deepEqual(await everythingOf(to), await everythingOf(from));
    assertOneLess(await goOn(to, clock), await goOn(from, fromClock));
    const after = { window: "monthly", fromMs: 0 } as const;
    assert.deepEqual(
      await to.usageTotals({ ...after, by: "entity" }),
      await from.usageTotals({ ...after, by: "entity" }),
    );
  });
}

/** The same answers. A copy may have a millitoken less, which may be what a whole token lacks. */
function assertOneLess(copy: unknown, source: unknown): void {
  const less = (value: unknown) => JSON.stringify(value, (name, each) => (name === "available" ? 0 : each));
  assert.equal(less(copy), less(source));
  const [ofCopy, ofSource] = [copy, source].map((value) =>
    Array.from(JSON.stringify(value).matchAll(/"available":(-?\d+)/g), ([, number]) => Number(number)),
  ) as [number[], number[]];
  const lacks = ofSource.map((available, i) => available - (ofCopy[i] ?? Number.NaN));
  assert.deepEqual(
    lacks.filter((lack) => lack !== 0 && lack !== 1),
    [],
  );
}

// `npm test` reads and writes each store in one direction at least.
testDirection("memory to memory", memoryPlace, memoryPlace, deepTest);
testDirection("memory to SQLite", memoryPlace, sqlitePlace);
testDirection("SQLite to SQLite", sqlitePlace, sqlitePlace, deepTest);
testDirection("SQLite to memory", sqlitePlace, memoryPlace);

await describePostgres("PostgreSQL", (postgres) => {
  const place = postgresPlace(postgres);
  testDirection("SQLite to PostgreSQL", sqlitePlace, place);
  testDirection("PostgreSQL to SQLite", place, sqlitePlace);
});

const postgres = await postgresOrReason();

await describeDynamo("DynamoDB", (dynamodb) => {
  const place = dynamoPlace(dynamodb);
  testDirection("SQLite to DynamoDB", sqlitePlace, place);
  testDirection("DynamoDB to SQLite", place, sqlitePlace, deepTest);
  testDirection("DynamoDB to DynamoDB", place, place, deepTest);
  if (typeof postgres !== "string") testDirection("DynamoDB to PostgreSQL", place, postgresPlace(postgres));
});
