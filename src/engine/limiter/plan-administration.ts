import { planAuditId } from "../../domain/config/config.ts";
import { type Entity, type NewEntity, newEntity } from "../../domain/config/entity.ts";
import {
  checkPlanPatch,
  type NewPlan,
  newPlan,
  type Plan,
  type PlanPatch,
  planMissing,
} from "../../domain/config/plan.ts";
import { ConflictError, ExistsError } from "../../domain/names/errors.ts";
import { checkPlanId } from "../../domain/names/names.ts";
import { CHANGE_OPTIONS, type ChangeOptions, checkVersion, UPDATE_OPTIONS } from "./level-options.ts";
import type { LimiterParts } from "./limiter-parts.ts";

type PlanParts = Pick<LimiterParts, "admin" | "deps">;

export async function createPlan({ deps, admin }: PlanParts, given: NewPlan, options: ChangeOptions): Promise<Plan> {
  CHANGE_OPTIONS.check(options, "The second argument of createPlan");
  const plan = newPlan(given, deps.clock.now());
  const { id, name, metadata } = plan;
  const event = admin.event("plan_created", planAuditId(id), options, { name, metadata });
  const reply = await deps.scope.plans.create(plan, event);
  if (reply.kind === "exists") {
    throw new ExistsError("plan_exists", (ways) => `The plan ${id} exists already; change it with ${ways.updatePlan}.`);
  }
  admin.changed(event);
  return plan;
}

export async function getPlan({ deps }: PlanParts, id: string): Promise<Plan> {
  const plan = await deps.scope.plans.get(checkPlanId(id));
  if (plan === undefined) throw planMissing(id);
  return plan;
}

export async function updatePlan(
  { deps, admin }: PlanParts,
  id: string,
  patch: PlanPatch,
  options: ChangeOptions & { version?: number },
): Promise<Plan> {
  checkPlanId(id);
  UPDATE_OPTIONS.check(options, "The third argument of updatePlan");
  const checked = checkPlanPatch(id, patch);
  const { version } = options;
  checkVersion(version, "plan");
  const event = admin.event("plan_updated", planAuditId(id), options, { ...checked });
  const change = { patch: checked, version, nowMs: deps.clock.now() };
  const reply = await deps.scope.plans.update(id, change, event);
  switch (reply.kind) {
    case "updated":
      admin.changed(event);
      return reply.plan;
    case "missing":
      throw planMissing(id);
    case "conflict":
      throw new ConflictError(
        "plan_changed",
        `The plan ${id} is at version ${reply.version}, not ${version}: it was changed in the meantime. Read it again before you change it.`,
      );
  }
}

export async function deletePlan({ deps, admin }: PlanParts, id: string, options: ChangeOptions): Promise<void> {
  CHANGE_OPTIONS.check(options, "The second argument of deletePlan");
  const event = admin.event("plan_deleted", planAuditId(checkPlanId(id)), options, {});
  const reply = await deps.scope.plans.delete(id, event);
  if (reply.kind === "missing") throw planMissing(id);
  if (reply.kind === "inUse") {
    throw new ConflictError(
      "plan_in_use",
      `Entities use the plan ${id}, such as ${reply.entityId}; give them another plan, or none, first.`,
    );
  }
  admin.changed(event);
}

/** An entity or a plan as it is now, and whether this call made it. */
interface Ensured<Item> {
  readonly item: Item;
  readonly created: boolean;
}

/** Other processes may create and delete it between the two calls, but not this often by accident. */
const ROUNDS_MAX = 8;

/** Creates an entity, or returns the existing one unchanged. */
export async function ensureEntity(
  { admin, deps }: PlanParts,
  given: NewEntity,
  options: ChangeOptions,
): Promise<Ensured<Entity>> {
  CHANGE_OPTIONS.check(options, "The second argument of ensureEntity");
  // Checked even if it exists: a start that passes today must not fail on an empty store.
  const { id } = newEntity(given, deps.clock.now());
  const { entities } = deps.scope;
  return ensured(
    { code: "entity_changed", id },
    () => entities.get(id),
    () => admin.createEntity(given, options),
  );
}

/** Creates a plan, or returns the existing one unchanged. */
export async function ensurePlan(
  { admin, deps }: PlanParts,
  given: NewPlan,
  options: ChangeOptions,
): Promise<Ensured<Plan>> {
  CHANGE_OPTIONS.check(options, "The second argument of ensurePlan");
  const { id } = newPlan(given, deps.clock.now());
  return ensured(
    { code: "plan_changed", id },
    () => deps.scope.plans.get(id),
    () => createPlan({ admin, deps }, given, options),
  );
}

/** Reads first: at every start but the first it exists, and a read costs less than a failed write. */
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
