import type { StoredConfig } from "../domain/config/config.ts";
import type { Limit } from "../domain/limits/limit.ts";
import type { Policy } from "../entry/index.ts";
import { limitText } from "./limit-print.ts";

/** Limits of a scope for people, with what else the scope says. */
function limitsBlock(title: string, limits: readonly Limit[], { access, cascade }: Policy): string {
  const lines = [
    title,
    ...limits.map((limit) => `  ${limitText(limit)}`),
    ...(limits.length === 0 ? ["  no limits"] : []),
    ...(access === undefined ? [] : [`  access: ${access}`]),
    ...(cascade === undefined ? [] : [`  cascade: ${cascade ? "on" : "off"}`]),
  ];
  return `${lines.join("\n")}\n`;
}

/** What a level says itself, for people: limits, how they go with other levels, and its policy. */
export function levelBlock(title: string, { limits, inherit, appliesTo, ...said }: StoredConfig): string {
  return [
    limitsBlock(title, limits, said),
    inherit === true ? "  inherits limits of less specific levels\n" : "",
    appliesTo === "callers" ? "  for callers only, not for their parents\n" : "",
    said.onUnavailable === undefined ? "" : `  on unavailable: ${said.onUnavailable}\n`,
    said.usageKeptDays === undefined ? "" : `  usage kept: ${said.usageKeptDays} days\n`,
  ].join("");
}
