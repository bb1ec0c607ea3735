import { type Command, Option } from "commander";
import { checkSpan } from "../domain/names/instant.ts";
import type { UsageRequest } from "../entry/index.ts";
import type { ListOptions } from "./command.ts";
import { tokensText } from "./limit-print.ts";
import { choiceOf, instantMs } from "./values.ts";

/** Which usage is asked for. */
export interface UsageOptions extends ListOptions {
  readonly entity?: string;
  readonly entityId?: string;
  readonly resource?: string;
  readonly window?: string;
  /** Of `--from` and `--start`. */
  readonly start?: string;
  /** Of `--to` and `--end`. */
  readonly end?: string;
}

export function usageOptions(command: Command): Command {
  return command
    .option("-e, --entity <id>", "only this entity")
    .addOption(new Option("--entity-id <id>").hideHelp())
    .option("-r, --resource <resource>", "only this resource")
    .option("-w, --window <hourly|daily|monthly>", "length of the windows; default hourly")
    .option("--from, --start <instant>", "start: ISO 8601, or a duration ago such as 7d")
    .option("--to, --end <instant>", "end: ISO 8601, or a duration ago");
}

export function usageRequest(options: UsageOptions, nowMs: number): UsageRequest {
  const { entity, entityId = entity, resource, start, end } = options;
  const fromMs = start === undefined ? undefined : instantMs(start, "--from", nowMs);
  const toMs = end === undefined ? undefined : instantMs(end, "--to", nowMs);
  checkSpan({ name: "--from", ms: fromMs }, { name: "--to", ms: toMs });
  return {
    window: choiceOf(options.window ?? "hourly", ["hourly", "daily", "monthly"], "--window"),
    ...(entityId === undefined ? {} : { entityId }),
    ...(resource === undefined ? {} : { resource }),
    ...(fromMs === undefined ? {} : { fromMs }),
    ...(toMs === undefined ? {} : { toMs }),
  };
}

/** `2026-06-01 12:00`, `2026-06-01` or `2026-06`, by the window. */
export function windowText(window: UsageRequest["window"], startMs: number): string {
  const iso = new Date(startMs).toISOString();
  if (window === "monthly") return iso.slice(0, 7);
  return window === "daily" ? iso.slice(0, 10) : iso.slice(0, 16).replace("T", " ");
}

/** Of an empty answer. Totals are left out of sums over all resources, so that nothing is counted twice. */
export function noUsage({ resource }: { readonly resource?: string }): string {
  return `No usage in that time.${resource === undefined ? " Usage of totals is under -r '*'." : ""}`;
}

/** What was used, and what shadow limits would have refused of it. */
export function usedText(
  counters: Readonly<Record<string, number>>,
  wouldRefuse: Readonly<Record<string, number>>,
): string {
  const refused = Object.entries(wouldRefuse).map(([limit, requests]) => `${limit}=${requests}`);
  return `${countersText(counters)}${refused.length === 0 ? "" : ` (would refuse ${refused.join(" ")})`}`;
}

export function countersText(counters: Readonly<Record<string, number>>): string {
  return Object.entries(counters)
    .map(([limit, tokens]) => `${limit}=${tokensText(limit, tokens)}`)
    .join(" ");
}
