import { styleText } from "node:util";
import type { CommandContext, GlobalOptions } from "./command.ts";

type Format = Parameters<typeof styleText>[0];

/** Marks a text, where colours are wanted. */
export type Paint = (format: Format, text: string) => string;

/** The option wins, then NO_COLOR, then FORCE_COLOR, then: a terminal that is not dumb. */
export function isColored({ env, terminal }: CommandContext, { color }: GlobalOptions): boolean {
  if (color === "always" || color === "never") return color === "always";
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== "") return false;
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== "") return env.FORCE_COLOR !== "0";
  return terminal.stdout && env.TERM !== "dumb";
}

export function paintOf(context: CommandContext, options: GlobalOptions): Paint {
  if (!isColored(context, options)) return (_, text) => text;
  return (format, text) => styleText(format, text, { validateStream: false });
}
