import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { LimiterClient } from "../../src/entry/client.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { here } from "./in-process.ts";

const SECRET = "hunter2";

/** Addresses of stores that there are not, right and mistyped, each with a password in it. */
const ADDRESSES = [
  ...[
    "postgres",
    "postgresql",
    "redis",
    "rediss",
    "mysql",
    "mongodb",
    "amqp",
    "http",
    "https",
    "sqlite",
    "dynamodb",
  ].map((scheme) => `${scheme}://user:${SECRET}@db.internal:5432/limits`),
  `redis://:${SECRET}@cache.internal`,
  `redis://${SECRET}@cache.internal`,
  `postgres:/user:${SECRET}@db.internal/limits`,
  `postgres//user:${SECRET}@db.internal/limits`,
  `postgres:user:${SECRET}@db.internal`,
  `postgres;//user:${SECRET}@db.internal`,
  `postgres:\\\\user:${SECRET}@db.internal`,
  `user:${SECRET}@db.internal`,
  `:${SECRET}@db.internal`,
  `postgres://user:${SECRET}/with@slash@db.internal/limits`,
  `postgres://user:pa ss${SECRET}@db.internal/limits`,
  `postgres://db.internal/limits?user=me&password=${SECRET}`,
  `postgres://db.internal/limits?password=${SECRET}&sslmode=require`,
  `host=db.internal password=${SECRET}`,
  `"postgres://user:${SECRET}@db.internal"`,
  ` postgres://user:${SECRET}@db.internal`,
  `POSTGRES://USER:${SECRET}@DB`,
  `sqlite:postgres://user:${SECRET}@db.internal/limits`,
  `dynamodb:redis://user:${SECRET}@db.internal`,
  `https://limits.internal/#${SECRET}`,
  `memory://user:${SECRET}@here`,
];

async function fails(work: () => Promise<unknown>): Promise<string> {
  try {
    const limiter = (await work()) as { close?: () => Promise<void> };
    await limiter.close?.();
    return "";
  } catch (error) {
    const { stack, cause } = error as Error;
    return [inspect(error, { depth: 20 }), String(error), stack, JSON.stringify(error), inspect(cause)].join("\n");
  }
}

test("a mistyped address shows no password, in no message, stack, cause or answer of the library", async () => {
  assert.ok(ADDRESSES.length >= 30);
  for (const address of ADDRESSES) {
    const said = [
      await fails(() => RateLimiter.open({ store: address, create: false })),
      await fails(() => RateLimiter.open(address as never)),
      await fails(() => RateLimiter.open({ store: address, durability: "full", create: false })),
      await fails(() =>
        RateLimiter.open({
          ...{ store: "dynamodb:limits", endpoint: address, region: "us-east-1", adminTimeoutMs: 50 },
          credentials: { accessKeyId: "a", secretAccessKey: "b" },
        }),
      ),
    ].join("\n");
    assert.notEqual(said.trim(), "", address);
    assert.ok(!said.includes(SECRET), `${address}: ${said}`);
  }
});

test("nor does the client of a service, of its address or its token", async () => {
  for (const url of [...ADDRESSES.filter((each) => !each.includes("/#")), `https://user:${SECRET}@limits.internal`]) {
    const said = await fails(async () => new LimiterClient({ url }));
    assert.notEqual(said, "", url);
    assert.ok(!said.includes(SECRET), said);
  }
  for (const token of [`${SECRET}\n`, `${SECRET} `, `é${SECRET}`]) {
    const said = await fails(async () => new LimiterClient({ url: "https://limits.internal", token }));
    assert.ok(said !== "" && !said.includes(SECRET), said);
  }
});

test("nor does the command show it, on the line, by the environment, as JSON or with --debug", async () => {
  const plain = { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b" };
  Object.assign(process.env, plain);
  for (const address of ADDRESSES) {
    for (const [args, env] of [
      [["entity", "list", "--store", address], {}],
      [["entity", "list"], { ZAEL_STORE: address }],
      [["doctor", "--json", "--timeout", "50ms"], { ZAEL_STORE: address }],
      [["init", "--store", `x${address}`, "--json"], {}],
      [["serve", "--store", `x${address}`], {}],
      [["loadtest", "--store", address], {}],
      [["entity", "list", "--stack", "limits", "--endpoint", address, "--timeout", "50ms"], {}],
      [["version", "--json"], { ZAEL_STORE: address }],
      // Addresses that could be a service are not asked: nobody is there.
      ...(/^https?:/.test(address)
        ? []
        : ([
            [["entity", "list", "--url", address], {}],
            [["doctor"], { ZAEL_URL: address }],
            [["version"], { ZAEL_URL: address }],
          ] as const)),
    ] as const) {
      const { stdout, stderr } = await here([...args, "--debug"], { env });
      const said = `${stdout}\n${stderr}`;
      assert.ok(!said.includes(SECRET), `${args.join(" ")}: ${said}`);
    }
  }
});
