import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { bucketKey } from "../bucket/bucket-key.ts";
import type { Access } from "../config/config.ts";
import { Limit } from "../limits/limit.ts";
import { limitSet } from "../limits/limit-set.ts";
import { ValidationError } from "../names/errors.ts";
import type { Tokens } from "./amounts.ts";
import { measureMissing } from "./charge-errors.ts";
import {
  ALONE,
  askedBy,
  type ChargedBucket,
  changedBy,
  chargedTo,
  chargeOf,
  chargesOf,
  SILENT,
  type UnnamedLimit,
} from "./charges.ts";

const quota = (name: string, counts: string) => Limit.quota(name, 1_000, { counts, resetAfterMs: 60_000 });

function level(entityId: string, limits: readonly Limit[], access: Access = "enforce"): ChargedBucket {
  return { bucket: bucketKey(entityId, "gpt-4"), charged: limitSet(limits), access };
}

const key = level("key-1", [Limit.perMinute("rpm", 10, { counts: "requests" }), Limit.perMinute("tpm", 100)]);
const project = level("proj-1", [Limit.perMinute("tpm", 100), quota("month", "tpm"), quota("usd", "usd")]);

const RULES = {
  allow: SILENT,
  refuse: {
    unnamed: (unnamed: UnnamedLimit) => {
      throw measureMissing(unnamed);
    },
  },
};

/** What is charged, level by level, in whole tokens. */
function charged(consume: Tokens | undefined, chain: readonly ChargedBucket[], unnamed: keyof typeof RULES = "allow") {
  return chargesOf(askedBy(consume), chain, RULES[unnamed], ALONE).map((amounts) =>
    Object.fromEntries(amounts.map(({ limit, milli }) => [limit, milli / 1000])),
  );
}

function refused(charge: () => unknown, code: string, why: RegExp, publicDetail?: RegExp): void {
  assert.throws(charge, (error) => {
    assert.ok(error instanceof ValidationError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, why);
    if (publicDetail !== undefined) assert.match(String(error.toProblem().detail), publicDetail);
    return true;
  });
}

test("every limit at every level that counts a measure takes the amount, whatever it is called", () => {
  assert.deepEqual(charged({ tpm: 500 }, [key, project]), [
    { tpm: 500, rpm: 1 },
    { tpm: 500, month: 500 },
  ]);
  assert.deepEqual(charged({ tpm: 500, usd: 3 }, [key, project]), [
    { tpm: 500, rpm: 1 },
    { tpm: 500, month: 500, usd: 3 },
  ]);
});

test("each acquire is one request, unless it says how many; none where nothing counts requests", () => {
  assert.deepEqual(charged({ tpm: 5 }, [key]), [{ tpm: 5, rpm: 1 }]);
  assert.deepEqual(charged({ tpm: 5, requests: 3 }, [key]), [{ tpm: 5, rpm: 3 }]);
  assert.deepEqual(charged({ tpm: 5, requests: 0 }, [key]), [{ tpm: 5, rpm: 0 }]);
  assert.deepEqual(charged({ tpm: 5, requests: 3 }, [project]), [{ tpm: 5, month: 5 }]);
  assert.deepEqual(charged(undefined, [key, project]), [{ rpm: 1 }, {}]);
  assert.deepEqual(charged({}, [key]), [{ rpm: 1 }]);
  assert.deepEqual(charged({ n: 2 }, [level("a", [Limit.perMinute("requests", 9), Limit.perMinute("n", 9)])]), [
    { n: 2, requests: 1 },
  ]);
});

test("a change of a lease is no further request", () => {
  assert.deepEqual(chargedTo(key.charged, changedBy({ tpm: 5 }, "consume")), [{ limit: "tpm", milli: 5_000 }]);
  assert.deepEqual(chargedTo(key.charged, changedBy({ requests: 2 }, "adjust")), [{ limit: "rpm", milli: 2_000 }]);
});

test("a request that would take nothing is refused with the measures there are", () => {
  for (const consume of [undefined, {}, { requests: 1 }, { requests: 0 }]) {
    refused(() => charged(consume, [project]), "consume_empty", /measures: tpm, usd\./);
  }
  refused(() => charged(undefined, [level("a", []), project]), "consume_empty", /measures: proj-1: tpm, usd\./);
  refused(
    () => charged({ tpm: 1 }, [level("a", []), level("b", [])]),
    "limits_missing",
    /No limits apply to a on gpt-4/,
  );
  refused(() => charged(undefined, [level("a", [])]), "limits_missing", /No limits apply to a/);
});

test("a measure that nothing counts is refused with those there are, level by level; the public reads no id", () => {
  refused(
    () => charged({ tmp: 1 }, [key, project]),
    "limit_unknown",
    /"tmp".*measures: key-1: requests, tpm; proj-1: tpm, usd\. Did you mean `tpm`\?/,
    /measures: requests, tpm, tpm\^1, usd\^1\./,
  );
  refused(() => charged(JSON.parse('{"__proto__": 1}'), [key]), "limit_unknown", /"__proto__"/);
  refused(() => charged({ constructor: 1 }, [key]), "limit_unknown", /"constructor"/);
  assert.throws(
    () => charged({ tmp: 1 }, [key, project]),
    (error: ValidationError) => !String(error.toProblem().detail).includes("proj-1"),
  );
});

test("who names a limit that counts something else is told what to name", () => {
  const told = /month counts tpm; name tpm/;
  refused(() => charged({ month: 5 }, [key, project]), "limit_unknown", told, told);
  refused(() => charged({ rpm: 1, tpm: 5 }, [key]), "limit_unknown", /rpm counts requests; name requests/);
  // Where something counts it as a measure, it is one.
  const other = level("org", [Limit.perMinute("all", 9, { counts: "month" })]);
  assert.deepEqual(charged({ month: 5 }, [project, other]), [{}, { all: 5 }]);
});

test("a hard limit of a total may be named by any of the resources of a request", () => {
  const total: ChargedBucket = {
    bucket: bucketKey("key", "*"),
    charged: limitSet([Limit.perDay("usd", 9)]),
    access: "enforce",
  };
  const own: ChargedBucket = {
    bucket: bucketKey("key", "api"),
    charged: limitSet([Limit.perDay("tpm", 9)]),
    access: "enforce",
  };
  const first = (alsoNamed: readonly string[]) =>
    chargesOf(askedBy({ tpm: 1 }), [own, total], RULES.refuse, { isFurther: false, alsoNamed });
  assert.deepEqual(first(["usd"]), [[{ limit: "tpm", milli: 1000 }], []]);
  refused(() => first([]), "measure_missing", /how much usd it uses/);
  const further = chargesOf(askedBy({ tpm: 2 }), [own, total], RULES.refuse, { isFurther: true, alsoNamed: [] });
  assert.deepEqual(further, [[{ limit: "tpm", milli: 2000 }], []]);
});

test("a hard limit that a request leaves out is refused where that was asked for, at any level but a bypassed one", () => {
  assert.deepEqual(charged({ tpm: 1, usd: 0 }, [key, project], "refuse"), [
    { tpm: 1, rpm: 1 },
    { tpm: 1, month: 1, usd: 0 },
  ]);
  refused(
    () => charged({ tpm: 1 }, [key, project], "refuse"),
    "measure_missing",
    /does not say how much usd it uses: the limit usd of proj-1 counts it\. Name usd/,
    /^The request of key-1 for gpt-4 does not say how much usd it uses\. Name usd/,
  );
  refused(() => charged(undefined, [key], "refuse"), "measure_missing", /how much tpm it uses/);
  refused(() => chargeOf({}, key, RULES.refuse), "measure_missing", /how much tpm it uses/);
  assert.deepEqual(charged({ tpm: 1 }, [key, { ...project, access: "bypass" }], "refuse").length, 2);
  const soft = level("a", [Limit.perMinute("n", 9), Limit.perMinute("seen", 9, { soft: true })]);
  assert.deepEqual(charged({ n: 1 }, [soft], "refuse"), [{ n: 1 }]);
  // What is misspelled is not also missing.
  refused(() => charged({ tmp: 1 }, [key], "refuse"), "limit_unknown", /Did you mean `tpm`/);
});

test("what nothing counts is left out where that was asked for, and whoever hears of a limit hears of it too", () => {
  const heard: unknown[] = [];
  const rules = {
    unnamed: ({ limit, level, uncounted }: UnnamedLimit) => heard.push([limit.name, level.bucket.entityId, uncounted]),
    uncounted: (measures: readonly string[]) => heard.push(measures),
  };
  const take = (consume: Tokens, chain: readonly ChargedBucket[]) => {
    heard.length = 0;
    return chargesOf(askedBy(consume), chain, rules, ALONE);
  };
  assert.deepEqual(take({ tpm: 2, eur: 5 }, [key, project])[0]?.[0], { limit: "tpm", milli: 2000 });
  assert.deepEqual(heard, [["usd", "proj-1", ["eur"]], ["eur"]]);
  take({ tpm: 2, usd: 0 }, [key, project]);
  assert.deepEqual(heard, []);
  refused(() => take({ eur: 5 }, [level("a", [])]), "limits_missing", /No limits apply/);
  refused(() => take({ eur: 5 }, [level("a", [Limit.perMinute("n", 9)])]), "consume_empty", /measures: n/);
});

test("of a chain of one the same is charged as of any chain, whatever its limits count", () => {
  const name = fc.constantFrom("a", "b", "c", "requests");
  const limit = fc.record({ name, counts: fc.option(name, { nil: undefined }), soft: fc.boolean() });
  const limits = fc.uniqueArray(limit, { selector: (one) => one.name, maxLength: 4 });
  const consume = fc.option(fc.dictionary(name, fc.integer({ min: 0, max: 9 })), { nil: undefined });
  const unnamed = fc.constantFrom("allow" as const, "refuse" as const);
  const property = fc.property(limits, consume, unnamed, (made, tokens, mode) => {
    const all = made.map(({ name, counts, soft }) =>
      Limit.perMinute(name, 9, { soft, ...(counts === undefined ? {} : { counts }) }),
    );
    const one = level("a", all);
    const outcome = (charge: () => unknown): unknown => {
      try {
        return charge();
      } catch (error) {
        return (error as ValidationError).message;
      }
    };
    const single = outcome(() => chargeOf(tokens, one, RULES[mode]));
    assert.deepEqual(
      single,
      outcome(() => chargesOf(askedBy(tokens), [one], RULES[mode], ALONE)[0]),
    );
    if (!Array.isArray(single)) return;
    // Said once more, slowly: each limit takes what was used of what it counts.
    const used: Record<string, number> = { requests: 1, ...tokens };
    const expected = all.flatMap(({ name, counts = name }) =>
      used[counts] === undefined ? [] : [{ limit: name, milli: used[counts] * 1000 }],
    );
    const byName = (a: { limit: string }, b: { limit: string }) => (a.limit < b.limit ? -1 : 1);
    assert.deepEqual([...single].sort(byName), expected.sort(byName));
  });
  fc.assert(property, { numRuns: 500 });
});
