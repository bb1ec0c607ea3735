import { type Entity, type NewEntity, newEntity } from "../domain/entity.ts";
import { ConflictError, ExistsError } from "../domain/errors.ts";
import type { Administration } from "./administration.ts";
import { CHANGE_OPTIONS, type ChangeOptions } from "./level-options.ts";
import type { EngineDeps } from "./settings.ts";

/** The entity as it is now, and whether this call made it. */
interface Ensured {
  readonly entity: Entity;
  readonly created: boolean;
}

/** Others may create and delete it between the two calls; nobody does so this often by accident. */
const ROUNDS_MAX = 8;

/**
 * Makes an entity, or leaves the one there is as it is. It is read first: at every start but the first it is there, and a read
 * costs less than a write that fails.
 */
export async function ensureEntity(
  admin: Administration,
  { scope, clock }: EngineDeps,
  given: NewEntity,
  options: ChangeOptions,
): Promise<Ensured> {
  CHANGE_OPTIONS.check(options, "The second argument of ensureEntity");
  // What is wrong is wrong whether or not it is there: a start that passes today must not fail on an empty store.
  const { id } = newEntity(given, clock.now());
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const entity = await scope.entities.get(id);
    if (entity !== undefined) return { entity, created: false };
    try {
      return { entity: await admin.createEntity(given, options), created: true };
    } catch (error) {
      if (!(error instanceof ExistsError)) throw error;
    }
  }
  throw new ConflictError(
    "entity_changed",
    `Others created and deleted the entity ${id} ${ROUNDS_MAX} times in the meantime; call ensureEntity again.`,
  );
}
