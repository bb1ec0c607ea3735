import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import { limitsChanged } from "../domain/config/config-change.ts";
import { type ShownConfig, shownConfig } from "../domain/config/overrides.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { checkLevelOptions } from "../engine/limiter/level-options.ts";
import type { SetOptions } from "../entry/index.ts";
import type {
  ALLOW_UNKNOWN,
  CommandContext,
  CommandGroup,
  CommandRow,
  OptionRow,
  OptionsOf,
  Usage,
} from "./command.ts";
import { EXIT, UsageError } from "./exit-code.ts";
import { hiddenBy, hiddenText, lostText } from "./hidden-limits.ts";
import { levelBlock, limitsOf } from "./limit-text.ts";
import { type CommandLimiter, levelsOf, onStore } from "./on-store.ts";
import { show } from "./plain-commands.ts";
import { confirmed, isJson, printChange } from "./print.ts";
import type { LevelAccess } from "./service-client.ts";
import { principalOf } from "./store-option.ts";
import { END_OPTIONS, endOf, endText, storedOf } from "./until.ts";
import { choiceOf } from "./values.ts";

/** A level of limits, which commands set, get and delete. */
export interface Level {
  readonly group: "entity" | "plan" | "resource" | "system";
  readonly what: "limits" | "totals" | "defaults";
  /** The system has none. `aboutSet` is for `set`, where that says more. */
  readonly argument?: { readonly name: string; readonly about: string; readonly aboutSet?: string };
  /** The help of `-r`, where the level may be on a resource: for `set`, and for the others. */
  readonly resource?: { readonly aboutSet: string; readonly about: string };
  readonly examples: {
    readonly set: readonly string[];
    /** The example of `get` and `delete`. */
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
    /** In the help, the flags come after the limits. */
    readonly flagsLast?: true;
    readonly options?: readonly OptionRow[];
    readonly exitCodes?: string;
    /** Takes the place of setting limits alone. */
    run?(context: CommandContext, options: SetLevelOptions): Promise<number>;
  };
  /** The words for a level where nothing is set. */
  readonly none?: {
    /** In the exit codes of the help. */
    readonly short: string;
    text(id: string, on: string): string;
    /** The end of the message after `get`. */
    remedy(limiter: CommandLimiter, id: string): string | Promise<string>;
  };
  /** The words for the level in the question before a deletion, and after it. Default: its title. */
  readonly deleted?: { readonly question: string; readonly done: string };
}

const LIMIT = ["-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", "list"] as const;
const SOFT = ["--soft <name>", "a limit that is counted but never refuses; repeated", "list"] as const;
const FLAGS = [
  ["--inherit", "keep limits of less specific levels, except those of the same name"],
  [
    "--applies-to <everyone|callers>",
    "callers: only the entity that makes a request, not its parents; default everyone",
  ],
  ["--if-absent", "set them only if none are set"],
  ...END_OPTIONS,
  ["--keep-override", "limits that have an end go on to it, and these count afterwards"],
] as const satisfies readonly OptionRow[];

function resourceOption(about: string | undefined) {
  return about === undefined ? [] : ([["-r, --resource <resource>", about]] as const);
}

const OVERRIDE = ["--override", "end only limits that have an end; those that were set before count again"] as const;

export type SetLevelOptions = OptionsOf<
  [
    ...[typeof LIMIT, typeof SOFT, ...typeof FLAGS, typeof ALLOW_UNKNOWN, typeof OVERRIDE],
    ...ReturnType<typeof resourceOption>,
  ]
>;

/** `set-…`, `get-…` and `delete-…` of a level. */
export function levelCommands(level: Level): CommandGroup {
  const { group, what } = level;
  return {
    [`${group} set-${what}`]: setCommand(level),
    [`${group} get-${what}`]: getCommand(level),
    [`${group} delete-${what}`]: deleteCommand(level),
  };
}

function setCommand(level: Level): CommandRow {
  const { flagsLast, options: more = [], exitCodes, run } = level.set ?? {};
  const resource = resourceOption(level.resource?.aboutSet);
  const options = flagsLast ? [...resource, LIMIT, SOFT, ...FLAGS] : [...FLAGS, LIMIT, ...resource, SOFT];
  return {
    ...argumentsOf(level, "set"),
    options: [...options, ...more],
    examples: level.examples.set.map((rest) => lineOf(level, "set", rest)),
    notes: exitCodes === undefined ? [] : [`Exit codes: ${exitCodes}.`],
    run: (context, options: SetLevelOptions, [id = ""]) => {
      if (run !== undefined) return run(context, options);
      const limits = givenLimits(options);
      const flags = flagsOf(options);
      const scope = level.scopeOf(id, options.resource);
      return onStore(context, async (limiter) => {
        await level.require?.(limiter, id, options, "set");
        const title = level.titleOf(id, onText(options));
        return setLevel(context, limiter, { scope, limits, title, flags });
      });
    },
  };
}

function getCommand(level: Level): CommandRow {
  return show({
    ...usageOf(level, "get"),
    read: (options: SetLevelOptions, [id = ""]) => ({ id, options }),
    get: async (limiter, { id, options }) => {
      await level.require?.(limiter, id, options, "get");
      const scope = level.scopeOf(id, options.resource);
      const config = await (await levelsOf(limiter)).get(scope);
      if (!isDeletable(config) && config.usageKeptDays === undefined) {
        throw await noneAt(level, limiter, id, options, "get");
      }
      return { ...placeOf(scope), ...config };
    },
    text: (config, _, { id, options }) => levelBlock(level.titleOf(id, onText(options)), config),
  });
}

function deleteCommand(level: Level): CommandRow {
  return {
    ...usageOf(level, "delete"),
    run: (context, options: SetLevelOptions, [id = ""]) =>
      onStore(context, async (limiter) => {
        await level.require?.(limiter, id, options, "delete");
        const levels = await levelsOf(limiter);
        const scope = level.scopeOf(id, options.resource);
        const none = () => noneAt(level, limiter, id, options, "delete");
        const config = await levels.get(scope);
        if (options.override === true) {
          return endOverride(context, levels, { scope, config, title: level.titleOf(id, onText(options)) });
        }
        if (!isDeletable(config)) throw config.usageKeptDays === undefined ? await none() : onlyDays(config);
        const title = `${level.what} of ${level.titleOf(id, onText(options))}`;
        const { question = title, done = title } = level.deleted ?? {};
        await confirmed(context, `Delete the ${question}?`);
        if (context.options.dryRun !== true && !(await levels.delete(scope, principalOf(context)))) throw await none();
        const text = () => `The ${done} are deleted.\n${keptText(config)}`;
        return printChange(context, { ...placeOf(scope), deleted: true }, text);
      }),
  };
}

/** Ends limits that have an end before it comes. */
async function endOverride(
  context: CommandContext,
  levels: LevelAccess,
  { scope, config, title }: { readonly scope: ConfigScope; readonly config: ShownConfig; readonly title: string },
): Promise<number> {
  const none = () =>
    new NotFoundError(
      "override_not_found",
      `No limits of ${title} have an end; nothing was deleted. Leave --override out to delete them all.`,
    );
  const { untilMs, then } = config;
  if (untilMs === undefined) throw none();
  await confirmed(context, `End the limits of ${title} now, which end at ${endText(untilMs)} by themselves?`);
  const options = { override: true, ...principalOf(context) };
  if (context.options.dryRun !== true && !(await levels.delete(scope, options))) throw none();
  const base = then ?? { limits: [] };
  const text = () => levelBlock(title, base);
  return printChange(context, { ...placeOf(scope), ...base, deleted: true, override: true }, text);
}

function usageOf(level: Level, verb: "get" | "delete"): Usage {
  const [yes, declined] = verb === "delete" ? [" --yes", "1 declined, "] : ["", ""];
  return {
    ...argumentsOf(level, verb),
    options: [...resourceOption(level.resource?.about), ...(verb === "delete" ? [OVERRIDE] : [])],
    examples: [lineOf(level, verb, level.examples.other) + yes],
    notes: [`Exit codes: ${declined}4 ${level.none?.short ?? "nothing is set there"}.`],
  };
}

function argumentsOf({ argument }: Level, verb: string): Pick<Usage, "arguments"> {
  if (argument === undefined) return {};
  const { name, about, aboutSet = about } = argument;
  return { arguments: [[`<${name}>`, verb === "set" ? aboutSet : about]] };
}

function lineOf({ group, what }: Level, verb: string, rest: string): string {
  return `${group} ${verb}-${what} ${rest}`.trimEnd();
}

/** The scope without its level: the fields that answers have. */
function placeOf({ level: _, ...place }: ConfigScope): object {
  return place;
}

function onText({ resource }: SetLevelOptions): string {
  return resource === undefined ? "" : ` on ${resource}`;
}

/** A deletion removes limits and `onUnavailable`. A policy stays, and so does the time that usage is kept. */
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
    const text = `There are no ${level.what} of ${level.titleOf(id, on)}; set some with \`zae-limiter ${way} -l …\`.`;
    return new NotFoundError("limits_not_found", text);
  }
  const remedy = verb === "get" ? await level.none.remedy(limiter, id) : "; nothing was deleted.";
  return new NotFoundError("limits_not_found", `${level.none.text(id, on)}${remedy}`);
}

export function flagsOf({ inherit, appliesTo, ifAbsent, keepOverride, ...end }: SetLevelOptions): SetOptions {
  const { untilMs } = endOf(given({ for: end.for, until: end.until }), Date.now());
  if (untilMs !== undefined && keepOverride === true) {
    throw new UsageError("--keep-override is for limits without an end; leave it out, or --for and --until.");
  }
  return given({
    untilMs,
    keepOverride: keepOverride === true ? keepOverride : undefined,
    inherit: inherit === true ? inherit : undefined,
    appliesTo: appliesTo === undefined ? undefined : choiceOf(appliesTo, ["everyone", "callers"], "--applies-to"),
    ifAbsent: ifAbsent === true ? ifAbsent : undefined,
  });
}

/** The limits of `-l`, at least one. */
function givenLimits({ limit, soft }: Pick<SetLevelOptions, "limit" | "soft">): readonly Limit[] {
  if (limit === undefined) {
    throw new UsageError("No limit is given; give -l NAME:AMOUNT[/PERIOD][:BURST], such as -l rpm:100.");
  }
  return limitsOf(limit, soft);
}

/** Sets the limits of a level, or says what would be set. */
export async function setLevel(
  context: CommandContext,
  limiter: CommandLimiter,
  level: {
    readonly scope: ConfigScope;
    readonly title: string;
    readonly limits: readonly Limit[];
    readonly flags: SetOptions;
  },
): Promise<number> {
  const levels = await levelsOf(limiter);
  const { scope, title, limits, flags } = level;
  const where = placeOf(scope);
  if (context.options.dryRun === true) {
    const before = await levels.get(scope);
    const nowMs = Date.now();
    const change = limitsChanged(storedOf(before), { limits, ...checkLevelOptions(flags, nowMs) }, nowMs);
    const changed = change.kind === "changed";
    const config = changed ? shownConfig(change.config ?? { limits: [] }, nowMs) : before;
    const hides = await hiddenBy(limiter, scope, config);
    const replaced = () => (changed && before.limits.length > 0 ? levelBlock("Replaces:", before) : "");
    const text = () => `${levelBlock(title, config)}${replaced()}${hiddenText(hides)}`;
    return printChange(context, { ...where, ...config, changed, before, hides }, text);
  }
  const changed = await levels.set(scope, limits, { ...flags, ...principalOf(context) });
  const config = await levels.get(scope);
  await printChange(context, { ...where, ...config, changed }, () => levelBlock(title, config));
  if (context.options.quiet === true || isJson(context)) return EXIT.done;
  const there = flags.ifAbsent === true && config.limits.length > 0 ? "Limits are set already" : "Nothing differs";
  const note = changed ? lostText(await hiddenBy(limiter, scope, config)) : `${there}; nothing was written.\n`;
  if (note !== "") context.output.note(note);
  return EXIT.done;
}
