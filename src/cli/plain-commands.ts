import type { Command } from "commander";
import { confirmed } from "./ask.ts";
import { type CommandFile, examples, type GlobalOptions, type ListOptions, listOptions } from "./command.ts";
import type { CommandLimiter } from "./command-limiter.ts";
import { EXIT } from "./exit-code.ts";
import { onStore } from "./on-store.ts";
import { principalOf } from "./principal.ts";
import { type ListSource, printChange, printList, printValue } from "./print.ts";

/** What a command takes, and what its help says. */
interface Usage {
  /** Its name in brackets, and what it is. */
  readonly argument?: readonly [name: string, about: string];
  readonly options?: (command: Command) => Command;
  /** Without the name of the tool. */
  readonly examples: readonly string[];
  /** Exit codes, or what else is to be known. */
  readonly note?: string;
}

/** A command that shows one thing. */
export function show<Item>(
  row: Usage & {
    get(limiter: CommandLimiter, id: string): Promise<Item>;
    text(item: Item): string;
  },
): CommandFile<GlobalOptions> {
  return {
    configure: (command) => describe(command, row),
    run: (context, options, [id = ""]) =>
      onStore(context, options, async (limiter) => {
        const item = await row.get(limiter, id);
        await printValue(context, options, item, () => row.text(item));
        return EXIT.done;
      }),
  };
}

/** A command that lists, page by page. */
export function list<Item, Options extends ListOptions = ListOptions>(
  row: Usage & {
    source(limiter: CommandLimiter, options: Options, id: string): ListSource<Item> | Promise<ListSource<Item>>;
  },
): CommandFile<Options> {
  return {
    configure: (command) => describe(command, row, listOptions),
    run: (context, options, [id = ""]) =>
      onStore(context, options, async (limiter) => printList(context, options, await row.source(limiter, options, id))),
  };
}

/** A command that changes or deletes one thing. */
export function change<Item extends object, Options extends GlobalOptions = GlobalOptions>(
  row: Usage & {
    /** What is wrong with the options is told before a store is opened. */
    check?(options: Options): unknown;
    /** Throws where it cannot be done; answers what to ask before it is. */
    ask?(limiter: CommandLimiter, id: string): Promise<string>;
    /** What a dry run shows. */
    planned(limiter: CommandLimiter, id: string, options: Options): Item | Promise<Item>;
    made(
      limiter: CommandLimiter,
      id: string,
      by: { readonly principal?: string },
      options: Options,
    ): Promise<Item> | Promise<void>;
    text(item: Item): string;
  },
): CommandFile<Options> {
  return {
    configure: (command) => describe(command, row),
    run: (context, options, [id = ""]) => {
      row.check?.(options);
      return onStore(context, options, async (limiter) => {
        if (row.ask !== undefined) await confirmed(context, options, await row.ask(limiter, id));
        const made =
          options.dryRun === true ? undefined : await row.made(limiter, id, principalOf(context, options), options);
        const item = made ?? (await row.planned(limiter, id, options));
        await printChange(context, options, item, () => row.text(item));
        return EXIT.done;
      });
    },
  };
}

function describe(
  command: Command,
  { argument, options, examples: lines, note }: Usage,
  others: (command: Command) => Command = (same) => same,
): void {
  if (argument !== undefined) command.argument(...argument);
  others(command);
  options?.(command);
  command.addHelpText("after", examples(...lines.map((line) => `zae-limiter ${line}`)));
  if (note !== undefined) command.addHelpText("after", `\n${note}\n`);
}
