import { COMMANDS, GROUPS } from "./commands.ts";
import type { Suggestions } from "./exit-code.ts";

/** Words for one deed. Groups do not all use the same one: namespaces are registered, and plans are got. */
const SYNONYMS: readonly (readonly string[])[] = [
  ["create", "register", "add", "new", "make"],
  ["show", "get", "describe", "view", "info"],
  ["delete", "remove", "rm", "del"],
  ["update", "set", "edit", "change", "modify"],
  ["list", "ls"],
  ["follow", "tail"],
];

/** Suggests commands for the word `word` of the command line `args` that is none: of its group, if it stands after one. */
export function suggestCommands(word: string, args: readonly string[]): Suggestions {
  const group = args.find((arg, at) => Object.hasOwn(GROUPS, arg) && args.indexOf(word, at + 1) > at);
  const words = SYNONYMS.find((each) => each.includes(word)) ?? [word];
  const endingIn = (endings: readonly string[]) => inGroups((_, last) => endings.includes(last));
  if (group === undefined) return { same: endingIn(words), others: [] };
  const within = (test: (last: string) => boolean) => inGroups((of, last) => of === group && test(last));
  const exact = within((last) => words.includes(last) || last.startsWith(`${word}-`) || last.endsWith(`-${word}`));
  const same = exact.length > 0 ? exact : within((last) => words.some((each) => last.startsWith(`${each}-`)));
  const elsewhere = endingIn([word]);
  return { same, others: elsewhere.length > 0 ? elsewhere : within(() => true) };
}

function inGroups(test: (group: string, last: string) => boolean): readonly string[] {
  return COMMANDS.filter(({ path: [group, last] }) => last !== undefined && test(String(group), last)).map(({ path }) =>
    path.join(" "),
  );
}
