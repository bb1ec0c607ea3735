import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { ValidationError } from "./errors.ts";
import { checkEntityId, checkLimitName, checkNamespace, checkPrincipal, checkResource, shown } from "./names.ts";

type Check = (value: unknown) => string;

function refused(check: Check, value: unknown, code: string, why: RegExp): void {
  assert.throws(
    () => check(value),
    (error) => {
      assert.ok(error instanceof ValidationError, `${String(error)} for ${shown(value)}`);
      assert.equal(error.code, code);
      assert.match(error.message, why);
      return true;
    },
  );
}

const rules: readonly {
  check: Check;
  code: string;
  good: readonly string[];
  bad: readonly string[];
  lengthMax: number;
}[] = [
  {
    check: checkEntityId,
    code: "entity_id_invalid",
    good: ["a", "7", "key-1", "user@example.com", "tenant:user", "a_b.c"],
    bad: ["-a", "_a", ".a", "$SYSTEM", "a#b", "a b", "a/b", "é"],
    lengthMax: 256,
  },
  {
    check: checkResource,
    code: "resource_invalid",
    good: ["gpt-4", "openai/gpt-4", "llama3:8b", "a.b_c", "wcu"],
    bad: ["4gpt", "_default_", "a#b", "a b", "a@b", "/a", ":a"],
    lengthMax: 64,
  },
  {
    check: checkLimitName,
    code: "limit_name_invalid",
    good: ["rpm", "tpm.in", "a-b_c", "R2"],
    bad: ["2r", "a:b", "a/b", "a#b", "a b", "a@b", "_a", "__proto__"],
    lengthMax: 64,
  },
  {
    check: checkNamespace,
    code: "namespace_invalid",
    good: ["default", "tenant-b", "7up", "a:b@c"],
    bad: ["_", "-a", "a/b", "a#b", " a"],
    lengthMax: 64,
  },
];

for (const { check, code, good, bad, lengthMax } of rules) {
  const what = code.replace("_invalid", "").replaceAll("_", " ");

  test(`${what}: what the original accepts is accepted as it is`, () => {
    for (const name of good) assert.equal(check(name), name);
  });

  test(`${what}: anything else is refused with its value and a remedy`, () => {
    for (const name of bad) refused(check, name, code, /begin with a letter/);
    refused(check, "", code, /must not be empty/);
    for (const value of [undefined, null, 7, {}, ["rpm"], 1n, Symbol("x")])
      refused(check, value, code, /must be a string/);
  });

  test(`${what}: a trailing newline is not overlooked, as it is by the original`, () => {
    for (const name of good)
      for (const end of ["\n", "\r", "\u2028", "\0"]) refused(check, name + end, code, /begin with/);
  });

  test(`${what}: ${lengthMax} characters are enough, one more is too long`, () => {
    assert.equal(check("a".repeat(lengthMax)).length, lengthMax);
    refused(check, "a".repeat(lengthMax + 1), code, new RegExp(`longer than ${lengthMax} characters`));
  });
}

test("names that a usage record needs for itself are no limits and no resources", () => {
  const names = ["PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK"];
  for (const name of [...names, "entity_id", "resource", "window", "window_start", "total_events", "ttl"]) {
    refused(checkLimitName, name, "limit_name_invalid", /reserved/);
    refused(checkResource, name, "resource_invalid", /reserved/);
  }
  refused(checkLimitName, "wcu", "limit_name_invalid", /reserved/);
});

test("a principal may be an ARN as it is, but not an ARN with a newline", () => {
  const arn = "arn:aws:sts::123456789012:assumed-role/deploy/i-0abc";
  assert.equal(checkPrincipal(arn), arn);
  assert.equal(checkPrincipal("alice@example.com"), "alice@example.com");
  refused(checkPrincipal, `${arn}\n`, "principal_invalid", /begin with/);
  refused(checkPrincipal, `arn:${"x".repeat(2048)}`, "principal_invalid", /longer than/);
});

test("no string passes as two different rules would read it: what passes has only the characters of the rule", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 70 }), (value) => {
      for (const [check, allowed] of [
        [checkEntityId, /[^a-zA-Z0-9_.:@-]/],
        [checkResource, /[^a-zA-Z0-9_./:-]/],
        [checkLimitName, /[^a-zA-Z0-9_.-]/],
      ] as const) {
        try {
          assert.doesNotMatch(check(value), allowed);
        } catch (error) {
          if (!(error instanceof ValidationError)) throw error;
        }
      }
    }),
    { numRuns: 500 },
  );
});

test("any value can be shown in an error message, in at most 60 characters", () => {
  const circle: Record<string, unknown> = {};
  circle.itself = circle;
  const throwing = {
    toJSON() {
      throw new Error("no");
    },
  };
  const odd = [
    circle,
    throwing,
    { n: 1n },
    [1n],
    7n,
    Symbol("s"),
    () => 1,
    undefined,
    null,
    Number.NaN,
    "x".repeat(999),
  ];
  for (const value of odd) assert.ok(shown(value).length <= 60, shown(value));
  assert.equal(shown("a\nb"), '"a\\nb"');
  assert.equal(shown(7n), "7n");
});
