import { type Command, Option } from "commander";
import type { Access } from "../../domain/config/config.ts";
import { type CommandFile, type CommandGroup, examples, type GlobalOptions } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { allowUnknownOption, requireKnown } from "../known.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange, printValue } from "../print.ts";
import { choiceOf } from "../values.ts";

/** One member of a policy: how it is named and which words stand for its values. */
interface PolicyMember<Value> {
  readonly name: "access" | "cascade";
  /** Of `set`, with what it says in the help. */
  readonly argument: readonly [name: string, about: string];
  readonly valueByWord: Readonly<Record<string, Value>>;
  readonly examples: { readonly set: readonly string[]; readonly show: string };
  set(
    limiter: CommandLimiter,
    where: ReturnType<typeof policyScope>,
    value: Value,
    by: ReturnType<typeof principalOf>,
  ): Promise<unknown>;
}

/** `access set`, `cascade set`. */
function setPolicyCommand<Value>(member: PolicyMember<Value>): CommandFile<PolicyOptions> {
  const { name, valueByWord } = member;
  return {
    configure: (command) => {
      policyOptions(command.argument(...member.argument))
        .allowExcessArguments()
        .addOption(allowUnknownOption())
        .addHelpText("after", examples(...member.examples.set))
        .addHelpText("after", "\nExit codes: 4 no such entity or resource.\n");
    },
    run: (context, options, words) => {
      if (words.length > 1) throw new UsageError(misplaced(member, words));
      const [given = ""] = words;
      const word = choiceOf(given, Object.keys(valueByWord), name);
      const value = valueByWord[word] as Value;
      const where = policyScope(options);
      return onStore(context, options, async (limiter) => {
        await requireKnown(limiter, { ...where, allowUnknown: options.allowUnknown });
        if (options.dryRun !== true) await member.set(limiter, where, value, principalOf(context, options));
        await printChange(
          context,
          options,
          { ...where, [name]: value },
          () => `${scopeText(where)}: ${name} ${word}\n`,
        );
        return EXIT.done;
      });
    },
  };
}

/** The entity was given as an argument, beside the word or before it. */
function misplaced({ name, valueByWord }: PolicyMember<unknown>, words: readonly string[]): string {
  const word = words.find((each) => Object.hasOwn(valueByWord, each)) ?? String(Object.keys(valueByWord)[0]);
  const other = words.find((each) => each !== word) ?? "ID";
  return `\`${name} set\` takes one word and got ${words.length}: ${words.join(", ")}; give ${name} set ${word} -e ${other}, or -r for a resource.`;
}

/** `access show`, `cascade show`: what is set at exactly this scope. */
function showPolicyCommand<Value>({ name, valueByWord, ...member }: PolicyMember<Value>): CommandFile<PolicyOptions> {
  return {
    configure: (command) => {
      policyOptions(command).addHelpText("after", examples(member.examples.show));
    },
    run: (context, options) => {
      const where = policyScope(options);
      return onStore(context, options, async (limiter) => {
        const value = (await limiter.getPolicy(where))[name] ?? "inherit";
        const word = Object.keys(valueByWord).find((each) => valueByWord[each] === value) ?? String(value);
        await printValue(context, options, { ...where, [name]: value }, () => `${scopeText(where)}: ${name} ${word}\n`);
        return EXIT.done;
      });
    },
  };
}

/** Whom a policy concerns. */
interface PolicyOptions extends GlobalOptions {
  readonly entity?: string;
  readonly entityId?: string;
  readonly resource?: string;
  readonly allowUnknown?: boolean;
}

function policyOptions(command: Command): Command {
  return command
    .option("-e, --entity <id>", "only this entity")
    .addOption(new Option("--entity-id <id>").hideHelp())
    .option("-r, --resource <resource>", "only this resource");
}

/** The scope that was named; at least one of the two. */
function policyScope({ entity, entityId = entity, resource }: PolicyOptions): {
  readonly entityId?: string;
  readonly resource?: string;
} {
  if (entityId === undefined && resource === undefined)
    throw new UsageError("No entity or resource is named; give -e ID, -r RESOURCE, or both.");
  return { ...(entityId === undefined ? {} : { entityId }), ...(resource === undefined ? {} : { resource }) };
}

/** `key-1 on gpt-4`, `key-1`, `gpt-4 for everybody`. */
function scopeText({ entityId, resource }: { readonly entityId?: string; readonly resource?: string }): string {
  if (entityId === undefined) return `${resource} for every entity`;
  return resource === undefined ? `${entityId} on every resource` : `${entityId} on ${resource}`;
}

const ACCESS: PolicyMember<Access | "inherit"> = {
  name: "access",
  argument: ["<mode>", "disabled, bypass, enforce or inherit"],
  valueByWord: { disabled: "disabled", bypass: "bypass", enforce: "enforce", inherit: "inherit" },
  examples: {
    set: ["zae-limiter access set disabled -e key-1 -r gpt-4", "zae-limiter access set inherit -e key-1 -r gpt-4"],
    show: "zae-limiter access show -e key-1 -r gpt-4",
  },
  set: (limiter, ...given) => limiter.setAccess(...given),
};

export const accessSet = setPolicyCommand(ACCESS);
const accessShow = showPolicyCommand(ACCESS);

const CASCADE: PolicyMember<boolean | "inherit"> = {
  name: "cascade",
  argument: ["<on|off|inherit>", "whether parents are charged"],
  valueByWord: { on: true, off: false, inherit: "inherit" },
  examples: {
    set: ["zae-limiter cascade set off -e key-1 -r gpt-4", "zae-limiter cascade set inherit -e key-1 -r gpt-4"],
    show: "zae-limiter cascade show -e key-1 -r gpt-4",
  },
  set: (limiter, ...given) => limiter.setCascade(...given),
};

export const cascadeSet = setPolicyCommand(CASCADE);
const cascadeShow = showPolicyCommand(CASCADE);

export const POLICY_COMMANDS: CommandGroup = {
  "access set": accessSet,
  "access show": accessShow,
  "cascade set": cascadeSet,
  "cascade show": cascadeShow,
};
