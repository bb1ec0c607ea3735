import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "../../../test/depth.ts";
import { fc } from "../../../test/properties.ts";
import { checkEntityId, checkResource } from "./names.ts";
import { entityIdOf, resourceOf, textOfEntityId, textOfResource } from "./text-names.ts";

interface Kind {
  readonly what: string;
  readonly nameOf: (text: string) => string;
  readonly textOf: (name: string) => string;
  readonly check: (name: string) => string;
  readonly code: string;
  readonly first: string;
  readonly later: string;
  readonly lengthMax: number;
}

const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS = "0123456789";

const KINDS: readonly Kind[] = [
  {
    ...{
      what: "entity id",
      nameOf: entityIdOf,
      textOf: textOfEntityId,
      check: checkEntityId,
      code: "entity_id_invalid",
    },
    ...{ first: LETTERS + DIGITS, later: `${LETTERS}${DIGITS}_.-:@`, lengthMax: 256 },
  },
  {
    ...{ what: "resource", nameOf: resourceOf, textOf: textOfResource, check: checkResource, code: "resource_invalid" },
    ...{ first: LETTERS, later: `${LETTERS}${DIGITS}_.-/:`, lengthMax: 64 },
  },
];

/** Names as the grammar has them, written down here a second time. */
function allowedNames({ first, later, lengthMax }: Kind): fc.Arbitrary<string> {
  const pick = (from: string) => fc.constantFrom(...from);
  return fc
    .tuple(pick(first), fc.array(pick(later), { maxLength: lengthMax - 1 }))
    .map(([head, tail]) => head + tail.join(""))
    .filter((name) => !RESERVED.has(name));
}

const RESERVED: ReadonlySet<string> = new Set(["PK", "SK", "entity_id", "resource", "window", "window_start", "ttl"]);

/** Any UTF-16 units, halves of characters among them; and texts that look as if they had been written as names before. */
const units = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 1, maxLength: 15 })
  .map((codes) => String.fromCharCode(...codes));
const alike = fc
  .array(fc.constantFrom("text:", "t64:", "_", "_7C", "_u20AC", "_5F", "_u", "7C", "|", "a", ":", "x-1", "\ud800"), {
    minLength: 1,
    maxLength: 4,
  })
  .map((parts) => parts.join(""));
const texts = fc.oneof(
  units,
  fc.string({ unit: "binary", minLength: 1, maxLength: 11 }),
  alike,
  fc.constantFrom("ttl", "PK", "::1"),
);

for (const kind of KINDS) {
  const { what, nameOf, textOf, check, code, lengthMax } = kind;

  test(`an allowed ${what} stays as it is`, () => {
    fc.assert(
      fc.property(allowedNames(kind), (name) => nameOf(name) === name && textOf(name) === name),
      { numRuns: runs(2_000) },
    );
  });

  test(`any text gives an allowed ${what}, always the same, and the text comes back from it`, () => {
    fc.assert(
      fc.property(texts, (text) => {
        const name = nameOf(text);
        assert.equal(check(name), name);
        assert.equal(nameOf(text), name);
        assert.equal(textOf(name), text);
      }),
      { numRuns: runs(10_000) },
    );
  });

  test(`two texts never give one ${what}, also where one is the name of the other`, () => {
    fc.assert(
      fc.property(texts, texts, (one, other) => {
        assert.equal(nameOf(one) === nameOf(other), one === other);
      }),
      { numRuns: runs(10_000) },
    );
    // The name of a text is a text, too: either it is the text itself, or it gets a name of its own.
    fc.assert(
      fc.property(alike, (text) => {
        const name = nameOf(text);
        assert.equal(nameOf(name) === name, name === text);
        assert.equal(textOf(textOf(nameOf(name))), text === name ? textOf(text) : text);
      }),
      { numRuns: runs(10_000) },
    );
  });

  test(`every allowed ${what} stands for one text, which gives it again: nothing is lost in either direction`, () => {
    const names = fc.oneof(
      allowedNames(kind),
      alike.map((text) => `text:${text}`.replace(/[^a-zA-Z0-9_.:-]/g, "")),
    );
    fc.assert(
      fc.property(names, (name) => nameOf(textOf(name)) === name),
      { numRuns: runs(10_000) },
    );
  });

  test(`a text too long for ${what} is refused with what to do, however long it is`, () => {
    const bytesMost = Math.floor(((lengthMax - "t64:".length) * 6) / 8);
    const tooLong = ["|".repeat(bytesMost + 1), "é".repeat(bytesMost), "a".repeat(lengthMax + 1), "text:".repeat(1e6)];
    for (const text of tooLong) {
      assert.throws(() => nameOf(text), { name: "ValidationError", code, message: /too long.*a hash of this one/s });
    }
    for (const text of ["|".repeat(bytesMost), "é".repeat(bytesMost / 2), "\ud800".repeat(bytesMost / 3)]) {
      assert.match(nameOf(text), /^t64:/);
      assert.equal(textOf(nameOf(text)), text);
    }
    assert.equal(nameOf("a".repeat(lengthMax)), "a".repeat(lengthMax));
  });

  test(`what is no text, or no ${what}, is refused`, () => {
    for (const value of [undefined, null, 5, {}]) assert.throws(() => nameOf(value as never), { code });
    assert.throws(() => nameOf(""), {
      name: "ValidationError",
      code,
      message: /empty string: all callers without one would share a bucket/,
    });
    // What was once written for it stands for itself, so that no two texts give one name.
    assert.deepEqual([nameOf("text:"), textOf("text:")], ["text:", "text:"]);
    for (const value of [undefined, "a b", "", "é"]) assert.throws(() => textOf(value as never), { code });
  });
}

test("ids from outside stay legible", () => {
  assert.equal(entityIdOf("user@example.org"), "user@example.org");
  assert.equal(entityIdOf("auth0|42"), "text:auth0_7C42");
  assert.equal(entityIdOf("a+b@x.org"), "text:a_2Bb@x.org");
  assert.equal(entityIdOf("::1"), "text:::1");
  assert.equal(entityIdOf("price in €"), "text:price_20in_20_u20AC");
  assert.equal(resourceOf("GET /users"), "text:GET_20/users");
  assert.equal(resourceOf("/v1/chat"), "text:/v1/chat");
  assert.equal(resourceOf("ttl"), "text:ttl");
  assert.equal(resourceOf("gpt-4"), "gpt-4");
  assert.equal(resourceOf("モデルを選ぶ画面の検索"), "t64:44Oi44OH44Or44KS6YG444G255S76Z2i44Gu5qSc57Si");
});

test("the error about a bad name says how to make one of any text", () => {
  assert.throws(() => checkEntityId("auth0|42"), /entityIdOf\(text\) makes one from any text/);
  assert.throws(() => checkResource("GET /users"), /resourceOf\(text\) makes one from any text/);
});
