import type { CommandContext, GlobalOptions, ListOptions } from "./command.ts";
import { CommandEnd, EXIT } from "./exit-code.ts";
import { jsonOf, printable } from "./printable.ts";
import { type Column, tableOf } from "./table.ts";
import { countOf } from "./values.ts";

export function isJson({ json, ndjson }: GlobalOptions): boolean {
  return json === true || ndjson === true;
}

/** One value, or a text for people. */
export async function printValue(
  { output }: CommandContext,
  options: GlobalOptions,
  value: unknown,
  text: () => string,
): Promise<void> {
  await output.write(isJson(options) ? `${jsonOf(value)}\n` : text());
}

/** The state after a change; with `--dry-run`, the one there would be. */
export async function printChange(
  context: CommandContext,
  options: GlobalOptions,
  value: object,
  text: () => string,
): Promise<void> {
  if (options.dryRun !== true) return printValue(context, options, value, text);
  await printValue(
    context,
    options,
    { ...value, dryRun: true },
    () => `Dry run, nothing was changed. The result would be:\n${text()}`,
  );
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
  /** Said to people where there is nothing. */
  readonly empty: string;
}

interface ListPart<Item> {
  readonly items: readonly Item[];
  /** How many of what `--max` counts; absent: the items. */
  readonly count?: number;
  readonly cursor?: string | undefined;
}

const PAGE = 1_000;

/** A list, page by page as it is read, in constant memory. It ends at once when its reader leaves. */
export async function printList<Item>(
  context: CommandContext,
  options: ListOptions,
  source: ListSource<Item>,
): Promise<number> {
  const { output } = context;
  const most = options.max === undefined ? Number.POSITIVE_INFINITY : countOf(options.max, "--max");
  const printer = printerOf(context, options, source);
  let count = 0;
  let cursor = options.cursor;
  do {
    const limit = Math.min(PAGE, most - count);
    const page = await source.page({ limit, ...(cursor === undefined ? {} : { cursor }) });
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

function printerOf<Item>(context: CommandContext, options: ListOptions, source: ListSource<Item>): ListPrinter<Item> {
  const { output } = context;
  const { json, ndjson, quiet } = options;
  if (ndjson === true) {
    return {
      items: (items) => writeLines(context, items.map(jsonOf)),
      end: async () => {},
    };
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
  const draw = tableOf(context, options, source.columns);
  return {
    items: async (items) => {
      if (items.length > 0) await output.write(draw(items));
    },
    end: async (count, cursor) => {
      if (quiet === true) return;
      if (count === 0) output.note(`${source.empty}\n`);
      if (cursor !== undefined) output.note(`There are more; continue with --cursor '${cursor}'\n`);
    },
  };
}

async function writeLines({ output }: CommandContext, lines: readonly string[]): Promise<void> {
  if (lines.length > 0) await output.write(`${lines.join("\n")}\n`);
}

/** A signal came: what was changed stays, and nothing more is begun. */
export function requireUninterrupted({ interrupted }: CommandContext): void {
  if (!interrupted.aborted) return;
  throw new CommandEnd({ code: "interrupted", message: "Interrupted.", exitCode: 130 });
}

/**
 * What a long read answers, unless a signal comes first: then it is left alone, and ends with the store that it reads from, which
 * whoever opened it closes.
 */
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
    // Nobody waits for it any more.
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

/** The same with each item made into another, several at a time. */
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
