import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { manifestSchema } from "../../src/entry/manifest.ts";
import { TOP_KEYS } from "../../src/manifest/parse.ts";
import { ENTITY_KEYS } from "../../src/manifest/read-entity.ts";
import { LEVEL_KEYS, SYSTEM_KEYS } from "../../src/manifest/read-level.ts";
import { LIMIT_KEYS, WINDOW_KEYS } from "../../src/manifest/read-limit.ts";

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly definitions?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: unknown;
}

test("the schema that the package exports is the one of the code", () => {
  const file = readFileSync(new URL("../../manifest.schema.json", import.meta.url), "utf8");
  assert.deepEqual(JSON.parse(file), manifestSchema(), "run node scripts/manifest-schema.ts");
});

test("the schema knows the keys that the parser knows, is closed at every level", () => {
  const schema = manifestSchema() as Schema;
  const keysOf = (each: Schema | undefined) => Object.keys(each?.properties ?? {}).toSorted();
  const { level, entity, terms, window } = schema.definitions ?? {};
  for (const [found, keys] of [
    [schema, TOP_KEYS],
    [schema.properties?.system, SYSTEM_KEYS],
    [level, LEVEL_KEYS],
    [entity, ENTITY_KEYS],
    [terms, LIMIT_KEYS],
    [window, WINDOW_KEYS],
  ] as const) {
    assert.deepEqual(keysOf(found), keys.toSorted());
    assert.equal(found?.additionalProperties, false);
  }
});
