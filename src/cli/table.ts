import { styleText } from "node:util";
import type { CommandContext } from "./command.ts";
import { tokensText } from "./limit-text.ts";

type Format = Parameters<typeof styleText>[0];

/** Marks a text, where colours are wanted. */
export type Paint = (format: Format, text: string) => string;

/** The option wins, then NO_COLOR, then FORCE_COLOR, then: a terminal that is not dumb. */
export function isColored({ env, terminal, options: { color } }: CommandContext): boolean {
  if (color === "always" || color === "never") return color === "always";
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== "") return false;
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== "") return env.FORCE_COLOR !== "0";
  return terminal.stdout && env.TERM !== "dumb";
}

export function paintOf(context: CommandContext): Paint {
  if (!isColored(context)) return (_, text) => text;
  return (format, text) => styleText(format, text, { validateStream: false });
}

/** Replaces characters that would move the cursor, colour the screen, or turn the direction of what follows. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, "\ufffd");
}

/** The same for a text of several lines. */
export function printableLines(text: string): string {
  return text.split("\n").map(printable).join("\n");
}

/** JSON as the page fixes it: never is null, which is what JSON.stringify makes of Infinity; what a terminal would obey is escaped. */
export function jsonOf(value: unknown): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(UNPRINTABLE, escaped);
}

/** Controls, ends of lines, and what changes the direction of the text after it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

const PLAIN = /^[\x20-\x7e]*$/;

// Scripts whose characters take two columns of a terminal (Unicode's East Asian widths W and F), and pictures.
const WIDE =
  /^(?:[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]|[\u{17000}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|.\ufe0f)/u;
const UNSEEN = /^[\p{Mark}\p{Format}\p{Surrogate}]+$/u;

/** How many columns of a terminal a text takes: Chinese, Japanese and Korean characters take two, and so do most emoji. */
export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  return charactersOf(text).reduce((width, character) => width + characterWidth(character), 0);
}

/** The characters as a reader sees them: one may be several to a program, and is never torn apart. */
function charactersOf(text: string): readonly string[] {
  if (PLAIN.test(text)) return [...text];
  return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
}

function characterWidth(character: string): number {
  if (WIDE.test(character)) return 2;
  return UNSEEN.test(character) ? 0 : 1;
}

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

export function tableOf<Item>(context: CommandContext, columns: readonly Column<Item>[]): DrawRows<Item> {
  const paint = paintOf(context);
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

/** The use of one limit, window by window, oldest first. */
export interface Series {
  readonly limit: string;
  readonly points: readonly { readonly windowStartMs: number; readonly tokens: number }[];
}

const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** A bar a window, under each other, the longest as wide as there is room; the last 60 windows. */
export function chartText(
  { limit, points }: Series,
  {
    columns,
    paint,
    labelOf,
  }: { readonly columns: number; readonly paint: Paint; readonly labelOf: (startMs: number) => string },
): string {
  const shown = points.slice(-WINDOWS_MAX);
  const most = Math.max(1, ...shown.map(({ tokens }) => tokens));
  const labels = shown.map(({ windowStartMs }) => labelOf(windowStartMs));
  const label = Math.max(...labels.map(({ length }) => length));
  const numbers = shown.map(({ tokens }) => tokensText(limit, tokens));
  const number = Math.max(...numbers.map(({ length }) => length));
  const room = Math.max(10, columns - label - number - 4);
  const lines = shown.map(({ tokens }, i) => {
    const bar = barText(tokens / most, room);
    return `${(labels[i] ?? "").padEnd(label)}  ${(numbers[i] ?? "").padStart(number)}  ${paint("cyan", bar)}`.trimEnd();
  });
  const total = shown.reduce((sum, { tokens }) => sum + tokens, 0);
  const left = points.length - shown.length;
  const earlier = left === 0 ? "" : `, ${left} earlier windows not shown`;
  return `${paint("bold", limit)}  ${tokensText(limit, total)} in ${shown.length} window${shown.length === 1 ? "" : "s"}${earlier}\n${lines.join("\n")}\n`;
}

const WINDOWS_MAX = 60;

/** A bar of so much of the room, to an eighth of a column. */
export function barText(part: number, room: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, part)) * room * 8);
  return `${"█".repeat(Math.floor(eighths / 8))}${EIGHTHS[eighths % 8]}`;
}
