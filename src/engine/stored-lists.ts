import type { AuditEvent } from "../domain/audit.ts";
import { KnownNames } from "../domain/known-names.ts";
import type { Limit } from "../domain/limit.ts";
import { checkEntityId } from "../domain/names.ts";
import { Listing, type ListOptions, listing, pageRequest } from "./listing.ts";
import type { EngineDeps } from "./settings.ts";

/** Every set of limits of an entity; the one without `resource` is its default. */
export function limitsListed(
  { scope: { config } }: EngineDeps,
  entityId: string,
  options: ListOptions,
): Listing<{ readonly resource?: string; readonly limits: readonly Limit[] }> {
  checkEntityId(entityId);
  return listing(async (page) => {
    const { items, cursor } = await config.listForEntity(entityId, page);
    const shown = items.map(({ scope, config: { limits } }) =>
      scope.level === "entity" ? { resource: scope.resource, limits } : { limits },
    );
    return { items: shown, ...(cursor === undefined ? {} : { cursor }) };
  }, options);
}

/** Events, newest first. */
export type AuditListing = Listing<AuditEvent, { readonly events: readonly AuditEvent[]; readonly cursor?: string }>;

const AUDIT_QUERY = new KnownNames<{ readonly entityId?: string } & ListOptions>({
  ...{ entityId: true, limit: true, cursor: true },
});

export function auditListed({ scope }: EngineDeps, query: { readonly entityId?: string } & ListOptions): AuditListing {
  const { entityId } = AUDIT_QUERY.check(query, "The query of auditEvents");
  const filter = entityId === undefined ? {} : { entityId };
  return new Listing(
    (page) => scope.audit.list(filter, page),
    pageRequest(query, 100),
    ({ items, cursor }) => ({ events: items, ...(cursor === undefined ? {} : { cursor }) }),
  );
}
