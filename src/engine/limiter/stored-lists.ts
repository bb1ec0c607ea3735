import type { AuditEvent } from "../../domain/config/audit.ts";
import type { LevelOptions } from "../../domain/config/config.ts";
import type { Entity } from "../../domain/config/entity.ts";
import { planMissing } from "../../domain/config/plan.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkEntityId, checkPlanId } from "../../domain/names/names.ts";
import { Listing, type ListOptions, listing, pageRequest } from "./listing.ts";
import type { EngineDeps } from "./settings.ts";

/** One set of limits of an entity, with its options. The set without `resource` is the default of the entity. */
export interface StoredSet extends LevelOptions {
  /** The resource. Absent: all resources that have no set of their own. */
  readonly resource?: string;
  /** The limits, in the order in which they were set. */
  readonly limits: readonly Limit[];
}

/** Every set of limits of an entity; the one without `resource` is its default. */
export function limitsListed(
  { scope: { config } }: EngineDeps,
  entityId: string,
  options: ListOptions,
): Listing<StoredSet> {
  checkEntityId(entityId);
  return listing(async (page) => {
    const { items, cursor } = await config.listForEntity(entityId, page);
    const shown = items.map(({ scope, config: { limits, inherit, appliesTo } }) => ({
      ...(scope.level === "entity" ? { resource: scope.resource } : {}),
      limits,
      ...(inherit === undefined ? {} : { inherit }),
      ...(appliesTo === undefined ? {} : { appliesTo }),
    }));
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
  const filter = entityId === undefined ? {} : { entityId: checkAuditId(entityId) };
  return new Listing(
    (page) => scope.audit.list(filter, page),
    pageRequest(query, 100),
    ({ items, cursor }) => ({ events: items, ...(cursor === undefined ? {} : { cursor }) }),
  );
}

/** What begins with `$` is no entity: events are kept under it for resources, plans, namespaces and the system. */
function checkAuditId(id: string): string {
  return /^\$(SYSTEM|(RESOURCE|PLAN|NAMESPACE):[^\s#]+)$/.test(id) ? id : checkEntityId(id);
}

const ENTITY_QUERY = new KnownNames<{ readonly planId?: string } & ListOptions>({
  ...{ planId: true, limit: true, cursor: true },
});

/** All entities, or those that refer to a plan. */
export function entitiesListed(
  { scope: { entities, plans } }: EngineDeps,
  query: { readonly planId?: string } & ListOptions,
): Listing<Entity> {
  const { planId, ...page } = ENTITY_QUERY.check(query, "The query of listEntities");
  if (planId === undefined) return listing((request) => entities.list(request), page);
  checkPlanId(planId);
  return listing(async (request) => {
    const found = await plans.listEntities(planId, request);
    // A plan that does not exist has no entities either, and whoever misspells one should hear of it.
    if (found.items.length === 0 && (await plans.get(planId)) === undefined) throw planMissing(planId);
    return found;
  }, page);
}
