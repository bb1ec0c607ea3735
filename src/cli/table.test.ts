import assert from "node:assert/strict";
import { test } from "node:test";
import type { CommandContext } from "./command.ts";
import { type Column, tableOf, textWidth } from "./table.ts";

type Row = readonly [id: string, tokens: string, text: string];

const COLUMNS: readonly Column<Row>[] = [
  { title: "ID", text: ([id]) => id },
  { title: "TOKENS", text: ([, tokens]) => tokens, right: true },
  { title: "TEXT", text: ([, , text]) => text, flexible: true },
];

function drawn(columns: number, ...batches: readonly (readonly Row[])[]): string[] {
  const context = { terminal: { columns, stdout: false }, env: {}, options: {} } as unknown as CommandContext;
  const draw = tableOf(context, COLUMNS);
  return batches
    .map((rows) => draw(rows))
    .join("")
    .split("\n");
}

test("a column is as wide as its widest cell, numbers stand to the right, and no line ends in spaces", () => {
  assert.deepEqual(
    drawn(80, [
      ["key-1", "5", ""],
      ["k", "1,000", "two words"],
    ]),
    ["ID     TOKENS  TEXT", "key-1       5", "k       1,000  two words", ""],
  );
});

test("a text that is too wide goes on below itself, between words, and a long word after a comma", () => {
  const rows: readonly Row[] = [["key-1", "5", "some words and rpm=1,tokens=2,requests=3"]];
  assert.deepEqual(drawn(30, rows), [
    "ID     TOKENS  TEXT",
    "key-1       5  some words and",
    "               rpm=1,tokens=2,",
    "               requests=3",
    "",
  ]);
});

test("an id that is too wide is not broken, and later rows keep the columns of the first", () => {
  const long = "k".repeat(20);
  const lines = drawn(
    24,
    [["a", "5", "x"]],
    [
      [long, "5", "y"],
      ["b", "5", "z"],
    ],
  );
  assert.deepEqual(lines, [
    "ID  TOKENS  TEXT",
    "a        5  x",
    `${long}       5  y`,
    `${"b".padEnd(20)}       5  z`,
    "",
  ]);
});

test("characters that take two columns of a terminal, or none, are counted so, and not torn apart", () => {
  assert.deepEqual(
    ["漢字", "🙂", "e\u0301", "👩‍👩‍👧", "ü", "한글", "a\u200bb", "❤️"].map(textWidth),
    [4, 2, 1, 2, 1, 4, 2, 2],
  );
  assert.deepEqual(
    drawn(80, [
      ["漢字", "5", "x"],
      ["abcd", "5", "y"],
    ]),
    ["ID    TOKENS  TEXT", "漢字       5  x", "abcd       5  y", ""],
  );
  const family = "👩‍👩‍👧".repeat(8);
  const [, first = ""] = drawn(22, [["a", "5", family]]);
  assert.equal(first, `a        5  ${"👩‍👩‍👧".repeat(6)}`);
});

test("a text that would move the cursor is shown as what cannot be shown", () => {
  assert.deepEqual(drawn(80, [["a\u001b[2J", "5", "x\ny\u202e"]]).slice(1, 2), ["a\ufffd[2J       5  x\ufffdy\ufffd"]);
});
