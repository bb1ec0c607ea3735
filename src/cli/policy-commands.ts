import { type CommandFile, examples } from "./command.ts";
import type { CommandLimiter } from "./command-limiter.ts";
import { EXIT, UsageError } from "./exit-code.ts";
import { allowUnknownOption, requireKnown } from "./known.ts";
import { onStore } from "./on-store.ts";
import { type PolicyOptions, policyOptions, policyScope, scopeText } from "./policy-scope.ts";
import { principalOf } from "./principal.ts";
import { printChange, printValue } from "./print.ts";
import { choiceOf } from "./values.ts";

/** One member of a policy: how it is named and which words stand for its values. */
export interface PolicyMember<Value> {
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
export function setPolicyCommand<Value>(member: PolicyMember<Value>): CommandFile<PolicyOptions> {
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
export function showPolicyCommand<Value>({
  name,
  valueByWord,
  ...member
}: PolicyMember<Value>): CommandFile<PolicyOptions> {
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
