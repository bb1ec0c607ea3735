import { describe, type TestContext } from "node:test";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Store } from "../../src/ports/store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { newGround, optionsFor } from "../dynamodb/store-kit.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { describePostgres, newSchema } from "../postgres/postgres.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { tellFreezeStories } from "./freeze-stories.ts";

type OpenProcess = (clock: SimulatedClock) => Promise<Store | string> | Store | string;

/** The stories by two processes on one store, which is made anew for each. */
function tellOn(make: (t: TestContext) => OpenProcess | Promise<OpenProcess>): void {
  tellFreezeStories(async (t) => {
    const open = await make(t);
    const clock = new SimulatedClock(T0);
    const ways = { timeoutMs: 10_000, adminTimeoutMs: 30_000 };
    const [admin, worker] = [
      await RateLimiter.open({ ...ways, store: await open(clock), clock }),
      await RateLimiter.open({ ...ways, store: await open(clock), clock }),
    ];
    return { admin, worker, clock, close: async () => void (await Promise.all([admin.close(), worker.close()])) };
  });
}

describe("a frozen namespace in memory", () => {
  tellOn(() => {
    const store = openMemory();
    return () => store;
  });
});

describe("a frozen namespace in SQLite", () => {
  tellOn((t) => {
    const file = `sqlite:${tempFile(t)}`;
    return () => file;
  });
});

describe("a frozen namespace on conditional writes", () => {
  tellOn(() => {
    const random = new SeededRandom(7);
    let nowMs = () => T0;
    const writesPerSecond = Number.POSITIVE_INFINITY;
    const world = conditionalWorld({ now: () => nowMs(), random, writesPerSecond, staleMs: 0 }, calendar);
    return (clock) => {
      nowMs = () => clock.now();
      return openConditional(world, { clock, random: () => random.next() });
    };
  });
});

await describePostgres("a frozen namespace in PostgreSQL", ({ url }) => {
  tellOn(() => {
    const address = new URL(url);
    address.searchParams.set("schema", newSchema());
    return () => address.href;
  });
});

await describeDynamo("a frozen namespace on DynamoDB", (dynamodb) => {
  tellOn(async (t) => {
    const { table, wire } = await newGround(dynamodb, t, { clock: new SimulatedClock(T0), shared: false });
    return (clock) => dynamoOver(optionsFor(wire, table, { clock, shared: false }));
  });
});
