import { createInterface } from "node:readline/promises";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { CommandEnd, EXIT } from "./exit-code.ts";

/** Asks before something is done that cannot be undone or costs. Returns only if it is wanted; before anything was changed otherwise. */
export async function confirmed(
  { interrupted }: CommandContext,
  { yes }: GlobalOptions & { readonly yes?: boolean },
  question: string,
): Promise<void> {
  if (yes === true) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new CommandEnd({
      code: "confirmation_required",
      message: `${question} Nobody can be asked here, and nothing was changed; give --yes.`,
      exitCode: EXIT.usage,
    });
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question(`${question} [y/N] `, { signal: interrupted });
    if (/^y(es)?$/i.test(answer.trim())) return;
  } finally {
    lines.close();
  }
  throw new CommandEnd({ code: "declined", message: "Declined; nothing was changed.", exitCode: EXIT.refused });
}
