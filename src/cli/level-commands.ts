import type { Command } from "commander";
import type { ConfigScope } from "../domain/config.ts";
import { limitsChanged } from "../domain/config-change.ts";
import type { Limit } from "../domain/limit.ts";
import { checkLevelOptions } from "../engine/level-options.ts";
import type { SetOptions } from "../entry/index.ts";
import { confirmed } from "./ask.ts";
import { checkedLimits } from "./checked-limits.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions, repeated } from "./command.ts";
import { type CommandLimiter, levelsOf } from "./command-limiter.ts";
import { EXIT, UsageError } from "./exit-code.ts";
import { hiddenBy, hiddenText, lostText } from "./hidden-limits.ts";
import { limitsOf } from "./limit-text.ts";
import { onStore } from "./on-store.ts";
import { principalOf } from "./principal.ts";
import { isJson, printChange, printValue } from "./print.ts";
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
    .option("--inherit", "keep limits of less specific levels, except those of the same name")
    .option(
      "--applies-to <everyone|callers>",
      "callers: only the entity that makes a request, not its parents; default everyone",
    )
    .option("--if-absent", "set them only if none are set");
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
    throw new UsageError("No limit is given; give -l NAME:AMOUNT[/PERIOD][:BURST], such as -l rpm:100.");
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
  if (options.dryRun === true) {
    const before = await levels.get(scope);
    const change = limitsChanged(before, { limits, ...checkLevelOptions(flags) });
    const changed = change.kind === "changed";
    const config = changed ? (change.config ?? { limits: [] }) : before;
    const hides = await hiddenBy(limiter, scope, config);
    await printChange(context, options, { ...where, ...config, changed, before, hides }, () =>
      [
        levelBlock(title, config),
        changed && before.limits.length > 0 ? levelBlock("Replaces:", before) : "",
        hiddenText(hides),
      ].join(""),
    );
    return EXIT.done;
  }
  const changed = await levels.set(scope, limits, { ...flags, ...principalOf(context, options) });
  const config = await levels.get(scope);
  await printChange(context, options, { ...where, ...config, changed }, () => levelBlock(title, config));
  if (options.quiet === true || isJson(options)) return EXIT.done;
  const there = flags.ifAbsent === true && config.limits.length > 0 ? "Limits are set already" : "Nothing differs";
  const note = changed ? lostText(await hiddenBy(limiter, scope, config)) : `${there}; nothing was written.\n`;
  if (note !== "") context.output.note(note);
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

const EXIT_CODES = "\nExit codes: 4 nothing is set there.\n";

export function setCommand(level: LevelCommands, ...lines: readonly string[]): CommandFile<SetLevelOptions> {
  return {
    configure: (command) => {
      named(command, level)
        .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
        .option("--soft <name>", "a limit that is counted but never refuses; repeated", repeated);
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
        .addHelpText("after", "\nExit codes: 1 declined, 4 nothing is set there.\n");
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
    command.option(
      "-r, --resource <resource>",
      "on this resource; default: on every resource without limits of its own",
    );
  }
  return command;
}

function noneOf(level: LevelCommands, id: string, resource: string | undefined) {
  const remedy = `set some with \`zae-limiter ${level.command.replace(/ ID.*/, id === "" ? "" : ` ${id}`)} -l …\``;
  return limitsMissing(`There are no ${level.what} of ${level.titleOf(id, resource)}`, remedy);
}

export type { LevelCommands };
