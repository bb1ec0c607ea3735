import assert from "node:assert/strict";
import { test } from "node:test";
import type { Comparison, Item, ItemValue, ItemWrite } from "../../src/ports/item-store.ts";
import { at, tableAt, update } from "./conditional-kit.ts";

const a = at("a");
const OPERATORS = ["=", "<>", "<", "<=", ">", ">="] as const;

/** Which comparisons hold of the attribute `x` of this item. */
function holding(item: Item, value: ItemValue, operators: readonly Comparison["is"][] = OPERATORS): string {
  const { table, write } = tableAt(0, {});
  table.put("ns", a, item);
  const held = operators.filter((is) => write(update(a, { when: [[{ name: "x", is, value }]] })).kind === "applied");
  return held.join(" ");
}

test("each comparison holds of exactly the values it names", () => {
  assert.equal(holding({ x: 5 }, 4), "<> > >=");
  assert.equal(holding({ x: 5 }, 5), "= <= >=");
  assert.equal(holding({ x: 5 }, 6), "<> < <=");
  assert.equal(holding({ x: -5 }, 4), "<> < <=", "numbers compare as numbers, not by their digits");
  assert.equal(holding({ x: 10 }, 9), "<> > >=");
  assert.equal(holding({ x: "b" }, "a"), "<> > >=");
  assert.equal(holding({ x: "b" }, "b"), "= <= >=");
  assert.equal(holding({ x: "b" }, "ba"), "<> < <=");
  assert.equal(holding({ x: true }, true, ["=", "<>"]), "=");
  assert.equal(holding({ x: true }, false, ["=", "<>"]), "<>");
});

test("strings compare by their bytes, where code units would say otherwise", () => {
  assert.ok("\u{1F600}" < "\uFFEE", "by code units the face comes first");
  assert.equal(holding({ x: "\u{1F600}" }, "\uFFEE"), "<> > >=");
});

test("an attribute that is not there is neither equal nor unequal nor anything", () => {
  assert.equal(holding({ y: 5 }, 5), "");
  assert.equal(holding({}, "constructor"), "");
  const { write } = tableAt(0, {});
  for (const is of OPERATORS) {
    const answer = write(update(a, { when: [[{ name: "x", is, value: 0 }]] }));
    assert.deepEqual(answer, { kind: "failed", item: undefined }, is);
  }
  assert.equal(write(update(a, { when: [[{ name: "toString", is: "absent" }]] })).kind, "applied");
});

test("a number and a string do not compare, also where they look alike", () => {
  assert.equal(holding({ x: 5 }, "5"), "");
  assert.equal(holding({ x: "5" }, 5), "");
  assert.equal(holding({ x: true }, 1), "");
});

test("what is there may be false or empty", () => {
  for (const value of [0, "", false]) {
    const { table, write } = tableAt(0, {});
    table.put("ns", a, { x: value });
    assert.equal(write(update(a, { when: [[{ name: "x", is: "present" }]] })).kind, "applied");
    assert.equal(write(update(a, { when: [[{ name: "x", is: "absent" }]] })).kind, "failed");
  }
});

test("a condition holds when every clause has a test that does", () => {
  const yes = { name: "x", is: "=", value: 1 } as const;
  const no = { name: "x", is: "=", value: 2 } as const;
  for (const [when, expected] of [
    [[], "applied"],
    [[[yes]], "applied"],
    [[[no]], "failed"],
    [[[no, yes]], "applied"],
    [[[yes], [no]], "failed"],
    [
      [
        [no, yes],
        [yes, no],
      ],
      "applied",
    ],
    [[[yes, no], [no]], "failed"],
  ] as const) {
    const { table, write } = tableAt(0, {});
    table.put("ns", a, { x: 1 });
    assert.equal(write(update(a, { when })).kind, expected, JSON.stringify(when));
  }
});

test("an item must be there, must not, or may be either, for each kind of write", () => {
  const done = { update: { x: 1, y: 2 }, put: { y: 2 }, delete: undefined, check: { x: 1 } };
  const made = { update: { y: 2 }, put: { y: 2 }, delete: undefined, check: undefined };
  for (const kind of ["update", "put", "delete", "check"] as const) {
    const set = kind === "update" || kind === "put" ? { y: 2 } : {};
    for (const item of ["exists", "missing", "either"] as const) {
      for (const before of [{ x: 1 }, undefined]) {
        const { table, write, item: stored } = tableAt(0, {});
        if (before !== undefined) table.put("ns", a, before);
        const answer = write(update(a, { kind, item, set }));
        const story = `${kind} ${item} ${JSON.stringify(before)}`;
        if (item === (before === undefined ? "exists" : "missing")) {
          assert.deepEqual(answer, { kind: "failed", item: before }, story);
          assert.deepEqual(stored("a"), before, story);
          continue;
        }
        const after = (before === undefined ? made : done)[kind];
        const shown = kind === "check" || kind === "delete" ? {} : after;
        assert.deepEqual(answer, { kind: "applied", item: shown }, story);
        assert.deepEqual(stored("a"), after, story);
      }
    }
  }
});

test("an update sets, adds and removes, counts from 0, and leaves the rest alone", () => {
  const { table, write, item } = tableAt(0, {});
  table.put("ns", a, { kept: "k", replaced: 1, counted: -3, gone: true });
  const change = { set: { replaced: "r", fresh: false }, add: { counted: -2, first: 7 }, remove: ["gone", "never"] };
  const after = { kept: "k", replaced: "r", counted: -5, fresh: false, first: 7 };
  assert.deepEqual(write(update(a, change)), { kind: "applied", item: after });
  assert.deepEqual(item("a"), after);
  assert.deepEqual(write(update(at("b"), { add: { constructor: 1 } })), { kind: "applied", item: { constructor: 1 } });
  assert.deepEqual(write(update(a, { remove: Object.keys(after) })), { kind: "applied", item: {} });
  assert.equal(write(update(a, { item: "exists" })).kind, "applied", "an item without attributes is still there");
});

test("what is copied is the item before the write, whatever else the write does to it", () => {
  const { table, write } = tableAt(0, {});
  table.put("ns", a, { counted: 7, hour: 3, gone: 5 });
  const change = {
    copy: { before: "counted", fromGone: "gone", fromNothing: "never" },
    set: { counted: 1, hour: 4 },
    remove: ["gone"],
  };
  const after = { counted: 1, hour: 4, before: 7, fromGone: 5, fromNothing: 0 };
  assert.deepEqual(write(update(a, change)), { kind: "applied", item: after });
});

test("a condition looks at the item before the write, and a write that failed has changed nothing", () => {
  const { write, item } = tableAt(0, {});
  const first = update(a, { set: { x: 1 }, add: { n: 1 }, when: [[{ name: "x", is: "absent" }]] });
  assert.equal(write(first).kind, "applied");
  assert.deepEqual(write(first), { kind: "failed", item: { x: 1, n: 1 } });
  assert.deepEqual(item("a"), { x: 1, n: 1 });
});

test("nobody can change a stored item: not by what was sent, not by what was answered", () => {
  const { write, item, read, table } = tableAt(0, {});
  const set: Record<string, ItemValue> = { x: 1 };
  const answer = write(update(a, { kind: "put", set }));
  set.x = 2;
  assert.deepEqual(item("a"), { x: 1 });
  assert.equal(answer.kind, "applied");
  assert.throws(() => Object.assign(answer.item, { x: 3 }), TypeError);
  write(update(at("b"), { set: { x: 1 } }));
  for (const stored of [...read(true, a, at("b")), ...table.entries("ns").map(([, each]) => each)]) {
    assert.throws(() => Object.assign(stored as object, { x: 3 }), TypeError);
  }
  assert.deepEqual(item("a"), { x: 1 });
  table.put("ns", a, set);
  set.x = 4;
  assert.deepEqual(item("a"), { x: 2 });
});

test("a mistake of ours is loud and writes nothing", () => {
  const { table, write, item } = tableAt(0, {});
  table.put("ns", a, { s: "text", n: Number.MAX_SAFE_INTEGER });
  const before = item("a");
  const mistakes: readonly [Partial<ItemWrite>, RegExp][] = [
    [{ add: { s: 1 } }, /"s" of a on api, shard 0 is "text"; only to a number/],
    [{ add: { n: 1 } }, /"n" .* is 9007199254740992; .*safe integer/],
    [{ add: { x: 0.5 } }, /"x" .* is 0\.5; .*safe integer/],
    [{ add: { x: "1" as unknown as number } }, /only a number can be added/],
    [{ set: { x: Number.NaN } }, /is NaN/],
    [{ set: { x: undefined as unknown as number } }, /is undefined/],
    [{ when: [[{ name: "x", is: "=", value: 1.5 }]] }, /is 1\.5/],
    [{ when: [[]] }, /has no tests/],
    [{ when: [[{ name: "x", is: "<", value: true }]] }, /truth has no order/],
    [{ set: { x: 1 }, add: { x: 1 } }, /changes "x" in two ways/],
    [{ set: { x: 1 }, remove: ["x"] }, /changes "x" in two ways/],
    [{ add: { x: 1 }, remove: ["x"] }, /changes "x" in two ways/],
    [{ remove: ["x", "x"] }, /changes "x" in two ways/],
    [{ kind: "put", add: { x: 1 } }, /A put .* adds to "x"/],
    [{ kind: "put", remove: ["x"] }, /A put .* removes "x"/],
    [{ kind: "delete", set: { x: 1 } }, /A delete .* sets "x"/],
    [{ kind: "check", add: { x: 1 } }, /A check .* adds to "x"/],
    [{ copy: { x: "n" }, set: { x: 1 } }, /changes "x" in two ways/],
    [{ copy: { x: "n" }, remove: ["x"] }, /changes "x" in two ways/],
    [{ kind: "put", copy: { x: "n" } }, /A put .* copies to "x"/],
    [{ key: { ...a, shard: -1 } }, /Shard -1 .* is no shard/],
  ];
  for (const [given, message] of mistakes) assert.throws(() => write(update(a, given)), { message });
  assert.equal(item("a"), before);
  assert.throws(() => table.put("ns", a, { x: 0.5 }), /is 0\.5/);
});

test("a store knows no negative zero", () => {
  const { write } = tableAt(0, {});
  assert.deepEqual(write(update(a, { set: { x: -0 }, add: { y: -0 } })), { kind: "applied", item: { x: 0, y: 0 } });
});
