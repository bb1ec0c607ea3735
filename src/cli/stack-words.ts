/** Top-level words that are about stacks on AWS, and the commands on a store that may have been meant. */
const STACK_WORDS: Readonly<Record<string, string>> = {
  status: "doctor",
  check: "doctor",
  list: "entity list, resource list, plan list, namespace list, bucket list, usage list, refusals list or audit list",
  delete: "entity delete, plan delete or namespace delete",
};

/** What somebody may have meant who has a store and no stack; empty for a word that is not about stacks. */
export function besidesStacks(word: string): string {
  const others = STACK_WORDS[word];
  return others === undefined ? "" : `\`${word}\` is for stacks on AWS; on a store, use ${others}.`;
}
