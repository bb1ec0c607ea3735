import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { routes } from "../../src/server/routes.ts";
import { atDepth, firstSeed } from "../depth.ts";
import { fc } from "../properties.ts";
import { NS, serviceOf } from "./service-kit.ts";

// Whatever is sent, by the schemas or at random: never a 500, and what was refused has changed nothing.

const SEED = atDepth(16, firstSeed());

const names = fc.oneof(
  fc.constantFrom(
    "key-1",
    "gpt-4",
    "rpm",
    "tpm",
    "default",
    "proj",
    "l_x",
    "*",
    "",
    "$SYSTEM",
    "constructor",
    "__proto__",
    "a/b",
    "é",
    "\u0000",
  ),
  fc.string({ maxLength: 20 }),
);
const numbers = fc.oneof(
  fc.constantFrom(0, 1, -1, 1.5, 1e300, 9_000_000_000_000, 1e21, -0),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);
const anything: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    numbers,
    names,
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(names, tie("value"), { maxKeys: 4 }),
  ),
})).value as fc.Arbitrary<unknown>;

/** A value as a schema describes it, most of the time. */
function byKey(name: string): fc.Arbitrary<unknown> {
  const tokens = fc.dictionary(fc.constantFrom("rpm", "tpm", "nope", "x y"), numbers, { maxKeys: 3 });
  const limit = fc.record(
    {
      name: names,
      capacity: numbers,
      refillAmount: numbers,
      refillPeriodMs: numbers,
      reset: anything,
      schedule: anything,
      resetAfterMs: numbers,
    },
    { requiredKeys: ["name"] },
  );
  const known: Record<string, fc.Arbitrary<unknown>> = {
    ...{
      consume: tokens,
      amounts: tokens,
      delta: tokens,
      consumed: tokens,
      also: fc.dictionary(names, tokens, { maxKeys: 2 }),
    },
    ...{
      limits: fc.oneof(fc.array(limit, { maxLength: 3 }), fc.array(names, { maxLength: 2 })),
      wait: fc.record({ maxMs: fc.constantFrom(0, 1, -1, 50_000) }),
    },
    ...{
      holdMs: fc.constantFrom(0, 1_000, 60_000, 5, 1e15),
      onExpiry: fc.constantFrom("charge", "refund", "x"),
      atomic: fc.boolean(),
    },
    ...{
      cascade: fc.constantFrom(true, false, "inherit"),
      access: fc.constantFrom("disabled", "bypass", "x"),
      metadata: fc.dictionary(names, names, { maxKeys: 2 }),
    },
  };
  return fc.oneof({ weight: 5, arbitrary: known[name] ?? names }, { weight: 1, arbitrary: anything });
}

const requests = fc.constantFrom(...routes.filter(({ path }) => !path.endsWith("/events"))).chain((route) => {
  const bodyKeys = route.body === undefined ? ["x"] : Object.keys(route.body.shape);
  const queryKeys = route.query === undefined ? ["x"] : Object.keys(route.query.shape);
  return fc.record({
    method: fc.constant(route.method.toUpperCase()),
    path: fc
      .tuple(names, names)
      .map(([id, namespace]) =>
        route.path
          .replace("{id}", encodeURIComponent(id || "a"))
          .replace("{namespace}", namespace.length > 10 ? encodeURIComponent(namespace) : "default"),
      ),
    query: fc.record(Object.fromEntries(queryKeys.map((key) => [key, names])), { requiredKeys: [] }),
    body: fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record(Object.fromEntries(bodyKeys.map((key) => [key, byKey(key)])), {
          requiredKeys: bodyKeys.slice(0, 2),
        }),
      },
      { weight: 1, arbitrary: anything },
    ),
    key: fc.option(names, { freq: 5, nil: undefined }),
  });
});

test("by the schemas: no request makes a 500, every answer is in the document, and a refused one changes nothing", {
  timeout: 300_000,
}, async (t) => {
  const { call, limiter, log, clock } = await serviceOf(t);
  /** All that a request could have changed. */
  const state = async () =>
    JSON.stringify([
      await limiter.listEntities(),
      await limiter.listBuckets(),
      await limiter.getSystemDefaults(),
      [...(await limiter.listNamespaces())].length,
      [...(await limiter.listOrphanNamespaces())].length,
      (await limiter.auditEvents({ limit: 1 })).events,
      (await call("GET", `${NS}/leases`)).body,
    ]);
  await fc.assert(
    fc.asyncProperty(requests, async ({ method, path, query, body, key }) => {
      const text = new URLSearchParams(query as Record<string, string>).toString();
      const headers =
        key === undefined
          ? {}
          : {
              "idempotency-key": Buffer.from(key)
                .toString("latin1")
                .replaceAll(/[\0\r\n]/g, ""),
            };
      const before = await state();
      const sent = call(method, `${path}${text === "" ? "" : `?${text}`}`, {
        headers,
        ...(method === "GET" ? {} : { body: JSON.stringify(body) }),
      });
      // Whoever waits for tokens waits on a clock that stands still.
      void clock.advance(0);
      const answer = await Promise.race([sent, ticking(clock, sent)]);
      assert.ok(answer.status !== 500, `${method} ${path} ${JSON.stringify(body)}: ${log.at(-1)}`);
      if (answer.status >= 400) assert.equal(await state(), before, `${method} ${path} ${answer.status}`);
    }),
    { numRuns: atDepth(50, 400), seed: SEED },
  );
  assert.deepEqual(log, []);
});

/** Lets simulated time go on until the answer is there. */
async function ticking<Answer>(clock: { advance(ms: number): Promise<void> }, sent: Promise<Answer>): Promise<Answer> {
  let isThere = false;
  void sent.finally(() => {
    isThere = true;
  });
  while (!isThere) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    if (!isThere) await clock.advance(0);
  }
  return sent;
}

const pieces = fc.oneof(
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
  fc
    .constantFrom(
      ...[
        "GET ",
        "POST ",
        "PATCH / ",
        "/v1/me",
        `${NS}/acquire`,
        "/../../etc/passwd",
        " HTTP/1.1\r\n",
        "\r\n",
        "\r\n\r\n",
        "Host: localhost:PORT\r\n",
      ],
      ...[
        "Content-Type: application/json\r\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        '{"a":1}',
        "Expect: 100-continue\r\n",
      ],
      ...[
        "Authorization: Bearer \r\n",
        'Idempotency-Key: "\r\n',
        "\0",
        "%00",
        "?a=%",
        "#",
        "Upgrade: websocket\r\nConnection: upgrade\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      ],
    )
    .map((text) => Buffer.from(text)),
);

test("random bytes: never a 500, never the end of the service, never a change", { timeout: 300_000 }, async (t) => {
  const { port, call, limiter, log } = await serviceOf(t);
  await fc.assert(
    fc.asyncProperty(fc.array(pieces, { minLength: 1, maxLength: 12 }), async (parts) => {
      const socket = connect(port, "127.0.0.1");
      socket.on("error", () => {});
      await once(socket, "connect");
      socket.end(Buffer.from(Buffer.concat(parts).toString("latin1").replaceAll("PORT", String(port)), "latin1"));
      let said = "";
      for await (const chunk of socket) said += (chunk as Buffer).toString("latin1");
      assert.doesNotMatch(said, /^HTTP\/1\.1 5(?!03)/m);
    }),
    { numRuns: atDepth(40, 300), seed: SEED },
  );
  assert.equal((await call("GET", "/readyz")).status, 200);
  assert.deepEqual([[...(await limiter.listEntities())], [...(await limiter.listBuckets())], log], [[], [], []]);
});
