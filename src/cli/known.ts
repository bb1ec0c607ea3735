import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import { alsoOf } from "../engine/acquire/also.ts";
import type { Entity, Plan } from "../entry/index.ts";
import { type CommandLimiter, nearText } from "./on-store.ts";

/** The entity or resource that a command is about to write under. */
interface Named {
  readonly entityId?: string | undefined;
  readonly resource?: string | undefined;
  readonly allowUnknown?: boolean | undefined;
}

/** At most this many names are read to find a near one. */
const NAMES_MAX = 1_000;

/**
 * Throws for an entity or resource that nothing is known of: a misspelled kill switch that reports success is the worst outcome
 * there is.
 */
export async function requireKnown(
  limiter: CommandLimiter,
  { entityId, resource, allowUnknown }: Named,
): Promise<void> {
  if (allowUnknown === true) return;
  if (resource !== undefined && !(await isKnownResource(limiter, resource))) {
    throw new NotFoundError(
      "resource_not_found",
      `There is no resource "${resource}"${nearText(resource, await resourcesOf(limiter))} ` +
        "Create it with `zae-limiter resource set-defaults`, or pass --allow-unknown.",
    );
  }
  if (entityId !== undefined && !(await isKnownEntity(limiter, entityId, resource))) {
    const { message } = await entityMissing(limiter, entityId);
    throw new NotFoundError("entity_not_found", `${message} Or pass --allow-unknown.`);
  }
}

/** Refuses a request if its own part or a further one names an unknown entity or resource. */
export async function requireAllKnown(
  limiter: CommandLimiter,
  request: Parameters<typeof alsoOf>[0] & Pick<Named, "allowUnknown">,
): Promise<void> {
  const { entityId, resource, allowUnknown } = request;
  await requireKnown(limiter, { entityId, resource, allowUnknown });
  for (const part of alsoOf(request)) {
    const isOwn = part.entityId === entityId;
    await requireKnown(limiter, { entityId: isOwn ? undefined : part.entityId, resource: part.resource, allowUnknown });
  }
}

/** Reads something. Where it is missing, answers what `instead` does, or undefined. */
export async function unlessMissing<Value, Other = undefined>(
  code: string,
  read: Promise<Value>,
  instead?: () => Promise<Other>,
): Promise<Value | Other> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof NotFoundError && error.code === code) return instead?.() as Promise<Other>;
    throw error;
  }
}

/** The entity; undefined: nobody created it. */
export function entityOf(limiter: CommandLimiter, id: string): Promise<Entity | undefined> {
  return unlessMissing("entity_not_found", limiter.getEntity(id));
}

export function requireEntity(limiter: CommandLimiter, id: string): Promise<Entity> {
  return unlessMissing("entity_not_found", limiter.getEntity(id), async () => {
    throw await entityMissing(limiter, id);
  });
}

/** Throws where an entity that is to be a parent has not been created. */
export async function requireParent(limiter: CommandLimiter, id: string): Promise<void> {
  if ((await entityOf(limiter, id)) !== undefined) return;
  const { message } = await entityMissing(limiter, id);
  throw new NotFoundError("parent_not_found", message.replace("entity", "parent"));
}

export function requirePlan(limiter: CommandLimiter, id: string): Promise<Plan> {
  return unlessMissing("plan_not_found", limiter.getPlan(id), async () => {
    const known = (await limiter.listPlans({ limit: NAMES_MAX })).map((plan) => plan.id);
    throw new NotFoundError(
      "plan_not_found",
      `There is no plan "${id}"${nearText(id, known)} Create it with \`zae-limiter plan create ${id}\`.`,
    );
  });
}

/** Resources with defaults, for near names. */
export async function resourcesOf(limiter: CommandLimiter): Promise<readonly string[]> {
  return limiter.listResources({ limit: NAMES_MAX });
}

async function entityMissing(limiter: CommandLimiter, id: string): Promise<NotFoundError> {
  const known = (await limiter.listEntities({ limit: NAMES_MAX })).map((entity) => entity.id);
  return new NotFoundError(
    "entity_not_found",
    `There is no entity "${id}"${nearText(id, known)} Create it with \`zae-limiter entity create ${id}\`.`,
  );
}

async function isKnownEntity(limiter: CommandLimiter, id: string, resource: string | undefined): Promise<boolean> {
  if ((await entityOf(limiter, id)) !== undefined) return true;
  if ((await limiter.listLimits(id, { limit: 1 })).length > 0) return true;
  return resource !== undefined && (await limiter.listBuckets({ entityId: id, resource, limit: 1 })).length > 0;
}

async function isKnownResource(limiter: CommandLimiter, resource: string): Promise<boolean> {
  if (resource === TOTAL_RESOURCE) return true;
  if ((await limiter.getResourceDefaults(resource)).length > 0) return true;
  if (Object.keys(await limiter.getPolicy({ resource })).length > 0) return true;
  if ((await limiter.listEntitiesWithLimits(resource, { limit: 1 })).length > 0) return true;
  return (await limiter.listBuckets({ resource, limit: 1 })).length > 0;
}
