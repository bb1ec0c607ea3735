import { type Command, Option } from "commander";
import type { AuditEvent } from "../entry/index.ts";
import type { ListOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { timeText } from "./show-entity.ts";
import type { Column } from "./table.ts";
import { instantMs } from "./values.ts";

/** Which events are asked for. */
export interface AuditOptions extends ListOptions {
  readonly entity?: string;
  readonly entityId?: string;
  readonly resource?: string;
  readonly system?: boolean;
  /** Of `--from` and `--start`. */
  readonly start?: string;
}

export function auditOptions(command: Command): Command {
  return command
    .option("-e, --entity <id>", "only this entity")
    .addOption(new Option("--entity-id <id>").hideHelp())
    .option("-r, --resource <resource>", "only the defaults of this resource")
    .option("--system", "only the system defaults")
    .option("--from, --start <instant>", "start: ISO 8601, or a duration ago such as 7d");
}

/** The id under which the events are kept, and since when they count. */
export function auditFilter(
  options: AuditOptions,
  nowMs: number,
): { readonly filter: { readonly entityId?: string }; readonly fromMs: number } {
  const { entity, entityId = entity, resource, system, start } = options;
  const named = [
    entityId,
    resource === undefined ? undefined : `$RESOURCE:${resource}`,
    system === true ? "$SYSTEM" : undefined,
  ];
  const [id, ...others] = named.filter((each) => each !== undefined);
  if (others.length > 0) throw new UsageError("-e, -r and --system exclude each other; give one.");
  return {
    filter: id === undefined ? {} : { entityId: id },
    fromMs: start === undefined ? Number.NEGATIVE_INFINITY : instantMs(start, "--from", nowMs),
  };
}

export const AUDIT_COLUMNS: readonly Column<AuditEvent>[] = [
  { title: "WHEN", text: ({ atMs }) => timeText(atMs) },
  { title: "WHAT", text: ({ action }) => action.replaceAll("_", " ") },
  { title: "ON", text: ({ entityId, resource }) => onText(entityId, resource) },
  { title: "BY", text: ({ principal }) => principal ?? "", flexible: true },
];

function onText(entityId: string, resource: string | undefined): string {
  if (entityId === "$SYSTEM") return "system";
  if (entityId.startsWith("$")) return entityId.slice(entityId.indexOf(":") + 1);
  return resource === undefined ? entityId : `${entityId} on ${resource}`;
}
