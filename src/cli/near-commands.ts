import { COMMANDS } from "./commands.ts";

/** Commands of groups that end in a word: `create` is one of entities, and one of plans. */
export function commandsEndingIn(word: string): readonly string[] {
  return COMMANDS.filter(({ path }) => path.length > 1 && path.at(-1) === word).map(({ path }) => path.join(" "));
}

/** Top-level words that are about the stack on AWS, and what besides may have been meant. */
const STACK_WORDS: Readonly<Record<string, readonly string[]>> = {
  status: ["doctor"],
  check: ["doctor"],
  list: [],
  delete: [],
};

/** What somebody may have meant who has a store and no stack; empty for a word that is not about stacks. */
export function besidesStacks(word: string): string {
  const more = STACK_WORDS[word];
  if (more === undefined) return "";
  const others = commandsEndingIn(word).filter((command) => !/^(local|token) /.test(command));
  return `\`${word}\` is for stacks on AWS; on a store, use ${oneOf([...more, ...others])}.`;
}

/** `entity list, plan list or token list`. */
export function oneOf(commands: readonly string[]): string {
  const last = commands.at(-1) ?? "";
  return commands.length < 2 ? last : `${commands.slice(0, -1).join(", ")} or ${last}`;
}
