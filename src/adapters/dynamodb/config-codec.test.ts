import assert from "node:assert/strict";
import { test } from "node:test";
import { anyLimit, ODD_NUMBERS } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import type { ConfigScope, StoredConfig } from "../../domain/config/config.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { VersionError } from "../../domain/names/errors.ts";
import { canonicalOfSet } from "../../protocol/item/limit-words.ts";
import type { Attributes } from "./codec.ts";
import { decodeConfig, decodePolicy, encodeConfig, hasLimits } from "./config-codec.ts";

const scope: ConfigScope = { level: "entity", entityId: "a", resource: "api" };
const place = { namespaceId: "ns", scope };
const N = (value: number) => ({ N: String(value) });

/** Limits of one bucket share their zone, and no two a name. */
const anyLimits = fc
  .array(anyLimit("fine", ODD_NUMBERS), { maxLength: 6 })
  .map((limits) => limits.map((limit, i): Limit => inUtc({ ...limit, name: `${"zyxabc"[i]}.l-${i}_cp` })));

const anyConfig: fc.Arbitrary<StoredConfig> = fc
  .record({
    limits: anyLimits,
    access: fc.constantFrom(undefined, "disabled" as const, "bypass" as const, "enforce" as const),
    cascade: fc.constantFrom(undefined, true, false),
    onUnavailable: fc.constantFrom(undefined, "allow" as const, "block" as const),
  })
  .map(({ limits, ...rest }) => {
    const said = Object.entries(rest).filter(([, value]) => value !== undefined);
    return { limits, ...Object.fromEntries(said) };
  });

test("whatever is configured comes back, in its order", () => {
  fc.assert(
    fc.property(anyConfig, (config) => {
      const item = encodeConfig(config, undefined, place, undefined);
      const { limits = [], ...policy } = decodeConfig(item) ?? {};
      const { limits: given, ...said } = config;
      assert.deepEqual(policy, said);
      assert.equal(canonicalOfSet(limitSet(limits)), canonicalOfSet(limitSet(given)));
      assert.equal(hasLimits(item), given.length > 0);
      assert.deepEqual(decodePolicy(item) ?? { limits: [] }, { ...said, limits: [] });
    }),
  );
});

test("a configuration that replaces another leaves nothing of it, and keeps what others wrote", () => {
  fc.assert(
    fc.property(anyConfig, anyConfig, (first, second) => {
      const theirs: Attributes = { audit_retention_days: N(30), note: { M: { a: { NULL: true } } } };
      const before = encodeConfig(first, theirs, place, undefined);
      const after = encodeConfig(second, before, place, undefined);
      const { config_version, ...words } = after ?? {};
      const { config_version: _, ...fresh } = encodeConfig(second, theirs, place, undefined) ?? {};
      assert.deepEqual(words, fresh);
      assert.deepEqual(config_version, N(2));
      assert.deepEqual(decodeConfig(encodeConfig(undefined, after, place, undefined)), undefined);
    }),
  );
});

test("nothing to say and nothing of others to keep is no item", () => {
  const before = encodeConfig({ limits: [], access: "disabled" }, undefined, place, undefined);
  assert.equal(encodeConfig(undefined, before, place, undefined), undefined);
  assert.equal(decodeConfig({ config_version: N(3) }), undefined);
});

test("limits without our order go by name, and those that it does not know come last", () => {
  const limit = (name: string) => ({ [`l_${name}_cp`]: N(1), [`l_${name}_ra`]: N(1), [`l_${name}_rp`]: N(1) });
  const names = (item: Attributes) => decodeConfig(item)?.limits.map(({ name }) => name);
  const item = { ...limit("c"), ...limit("a"), ...limit("b") };
  assert.deepEqual(names(item), ["a", "b", "c"]);
  assert.deepEqual(names({ ...item, limit_order: { S: "c,gone,b" } }), ["c", "b", "a"]);
});

test("what makes no sense is refused with the place where it stands", () => {
  const plain = { l_rpm_cp: N(1), l_rpm_ra: N(1), l_rpm_rp: N(1) };
  const bad: readonly Attributes[] = [
    { ...plain, l_rpm_sched: { S: "2h1s5" } },
    { ...plain, l_rpm_rsched: { S: "1" } },
    { l_rpm_cp: N(1), l_rpm_ra: N(1) },
    { ...plain, l_rpm_cp: { N: "1.5" } },
    { ...plain, w_rpm_cp: N(1), w_rpm_ra: N(0), w_rpm_rp: N(1), w_rpm_rsa: N(1) },
    { w_rpm_cp: N(1), w_rpm_ra: N(0), w_rpm_rp: N(1) },
  ];
  for (const item of bad) {
    assert.throws(() => decodeConfig({ PK: { S: "ns/SYSTEM#" }, SK: { S: "#CONFIG" }, ...item }), VersionError);
  }
});

function inUtc(limit: Limit): Limit {
  const { schedule, reset } = limit;
  return {
    ...limit,
    ...(schedule === undefined ? {} : { schedule: schedule.map((entry) => ({ ...entry, tz: "UTC" })) }),
    ...(reset === undefined ? {} : { reset: { ...reset, tz: "UTC" } }),
  };
}
