import { Option } from "commander";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import type { Entity } from "../entry/index.ts";
import type { CommandLimiter } from "./command-limiter.ts";
import { nearText } from "./on-store.ts";

/** What a command is about to write under. */
interface Named {
  readonly entityId?: string | undefined;
  readonly resource?: string | undefined;
  readonly allowUnknown?: boolean | undefined;
}

/** The way past `requireKnown`. */
export function allowUnknownOption(): Option {
  return new Option("--allow-unknown", "accept an entity or resource that does not exist yet");
}

/** How many names are read to find a near one. */
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

/** The entity, which must have been created. */
export async function requireEntity(limiter: CommandLimiter, id: string): Promise<Entity> {
  try {
    return await limiter.getEntity(id);
  } catch (error) {
    if (error instanceof NotFoundError && error.code === "entity_not_found") throw await entityMissing(limiter, id);
    throw error;
  }
}

/** The same of a parent that is to be. */
export async function requireParent(limiter: CommandLimiter, id: string): Promise<void> {
  try {
    await requireEntity(limiter, id);
  } catch (error) {
    if (!(error instanceof NotFoundError) || error.code !== "entity_not_found") throw error;
    throw new NotFoundError("parent_not_found", error.message.replace("entity", "parent"));
  }
}

async function entityMissing(limiter: CommandLimiter, id: string): Promise<NotFoundError> {
  const known = (await limiter.listEntities({ limit: NAMES_MAX })).map((entity) => entity.id);
  return new NotFoundError(
    "entity_not_found",
    `There is no entity "${id}"${nearText(id, known)} Create it with \`zae-limiter entity create ${id}\`.`,
  );
}

async function isKnownEntity(limiter: CommandLimiter, id: string, resource: string | undefined): Promise<boolean> {
  try {
    await limiter.getEntity(id);
    return true;
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
  }
  if ((await limiter.listLimits(id, { limit: 1 })).length > 0) return true;
  if (resource === undefined) return false;
  return (await limiter.listBuckets({ entityId: id, resource, limit: 1 })).length > 0;
}

async function isKnownResource(limiter: CommandLimiter, resource: string): Promise<boolean> {
  if (resource === TOTAL_RESOURCE) return true;
  if ((await limiter.getResourceDefaults(resource)).length > 0) return true;
  if (Object.keys(await limiter.getPolicy({ resource })).length > 0) return true;
  if ((await limiter.listEntitiesWithLimits(resource, { limit: 1 })).length > 0) return true;
  return (await limiter.listBuckets({ resource, limit: 1 })).length > 0;
}

/** Resources with defaults, for near names. */
export async function resourcesOf(limiter: CommandLimiter): Promise<readonly string[]> {
  return limiter.listResources({ limit: NAMES_MAX });
}
