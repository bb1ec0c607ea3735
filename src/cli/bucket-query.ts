import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { serviceUrl } from "./service-option.ts";
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
  const isTable = () => serviceUrl(options, context) === undefined && chosenStore(options, context).table !== undefined;
  if (entity === undefined && resource === undefined && isTable()) {
    throw new UsageError("Listing every bucket would read the whole table; give -e ID or -r RESOURCE.");
  }
  return {
    ...(entity === undefined ? {} : { entityId: entity }),
    ...(resource === undefined ? {} : { resource }),
  };
}
