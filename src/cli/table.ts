import { paintOf } from "./color.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { printable } from "./printable.ts";
import { charactersOf, textWidth } from "./text-width.ts";

/** One column of a table. */
export interface Column<Item> {
  readonly title: string;
  text(item: Item): string;
  /** Numbers stand to the right. */
  readonly right?: true;
  /** It may be broken over several lines where the table is too wide; ids and names that are copied may not. */
  readonly flexible?: true;
}

/** Draws rows, some at a time, in columns whose widths the first rows decide. */
type DrawRows<Item> = (items: readonly Item[]) => string;

const WIDTH_DEFAULT = 80;
const GAP = 2;
const SPACE = " ".repeat(GAP);
const FLEXIBLE_MIN = 12;

export function tableOf<Item>(
  context: CommandContext,
  options: GlobalOptions,
  columns: readonly Column<Item>[],
): DrawRows<Item> {
  const paint = paintOf(context, options);
  const width = context.terminal.columns ?? WIDTH_DEFAULT;
  let widths: readonly number[] | undefined;
  return (items) => {
    const rows = items.map((item) => columns.map(({ text }) => printable(text(item))));
    const isFirst = widths === undefined;
    widths ??= widthsOf(columns, rows, width);
    // A cell that is too wide is broken; an id makes its row wider instead.
    const fitting = widths.map((each, i) => (columns[i]?.flexible ? each : Math.max(each, widest(rows, i))));
    const lines = rows.flatMap((row) => linesOf(row, columns, fitting));
    if (isFirst) {
      const titles = columns.map(({ title, right }, i) => padded(title, fitting[i] ?? 0, right));
      lines.unshift(
        titles.map((title, i) => title.replace(columns[i]?.title ?? "", (text) => paint("bold", text))).join(SPACE),
      );
    }
    return lines.map((line) => `${line.trimEnd()}\n`).join("");
  };
}

/** A row, in as many lines as its highest cell has. */
function linesOf<Item>(row: readonly string[], columns: readonly Column<Item>[], widths: readonly number[]): string[] {
  const cells = row.map((cell, i) => (columns[i]?.flexible ? wrapped(cell, widths[i] ?? 0) : [cell]));
  const height = Math.max(...cells.map(({ length }) => length));
  return Array.from({ length: height }, (_, line) =>
    cells.map((cell, i) => padded(cell[line] ?? "", widths[i] ?? 0, columns[i]?.right)).join(SPACE),
  );
}

function padded(text: string, width: number, right: true | undefined): string {
  const room = " ".repeat(Math.max(0, width - textWidth(text)));
  return right ? `${room}${text}` : `${text}${room}`;
}

/** Broken between words. A word that is wider than the column goes on in the next line, after a comma if there is one. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line: string | undefined;
  for (const word of text.split(" ")) {
    for (const [i, part] of partsOf(word, width).entries()) {
      if (line !== undefined && (i > 0 || textWidth(line) + 1 + textWidth(part) > width)) {
        lines.push(line);
        line = undefined;
      }
      line = line === undefined ? part : `${line} ${part}`;
    }
  }
  return [...lines, line ?? ""];
}

function partsOf(word: string, width: number): readonly string[] {
  const parts: string[] = [];
  let rest = word;
  while (textWidth(rest) > width) {
    const head = headOf(rest, width);
    const end = head.lastIndexOf(",") + 1 || head.length;
    parts.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  return [...parts, rest];
}

/** As many characters as fit, and at least one. */
function headOf(text: string, width: number): string {
  let head = "";
  for (const character of charactersOf(text)) {
    if (head !== "" && textWidth(head) + textWidth(character) > width) break;
    head += character;
  }
  return head;
}

function widthsOf<Item>(
  columns: readonly Column<Item>[],
  rows: readonly (readonly string[])[],
  width: number,
): readonly number[] {
  const wanted = columns.map(({ title }, i) => Math.max(textWidth(title), widest(rows, i)));
  const gaps = GAP * (columns.length - 1);
  let over = wanted.reduce((sum, each) => sum + each, gaps) - width;
  // The widest that may be broken gives first.
  while (over > 0) {
    const candidates = wanted.map((each, i) => (columns[i]?.flexible && each > FLEXIBLE_MIN ? each : 0));
    const most = Math.max(...candidates);
    if (most === 0) break;
    const second = Math.max(FLEXIBLE_MIN, ...candidates.filter((each) => each < most));
    const give = Math.min(over, Math.max(1, most - second));
    wanted[candidates.indexOf(most)] = most - give;
    over -= give;
  }
  return wanted;
}

function widest(rows: readonly (readonly string[])[], column: number): number {
  return rows.reduce((most, row) => Math.max(most, textWidth(row[column] ?? "")), 0);
}
