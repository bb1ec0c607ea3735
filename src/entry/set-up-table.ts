import { setUpTable } from "../adapters/dynamodb/table-admin.ts";
import { administered } from "./dynamodb-admin.ts";
import type { DynamoTable } from "./dynamodb-options.ts";

/** Makes a table that others made one of ours, for the provisioner and for `init`. Throws with what it lacks. False: it was one already. */
export function setUpMadeTable(options: DynamoTable): Promise<boolean> {
  return administered(options, (admin) => setUpTable(admin, { needsExpiry: true }));
}
