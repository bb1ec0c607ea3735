import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { eventsOf, NS, serviceOf } from "./service-kit.ts";

// What the service tells of thresholds: in its stream, in its metrics, and to the receiver of a webhook, over HTTP.

const SECRET = `whsec_${Buffer.from("a secret of thirty-two bytes, ok").toString("base64")}`;
const [SECOND_MS, MINUTE_MS, DAY_MS] = [1_000, 60_000, 86_400_000];
const day = Limit.quota("day", 100, { reset: "daily", notifyAt: [80, 95] });
const taking = (tokens: number, entityId = "key-1") => ({
  body: { entityId, resource: "gpt-4", consume: { day: tokens }, holdMs: 0 },
});

interface Received {
  readonly method: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

/** A receiver that answers as it is told, and what it received. */
async function receiverOf(t: TestContext, answer: (n: number, response: ServerResponse) => void) {
  const received: Received[] = [];
  const waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { method, headers } = request;
      received.push({ method, headers, text: Buffer.concat(parts).toString() });
      answer(received.length, response);
      for (const wake of waiting.splice(0)) wake();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const until = async (count: number) => {
    while (received.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, received, until };
}

function fileOf(t: TestContext, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), "zael-webhook-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "secret");
  writeFileSync(file, text);
  return file;
}

async function hooked(t: TestContext, answer: (n: number, response: ServerResponse) => void, secret = `${SECRET}\n`) {
  const receiver = await receiverOf(t, answer);
  const served = await serviceOf(t, { webhook: receiver.url, webhookSecretFile: fileOf(t, secret) });
  await served.limiter.setResourceDefaults("gpt-4", [day]);
  const metric = async (name: string) => {
    const { body } = await served.call("GET", "/metrics");
    return String(body)
      .split("\n")
      .filter((line) => line.startsWith(name));
  };
  /** Until the service has counted so many results of its webhook: an answer has to come back before it is one. */
  const counted = async (...lines: string[]) => {
    for (;;) {
      const now = await metric("zael_webhook_total");
      if (lines.every((line) => now.includes(line))) return;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { ...served, receiver, metric, counted };
}

const ok = (_: number, response: ServerResponse) => response.writeHead(204).end();
const ended = (result: string, count: number) => `zael_webhook_total{result="${result}",namespace="default"} ${count}`;

test("a threshold is posted once, signed, with the shape of the event", { timeout: 60_000 }, async (t) => {
  const { call, clock, receiver, counted, metric } = await hooked(t, ok);
  await call("POST", `${NS}/acquire`, taking(96));
  await receiver.until(2);
  await counted(ended("delivered", 2));
  const bodies = receiver.received.map(({ text }) => JSON.parse(text));
  const resetsAtMs = (Math.floor(clock.now() / DAY_MS) + 1) * DAY_MS;
  for (const [i, percent] of [80, 95].entries()) {
    const { id, ...event } = bodies[i];
    assert.deepEqual(event, {
      ...{ type: "threshold", namespace: "default", entityId: "key-1", resource: "gpt-4", limit: "day" },
      ...{ percent, used: 96, capacity: 100, atMs: clock.now(), resetsAtMs },
    });
    const { method, headers, text } = receiver.received[i] as Received;
    assert.equal(method, "POST");
    assert.equal(headers["content-type"], "application/json");
    assert.equal(headers["webhook-id"], id);
    const timestamp = String(Math.floor(clock.now() / 1000));
    assert.equal(headers["webhook-timestamp"], timestamp);
    const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
    const expected = createHmac("sha256", key).update(`${id}.${timestamp}.${text}`).digest("base64");
    assert.equal(headers["webhook-signature"], `v1,${expected}`);
  }
  assert.notEqual(bodies[0].id, bodies[1].id);
  assert.deepEqual(await metric("zael_thresholds_total"), [
    'zael_thresholds_total{limit="day",percent="80",resource="gpt-4",namespace="default"} 1',
    'zael_thresholds_total{limit="day",percent="95",resource="gpt-4",namespace="default"} 1',
  ]);
  await call("POST", `${NS}/acquire`, taking(1));
  await clock.advance(DAY_MS);
  assert.equal(receiver.received.length, 2);
});

test("any other text is the key as it stands", { timeout: 60_000 }, async (t) => {
  const { call, receiver } = await hooked(t, ok, "plain text");
  await call("POST", `${NS}/acquire`, taking(80));
  await receiver.until(1);
  const [{ headers, text }] = receiver.received as [Received];
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${text}`;
  const expected = createHmac("sha256", "plain text").update(signed).digest("base64");
  assert.equal(headers["webhook-signature"], `v1,${expected}`);
});

test("what is not received is sent again after 5 s, 1, 5, 30 and 120 minutes, then dropped", {
  timeout: 60_000,
}, async (t) => {
  const refuse = (n: number, response: ServerResponse) =>
    n % 2 === 0 ? response.writeHead(302, { location: "/elsewhere" }).end() : response.writeHead(500).end();
  const { call, clock, receiver, counted, log } = await hooked(t, refuse);
  await call("POST", `${NS}/acquire`, taking(80));
  for (const [i, waitMs] of [5 * SECOND_MS, MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 120 * MINUTE_MS].entries()) {
    await receiver.until(i + 1);
    await counted(ended("failed", i + 1));
    await clock.advance(waitMs - 1);
    assert.equal(receiver.received.length, i + 1, `not before ${waitMs} ms`);
    await clock.advance(1);
  }
  await receiver.until(6);
  await counted(ended("failed", 6), ended("dropped", 1));
  await clock.advance(DAY_MS);
  assert.equal(receiver.received.length, 6);
  const ids = new Set(receiver.received.map(({ headers }) => headers["webhook-id"]));
  assert.equal(ids.size, 1, "the same id each time");
  const times = receiver.received.map(({ headers }) => Number(headers["webhook-timestamp"]));
  assert.equal((times.at(-1) ?? 0) - (times[0] ?? 0), 5 + 60 + 300 + 1_800 + 7_200);
  assert.ok(
    log.some((line) =>
      /webhook: 80 % of day of key-1 on gpt-4 was dropped after 6 attempts: it answered 302/.test(line),
    ),
    log.join("\n"),
  );
});

test("a receiver that does not answer in 5 s is asked again", { timeout: 60_000 }, async (t) => {
  const { call, clock, receiver, counted } = await hooked(t, (n, response) => {
    if (n > 1) response.writeHead(200).end("thanks");
  });
  await call("POST", `${NS}/acquire`, taking(80));
  await receiver.until(1);
  await clock.advance(5 * SECOND_MS);
  await counted(ended("failed", 1));
  await clock.advance(5 * SECOND_MS);
  await receiver.until(2);
  await counted(ended("delivered", 1));
});

test("a receiver that is gone gets nothing more", { timeout: 60_000 }, async (t) => {
  const { call, clock, receiver, counted, log } = await hooked(t, (_, response) => response.writeHead(410).end());
  await call("POST", `${NS}/acquire`, taking(80));
  await receiver.until(1);
  await counted(ended("dropped", 1));
  await call("POST", `${NS}/acquire`, taking(15));
  await counted(ended("dropped", 2));
  await clock.advance(DAY_MS);
  assert.equal(receiver.received.length, 1);
  assert.equal(log.filter((line) => /answered 410: nothing more is sent/.test(line)).length, 1);
});

test("a thousand events of a namespace wait, what is dropped beyond is said, and others have their own room", {
  timeout: 60_000,
}, async (t) => {
  const { limiter, counted, log } = await hooked(t, (_, response) => response.writeHead(503).end());
  for (let i = 0; i < 1_003; i++) {
    await limiter.acquire({ entityId: `key-${i}`, resource: "gpt-4", consume: { day: 80 } });
  }
  await counted(ended("dropped", 3));
  assert.deepEqual(
    log.filter((line) => /webhook/.test(line)),
    ["webhook: 1000 events of default wait for the receiver; 80 % of day of key-1000 on gpt-4 was dropped."],
  );
  await limiter.registerNamespace("quiet");
  const quiet = limiter.namespace("quiet");
  await quiet.setResourceDefaults("gpt-4", [day]);
  await quiet.acquire({ entityId: "key-1", resource: "gpt-4", consume: { day: 80 } });
  await counted(ended("dropped", 3), 'zael_webhook_total{result="failed",namespace="quiet"} 1');
});

test("a stop says how many were not delivered", { timeout: 60_000 }, async (t) => {
  const { call, counted, close, log } = await hooked(t, (_, response) => response.writeHead(500).end());
  await call("POST", `${NS}/acquire`, taking(96));
  await counted(ended("failed", 2));
  await close();
  assert.ok(log.includes("webhook: the service stops, and 2 events were not delivered."), log.join("\n"));
});

test("the stream tells thresholds, alone where only they are asked for", { timeout: 60_000 }, async (t) => {
  const { call, clock, url } = await hooked(t, ok);
  const { frame, next, leave } = await eventsOf(url, `${NS}/events?types=threshold`);
  await frame();
  assert.equal((await next())?.event, "hello");
  await call("POST", `${NS}/acquire`, taking(80));
  const told = await next();
  assert.equal(told?.event, "threshold");
  assert.deepEqual(told?.data, {
    ...{
      namespace: "default",
      entityId: "key-1",
      resource: "gpt-4",
      limit: "day",
      percent: 80,
      used: 80,
      capacity: 100,
    },
    ...{ atMs: clock.now(), resetsAtMs: (Math.floor(clock.now() / DAY_MS) + 1) * DAY_MS },
  });
  leave();
});

test("limits of the service have percentages, and an explanation says which were told", {
  timeout: 60_000,
}, async (t) => {
  const { call } = await serviceOf(t);
  const limits = [
    { name: "day", capacity: 100, refillAmount: 0, refillPeriodMs: 1_000, reset: "daily", notifyAt: [50, 80] },
  ];
  assert.equal((await call("PUT", `${NS}/limits?resource=gpt-4`, { body: { limits } })).status, 200);
  const stored = (await call("GET", `${NS}/limits?resource=gpt-4`)).body;
  assert.deepEqual(stored.limits[0].notifyAt, [50, 80]);
  await call("POST", `${NS}/acquire`, taking(60));
  const explained = await call("POST", `${NS}/explain`, { body: { entityId: "key-1", resource: "gpt-4" } });
  assert.deepEqual(explained.body.levels[0].limits[0].notified, [50]);
  const { items } = (await call("GET", `${NS}/buckets?entityId=key-1`)).body;
  assert.deepEqual([items[0].limits[0].notifyAt, items[0].limits[0].notified], [[50, 80], [50]]);
  const wrong = await call("PUT", `${NS}/limits?resource=gpt-4`, {
    body: { limits: ["day:100,reset=daily,notify=95/80"] },
  });
  assert.deepEqual([wrong.status, wrong.body.code], [400, "limit_invalid"]);
});

test("a webhook needs an address and a secret that can be read", async (t) => {
  const wrong = async (options: object, message: RegExp) =>
    assert.rejects(createService({ store: "memory", ...options } as never), { code: "option_invalid", message });
  const secret = fileOf(t, SECRET);
  await wrong({ webhook: "http://127.0.0.1:1/hook" }, /webhookSecretFile is missing/);
  await wrong({ webhookSecretFile: secret }, /webhook is missing/);
  await wrong({ webhook: "ftp://127.0.0.1/hook", webhookSecretFile: secret }, /give an http or https URL/);
  await wrong({ webhook: "http://u:p@127.0.0.1/hook", webhookSecretFile: secret }, /without user and password/);
  await wrong({ webhook: "http://127.0.0.1:1/hook", webhookSecretFile: `${secret}.none` }, /cannot be read/);
  await wrong({ webhook: "http://127.0.0.1:1/hook", webhookSecretFile: fileOf(t, " \n") }, /has no secret in it/);
});
