import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { chosenStore } from "./store-option.ts";

export interface BucketQueryOptions extends GlobalOptions {
  readonly entity?: string;
  readonly resource?: string;
}

/** Which buckets `-e` and `-r` name; neither: all, but on a table, where reading all of them costs. */
export function bucketQuery(
  context: CommandContext,
  options: BucketQueryOptions,
): { readonly entityId?: string; readonly resource?: string } {
  const { entity, resource } = options;
  if (entity === undefined && resource === undefined && chosenStore(options, context).kind === "dynamodb") {
    throw new UsageError("Reading all buckets of a table costs a read of each; give -e ID or -r RESOURCE.");
  }
  return {
    ...(entity === undefined ? {} : { entityId: entity }),
    ...(resource === undefined ? {} : { resource }),
  };
}
