import assert from "node:assert/strict";
import { test } from "node:test";
import { ValidationError } from "../../src/domain/names/errors.ts";
import { rateLimit as express } from "../../src/entry/express.ts";
import { rateLimit as fetchLimit } from "../../src/entry/fetch.ts";
import { rateLimit as hono } from "../../src/entry/hono.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { rateLimit as lambda, rateLimitMiddy } from "../../src/entry/lambda.ts";
import { keyOfAddress } from "../../src/middleware/client-address.ts";

const limiter = await RateLimiter.open({ store: "memory" });
const limits = [Limit.perMinute("rpm", 2)];

const makers: readonly [string, (options: never) => unknown][] = [
  ["express", express],
  ["hono", hono],
  ["fetch", (options) => fetchLimit(() => new Response(), options)],
  ["lambda", (options) => lambda(() => ({ statusCode: 200 }), options)],
  ["middy", rateLimitMiddy],
];

const WRONG: readonly [options: Record<string, unknown>, code: string, words: RegExp][] = [
  [{ limiter: undefined }, "limiter_invalid", /limiter is undefined; give a RateLimiter/],
  [{ limiter: {} }, "limiter_invalid", /give a RateLimiter, a LimiterClient/],
  [{ limits: [] }, "limits_empty", /empty/],
  [{ limits: "rpm" }, "limits_invalid", /must be a list/],
  [{ limits: [...limits, ...limits] }, "limit_duplicate", /twice/],
  [{ consume: { rpm: -1 } }, "amount_invalid", /rpm/],
  [{ consume: 5 }, "amounts_invalid", /5/],
  [{ key: "user" }, "option_invalid", /key is "user"; give a function/],
  [{ resource: "" }, "resource_invalid", /empty/],
  [{ resource: 7 }, "resource_invalid", /7/],
  [{ wait: 5 }, "wait_invalid", /give \{ maxMs \}/],
  [{ wait: { maxMs: -1 } }, "wait_invalid", /milliseconds/],
  [{ leavePercent: 100 }, "leave_invalid", /100/],
  [{ leavePercent: "10" }, "leave_invalid", /"10"/],
  [{ skip: true }, "option_invalid", /skip is true; give a function/],
  [{ shadow: "yes" }, "option_invalid", /shadow is "yes"/],
  [{ giveBackOn: ["abort"] }, "option_invalid", /"error" and "disconnect"/],
  [{ giveBackOn: "error" }, "option_invalid", /a list/],
  [{ headers: "draft-7" }, "option_invalid", /"draft-10"/],
  [{ headers: true }, "option_invalid", /"draft-10"/],
  [{ levels: "some" }, "option_invalid", /"own" or "all"/],
  [{ units: "tokens" }, "option_invalid", /units/],
  [{ handler: {} }, "option_invalid", /handler is \{\}; give a function/],
  [{ onUnavailable: "open" }, "option_invalid", /"block" or "allow"/],
  [{ onRefused: 1 }, "option_invalid", /onRefused is 1/],
  [{ onClosed: 1 }, "option_invalid", /onClosed is 1/],
  [{ limit: limits }, "option_unknown", /did you mean `limits`/],
];

test("wrong options are told when a middleware is made", () => {
  for (const [name, make] of makers) {
    make({ limiter, limits } as never);
    for (const [wrong, code, words] of WRONG) {
      assert.throws(
        () => make({ limiter, limits, ...wrong } as never),
        (error) => {
          assert.ok(error instanceof ValidationError, `${name} ${JSON.stringify(wrong)}: ${error}`);
          assert.equal(error.code, code, `${name} ${JSON.stringify(wrong)}: ${error}`);
          assert.match(error.message, words);
          return true;
        },
      );
    }
    assert.throws(() => make(undefined as never), /The options of rateLimit must be an object/);
  }
  assert.throws(() => fetchLimit({ limiter, limits } as never, undefined as never), /first argument of rateLimit/);
});

test("a limiter that cannot be opened fails requests, not the process", async () => {
  const handler = fetchLimit(() => new Response(), {
    ...{ limiter: Promise.reject(new Error("no store")), limits, key: () => "a" },
  });
  await new Promise((resolve) => setImmediate(resolve));
  await assert.rejects(handler(new Request("http://localhost/")), /no store/);
});

test("a client is known by its address, of IPv6 by its network", () => {
  for (const [address, key] of [
    ["10.1.2.3", "ip-10.1.2.3"],
    ["::ffff:10.1.2.3", "ip-10.1.2.3"],
    ["::FFFF:0a01:0203", "ip-10.1.2.3"],
    ["2001:DB8:1:2:3:4:5:6", "ip-2001:db8:1:2::/64"],
    ["2001:db8:1:2::9", "ip-2001:db8:1:2::/64"],
    ["2001:db8::1", "ip-2001:db8::/64"],
    ["fe80::1%eth0", "ip-fe80::/64"],
    ["[::1]", "ip-::/64"],
    ["", undefined],
    ["localhost", undefined],
    ["1::2::3", undefined],
    [undefined, undefined],
    [null, undefined],
  ] as const) {
    assert.equal(keyOfAddress(address), key, String(address));
  }
});
