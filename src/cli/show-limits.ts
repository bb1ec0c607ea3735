import { NotFoundError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import type { Policy } from "../entry/index.ts";
import { limitText } from "./limit-print.ts";

/** Limits of a scope for people, with what else the scope says. */
export function limitsBlock(title: string, limits: readonly Limit[], { access, cascade }: Policy): string {
  const lines = [
    title,
    ...limits.map((limit) => `  ${limitText(limit)}`),
    ...(limits.length === 0 ? ["  no limits"] : []),
    ...(access === undefined ? [] : [`  access: ${access}`]),
    ...(cascade === undefined ? [] : [`  cascade: ${cascade ? "on" : "off"}`]),
  ];
  return `${lines.join("\n")}\n`;
}

export function limitsMissing(whose: string, remedy: string): NotFoundError {
  return new NotFoundError("limits_not_found", `${whose}; ${remedy}.`);
}
