import { given } from "../domain/names/given.ts";
import type { CommandContext } from "./command.ts";
import { CommandEnd, EXIT } from "./exit-code.ts";
import { type Column, jsonOf, printable, tableOf } from "./table.ts";
import { countOf } from "./values.ts";

export function isJson({ options }: CommandContext): boolean {
  return options.json === true || options.ndjson === true;
}

/** Prints one value as JSON, or a text for people. */
export async function printValue(
  context: CommandContext,
  value: unknown,
  text: () => string | Promise<string>,
): Promise<number> {
  await context.output.write(isJson(context) ? `${jsonOf(value)}\n` : await text());
  return EXIT.done;
}

/** Prints the state after a change; with `--dry-run`, the one there would be. */
export async function printChange(context: CommandContext, value: object, text: () => string): Promise<number> {
  if (context.options.dryRun !== true) return printValue(context, value, text);
  const wouldBe = () => `Dry run, nothing was changed. The result would be:\n${text()}`;
  return printValue(context, { ...value, dryRun: true }, wouldBe);
}

/** Names and values under each other. What is undefined is left out. */
export function fieldsText(fields: Readonly<Record<string, string | undefined>>): string {
  const shown = Object.entries(fields).filter(([, value]) => value !== undefined);
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${printable(value ?? "")}\n`).join("");
}

export interface ListSource<Item> {
  /** Answers at most `limit` items and where the next begin. */
  page(request: { readonly limit: number; readonly cursor?: string }): Promise<ListPart<Item>>;
  readonly columns: readonly Column<Item>[];
  /** Said to people where there is nothing; asked for where it has to be found out. */
  readonly empty: string | (() => Promise<string>);
}

interface ListPart<Item> {
  readonly items: readonly Item[];
  /** How many of what `--max` counts; absent: the items. */
  readonly count?: number;
  readonly cursor?: string | undefined;
}

const PAGE = 1_000;

/** Prints a list page by page as it is read, in constant memory. It ends at once when its reader leaves. */
export async function printList<Item>(context: CommandContext, source: ListSource<Item>): Promise<number> {
  const { output, options } = context;
  const most = options.max === undefined ? Number.POSITIVE_INFINITY : countOf(options.max, "--max");
  const printer = printerOf(context, source);
  let count = 0;
  let cursor = options.cursor;
  do {
    const limit = Math.min(PAGE, most - count);
    const page = await source.page(given({ limit, cursor }));
    await printer.items(page.items);
    count += page.count ?? page.items.length;
    cursor = page.cursor;
    if (output.isClosed) return EXIT.done;
    requireUninterrupted(context);
  } while (cursor !== undefined && count < most);
  await printer.end(count, cursor);
  return EXIT.done;
}

interface ListPrinter<Item> {
  items(items: readonly Item[]): Promise<void>;
  end(count: number, cursor: string | undefined): Promise<void>;
}

function printerOf<Item>(context: CommandContext, source: ListSource<Item>): ListPrinter<Item> {
  const { output } = context;
  const { json, ndjson, quiet } = context.options;
  if (ndjson === true) {
    return { items: (items) => writeLines(context, items.map(jsonOf)), end: async () => {} };
  }
  if (json === true) {
    let before = '{"items":[';
    return {
      items: async (items) => {
        await output.write(`${before}${items.map((item, i) => `${i === 0 ? "" : ","}\n${jsonOf(item)}`).join("")}`);
        before = items.length === 0 ? (before.startsWith("{") ? "" : before) : ",";
      },
      end: async (count, cursor) => {
        const more = cursor === undefined ? "" : `,"cursor":${JSON.stringify(cursor)}`;
        await output.write(`${count === 0 ? "" : "\n"}]${more}}\n`);
      },
    };
  }
  const draw = tableOf(context, source.columns);
  return {
    items: async (items) => {
      if (items.length > 0) await output.write(draw(items));
    },
    end: async (count, cursor) => {
      if (quiet === true) return;
      if (count === 0) output.note(`${typeof source.empty === "string" ? source.empty : await source.empty()}\n`);
      if (cursor !== undefined) output.note(`There are more; continue with --cursor '${cursor}'\n`);
    },
  };
}

async function writeLines({ output }: CommandContext, lines: readonly string[]): Promise<void> {
  if (lines.length > 0) await output.write(`${lines.join("\n")}\n`);
}

/** Throws after a signal: changes that were made stay, and nothing more is begun. */
export function requireUninterrupted({ interrupted }: CommandContext): void {
  if (!interrupted.aborted) return;
  throw new CommandEnd({ code: "interrupted", message: "Interrupted.", exitCode: 130 });
}

/** Awaits a long read, unless a signal comes first. The read then ends with its store, which the caller closes. */
export async function unlessInterrupted<Answer>(context: CommandContext, read: PromiseLike<Answer>): Promise<Answer> {
  const { interrupted } = context;
  let stop = () => {};
  const signalled = new Promise<never>((_, reject) => {
    stop = () => reject(interrupted.reason);
    interrupted.addEventListener("abort", stop, { once: true });
  });
  signalled.catch(() => {});
  try {
    requireUninterrupted(context);
    return await Promise.race([read, signalled]);
  } finally {
    interrupted.removeEventListener("abort", stop);
    Promise.resolve(read).catch(() => {});
  }
}

/** A page of a list of the API. */
export async function pageFrom<Item>(
  list: PromiseLike<readonly Item[] & { readonly cursor?: string }>,
): Promise<ListPart<Item>> {
  const page = await list;
  return { items: page, cursor: page.cursor };
}

/** Makes each item into another, several at a time. */
export async function mapped<From, Item>(
  part: ListPart<From>,
  make: (from: From) => Promise<Item>,
): Promise<ListPart<Item>> {
  const items: Item[] = [];
  for (let at = 0; at < part.items.length; at += AT_ONCE) {
    items.push(...(await Promise.all(part.items.slice(at, at + AT_ONCE).map(make))));
  }
  return { items, cursor: part.cursor };
}

const AT_ONCE = 16;

/** One line on stderr, if that is a terminal, says how far a command is. */
interface Progress {
  tell(text: string): void;
  end(): void;
}

export const SILENT: Progress = { tell: () => {}, end: () => {} };

/** The line shows itself `afterMs` after the start. */
export function progressLine({ output, terminal, options }: CommandContext, afterMs: number): Progress {
  if (!terminal.stderr || options.quiet === true) return SILENT;
  const beganMs = performance.now();
  let shownMs = beganMs;
  let isShown = false;
  return {
    tell: (text) => {
      const nowMs = performance.now();
      if (nowMs - beganMs < afterMs || (isShown && nowMs - shownMs < 100)) return;
      shownMs = nowMs;
      isShown = true;
      output.note(`\r\x1b[K${text}`);
    },
    end: () => {
      if (isShown) output.note("\r\x1b[K");
      isShown = false;
    },
  };
}

/** Asks before something is destroyed. Throws if it is not wanted, before anything was changed. */
export async function confirmed({ options, terminal }: CommandContext, question: string): Promise<void> {
  if (options.yes === true || options.dryRun === true) return;
  if (!terminal.stdin || !terminal.stderr) {
    throw new CommandEnd({
      code: "confirmation_required",
      message: `${question} Not a terminal: pass --yes to confirm. Nothing was changed.`,
      exitCode: EXIT.usage,
    });
  }
  const answer = await terminal.ask(`${question} [y/N] `);
  if (/^y(es)?$/i.test(answer?.trim() ?? "")) return;
  throw new CommandEnd({ code: "declined", message: "Declined; nothing was changed.", exitCode: EXIT.refused });
}
