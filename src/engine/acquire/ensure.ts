import { type Entity, type NewEntity, newEntity } from "../../domain/config/entity.ts";
import { type NewPlan, newPlan, type Plan } from "../../domain/config/plan.ts";
import { ConflictError, ExistsError } from "../../domain/names/errors.ts";
import { CHANGE_OPTIONS, type ChangeOptions } from "../limiter/level-options.ts";
import type { LimiterParts } from "../limiter/limiter-parts.ts";
import { PlanAdministration } from "../limiter/plan-administration.ts";

/** An entity or a plan as it is now, and whether this call made it. */
interface Ensured<Item> {
  readonly item: Item;
  readonly created: boolean;
}

type AdminParts = Pick<LimiterParts, "admin" | "deps">;

/** Others may create and delete it between the two calls; nobody does so this often by accident. */
const ROUNDS_MAX = 8;

/** Makes an entity, or leaves the one there is as it is. */
export async function ensureEntity(
  { admin, deps }: AdminParts,
  given: NewEntity,
  options: ChangeOptions,
): Promise<Ensured<Entity>> {
  CHANGE_OPTIONS.check(options, "The second argument of ensureEntity");
  // What is wrong is wrong whether or not it is there: a start that passes today must not fail on an empty store.
  const { id } = newEntity(given, deps.clock.now());
  const { entities } = deps.scope;
  return ensured(
    { code: "entity_changed", id },
    () => entities.get(id),
    () => admin.createEntity(given, options),
  );
}

/** The same of a plan. */
export async function ensurePlan(
  { admin, deps }: AdminParts,
  given: NewPlan,
  options: ChangeOptions,
): Promise<Ensured<Plan>> {
  CHANGE_OPTIONS.check(options, "The second argument of ensurePlan");
  const { id } = newPlan(given, deps.clock.now());
  const plans = new PlanAdministration(deps, admin);
  return ensured(
    { code: "plan_changed", id },
    () => deps.scope.plans.get(id),
    () => plans.create(given, options),
  );
}

/** It is read first: at every start but the first it is there, and a read costs less than a write that fails. */
async function ensured<Item>(
  { code, id }: { readonly code: "entity_changed" | "plan_changed"; readonly id: string },
  get: () => Promise<Item | undefined> | Item | undefined,
  create: () => Promise<Item>,
): Promise<Ensured<Item>> {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const item = await get();
    if (item !== undefined) return { item, created: false };
    try {
      return { item: await create(), created: true };
    } catch (error) {
      if (!(error instanceof ExistsError)) throw error;
    }
  }
  throw new ConflictError(code, `Others created and deleted ${id} ${ROUNDS_MAX} times in the meantime; call it again.`);
}
