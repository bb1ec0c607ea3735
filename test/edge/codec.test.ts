import assert from "node:assert/strict";
import { test } from "node:test";
import {
  HEALTH,
  readCommitRequest,
  readHealthRequest,
  readRateLimitRequest,
  readReserveRequest,
  UNITS,
  writeCommitResponse,
  writeHealthResponse,
  writeRateLimitResponse,
  writeReserveResponse,
} from "../../src/grpc/messages.ts";
import { MessageInvalid } from "../../src/grpc/wire.ts";
import { runs } from "../depth.ts";
import { fc } from "../properties.ts";
import { decoded, encoded } from "./protos.ts";

// Our codec against protobuf-es, in both directions, by random messages.

function record<Fields>(model: { [Name in keyof Fields]: fc.Arbitrary<Fields[Name]> }): fc.Arbitrary<Fields> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<Fields>;
}

// As UTF-8 has it: halves of characters become one that stands for them.
const text = fc.string({ unit: "binary", maxLength: 300 }).map((some) => Buffer.from(some).toString());
const uint64 = fc.bigInt({ min: 0n, max: BigInt(Number.MAX_SAFE_INTEGER) });
const uint32 = fc.integer({ min: 0, max: 4_294_967_295 });

const descriptor = record({
  entries: fc.array(record({ key: text, value: text }), { maxLength: 4 }),
  limit: fc.option(record({ requestsPerUnit: uint32 }), { nil: undefined }),
  hitsAddend: fc.option(uint64, { nil: undefined }),
  isNegativeHits: fc.boolean(),
});
const descriptors = fc.array(descriptor, { maxLength: 5 });

type Drawn = typeof descriptor extends fc.Arbitrary<infer Value> ? Value : never;

const asRead = ({ entries, hitsAddend, isNegativeHits }: Drawn) => ({
  entries,
  hits: hitsAddend === undefined ? undefined : Number(hitsAddend),
  isNegative: isNegativeHits,
});
const limitsIn = (drawn: readonly Drawn[]) => drawn.filter(({ limit }) => limit !== undefined).length;

test("what protobuf-es writes, our reader reads as it was", () => {
  const rateLimit = fc.property(text, descriptors, uint32, (domain, drawn, hitsAddend) => {
    const read = readRateLimitRequest(encoded("RateLimitRequest", { domain, descriptors: drawn, hitsAddend }));
    assert.deepEqual(read, { domain, descriptors: drawn.map(asRead), hits: hitsAddend, limitsGiven: limitsIn(drawn) });
  });
  fc.assert(rateLimit, { numRuns: runs(300) });
  const nanos = fc.integer({ min: 0, max: 999_999_999 });
  const ttl = fc.option(record({ seconds: fc.bigInt({ min: 0n, max: 315_576_000_000n }), nanos }), { nil: undefined });
  const reserve = fc.property(text, descriptors, uint64, ttl, (domain, drawn, amount, ttl) => {
    const read = readReserveRequest(encoded("ReserveRequest", { domain, descriptors: drawn, amount, ttl }));
    const ttlMs = ttl && Number(ttl.seconds) * 1000 + Math.ceil(ttl.nanos / 1_000_000);
    const about = { domain, descriptors: drawn.map(asRead), limitsGiven: limitsIn(drawn) };
    assert.deepEqual(read, { ...about, amount: Number(amount), ttlMs });
  });
  fc.assert(reserve, { numRuns: runs(100) });
  const commit = fc.property(text, descriptors, text, uint64, (domain, drawn, reservationId, actualAmount) => {
    const fields = { domain, descriptors: drawn, reservationId, actualAmount };
    const read = readCommitRequest(encoded("CommitRequest", fields));
    const about = { domain, descriptors: drawn.map(asRead), limitsGiven: limitsIn(drawn) };
    assert.deepEqual(read, { ...about, reservationId, actualAmount: Number(actualAmount) });
  });
  fc.assert(commit, { numRuns: runs(100) });
  const health = fc.property(text, (service) => {
    assert.equal(readHealthRequest(encoded("HealthCheckRequest", { service })), service);
  });
  fc.assert(health, { numRuns: runs(100) });
});

const status = record({
  code: fc.constantFrom(1 as const, 2 as const),
  limit: fc.option(
    record({
      name: text,
      requestsPerUnit: uint32,
      unit: fc.constantFrom(...(Object.keys(UNITS) as (keyof typeof UNITS)[])),
    }),
    { nil: undefined },
  ),
  remaining: uint32,
  resetMs: fc.option(fc.nat(), { nil: undefined }),
});
const name = fc.stringMatching(/^[a-z-]{1,12}$/);
const fields = fc.dictionary(name, text, { maxKeys: 4, noNullPrototype: true });
const value = fc.oneof(text, fc.double({ noNaN: true }), fc.constant(null));

test("what our writer writes, protobuf-es reads as it was", () => {
  const answer = record({
    overallCode: fc.constantFrom(1 as const, 2 as const),
    statuses: fc.array(status, { maxLength: 5 }),
    responseHeaders: fields,
    requestHeaders: fields,
    rawBody: fc.option(text, { nil: undefined }),
    metadata: fc.dictionary(name, value, { maxKeys: 4, noNullPrototype: true }),
  });
  const property = fc.property(answer, fc.nat(9), (response, before) => {
    const read = decoded("RateLimitResponse", writeRateLimitResponse(response, before).subarray(before));
    assert.equal(read.overallCode, response.overallCode);
    const statuses = read.statuses.map((one: ReturnType<typeof decoded>) => ({
      code: one.code,
      limit: one.currentLimit && {
        name: one.currentLimit.name,
        requestsPerUnit: one.currentLimit.requestsPerUnit,
        unit: Object.keys(UNITS)[one.currentLimit.unit],
      },
      remaining: one.limitRemaining,
      resetMs:
        one.durationUntilReset && Number(one.durationUntilReset.seconds) * 1000 + one.durationUntilReset.nanos / 1e6,
    }));
    assert.deepEqual(statuses, response.statuses);
    const pairs = (some: readonly { key: string; value: string }[]) => some.map(({ key, value }) => [key, value]);
    assert.deepEqual(pairs(read.responseHeadersToAdd), Object.entries(response.responseHeaders));
    assert.deepEqual(pairs(read.requestHeadersToAdd), Object.entries(response.requestHeaders));
    assert.equal(Buffer.from(read.rawBody).toString(), response.rawBody ?? "");
    assert.deepEqual(read.dynamicMetadata ?? {}, response.metadata);
  });
  fc.assert(property, { numRuns: runs(300) });
  for (const code of [1, 2] as const) {
    const read = decoded("ReserveResponse", writeReserveResponse(code, "l_1", 5).subarray(5));
    assert.deepEqual([read.code, read.reservationId], [code, "l_1"]);
  }
  for (const isReleased of [true, false]) {
    const read = decoded("CommitResponse", writeCommitResponse(isReleased, 5).subarray(5));
    assert.equal(read.reservationReleased, isReleased);
  }
  for (const [health, number] of Object.entries(HEALTH)) {
    const bytes = writeHealthResponse(health as keyof typeof HEALTH, 5).subarray(5);
    assert.equal(decoded("HealthCheckResponse", bytes).status, number);
  }
});

test("bytes that are no message are found, whatever they are, and never hang or read beyond their end", () => {
  const property = fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
    for (const read of [readRateLimitRequest, readReserveRequest, readCommitRequest, readHealthRequest]) {
      try {
        read(Buffer.from(bytes));
      } catch (error) {
        assert.ok(error instanceof MessageInvalid, String(error));
      }
    }
  });
  fc.assert(property, { numRuns: runs(2_000) });
  assert.throws(() => readRateLimitRequest(Buffer.from([0x0a, 0x05, 0x61])), MessageInvalid);
  assert.throws(() => readRateLimitRequest(Buffer.from([0x1c])), MessageInvalid);
});

test("a value that is no UTF-8 comes as its bytes, so that strangers are told apart", () => {
  const entry = (value: number) => Buffer.from([0x12, 0x08, 0x0a, 0x06, 0x0a, 0x01, 0x61, 0x12, 0x01, value]);
  const valueIn = (bytes: Buffer) => readRateLimitRequest(bytes).descriptors[0]?.entries[0]?.value;
  assert.deepEqual(valueIn(entry(0xff)), Buffer.from([0xff]));
  assert.deepEqual(valueIn(entry(0xfe)), Buffer.from([0xfe]));
  assert.equal(valueIn(entry(0x62)), "b");
});
