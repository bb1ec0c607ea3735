import type { Access } from "../../domain/config/config.ts";
import { given } from "../../domain/names/given.ts";
import type { Policy } from "../../entry/index.ts";
import {
  ALLOW_UNKNOWN,
  type CommandGroup,
  type CommandRow,
  ENTITY_ID,
  type OptionRow,
  type OptionsOf,
  SCOPE_OPTIONS,
} from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { requireKnown } from "../known.ts";
import type { CommandLimiter } from "../on-store.ts";
import { change, show } from "../plain-commands.ts";
import { END_OPTIONS, endOf, endText } from "../until.ts";
import { choiceOf } from "../values.ts";

const POLICY_OPTIONS = [...SCOPE_OPTIONS, ENTITY_ID] as const;

/** The entity, the resource or the pair that a policy is about. */
interface PolicyPlace {
  readonly entityId?: string;
  readonly resource?: string;
}

/** One member of a policy: how it is named and which words stand for its values. */
interface PolicyMember<Value> {
  readonly name: "access" | "cascade";
  /** The argument of `set`. */
  readonly argument: readonly [name: string, about: string];
  readonly valueByWord: Readonly<Record<string, Value>>;
  /** Words of the two examples of `set`. */
  readonly words: readonly [string, string];
  /** It may be set with an end. */
  readonly hasEnd: boolean;
  set(limiter: CommandLimiter, where: PolicyPlace, value: Value, options: PolicyOptions): Promise<unknown>;
}

interface PolicyOptions {
  readonly principal?: string;
  readonly untilMs?: number;
}

const SET_OPTIONS = [...POLICY_OPTIONS, ALLOW_UNKNOWN, ...END_OPTIONS] as const;
/** The options of a policy without an end, typed as those of one that has it: the options that it lacks name nothing. */
const SET_WITHOUT_END = [...POLICY_OPTIONS, ALLOW_UNKNOWN] as readonly OptionRow[] as typeof SET_OPTIONS;

/** `access set`, `cascade set`. */
function setPolicyCommand<Value>(member: PolicyMember<Value>) {
  const { name, valueByWord } = member;
  return change({
    arguments: [member.argument],
    options: member.hasEnd ? SET_OPTIONS : SET_WITHOUT_END,
    refusesExcess: true,
    examples: member.words.map((word) => `${name} set ${word} -e key-1 -r gpt-4`),
    notes: ["Exit codes: 4 no such entity or resource."],
    read: (options, words) => {
      if (words.length > 1) throw new UsageError(misplaced(member, words));
      const word = choiceOf(words[0] ?? "", Object.keys(valueByWord), name);
      const { allowUnknown } = options;
      const end = endOf(options, Date.now());
      return { where: policyScope(options), word, value: valueByWord[word] as Value, allowUnknown, end };
    },
    before: (limiter, { where, allowUnknown }) => requireKnown(limiter, { ...where, allowUnknown }),
    plan: (_, { where, value, end }) => ({ ...where, [name]: value, ...end }),
    make: async (limiter, { where, value, end }, by) =>
      void (await member.set(limiter, where, value, { ...by, ...end })),
    text: (_, { where, word, end: { untilMs } }) =>
      `${scopeText(where)}: ${name} ${word}${untilMs === undefined ? "" : ` until ${endText(untilMs)}`}\n`,
  });
}

/** The message for an entity that was given as an argument, beside the word or before it. */
function misplaced({ name, valueByWord }: PolicyMember<unknown>, words: readonly string[]): string {
  const word = words.find((each) => Object.hasOwn(valueByWord, each)) ?? String(Object.keys(valueByWord)[0]);
  const other = words.find((each) => each !== word) ?? "ID";
  return `\`${name} set\` takes one word and got ${words.length}: ${words.join(", ")}; give ${name} set ${word} -e ${other}, or -r for a resource.`;
}

/** `access show`, `cascade show`: the value that is set at exactly this scope. */
function showPolicyCommand<Value>({ name, valueByWord }: PolicyMember<Value>): CommandRow {
  return show({
    options: POLICY_OPTIONS,
    examples: [`${name} show -e key-1 -r gpt-4`],
    read: policyScope,
    get: async (limiter, where): Promise<Readonly<Record<string, unknown>> & PolicyEnd> => {
      const { accessUntilMs, accessThen, frozen, ...policy } = await limiter.getPolicy(where);
      const end = name === "access" ? given({ accessUntilMs, accessThen }) : {};
      return { ...where, [name]: policy[name] ?? "inherit", ...end, ...given({ frozen }) };
    },
    text: ({ [name]: value, accessUntilMs, accessThen = "inherit", frozen }, _, where) => {
      const word = Object.keys(valueByWord).find((each) => valueByWord[each] === value) ?? String(value);
      const end = accessUntilMs === undefined ? "" : ` until ${endText(accessUntilMs)}, then ${accessThen}`;
      const rest = frozen === undefined ? "" : "The namespace is frozen: nothing is taken, whatever access is set.\n";
      return `${scopeText(where)}: ${name} ${word}${end}\n${rest}`;
    },
  });
}

type PolicyEnd = Pick<Policy, "accessUntilMs" | "accessThen">;

/** The scope that was named; at least one of the two. */
function policyScope({ entity, entityId = entity, resource }: OptionsOf<typeof POLICY_OPTIONS>): PolicyPlace {
  if (entityId !== undefined || resource !== undefined) return given({ entityId, resource });
  throw new UsageError("No entity or resource is named; give -e ID, -r RESOURCE, or both.");
}

/** `key-1 on gpt-4`, `key-1 on every resource`, `gpt-4 for every entity`. */
function scopeText({ entityId, resource }: PolicyPlace): string {
  if (entityId === undefined) return `${resource} for every entity`;
  return resource === undefined ? `${entityId} on every resource` : `${entityId} on ${resource}`;
}

const ACCESS: PolicyMember<Access | "inherit"> = {
  name: "access",
  argument: ["<mode>", "disabled, bypass, enforce or inherit"],
  valueByWord: { disabled: "disabled", bypass: "bypass", enforce: "enforce", inherit: "inherit" },
  words: ["disabled", "inherit"],
  hasEnd: true,
  set: (limiter, ...args) => limiter.setAccess(...args),
};

const CASCADE: PolicyMember<boolean | "inherit"> = {
  name: "cascade",
  argument: ["<on|off|inherit>", "whether parents are charged"],
  valueByWord: { on: true, off: false, inherit: "inherit" },
  words: ["off", "inherit"],
  hasEnd: false,
  set: (limiter, where, value, { untilMs: _, ...by }) => limiter.setCascade(where, value, by),
};

export const accessSet = setPolicyCommand(ACCESS);
export const cascadeSet = setPolicyCommand(CASCADE);

export const POLICY_COMMANDS: CommandGroup = {
  "access set": accessSet,
  "access show": showPolicyCommand(ACCESS),
  "cascade set": cascadeSet,
  "cascade show": showPolicyCommand(CASCADE),
};
