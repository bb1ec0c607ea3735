import type { Command } from "commander";
import type { ConfigScope, StoredConfig } from "../domain/config.ts";
import { limitsChanged } from "../domain/config-change.ts";
import type { Limit } from "../domain/limit.ts";
import { checkLevelOptions } from "../engine/level-options.ts";
import type { SetOptions } from "../entry/index.ts";
import { confirmed } from "./ask.ts";
import { checkedLimits } from "./checked-limits.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions, repeated } from "./command.ts";
import { type CommandLimiter, levelsOf } from "./command-limiter.ts";
import { EXIT, UsageError } from "./exit-code.ts";
import { limitsOf } from "./limit-text.ts";
import { onStore } from "./on-store.ts";
import { principalOf } from "./principal.ts";
import { printChange, printValue } from "./print.ts";
import { levelBlock, limitsMissing } from "./show-limits.ts";
import { choiceOf } from "./values.ts";

/** How the limits of a level go with other levels, and when they are set. */
export interface LevelFlags extends GlobalOptions {
  readonly inherit?: boolean;
  readonly appliesTo?: string;
  readonly ifAbsent?: boolean;
}

/** What every command that sets limits takes. */
export interface SetLevelOptions extends LevelFlags {
  readonly limit?: readonly string[];
  readonly soft?: readonly string[];
  readonly resource?: string;
}

/** The options of `LevelFlags`. */
export function levelFlags(command: Command): Command {
  return command
    .option("--inherit", "adds to the levels after it: limits of the same name replace, others stay")
    .option("--applies-to <everyone|callers>", "callers: only who asks, not parents that are charged")
    .option("--if-absent", "only where no limits are");
}

export function flagsOf({ inherit, appliesTo, ifAbsent }: LevelFlags): SetOptions {
  return {
    ...(inherit === true ? { inherit } : {}),
    ...(appliesTo === undefined
      ? {}
      : { appliesTo: choiceOf(appliesTo, ["everyone", "callers"] as const, "--applies-to") }),
    ...(ifAbsent === true ? { ifAbsent } : {}),
  };
}

/** The limits of `-l`, at least one. */
export function givenLimits({ limit, soft }: Pick<SetLevelOptions, "limit" | "soft">): readonly Limit[] {
  if (limit === undefined) {
    throw new UsageError("Which limits? Give -l NAME:AMOUNT[/PERIOD][:BURST], such as -l rpm:100.");
  }
  return checkedLimits(limitsOf(limit, soft ?? []));
}

/** Sets the limits of a level, or says what would be set. */
export async function setLevel(
  context: CommandContext,
  options: LevelFlags,
  limiter: CommandLimiter,
  level: { readonly scope: ConfigScope; readonly title: string; readonly limits: readonly Limit[] },
): Promise<number> {
  const levels = await levelsOf(limiter);
  const { scope, title, limits } = level;
  const flags = flagsOf(options);
  const { level: _, ...where } = scope;
  let config: StoredConfig;
  let changed: boolean;
  if (options.dryRun === true) {
    const before = await levels.get(scope);
    const change = limitsChanged(before, { limits, ...checkLevelOptions(flags) });
    changed = change.kind === "changed";
    config = change.kind === "changed" ? (change.config ?? { limits: [] }) : before;
  } else {
    changed = await levels.set(scope, limits, { ...flags, ...principalOf(context, options) });
    config = await levels.get(scope);
  }
  await printChange(context, options, { ...where, ...config, changed }, () => levelBlock(title, config));
  if (!changed && options.quiet !== true) {
    const why = flags.ifAbsent === true && config.limits.length > 0 ? "There are limits already" : "It was so already";
    context.output.note(`${why}; nothing was written.\n`);
  }
  return EXIT.done;
}

/** A level that commands are about. */
interface LevelCommands {
  /** The argument that names whose limits they are; absent: the system's. */
  readonly argument?: readonly [name: string, description: string];
  /** Whether `-r` names a resource. */
  readonly hasResource?: true;
  /** Throws where there is no such thing. */
  require?(limiter: CommandLimiter, id: string, options: GlobalOptions): Promise<void>;
  scopeOf(id: string, resource: string | undefined): ConfigScope;
  /** `the limits of the plan gold on gpt-4`, without the article. */
  titleOf(id: string, resource: string | undefined): string;
  readonly command: string;
  readonly what: "limits" | "totals";
}

const EXIT_CODES = "\nExit codes: 4 there are none there.\n";

export function setCommand(level: LevelCommands, ...lines: readonly string[]): CommandFile<SetLevelOptions> {
  return {
    configure: (command) => {
      named(command, level)
        .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
        .option("--soft <name>", "measured, never a reason to refuse; repeated", repeated);
      levelFlags(command).addHelpText("after", examples(...lines));
    },
    run: (context, options, [id = ""]) => {
      const limits = givenLimits(options);
      const scope = level.scopeOf(id, options.resource);
      return onStore(context, options, async (limiter) => {
        await level.require?.(limiter, id, options);
        return setLevel(context, options, limiter, { scope, limits, title: level.titleOf(id, options.resource) });
      });
    },
  };
}

export function getCommand(level: LevelCommands): CommandFile<SetLevelOptions> {
  return {
    configure: (command) => {
      named(command, level)
        .addHelpText("after", examples(`zae-limiter ${level.command.replace("set-", "get-")}`))
        .addHelpText("after", EXIT_CODES);
    },
    run: (context, options, [id = ""]) =>
      onStore(context, options, async (limiter) => {
        await level.require?.(limiter, id, options);
        const { level: _, ...where } = level.scopeOf(id, options.resource);
        const config = await (await levelsOf(limiter)).get(level.scopeOf(id, options.resource));
        if (config.limits.length === 0) throw noneOf(level, id, options.resource);
        const title = level.titleOf(id, options.resource);
        await printValue(context, options, { ...where, ...config }, () => levelBlock(title, config));
        return EXIT.done;
      }),
  };
}

export function deleteCommand(level: LevelCommands): CommandFile<SetLevelOptions> {
  return {
    configure: (command) => {
      named(command, level)
        .addHelpText("after", examples(`zae-limiter ${level.command.replace("set-", "delete-")} --yes`))
        .addHelpText("after", "\nExit codes: 1 declined, 4 there are none there.\n");
    },
    run: (context, options, [id = ""]) =>
      onStore(context, options, async (limiter) => {
        await level.require?.(limiter, id, options);
        const levels = await levelsOf(limiter);
        const scope = level.scopeOf(id, options.resource);
        const title = level.titleOf(id, options.resource);
        if ((await levels.get(scope)).limits.length === 0) throw noneOf(level, id, options.resource);
        await confirmed(context, options, `Delete the ${level.what} of ${title}?`);
        if (options.dryRun !== true && !(await levels.delete(scope, principalOf(context, options)))) {
          throw noneOf(level, id, options.resource);
        }
        const { level: _, ...where } = scope;
        await printChange(
          context,
          options,
          { ...where, deleted: true },
          () => `The ${level.what} of ${title} are deleted.\n`,
        );
        return EXIT.done;
      }),
  };
}

function named(command: Command, { argument, hasResource }: LevelCommands): Command {
  if (argument !== undefined) command.argument(`<${argument[0]}>`, argument[1]);
  if (hasResource === true) {
    command.option("-r, --resource <resource>", "on which; default: wherever it has none of its own");
  }
  return command;
}

function noneOf(level: LevelCommands, id: string, resource: string | undefined) {
  const remedy = `set some with \`zae-limiter ${level.command.replace(/ ID.*/, id === "" ? "" : ` ${id}`)} -l …\``;
  return limitsMissing(`There are no ${level.what} of ${level.titleOf(id, resource)}`, remedy);
}

export type { LevelCommands };
