import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import { type TestContext, test } from "node:test";
import { DynamoDBClient, type DynamoDBClientConfig } from "@aws-sdk/client-dynamodb";
import { answer, closed, type Deferred, deferred, listening, serve, text } from "../../../test/engines/http-kit.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import type { DynamoOperation } from "./client.ts";
import { openSdkClient, type SdkClient, type SdkClientOptions } from "./sdk-client.ts";
import { openTransport } from "./transport.ts";

const keys = { accessKeyId: "AKID", secretAccessKey: "secret" };
const LONG = { timeoutMs: 30_000 };
const NOW_MS = Date.UTC(2026, 0, 15, 12);

test("what is sent and what comes back is the same as through our own transport, binary values and dates included", async (t) => {
  const exchanges: [DynamoOperation, object, number, object][] = [
    [
      "UpdateItem",
      { TableName: "t", Key: { PK: { S: "ü" } }, ExpressionAttributeValues: { ":0": { N: "-1000" } } },
      200,
      { Attributes: { tk: { N: "59000" }, m: { M: { B: { S: "not binary" }, b: { B: "AAH/" } } } } },
    ],
    ["PutItem", { TableName: "t", Item: { B: { B: "AAH/" }, s: { BS: ["AA==", "AQ=="] }, l: { L: [] } } }, 200, {}],
    [
      "BatchGetItem",
      { RequestItems: { t: { Keys: [{ PK: { S: "a" } }] } } },
      200,
      { Responses: { t: [{ PK: { S: "a" }, ok: { BOOL: true }, no: { NULL: true } }] }, UnprocessedKeys: {} },
    ],
    [
      "DescribeTable",
      { TableName: "t" },
      200,
      { Table: { TableName: "t", TableStatus: "ACTIVE", CreationDateTime: 1_700_000_000.5, ItemCount: 3 } },
    ],
    [
      "UpdateItem",
      { TableName: "t", Key: { PK: { S: "a" } } },
      400,
      {
        __type: "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
        message: "The conditional request failed",
        Item: { tk: { N: "7" }, b: { B: "AAH/" } },
      },
    ],
    [
      "TransactWriteItems",
      // The SDK would make up a token where there is none.
      { TransactItems: [{ Delete: { TableName: "t", Key: { PK: { S: "a" } } } }], ClientRequestToken: "token" },
      400,
      {
        __type: "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        message: "Transaction cancelled",
        CancellationReasons: [{ Code: "ConditionalCheckFailed", Item: { tk: { N: "7" } } }, { Code: "None" }],
      },
    ],
    [
      "UpdateItem",
      { TableName: "t", Key: { PK: { S: "a" } } },
      400,
      { __type: "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", message: "slow down" },
    ],
    [
      "UpdateItem",
      { TableName: "t", Key: { PK: { S: "a" } } },
      500,
      { __type: "com.amazonaws.dynamodb.v20120810#InternalServerError", message: "oh" },
    ],
    [
      "UpdateItem",
      { TableName: "t", Key: { PK: { S: "a" } } },
      400,
      { __type: "com.amazon.coral.validate#ValidationException", message: "no" },
    ],
  ];
  const received: unknown[] = [];
  let current: (typeof exchanges)[number] = exchanges[0] as (typeof exchanges)[number];
  const { url: endpoint } = await serve(t, async (request, response) => {
    received.push([request.headers["x-amz-target"], JSON.parse(await text(request))]);
    answer(response, current[2], current[3]);
  });
  const sdk = await open(t, { endpoint }, {});
  const ours = await openTransport({ region: "us-east-1", endpoint, credentials: keys, now: Date.now });
  t.after(() => ours.close());
  for (current of exchanges) {
    const [operation, body] = current;
    received.length = 0;
    const expected = await ours.send(operation, JSON.stringify(body), LONG);
    const got = await sdk.send(operation, JSON.stringify(body), LONG);
    assert.deepEqual(received[1], received[0]);
    assert.equal(received.length, 2, "the SDK has repeated a request");
    assert.deepEqual(bare(got), bare(expected));
  }
});

test("a client whose maxAttempts is 5 repeats nothing here, and still does for its owner", async (t) => {
  let requests = 0;
  const { url: endpoint } = await serve(t, (request, response) => {
    request.resume();
    requests++;
    answer(response, 400, { __type: "x#ThrottlingException", message: "slow down" });
  });
  const given = made({ endpoint, maxAttempts: 5 });
  const client = await openSdkClient(given, {});
  const refused = await client.send("GetItem", '{"TableName":"t","Key":{}}', LONG);
  assert.partialDeepStrictEqual(refused, { kind: "failed", status: 400, code: "ThrottlingException" });
  assert.equal(requests, 1);
  assert.ok(given.middlewareStack.identify().some((line) => line.startsWith("retryMiddleware")));
  assert.equal(await given.config.maxAttempts(), 5);
});

test("no connection and no credentials are unsent; anything after that is lost", async (t) => {
  const refusing = createServer();
  const port = await listening(t, refusing);
  await closed(refusing);
  const get = ['{"TableName":"t","Key":{}}', LONG] as const;
  const nobody = await open(t, { endpoint: `http://127.0.0.1:${port}` }, {});
  assert.equal((await nobody.send("GetItem", ...get)).kind, "unsent");
  const unknown = await open(t, { endpoint: "http://no-such-host.invalid" }, {});
  assert.equal((await unknown.send("GetItem", ...get)).kind, "unsent");

  const cases: ((response: ServerResponse) => void)[] = [
    (response) => response.destroy(),
    (response) => response.socket?.resetAndDestroy(),
    (response) => response.end("garbage"),
    (response) => response.writeHead(502).end("<html>Bad Gateway</html>"),
  ];
  for (const respond of cases) {
    const { url: endpoint } = await serve(t, (request, response) =>
      request.resume().on("end", () => respond(response)),
    );
    const lost = await (await open(t, { endpoint }, {})).send("GetItem", ...get);
    assert.equal(lost.kind, "lost", String(respond));
  }
  const { url: endpoint } = await serve(t, () => assert.fail("nothing was to be sent"));
  const keyless = async () => {
    throw Object.assign(new Error("none"), { name: "CredentialsProviderError" });
  };
  assert.equal((await (await open(t, { endpoint, credentials: keyless }, {})).send("GetItem", ...get)).kind, "unsent");
});

test("an answer after its time is told later; one that never comes is cut off after the grace", async (t) => {
  const arrived: Deferred<ServerResponse>[] = [deferred(), deferred()];
  let requests = 0;
  const { url: endpoint } = await serve(t, (request, response) => {
    request.resume().on("end", () => arrived[requests++]?.resolve(response));
  });
  const client = await open(t, { endpoint }, { graceMs: 2000 });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  for (const isAnswered of [true, false]) {
    const sending = client.send("GetItem", '{"TableName":"t","Key":{}}', { timeoutMs: 500 });
    const response = (await arrived[isAnswered ? 0 : 1]?.promise) as ServerResponse;
    t.mock.timers.tick(500);
    const lost = await sending;
    assert.ok(lost.kind === "lost" && lost.later !== undefined);
    if (isAnswered) answer(response, 200, {});
    else t.mock.timers.tick(2000);
    assert.equal((await lost.later).kind, isAnswered ? "answered" : "lost");
  }
});

test("every answer's Date is told with the stamp taken before, refusals too; after close nothing is sent", async (t) => {
  let requests = 0;
  const { url: endpoint } = await serve(t, (request, response) => {
    request.resume();
    response.setHeader("date", new Date(NOW_MS).toUTCString());
    if (requests++ === 0) answer(response, 200, {});
    else answer(response, 400, { __type: "x#ThrottlingException" });
  });
  let stamps = 0;
  const seen: unknown[] = [];
  const client = await open(t, { endpoint }, { stamp: () => ++stamps, onDate: (date) => void seen.push(date) });
  for (let i = 0; i < 2; i++) await client.send("GetItem", '{"TableName":"t","Key":{}}', LONG);
  assert.deepEqual(seen, [
    { dateMs: NOW_MS, sent: 1 },
    { dateMs: NOW_MS, sent: 2 },
  ]);
  await client.close();
  assert.equal((await client.send("GetItem", "{}", LONG)).kind, "unsent");
  assert.equal(requests, 2);
});

test("a client whose retries cannot be switched off is refused", async () => {
  const given: SdkClient = {
    config: {},
    middlewareStack: { clone: () => ({ identify: () => ["serializerMiddleware: serialize"] }) },
  };
  await assert.rejects(
    openSdkClient(given, {}),
    (error) => error instanceof LimiterError && error.code === "client_unsupported",
  );
});

function made(config: DynamoDBClientConfig): DynamoDBClient {
  return new DynamoDBClient({ region: "us-east-1", credentials: keys, ...config });
}

async function open(t: TestContext, config: DynamoDBClientConfig, options: SdkClientOptions) {
  const given = made(config);
  const client = await openSdkClient(given, options);
  t.after(async () => {
    await client.close();
    given.destroy();
  });
  return client;
}

/** Without what cannot be the same: the SDK shortens `__type` to the exception's name. */
function bare(answer: object): unknown {
  const { body, ...rest } = answer as { body: Record<string, unknown> };
  const { __type, ...fields } = body;
  return { ...rest, body: fields, hasType: __type !== undefined };
}
