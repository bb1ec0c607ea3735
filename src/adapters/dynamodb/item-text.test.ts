import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import type { Item } from "../../ports/item-store.ts";
import { decodeItem, encodeMembers } from "./codec.ts";
import { ItemTexts } from "./item-text.ts";

const answer = (members: string) => `{"Attributes":{${members}}}`;
const byJson = (text: string) => decodeItem(JSON.parse(text).Attributes);

test("whatever it reads, JSON reads the same, in whatever order items follow each other", () => {
  const name = fc.oneof(
    fc.constantFrom("PK", "SK", "GSI2PK", "rf", "cfl", "b_rpm_tk", "b_rpm_tc"),
    fc.stringMatching(/^[a-z][a-z0-9_.:-]{0,9}$/),
    fc.string(),
  );
  const value = fc.oneof(fc.maxSafeInteger(), fc.integer(), fc.string(), fc.boolean());
  fc.assert(
    fc.property(fc.array(fc.dictionary(name, value, { noNullPrototype: true })), (items) => {
      const texts = new ItemTexts();
      for (const item of [...items, ...items]) {
        const text = answer(encodeMembers(item));
        const read = texts.read(text);
        if (read !== undefined) assert.deepEqual(read, byJson(text));
      }
    }),
  );
});

test("a value that was the same for long is read as it is when it changes, also to one that begins like it", () => {
  const value = fc.constantFrom<string | number>(1, 12, -1, 0, "", "1", "12", "rpm", "rpm,tpm");
  const item = fc.record({ PK: value, rf: value, cfl: value, b_rpm_tk: value, n3: value }, { requiredKeys: ["rf"] });
  fc.assert(
    fc.property(fc.array(item, { minLength: 2, maxLength: 8 }), (items) => {
      const texts = new ItemTexts();
      for (const each of items.flatMap((one) => [one, one])) {
        const text = answer(encodeMembers(each as Item));
        assert.deepEqual(texts.read(text), byJson(text));
      }
    }),
  );
});

test("an item of a bucket is read without JSON, also one that has more or less than the one before", () => {
  const texts = new ItemTexts();
  const nonce = 2 ** 53 - 1;
  for (const item of [
    { PK: "ns/ENTITY#a", SK: "#BUCKET#b#0", b_rpm_tk: -500, rf: 1_700_000_000_000, cfl: "rpm", n3: nonce },
    { PK: "ns/ENTITY#a", SK: "#BUCKET#b#0", b_rpm_tk: 0, rf: 1_700_000_000_001, cfl: "", n3: nonce, n4: 1 },
    { PK: "ns/ENTITY#a", b_rpm_tk: 1, cfl: "rpm", n4: -nonce },
  ]) {
    const { PK: _pk, SK: _sk, ...own } = item as Record<string, string | number>;
    assert.deepEqual(texts.read(answer(encodeMembers(item))), own);
  }
});

test("what is not of the plain form is left to JSON", () => {
  const texts = new ItemTexts();
  assert.deepEqual(texts.read(answer('"a":{"N":"1"},"b":{"S":"x"}')), { a: 1, b: "x" });
  for (const text of [
    "",
    "{}",
    '{"Attributes":{}}',
    answer('"a":{"N":"1"}').slice(0, -1),
    `${answer('"a":{"N":"1"}')} `,
    '{"Attributes":{"a":{"N":"1"}},"ConsumedCapacity":{"CapacityUnits":1}}',
    answer('"a":{"N":"0.5"}'),
    answer('"a":{"N":""}'),
    answer('"a":{"N":"9007199254740993"}'),
    answer('"a":{"BOOL":true}'),
    answer('"a":{"M":{"b":{"N":"1"}}}'),
    answer('"a":{"S":"\\""}'),
    answer('"a": {"N":"1"}'),
    answer('"a":{"N":"1","S":"x"}'),
    answer('"a":{"N":"1"}, "b":{"S":"x"}'),
  ]) {
    assert.equal(texts.read(text), undefined, text);
  }
});
