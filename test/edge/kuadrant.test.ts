import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { type DescriptorCall, descriptorsOf, edgeOf, KUADRANT } from "./grpc-kit.ts";
import { decoded, encoded } from "./protos.ts";

const FILE = `domains:
  llm:
    namespace: default
    rules:
      - { match: { tenant: "*" }, entity: "{tenant}", resource: gpt-5, consume: { requests: 1, tpm: hits } }
      - { match: { ip: "*" }, entity: "ip-{ip}", resource: http }
      - { match: { done: "*" }, entity: "{done}", resource: tokens, consume: { tpm: hits }, mode: charge }
`;

type Edge = Awaited<ReturnType<typeof edgeOf>>;

async function reserve({ client }: Edge, amount: number, ttlMs: number | undefined, of: readonly DescriptorCall[]) {
  const ttl =
    ttlMs === undefined ? undefined : { seconds: BigInt(Math.floor(ttlMs / 1000)), nanos: (ttlMs % 1000) * 1e6 };
  const fields = { domain: "llm", descriptors: descriptorsOf(of), amount: BigInt(amount), ttl };
  const { code, bytes } = await client.call(`${KUADRANT}Reserve`, encoded("ReserveRequest", fields));
  const answer = decoded("ReserveResponse", bytes ?? Buffer.alloc(0));
  return { status: code, code: answer.code as number, id: answer.reservationId as string };
}

async function commit({ client }: Edge, reservationId: string, amount: number, of: readonly DescriptorCall[]) {
  const fields = { domain: "llm", descriptors: descriptorsOf(of), reservationId, actualAmount: BigInt(amount) };
  const { code, bytes } = await client.call(`${KUADRANT}Commit`, encoded("CommitRequest", fields));
  return code === 0 ? (decoded("CommitResponse", bytes ?? Buffer.alloc(0)).reservationReleased as boolean) : code;
}

const ACME = [{ of: { tenant: "acme" } }];

test("a reservation is settled to what it came to, once, however often it is committed", async (t) => {
  const edge = await edgeOf(t, { text: FILE });
  const { status, code, id } = await reserve(edge, 40, undefined, ACME);
  assert.deepEqual([status, code], [0, 1]);
  assert.match(id, /^l_/);
  assert.deepEqual(await edge.left("acme", "gpt-5"), { rpm: 9, tpm: 60 });
  for (let i = 0; i < 2; i++) assert.equal(await commit(edge, id, 130, ACME), true);
  assert.deepEqual(await edge.left("acme", "gpt-5"), { rpm: 9, tpm: -30 });
  assert.equal(await commit(edge, id, 131, ACME), 9);
});

test("of several descriptors all are reserved or none, and each is settled", async (t) => {
  const edge = await edgeOf(t, { text: FILE });
  const both = [...ACME, { of: { ip: "a" } }];
  assert.deepEqual(await reserve(edge, 6, undefined, both), { status: 0, code: 2, id: "" });
  assert.deepEqual(await edge.left("acme", "gpt-5"), { rpm: 10, tpm: 100 });
  const { id } = await reserve(edge, 4, undefined, both);
  assert.deepEqual(
    [await edge.left("acme", "gpt-5"), await edge.left("ip-a", "http")],
    [{ rpm: 9, tpm: 96 }, { rps: 1 }],
  );
  assert.equal(await commit(edge, id, 3, both), true);
  assert.deepEqual(
    [await edge.left("acme", "gpt-5"), await edge.left("ip-a", "http")],
    [{ rpm: 9, tpm: 97 }, { rps: 2 }],
  );
});

test("a reservation that is not committed in its time comes back, and a late commit is charged once", async (t) => {
  const edge = await edgeOf(t, { text: FILE, holdMaxMs: 90_000 });
  // Less than a second is a second, more than the most is the most.
  for (const [ttlMs, heldMs] of [
    [1, 1_000],
    [3_600_000, 90_000],
  ] as const) {
    const { id } = await reserve(edge, 40, ttlMs, ACME);
    edge.clock.set(edge.clock.now() + heldMs - 1);
    assert.equal(await commit(edge, id, 40, ACME), true);
  }
  edge.clock.set(edge.clock.now() + 3_600_000);
  const { id } = await reserve(edge, 40, 2_000, ACME);
  edge.clock.set(edge.clock.now() + 2_000);
  for (let i = 0; i < 3; i++) assert.equal(await commit(edge, id, 50, ACME), false);
  assert.equal((await edge.left("acme", "gpt-5")).tpm, 50);
});

test("a commit of an id that is unknown is charged once, and without an id each time", async (t) => {
  const edge = await edgeOf(t, { text: FILE });
  for (let i = 0; i < 3; i++) assert.equal(await commit(edge, "l_unknown", 10, ACME), false);
  assert.equal((await edge.left("acme", "gpt-5")).tpm, 90);
  for (let i = 0; i < 3; i++) assert.equal(await commit(edge, "no id of ours \u0000", 10, ACME), false);
  assert.equal((await edge.left("acme", "gpt-5")).tpm, 80);
  for (let i = 0; i < 2; i++) assert.equal(await commit(edge, "", 10, ACME), false);
  assert.equal((await edge.left("acme", "gpt-5")).tpm, 60);
});

test("CheckRateLimit takes nothing, and Report charges whatever the rule says", async (t) => {
  const edge = await edgeOf(t, { text: FILE });
  const call = async (method: string, hits: number, descriptors: readonly DescriptorCall[]) =>
    edge.client.limit({ domain: "llm", descriptors, hits }, {}, `${KUADRANT}${method}`);
  const both = [...ACME, { of: { ip: "a" } }];
  assert.deepEqual((await call("CheckRateLimit", 5, both)).codes, [1, 1]);
  const over = await call("CheckRateLimit", 6, both);
  assert.deepEqual([over.overall, over.codes], [2, [1, 2]]);
  assert.deepEqual(await edge.left("acme", "gpt-5"), { rpm: 10, tpm: 100 });
  // Together they are more than their parent has, and neither is by itself.
  await edge.limiter.createEntity({ id: "holding-7" });
  for (const id of ["one", "two"]) await edge.limiter.createEntity({ id, parentId: "holding-7", cascade: true });
  await edge.limiter.setLimits("holding-7", [Limit.perMinute("tpm", 50)]);
  const siblings = [{ of: { tenant: "one" } }, { of: { tenant: "two" } }];
  assert.deepEqual((await call("CheckRateLimit", 25, siblings)).codes, [1, 1]);
  assert.deepEqual((await call("CheckRateLimit", 26, siblings)).codes, [2, 2]);
  for (let i = 0; i < 2; i++) assert.equal((await call("Report", 80, [...ACME, { of: { done: "x" } }])).overall, 1);
  assert.deepEqual(await edge.left("acme", "gpt-5"), { rpm: 8, tpm: -60 });
  assert.deepEqual(await edge.left("x", "tokens"), { tpd: 840 });
});
