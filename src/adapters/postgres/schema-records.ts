import type { SchemaPart } from "./schema-part.ts";

/** Everything that is no take: configuration, entities, namespaces, plans, manifests, leases, audit, refusals. */
export const RECORD_PARTS: SchemaPart = { tables: [], functions: [], readByTakes: [] };
