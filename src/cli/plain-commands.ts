import {
  type CommandContext,
  type CommandRow,
  LIST_OPTIONS,
  type OptionRow,
  type OptionsOf,
  type Usage,
} from "./command.ts";
import { type CommandLimiter, onStore } from "./on-store.ts";
import { confirmed, type ListSource, printChange, printList, printValue, unlessInterrupted } from "./print.ts";
import { principalOf } from "./store-option.ts";
import { type Column, type Paint, paintOf, tableOf } from "./table.ts";

/** A command that first reads its options, so that wrong ones are refused before a store is opened. */
interface Reading<Rows extends readonly OptionRow[], Asked> extends Usage<Rows> {
  /** Absent: the first argument is all that is asked. */
  read?(options: OptionsOf<Rows>, args: readonly string[], context: CommandContext): Asked;
}

/** The terminal that a text is made for. */
interface View {
  readonly paint: Paint;
  readonly columns: number;
  table<Item>(columns: readonly Column<Item>[], items: readonly Item[]): string;
}

/** A command that shows one thing. */
export function show<Item, const Rows extends readonly OptionRow[] = readonly [], Asked = string>(
  row: Reading<Rows, Asked> & {
    get(limiter: CommandLimiter, asked: Asked): PromiseLike<Item>;
    text(item: Item, view: View, asked: Asked, limiter: CommandLimiter): string | Promise<string>;
    /** Ctrl-C does not wait for the answer. */
    readonly isLong?: true;
  },
): CommandRow<Rows> {
  return {
    ...row,
    run: (context, options, args) => {
      const asked = askedOf(row, options, args, context);
      return onStore(context, async (limiter) => {
        const reading = row.get(limiter, asked);
        const item = await (row.isLong ? unlessInterrupted(context, reading) : reading);
        return printValue(context, item, () => row.text(item, viewOf(context), asked, limiter));
      });
    },
  };
}

/** A command that lists, page by page. */
export function list<Item, const Rows extends readonly OptionRow[] = readonly [], Asked = string>(
  row: Reading<Rows, Asked> & {
    source(limiter: CommandLimiter, asked: Asked): ListSource<Item> | Promise<ListSource<Item>>;
  },
): CommandRow {
  return {
    ...row,
    options: [...LIST_OPTIONS, ...(row.options ?? [])],
    run: (context, options, args) => {
      const asked = askedOf(row, options as OptionsOf<Rows>, args, context);
      return onStore(context, async (limiter) => printList(context, await row.source(limiter, asked)));
    },
  };
}

/** A command that changes or deletes one thing. */
export function change<Item extends object, const Rows extends readonly OptionRow[] = readonly [], Asked = string>(
  row: Reading<Rows, Asked> & {
    /** Throws where it cannot be done. Answers the question to confirm, where there is one. */
    before?(limiter: CommandLimiter, asked: Asked): Promise<string | undefined> | Promise<void>;
    /** The result that a dry run shows, and the command where `make` answers nothing. */
    plan(limiter: CommandLimiter, asked: Asked): Item | Promise<Item>;
    make(limiter: CommandLimiter, asked: Asked, by: { readonly principal?: string }): Promise<Item> | Promise<void>;
    text(item: Item, asked: Asked): string;
  },
): CommandRow<Rows> {
  return {
    ...row,
    run: (context, options, args) => {
      const asked = askedOf(row, options, args, context);
      return onStore(context, async (limiter) => {
        const question = await row.before?.(limiter, asked);
        if (typeof question === "string") await confirmed(context, question);
        const isDryRun = context.options.dryRun === true;
        const made = isDryRun ? undefined : await row.make(limiter, asked, principalOf(context));
        const item = made ?? (await row.plan(limiter, asked));
        return printChange(context, item, () => row.text(item, asked));
      });
    },
  };
}

function askedOf<Rows extends readonly OptionRow[], Asked>(
  row: Reading<Rows, Asked>,
  options: OptionsOf<Rows>,
  args: readonly string[],
  context: CommandContext,
): Asked {
  return row.read === undefined ? ((args[0] ?? "") as Asked) : row.read(options, args, context);
}

function viewOf(context: CommandContext): View {
  return {
    paint: paintOf(context),
    columns: context.terminal.columns ?? 80,
    table: (columns, items) => tableOf(context, columns)(items),
  };
}
