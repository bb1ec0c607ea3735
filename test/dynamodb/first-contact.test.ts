import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import { tmpdir } from "node:os";
import { type TestContext, test } from "node:test";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import type { DynamoAnswer, DynamoClient } from "../../src/adapters/dynamodb/client.ts";
import { failingFast, RETRY } from "../../src/adapters/dynamodb/retry-policy.ts";
import { createTable, deleteTable, prepareTable } from "../../src/entry/dynamodb.ts";
import { Limit, LimiterError, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";

// What whoever opens a limiter is told when the way to DynamoDB is wrong. But for the last, tests need no DynamoDB: nothing is there.

const STACK = "limits";
const REGION = "eu-west-1";
const KEYS = { accessKeyId: "test", secretAccessKey: "test" };

test("nothing listening is said with address and cause, by open and by whatever makes tables", async (t) => {
  const endpoint = await deadEndpoint(t);
  const way = { stack: STACK, region: REGION, endpoint, credentials: KEYS };
  for (const ask of [() => open({ endpoint, credentials: KEYS }), ...adminCalls(way)]) {
    await assert.rejects(ask(), said("unavailable", endpoint, "ECONNREFUSED", "nothing is listening there"));
  }
  const client = new DynamoDBClient({ region: REGION, endpoint, credentials: KEYS });
  await assert.rejects(open({ client }), said("unavailable", endpoint, "ECONNREFUSED"));
});

test("a host that does not exist is said with its name", async () => {
  const endpoint = "http://no-such-host.invalid:8000";
  // Where names cannot be asked for at all, the code is another one.
  await assert.rejects(
    open({ endpoint, credentials: KEYS }),
    said("unavailable", endpoint, /ENOTFOUND|EAI_AGAIN|within 3000 ms/),
  );
});

test("an endpoint without a scheme is refused before anything is sent", async () => {
  for (const endpoint of ["localhost:8000", "127.0.0.1:8000", "dynamodb.example.com"]) {
    await assert.rejects(open({ endpoint, credentials: KEYS }), said("endpoint_invalid", `"http://${endpoint}"`));
  }
});

test("no credentials is said at once, whoever was to find them", async (t) => {
  const endpoint = await deadEndpoint(t);
  environment(t, {});
  const about = ["credentials_unavailable", endpoint, "Could not load credentials"] as const;
  await assert.rejects(open({ endpoint }), said(...about));
  await assert.rejects(open({ client: new DynamoDBClient({ region: REGION, endpoint }) }), said(...about));
  for (const ask of adminCalls({ stack: STACK, region: REGION, endpoint })) await assert.rejects(ask(), said(...about));
  const broken = () => Promise.reject(new Error("the vault is sealed"));
  await assert.rejects(
    open({ endpoint, credentials: broken }),
    said("credentials_unavailable", endpoint, "the vault is sealed."),
  );
});

test("a profile that does not exist is named", async (t) => {
  const endpoint = await deadEndpoint(t);
  environment(t, { AWS_PROFILE: "wrok" });
  await assert.rejects(open({ endpoint }), said("credentials_unavailable", endpoint, "[wrok]"));
});

test("https to something that speaks plain HTTP says so", async (t) => {
  const server = createServer((_request, response) => response.end("{}"));
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await assert.rejects(open({ endpoint, credentials: KEYS }), said("unavailable", endpoint, "use `http://`"));
});

test("calls that never arrive are given up after a few; one that had all its time, or no credentials, at once", async () => {
  const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
  const timedOut = Object.assign(new Error("timed out"), { code: "ETIMEDOUT" });
  assert.equal(await callsUntilThrown([...Array(20)].map(() => unsent(refused))), RETRY.unsentMax);
  assert.equal(await callsUntilThrown([unsent(refused), unsent(timedOut)]), 2);
  assert.equal(await callsUntilThrown([unsent(new LimiterError("credentials_unavailable", "none"))]), 1);
  // Whoever got through once is past the first contact.
  const answered = { kind: "answered", body: {} } as const;
  const mixed = [...Array(20)].map((_, i) => (i % 3 === 0 ? answered : unsent(refused)));
  assert.equal(await callsUntilThrown(mixed), undefined);
});

test("the pauses between the calls add up to less than a second", () => {
  let pausesMs = 0;
  for (let failures = 0; failures < RETRY.unsentMax - 1; failures++) {
    pausesMs += RETRY.pauseMs * 2 ** Math.min(failures, RETRY.pauseDoublingsMax);
  }
  assert.ok(pausesMs < 1_000, `${pausesMs} ms`);
  assert.ok(RETRY.attemptMaxMs <= 3_000);
});

/** Which call threw, counted from one; undefined: none of them. */
async function callsUntilThrown(answers: readonly DynamoAnswer[]): Promise<number | undefined> {
  let sent = 0;
  const scripted: DynamoClient = { send: async () => answers[sent++] as DynamoAnswer, close: async () => {} };
  const client = failingFast(scripted);
  for (const _ of answers) {
    try {
      await client.send("GetItem", "{}", { timeoutMs: 1_000 });
    } catch {
      return sent;
    }
  }
  return undefined;
}

function unsent(cause: unknown): DynamoAnswer {
  return { kind: "unsent", cause };
}

function open(options: OpenOptions): Promise<RateLimiter> {
  return RateLimiter.open({ store: `dynamodb:${STACK}`, region: REGION, ...options });
}

type Way = Parameters<typeof deleteTable>[0];

function adminCalls(way: Way): readonly (() => Promise<unknown>)[] {
  return [() => createTable(way), () => prepareTable(way), () => deleteTable(way)];
}

/** An address at which nothing listens any more. */
await describeDynamo("opening a limiter on DynamoDB", (dynamodb) => {
  test("Y9: opening a limiter asks nobody but DynamoDB: it uploads no code and changes no stack", async (t) => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url} ${request.headers.host}`);
      response.writeHead(500).end();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.close());
    const elsewhere = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    // Every service of AWS is at this address but for DynamoDB.
    environment(t, { AWS_ENDPOINT_URL: elsewhere });
    const way = {
      stack: `test-opening-${process.pid}`,
      region: REGION,
      endpoint: dynamodb.endpoint,
      credentials: KEYS,
    };
    await createTable(way);
    t.after(() => deleteTable(way));
    const { stack, ...place } = way;
    const limiter = await RateLimiter.open({ store: `dynamodb:${stack}`, ...place });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);
    assert.equal((await limiter.tryAcquire({ entityId: "key", resource: "api", consume: { rpm: 1 } })).ok, true);
    await limiter.close();
    assert.deepEqual(asked, []);
  });
});

async function deadEndpoint(t: TestContext): Promise<string> {
  const server = createNetServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  t.diagnostic(`nothing listens on ${port}`);
  return `http://127.0.0.1:${port}`;
}

/** Sets what the SDK looks at, and nothing else, until the test is over. Instance metadata is not asked for. */
function environment(t: TestContext, values: Readonly<Record<string, string>>): void {
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  process.env = { PATH: before.PATH, HOME: tmpdir(), AWS_EC2_METADATA_DISABLED: "true" };
  Object.assign(process.env, { AWS_CONFIG_FILE: "none", AWS_SHARED_CREDENTIALS_FILE: "none" }, values);
}

/** An error of ours with this code, whose message has all of the parts. */
function said(code: string, ...parts: readonly (string | RegExp)[]): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof LimiterError, String(error));
    assert.equal(error.code, code);
    for (const part of parts) {
      const holds = typeof part === "string" ? error.message.includes(part) : part.test(error.message);
      assert.ok(holds, `${part} is missing in: ${error.message}`);
    }
    return true;
  };
}
