import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { decodeItem, decodeJson, decodeOperation, encodeJson, encodeMembers, encodeOperation } from "./codec.ts";

const members = (text: string) => JSON.parse(`{${text}}`);
const value = fc.oneof(fc.maxSafeInteger(), fc.string(), fc.boolean());

test("whatever whole number, text or truth an item holds, it is read as it was written", () => {
  const item = fc.dictionary(
    fc.stringMatching(/^[a-z][a-z0-9_.-]{0,9}$/).map((name) => `b_${name}`),
    value,
  );
  fc.assert(
    fc.property(item, (given) => {
      const read = decodeItem(members(encodeMembers(given)));
      assert.deepEqual(
        read,
        Object.fromEntries(Object.entries(given).map(([name, each]) => [name, each === 0 ? 0 : each])),
      );
    }),
  );
});

test("numbers are plain decimal strings, at both ends of what is exact", () => {
  assert.deepEqual(
    members(encodeMembers({ a: 2 ** 53 - 1, b: -(2 ** 53 - 1), c: -0, d: 100_000_000_000_000_000 / 100 })),
    {
      a: { N: "9007199254740991" },
      b: { N: "-9007199254740991" },
      c: { N: "0" },
      d: { N: "1000000000000000" },
    },
  );
});

test("a fraction, or a number that is not exact, is not written", () => {
  for (const wrong of [0.5, 2 ** 53, -(2 ** 53), Number.NaN, Number.POSITIVE_INFINITY, 1e21]) {
    assert.throws(() => encodeMembers({ b_rpm_tk: wrong }), /"b_rpm_tk" is .*; the table holds whole numbers/);
  }
});

test("a count past 2^53 is read exactly, and written as it was read", () => {
  const item = decodeItem({ b_rpm_tc: { N: "9007199254740993" }, b_rpm_by: { N: "-18014398509481985000" } });
  assert.deepEqual(item, { b_rpm_tc: 9007199254740993n, b_rpm_by: -18014398509481985000n });
  assert.equal(encodeMembers(item), '"b_rpm_tc":{"N":"9007199254740993"},"b_rpm_by":{"N":"-18014398509481985000"}');
});

test("what another program wrote is read as it stands: its reader says what is wrong with it", () => {
  const item = decodeItem({
    b_rpm_tk: { N: "1.5" },
    rf: { NULL: true },
    b_rpm_cp: { L: [] },
    b_rpm_ra: { N: "1E+30" },
  });
  assert.deepEqual(item, { b_rpm_tk: 1.5, rf: '{"NULL":true}', b_rpm_cp: '{"L":[]}', b_rpm_ra: 1e30 });
});

test("an item is shown without its place in the table, and with what the original keeps on it", () => {
  const item = decodeItem({
    PK: { S: "n/BUCKET#a#api#0" },
    SK: { S: "#STATE" },
    entity_id: { S: "a" },
    resource: { S: "api" },
    GSI2PK: { S: "n/RESOURCE#api" },
    GSI4SK: { S: "BUCKET#a#api#0" },
    rf: { N: "5" },
    cascade: { BOOL: false },
    parent_id: { S: "p" },
    pinc: { S: "0123456789abcdef" },
  });
  assert.deepEqual(item, { rf: 5, cascade: false, parent_id: "p", pinc: "0123456789abcdef" });
});

test("attributes of types that we never write do not keep an item from being read", () => {
  const odd = { a: { NULL: true }, b: { M: {} }, c: { L: [] }, d: { SS: ["x"] }, rf: { N: "1" } };
  assert.deepEqual(decodeItem(odd), { rf: 1 });
});

test("amounts of an operation are whole tokens by limit, as the original has them", () => {
  const amounts = JSON.stringify([
    { limit: "rpm", milli: 5_000 },
    { limit: "tpm", milli: 0 },
  ]);
  const text = encodeOperation({ writer: 7, amounts, ttl: 9 });
  assert.deepEqual(members(text), {
    writer: { N: "7" },
    ttl: { N: "9" },
    amounts: { M: { rpm: { N: "5" }, tpm: { N: "0" } } },
  });
  assert.deepEqual(decodeOperation(members(text)), { writer: 7, ttl: 9, amounts });
});

test("a part of a token and the order of limits survive, beside whole tokens for other readers", () => {
  const amounts = JSON.stringify([
    { limit: "tpm", milli: 1_500 },
    { limit: "rpm", milli: 1_000 },
  ]);
  const written = members(encodeOperation({ amounts }));
  assert.deepEqual(written.amounts, { M: { tpm: { N: "1" }, rpm: { N: "1" } } });
  assert.deepEqual(decodeOperation(written), { amounts });
});

test("a record that the original wrote is read, its amounts by the name of the limit", () => {
  const record = decodeOperation({
    PK: { S: "n/BUCKET#a#api#0" },
    SK: { S: "#OP#order-1" },
    operation: { S: "top_up" },
    writer: { S: "0123456789abcdef01234567" },
    shards: { N: "1" },
    amounts: { M: { tpm: { N: "100" }, rpm: { N: "5" } } },
    ttl: { N: "1794729582" },
  });
  assert.deepEqual(record, {
    operation: "top_up",
    writer: "0123456789abcdef01234567",
    shards: 1,
    amounts: '[{"limit":"rpm","milli":5000},{"limit":"tpm","milli":100000}]',
    ttl: 1794729582,
  });
});

test("any JSON comes back as it was", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (given) => {
      const plain = JSON.parse(JSON.stringify(given));
      assert.deepEqual(decodeJson(encodeJson(plain)!), plain);
    }),
  );
  assert.deepEqual(encodeJson({ a: undefined, b: [undefined], c: () => {} }), { M: { b: { L: [{ NULL: true }] } } });
});
