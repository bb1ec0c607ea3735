import { type Command, Option } from "commander";
import type { GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";

/** Whom a policy concerns. */
export interface PolicyOptions extends GlobalOptions {
  readonly entity?: string;
  readonly entityId?: string;
  readonly resource?: string;
  readonly allowUnknown?: boolean;
}

export function policyOptions(command: Command): Command {
  return command
    .option("-e, --entity <id>", "only this entity")
    .addOption(new Option("--entity-id <id>").hideHelp())
    .option("-r, --resource <resource>", "only this resource");
}

/** The scope that was named; at least one of the two. */
export function policyScope({ entity, entityId = entity, resource }: PolicyOptions): {
  readonly entityId?: string;
  readonly resource?: string;
} {
  if (entityId === undefined && resource === undefined)
    throw new UsageError("No entity or resource is named; give -e ID, -r RESOURCE, or both.");
  return { ...(entityId === undefined ? {} : { entityId }), ...(resource === undefined ? {} : { resource }) };
}

/** `key-1 on gpt-4`, `key-1`, `gpt-4 for everybody`. */
export function scopeText({ entityId, resource }: { readonly entityId?: string; readonly resource?: string }): string {
  if (entityId === undefined) return `${resource} for every entity`;
  return resource === undefined ? `${entityId} on every resource` : `${entityId} on ${resource}`;
}
