import assert from "node:assert/strict";
import { test } from "node:test";
import { given } from "../names/given.ts";
import { FORMS } from "./kinds/table.ts";
import { COMMON_CHECKS } from "./limit-checks.ts";
import { FIELDS_JSON, LIMIT_JSON } from "./limit-json.ts";
import { FIELDS_STORED } from "./limit-stored.ts";
import { LIMIT_WORDS } from "./limit-text.ts";

const FIELDS = [...Object.keys(COMMON_CHECKS), ...Object.keys(FORMS)];
const NUMBERS = ["capacity", "refillAmount", "refillPeriodMs"];

test("every field that is checked is stored, in the order of the value, and no attribute stands for two", () => {
  assert.deepEqual(
    FIELDS_STORED.map(({ field }) => field),
    FIELDS,
  );
  assert.equal(new Set(FIELDS_STORED.map(({ attribute }) => attribute)).size, FIELDS.length);
});

test("every field is described for the service and for manifests, each under a key of its own", () => {
  assert.deepEqual(Object.keys(LIMIT_JSON.properties ?? {}), ["name", ...NUMBERS, ...FIELDS]);
  assert.deepEqual(Object.keys(FIELDS_JSON).sort(), [...NUMBERS, "burst", "strictWindow", ...FIELDS].sort());
  const keys = Object.values(FIELDS_JSON).map(({ manifest }) => manifest.key);
  assert.equal(new Set(keys).size, keys.length);
});

test("no word of a limit's text stands for two fields", () => {
  assert.equal(new Set(LIMIT_WORDS).size, LIMIT_WORDS.length);
});

test("given leaves out what is undefined, and nothing else", () => {
  const value: { a: number; b?: number; c: string | undefined; d: null } = { a: 0, c: undefined, d: null };
  assert.deepEqual(given(value), { a: 0, d: null });
  assert.deepEqual(Object.keys(given({ ...value, b: 1, c: "" })), ["a", "c", "d", "b"]);
});
