import { limitsChanged } from "../../domain/config/config-change.ts";
import { checkUsageKeptDays } from "../../domain/config/retention.ts";
import { given } from "../../domain/names/given.ts";
import { checkResource } from "../../domain/names/names.ts";
import type { SetOptions } from "../../entry/index.ts";
import { ALLOW_UNKNOWN, type CommandContext, type CommandGroup, type OptionsOf } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { requireKnown, requirePlan, resourcesOf } from "../known.ts";
import { flagsOf, type Level, levelCommands, type SetLevelOptions, setLevel } from "../level-commands.ts";
import { levelBlock, limitsOf } from "../limit-text.ts";
import { type CommandLimiter, levelsOf, nearText, onStore } from "../on-store.ts";
import { printChange } from "../print.ts";
import { principalOf } from "../store-option.ts";
import { choiceOf } from "../values.ts";

const ON_EVERY = "on this resource; default: on every resource without limits of its own";
const planOf = { name: "plan", about: "the plan" };
const SYSTEM_OPTIONS = [
  ["--on-unavailable <allow|block>", "whether requests pass while the store is unavailable"],
  ["--usage-kept-days <days>", "how many days a DynamoDB table keeps usage"],
] as const;
const requirePlanOf = async (limiter: CommandLimiter, id: string) => {
  await requirePlan(limiter, id);
};

const LEVELS: readonly Level[] = [
  {
    group: "entity",
    what: "limits",
    argument: { name: "id", about: "the entity" },
    resource: {
      aboutSet: ON_EVERY,
      about: "on this resource; default: the entity's default, for resources without limits of their own",
    },
    examples: {
      set: [
        "key-1 -r gpt-4 -l rpm:100 -l tpm:10k/min:20k",
        "proj-1 -l 'month:2M,reset=monthly,tz=Europe/Berlin'",
        "key-1 -l rpm:500 --inherit",
      ],
      other: "key-1 -r gpt-4",
    },
    scopeOf: (entityId, resource) =>
      resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource },
    titleOf: (id, on) => id + on,
    require: async (limiter, entityId, { resource, allowUnknown }, verb) => {
      if (verb === "set") await requireKnown(limiter, { entityId, resource, allowUnknown });
    },
    set: { options: [ALLOW_UNKNOWN], exitCodes: "4 no such entity or resource" },
    none: {
      short: "no limits are set there",
      text: (id, on) => `${id} has no limits of its own${on}`,
      remedy: () => "; `zae-limiter explain` shows which apply.",
    },
  },
  {
    group: "entity",
    what: "totals",
    argument: { name: "id", about: "the entity" },
    examples: { set: ["acme -l 'usd:$100/month'"], other: "acme" },
    scopeOf: (entityId) => ({ level: "entityTotal", entityId }),
    titleOf: (id) => `${id} over all resources`,
    require: async (limiter, entityId, _, verb) => {
      if (verb === "set") await requireKnown(limiter, { entityId });
    },
    set: { flagsLast: true },
  },
  {
    group: "plan",
    what: "limits",
    argument: planOf,
    resource: { aboutSet: ON_EVERY, about: ON_EVERY },
    examples: {
      set: ["gold -l rpm:1000 -l tpm:100k/min", "gold -r gpt-4 -l rpm:100 --inherit"],
      other: "gold -r gpt-4",
    },
    scopeOf: (planId, resource) =>
      resource === undefined ? { level: "planDefault", planId } : { level: "plan", planId, resource },
    titleOf: (id, on) => `the plan ${id}${on}`,
    require: requirePlanOf,
    set: { flagsLast: true },
  },
  {
    group: "plan",
    what: "totals",
    argument: planOf,
    examples: { set: ["gold -l 'usd:$100/month' --applies-to callers"], other: "gold" },
    scopeOf: (planId) => ({ level: "planTotal", planId }),
    titleOf: (id) => `the plan ${id} over all resources`,
    require: requirePlanOf,
    set: { flagsLast: true },
  },
  {
    group: "resource",
    what: "defaults",
    argument: { name: "resource", about: "the resource", aboutSet: "the resource; this makes it known" },
    examples: {
      set: ["gpt-4 -l rpm:100 -l tpm:10k/min:20k --applies-to callers", "batch -l 'rpm:100,when=* 9-17 * * 1-5 x0.5'"],
      other: "gpt-4",
    },
    scopeOf: (resource) => ({ level: "resource", resource: checkResource(resource) }),
    titleOf: (id) => id,
    none: {
      short: "no defaults are set",
      text: (id) => `The resource "${id}" has no defaults`,
      remedy: async (limiter, id) =>
        `${nearText(id, await resourcesOf(limiter))} Set some with \`zae-limiter resource set-defaults\`.`,
    },
  },
  {
    group: "system",
    what: "defaults",
    examples: { set: ["-l rpm:10 --on-unavailable block"], other: "" },
    scopeOf: () => ({ level: "system" }),
    titleOf: () => "system",
    set: { options: SYSTEM_OPTIONS, run: setSystem },
    none: {
      short: "no defaults are set",
      text: () => "There are no system defaults",
      remedy: () => "; set some with `zae-limiter system set-defaults`.",
    },
    deleted: { question: "system-wide default limits", done: "system defaults" },
  },
  {
    group: "system",
    what: "totals",
    examples: { set: ["-l 'usd:$5/month'"], other: "" },
    scopeOf: () => ({ level: "systemTotal" }),
    titleOf: () => "everybody over all resources",
    set: { flagsLast: true },
  },
];

export const LEVEL_COMMANDS: CommandGroup = Object.assign({}, ...LEVELS.map(levelCommands));

/** The system has settings beside its limits, and either may be set alone. */
function setSystem(
  context: CommandContext,
  options: SetLevelOptions & OptionsOf<typeof SYSTEM_OPTIONS>,
): Promise<number> {
  const { limit, soft, onUnavailable: word } = options;
  const flags = flagsOf(options);
  if (flags.untilMs !== undefined || flags.keepOverride === true) return setSystemLimits(context, options, flags);
  if (limit === undefined && word === undefined && options.usageKeptDays === undefined)
    throw new UsageError("No change is given; give -l LIMIT, --on-unavailable or --usage-kept-days.");
  const usageKeptDays = options.usageKeptDays === undefined ? undefined : daysOf(options.usageKeptDays);
  const onUnavailable = word === undefined ? undefined : choiceOf(word, ["allow", "block"], "--on-unavailable");
  const limits = limit === undefined ? undefined : limitsOf(limit, soft);
  return onStore(context, async (limiter) => {
    const levels = await levelsOf(limiter);
    const before = await levels.get({ level: "system" });
    // Without -l the limits stay as they are in the store, whoever changes them meanwhile.
    const inherit = limits !== undefined && flags.inherit === true ? flags.inherit : undefined;
    const appliesTo = limits !== undefined && flags.appliesTo === "callers" ? flags.appliesTo : undefined;
    const change = given({ limits, inherit, appliesTo, onUnavailable, usageKeptDays });
    const when = options.ifAbsent === true ? { ifAbsent: true as const } : {};
    const planned = limitsChanged(before, { ...change, ...when }, Date.now());
    const isDryRun = context.options.dryRun === true;
    const changed = isDryRun
      ? planned.kind === "changed"
      : await levels.changeSystem(change, { ...when, ...principalOf(context) });
    const wouldBe = planned.kind === "changed" ? (planned.config ?? { limits: [] }) : before;
    const after = isDryRun ? wouldBe : await levels.get({ level: "system" });
    return printChange(context, { ...after, changed }, () => levelBlock("system", after));
  });
}

/** Limits of the system that have an end, or that count after such: settings have none. */
function setSystemLimits(
  context: CommandContext,
  { limit, soft, onUnavailable, usageKeptDays }: SetLevelOptions & OptionsOf<typeof SYSTEM_OPTIONS>,
  flags: SetOptions,
): Promise<number> {
  if (limit === undefined || onUnavailable !== undefined || usageKeptDays !== undefined) {
    throw new UsageError("Settings have no end: --for, --until and --keep-override are for -l alone.");
  }
  const limits = limitsOf(limit, soft);
  return onStore(context, (limiter) =>
    setLevel(context, limiter, { scope: { level: "system" }, limits, title: "system", flags }),
  );
}

function daysOf(text: string): number {
  if (/^\d{1,5}$/.test(text)) return checkUsageKeptDays(Number(text));
  throw new UsageError(`--usage-kept-days is "${text}"; give whole days, such as 365.`);
}
