import type { CommandContext, GlobalOptions } from "./command.ts";
import { CommandEnd, EXIT } from "./exit-code.ts";

/** Asks before something is destroyed. Returns only if it is wanted; before anything was changed otherwise. */
export async function confirmed(context: CommandContext, options: GlobalOptions, question: string): Promise<void> {
  if (options.yes === true || options.dryRun === true) return;
  const { terminal } = context;
  if (!terminal.stdin || !terminal.stderr) {
    throw new CommandEnd({
      code: "confirmation_required",
      message: `${question} Not a terminal: pass --yes to confirm. Nothing was changed.`,
      exitCode: EXIT.usage,
    });
  }
  const answer = await terminal.ask(`${question} [y/N] `);
  if (/^y(es)?$/i.test(answer?.trim() ?? "")) return;
  throw new CommandEnd({ code: "declined", message: "Declined; nothing was changed.", exitCode: EXIT.refused });
}
