import { paintOf } from "./color.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";

/** One column of a table. */
export interface Column<Item> {
  readonly title: string;
  readonly text: (item: Item) => string;
  /** Numbers stand to the right. */
  readonly right?: true;
  /** It may be broken over several lines where the table is too wide; ids and names that are copied may not. */
  readonly flexible?: true;
}

/** Draws rows, some at a time, in columns whose widths the first rows decide. */
export type DrawRows<Item> = (items: readonly Item[]) => string;

const WIDTH_DEFAULT = 80;
const GAP = 2;
const FLEXIBLE_MIN = 12;

export async function tableOf<Item>(
  context: CommandContext,
  options: GlobalOptions,
  columns: readonly Column<Item>[],
): Promise<DrawRows<Item>> {
  const { default: Table } = await import("cli-table3");
  const paint = paintOf(context, options);
  const width = context.terminal.columns ?? WIDTH_DEFAULT;
  let widths: readonly number[] | undefined;
  return (items) => {
    const rows = items.map((item) => columns.map(({ text }) => printable(text(item))));
    const isFirst = widths === undefined;
    widths ??= widthsOf(columns, rows, width);
    const table = new Table({
      chars: NO_LINES,
      style: { "padding-left": 0, "padding-right": 0, head: [], border: [], compact: true },
      // A cell that is too wide is broken; an id makes its row wider instead.
      colWidths: widths.map(
        (each, i) => Math.max(each, columns[i]?.flexible ? 0 : widest(rows, i)) + (i === columns.length - 1 ? 0 : GAP),
      ),
      colAligns: columns.map(({ right }) => (right ? "right" : "left")),
      wordWrap: true,
      wrapOnWordBoundary: true,
    });
    if (isFirst)
      table.push(columns.map(({ title, right }, i) => gapped(paint("bold", title), right, i === columns.length - 1)));
    const cellOf = (cell: string, i: number) => {
      const fitting = columns[i]?.flexible ? broken(cell, widths?.[i] ?? width) : cell;
      return gapped(fitting, columns[i]?.right, i === columns.length - 1);
    };
    table.push(...rows.map((row) => row.map(cellOf)));
    const lines = table
      .toString()
      .split("\n")
      .map((line) => line.trimEnd());
    return `${lines.join("\n")}\n`;
  };
}

/** Words that are wider than their column would be cut off: they go on in the next line, after a comma if there is one. */
function broken(text: string, width: number): string {
  return text.replace(/\S+/g, (word) => {
    const parts: string[] = [];
    let rest = word;
    while (rest.length > width) {
      const end = rest.lastIndexOf(",", width - 1) + 1 || width;
      parts.push(rest.slice(0, end));
      rest = rest.slice(end);
    }
    return [...parts, rest].join("\n");
  });
}

/** What stands to the right keeps its distance from the next column. */
function gapped(text: string, right: true | undefined, isLast: boolean): string {
  return right && !isLast ? `${text}${" ".repeat(GAP)}` : text;
}

const NO_LINES = {
  ...{ top: "", "top-mid": "", "top-left": "", "top-right": "" },
  ...{ bottom: "", "bottom-mid": "", "bottom-left": "", "bottom-right": "" },
  ...{ left: "", "left-mid": "", mid: "", "mid-mid": "", right: "", "right-mid": "", middle: "" },
};

function widthsOf<Item>(
  columns: readonly Column<Item>[],
  rows: readonly (readonly string[])[],
  width: number,
): readonly number[] {
  const wanted = columns.map(({ title }, i) => Math.max(title.length, widest(rows, i)));
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
  return rows.reduce((most, row) => Math.max(most, row[column]?.length ?? 0), 0);
}

/** What a stored text may have in it must not move the cursor or colour the screen. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, "\ufffd");
}
