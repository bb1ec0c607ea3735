import type { Command } from "commander";
import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import { limitsChanged } from "../domain/config/config-change.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import { checkLevelOptions } from "../engine/limiter/level-options.ts";
import type { SetOptions } from "../entry/index.ts";
import { confirmed } from "./ask.ts";
import { checkedLimits } from "./checked-limits.ts";
import {
  type CommandContext,
  type CommandFile,
  type CommandGroup,
  examples,
  type GlobalOptions,
  repeated,
} from "./command.ts";
import { type CommandLimiter, levelsOf } from "./command-limiter.ts";
import { EXIT, UsageError } from "./exit-code.ts";
import { hiddenBy, hiddenText, lostText } from "./hidden-limits.ts";
import { limitsOf } from "./limit-text.ts";
import { onStore } from "./on-store.ts";
import { principalOf } from "./principal.ts";
import { isJson, printChange, printValue } from "./print.ts";
import { levelBlock } from "./show-limits.ts";
import { choiceOf } from "./values.ts";

/** A level of limits, which commands set, get and delete. */
export interface Level {
  readonly group: "entity" | "plan" | "resource" | "system";
  readonly what: "limits" | "totals" | "defaults";
  /** Of the system there is none. `aboutSet`: for `set`, where that says more. */
  readonly argument?: { readonly name: string; readonly about: string; readonly aboutSet?: string };
  /** What `-r` says, where the level may be on a resource: for `set`, and for the others. */
  readonly resource?: { readonly aboutSet: string; readonly about: string };
  readonly examples: {
    readonly set: readonly string[];
    /** Of `get` and `delete`. */
    readonly other: string;
  };
  scopeOf(id: string, resource: string | undefined): ConfigScope;
  /** `the plan gold on gpt-4`. */
  titleOf(id: string, on: string): string;
  /** Throws where there is nothing of that name. */
  require?(
    limiter: CommandLimiter,
    id: string,
    options: SetLevelOptions,
    verb: "set" | "get" | "delete",
  ): Promise<void>;
  readonly set?: {
    /** In the help, options of how limits go with others come after the limits. */
    readonly flagsLast?: true;
    readonly options?: (command: Command) => unknown;
    readonly exitCodes?: string;
    /** In place of limits alone. */
    run?(context: CommandContext, options: SetLevelOptions): Promise<number>;
  };
  /** That nothing is set there. */
  readonly none?: {
    /** Of the help. */
    readonly short: string;
    text(id: string, on: string): string;
    /** After `get`. */
    remedy(limiter: CommandLimiter, id: string): string | Promise<string>;
  };
  /** What is deleted, in the question and when it is done; by default its title. */
  readonly deleted?: { readonly question: string; readonly done: string };
}

/** What every command that sets limits takes: how they go with other levels, and when they are set. */
export interface SetLevelOptions extends GlobalOptions {
  readonly inherit?: boolean;
  readonly appliesTo?: string;
  readonly ifAbsent?: boolean;
  readonly limit?: readonly string[];
  readonly soft?: readonly string[];
  readonly resource?: string;
  readonly allowUnknown?: boolean;
}

/** `set-…`, `get-…` and `delete-…` of a level. */
export function levelCommands(level: Level): CommandGroup {
  const { group, what } = level;
  return {
    [`${group} set-${what}`]: setCommand(level),
    [`${group} get-${what}`]: getCommand(level),
    [`${group} delete-${what}`]: deleteCommand(level),
  };
}

function setCommand(level: Level): CommandFile<SetLevelOptions> {
  const { flagsLast, options: more, exitCodes, run } = level.set ?? {};
  return {
    configure: (command) => {
      if (level.argument !== undefined) argumentOf(command, level.argument, "set");
      const limit = () => command.option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated);
      const soft = () =>
        command.option("--soft <name>", "a limit that is counted but never refuses; repeated", repeated);
      const flags = () => levelFlags(command);
      const resource = () => resourceOf(command, level.resource?.aboutSet);
      for (const add of flagsLast ? [resource, limit, soft, flags] : [flags, limit, resource, soft]) add();
      more?.(command);
      command.addHelpText("after", examples(...level.examples.set.map((rest) => lineOf(level, "set", rest))));
      if (exitCodes !== undefined) command.addHelpText("after", `\nExit codes: ${exitCodes}.\n`);
    },
    run: (context, options, [id = ""]) => {
      if (run !== undefined) return run(context, options);
      const limits = givenLimits(options);
      const scope = level.scopeOf(id, options.resource);
      return onStore(context, options, async (limiter) => {
        await level.require?.(limiter, id, options, "set");
        return setLevel(context, options, limiter, { scope, limits, title: level.titleOf(id, onText(options)) });
      });
    },
  };
}

function getCommand(level: Level): CommandFile<SetLevelOptions> {
  return {
    configure: (command) => configureOther(command, level, "get", ""),
    run: (context, options, [id = ""]) =>
      onStore(context, options, async (limiter) => {
        await level.require?.(limiter, id, options, "get");
        const scope = level.scopeOf(id, options.resource);
        const config = await (await levelsOf(limiter)).get(scope);
        if (!isDeletable(config) && config.usageKeptDays === undefined) {
          throw await noneAt(level, limiter, id, options, "get");
        }
        const { level: _, ...where } = scope;
        const title = level.titleOf(id, onText(options));
        await printValue(context, options, { ...where, ...config }, () => levelBlock(title, config));
        return EXIT.done;
      }),
  };
}

function deleteCommand(level: Level): CommandFile<SetLevelOptions> {
  return {
    configure: (command) => configureOther(command, level, "delete", " --yes"),
    run: (context, options, [id = ""]) =>
      onStore(context, options, async (limiter) => {
        await level.require?.(limiter, id, options, "delete");
        const levels = await levelsOf(limiter);
        const scope = level.scopeOf(id, options.resource);
        const none = () => noneAt(level, limiter, id, options, "delete");
        const config = await levels.get(scope);
        if (!isDeletable(config)) throw config.usageKeptDays === undefined ? await none() : onlyDays(config);
        const title = level.titleOf(id, onText(options));
        const { question = `${level.what} of ${title}`, done = `${level.what} of ${title}` } = level.deleted ?? {};
        await confirmed(context, options, `Delete the ${question}?`);
        if (options.dryRun !== true && !(await levels.delete(scope, principalOf(context, options)))) throw await none();
        const { level: _, ...where } = scope;
        await printChange(
          context,
          options,
          { ...where, deleted: true },
          () => `The ${done} are deleted.\n${keptText(config)}`,
        );
        return EXIT.done;
      }),
  };
}

function configureOther(command: Command, level: Level, verb: "get" | "delete", yes: string): void {
  if (level.argument !== undefined) argumentOf(command, level.argument, verb);
  resourceOf(command, level.resource?.about);
  const declined = verb === "delete" ? "1 declined, " : "";
  command
    .addHelpText("after", examples(lineOf(level, verb, level.examples.other) + yes))
    .addHelpText("after", `\nExit codes: ${declined}4 ${level.none?.short ?? "nothing is set there"}.\n`);
}

function argumentOf(command: Command, { name, about, aboutSet }: NonNullable<Level["argument"]>, verb: string): void {
  command.argument(`<${name}>`, verb === "set" ? (aboutSet ?? about) : about);
}

function resourceOf(command: Command, about: string | undefined): void {
  if (about !== undefined) command.option("-r, --resource <resource>", about);
}

function lineOf({ group, what }: Level, verb: string, rest: string): string {
  return `zae-limiter ${group} ${verb}-${what} ${rest}`.trimEnd();
}

function onText({ resource }: SetLevelOptions): string {
  return resource === undefined ? "" : ` on ${resource}`;
}

/** Whether there is something that goes with the limits: a policy stays, and so does how long usage is kept. */
function isDeletable({ limits, onUnavailable }: StoredConfig): boolean {
  return limits.length > 0 || onUnavailable !== undefined;
}

/** Deleting limits never shortens how long usage is kept: bills are made of it. */
function keptText({ usageKeptDays }: StoredConfig): string {
  return usageKeptDays === undefined ? "" : `Usage is still kept for ${usageKeptDays} days.\n`;
}

function onlyDays({ usageKeptDays }: StoredConfig): NotFoundError {
  return new NotFoundError(
    "limits_not_found",
    `The system defaults only say that usage is kept for ${usageKeptDays} days, which deleting them leaves as it is; ` +
      "nothing was deleted. Change it with `zae-limiter system set-defaults --usage-kept-days DAYS`.",
  );
}

async function noneAt(
  level: Level,
  limiter: CommandLimiter,
  id: string,
  options: SetLevelOptions,
  verb: "get" | "delete",
): Promise<NotFoundError> {
  const on = onText(options);
  if (level.none === undefined) {
    const way = lineOf(level, "set", `${id}${options.resource === undefined ? "" : ` -r ${options.resource}`}`);
    const text = `There are no ${level.what} of ${level.titleOf(id, on)}; set some with \`${way} -l …\`.`;
    return new NotFoundError("limits_not_found", text);
  }
  const remedy = verb === "get" ? await level.none.remedy(limiter, id) : "; nothing was deleted.";
  return new NotFoundError("limits_not_found", `${level.none.text(id, on)}${remedy}`);
}

/** How limits go with other levels, and when they are set. */
function levelFlags(command: Command): Command {
  return command
    .option("--inherit", "keep limits of less specific levels, except those of the same name")
    .option(
      "--applies-to <everyone|callers>",
      "callers: only the entity that makes a request, not its parents; default everyone",
    )
    .option("--if-absent", "set them only if none are set");
}

export function flagsOf({ inherit, appliesTo, ifAbsent }: SetLevelOptions): SetOptions {
  return {
    ...(inherit === true ? { inherit } : {}),
    ...(appliesTo === undefined
      ? {}
      : { appliesTo: choiceOf(appliesTo, ["everyone", "callers"] as const, "--applies-to") }),
    ...(ifAbsent === true ? { ifAbsent } : {}),
  };
}

/** The limits of `-l`, at least one. */
function givenLimits({ limit, soft }: Pick<SetLevelOptions, "limit" | "soft">): readonly Limit[] {
  if (limit === undefined) {
    throw new UsageError("No limit is given; give -l NAME:AMOUNT[/PERIOD][:BURST], such as -l rpm:100.");
  }
  return checkedLimits(limitsOf(limit, soft ?? []));
}

/** Sets the limits of a level, or says what would be set. */
async function setLevel(
  context: CommandContext,
  options: SetLevelOptions,
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
