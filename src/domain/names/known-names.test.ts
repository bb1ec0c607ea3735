import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { ValidationError } from "./errors.ts";
import { KnownNames, nearestName } from "./known-names.ts";

interface Options {
  readonly parentId?: string;
  readonly cascade?: boolean;
  readonly maxMs?: number;
}

const names = new KnownNames<Options>({ parentId: true, cascade: true, maxMs: true });

test("what was probably meant is found in spite of case, dashes, a lost end and swapped letters", () => {
  const known = ["parentId", "cascade", "maxMs", "reset", "resetAfterMs"];
  const meant: readonly (readonly [given: string, near: string | undefined])[] = [
    ["parent", "parentId"],
    ["parent_id", "parentId"],
    ["PARENTID", "parentId"],
    ["max-ms", "maxMs"],
    ["max", "maxMs"],
    ["cacsade", "cascade"],
    ["cascades", "cascade"],
    ["resetAfter", "resetAfterMs"],
    ["resets", "reset"],
    ["autoCascade", "cascade"],
    ["colour", undefined],
    ["", undefined],
    ["x".repeat(100_000), undefined],
  ];
  for (const [given, near] of meant) assert.equal(nearestName(given, known), near, given.slice(0, 20));
});

test("short names that differ in their first letter are two names, not a slip", () => {
  assert.equal(nearestName("tpm", ["rpm"]), undefined);
  assert.equal(nearestName("b", ["a"]), undefined);
  for (const slip of ["rmp", "prm", "rp", "rpmm", "rpn"]) assert.equal(nearestName(slip, ["rpm"]), "rpm", slip);
});

test("a known name is nearest to itself, whatever else is known", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string({ minLength: 1, maxLength: 10 }), { minLength: 1 }), (known) => {
      const lower = [...new Set(known.map((name) => name.toLowerCase().replace(/[_-]/g, "")))].filter(
        (name) => name !== "",
      );
      for (const name of lower) assert.equal(nearestName(name, lower), name);
    }),
  );
});

test("options with known names pass as they are, also where a value is undefined", () => {
  const given = { parentId: "p", maxMs: undefined } as never;
  assert.equal(names.check(given, "It"), given);
  assert.deepEqual(names.check({}, "It"), {});
});

test("an unknown name is refused even without a value: it is the name that is wrong", () => {
  assert.throws(() => names.check({ parent: undefined } as never, "It"), {
    code: "option_unknown",
    message: 'It has the unknown name "parent"; did you mean `parentId`? Known: parentId, cascade, maxMs.',
  });
  assert.throws(() => names.check({ colour: 1 } as never, "It"), {
    message: 'It has the unknown name "colour"; known: parentId, cascade, maxMs.',
  });
});

test("what is no object of options is refused, not read as one without any", () => {
  for (const given of [undefined, null, 5, "gpt-4", true, ["parentId"], () => 1]) {
    assert.throws(() => names.check(given as never, "It"), ValidationError);
    assert.throws(() => names.check(given as never, "It"), { code: "options_invalid" });
  }
});

test("of options for several, each gets those it knows", () => {
  assert.deepEqual(names.pick({ parentId: "p", other: 1 } as Options), { parentId: "p" });
});
