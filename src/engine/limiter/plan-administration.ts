import { planAuditId } from "../../domain/config/config.ts";
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
import type { Administration } from "./administration.ts";
import { CHANGE_OPTIONS, type ChangeOptions, checkVersion, UPDATE_OPTIONS } from "./level-options.ts";
import type { EngineDeps } from "./settings.ts";

/** Changes of plans: checked, written together with their audit event, and known here at once. */
export class PlanAdministration {
  readonly #deps: EngineDeps;
  readonly #admin: Administration;

  constructor(deps: EngineDeps, admin: Administration) {
    this.#deps = deps;
    this.#admin = admin;
  }

  async create(given: NewPlan, options: ChangeOptions): Promise<Plan> {
    CHANGE_OPTIONS.check(options, "The second argument of createPlan");
    const plan = newPlan(given, this.#deps.clock.now());
    const { id, name, metadata } = plan;
    const event = this.#admin.event("plan_created", planAuditId(id), options, { name, metadata });
    const reply = await this.#deps.scope.plans.create(plan, event);
    if (reply.kind === "exists") {
      throw new ExistsError(
        "plan_exists",
        (ways) => `The plan ${id} exists already; change it with ${ways.updatePlan}.`,
      );
    }
    this.#admin.changed(event);
    return plan;
  }

  async get(id: string): Promise<Plan> {
    const plan = await this.#deps.scope.plans.get(checkPlanId(id));
    if (plan === undefined) throw planMissing(id);
    return plan;
  }

  async update(id: string, patch: PlanPatch, options: ChangeOptions & { version?: number }): Promise<Plan> {
    checkPlanId(id);
    UPDATE_OPTIONS.check(options, "The third argument of updatePlan");
    const checked = checkPlanPatch(id, patch);
    const { version } = options;
    checkVersion(version, "plan");
    const event = this.#admin.event("plan_updated", planAuditId(id), options, { ...checked });
    const change = { patch: checked, version, nowMs: this.#deps.clock.now() };
    const reply = await this.#deps.scope.plans.update(id, change, event);
    switch (reply.kind) {
      case "updated":
        this.#admin.changed(event);
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

  async delete(id: string, options: ChangeOptions): Promise<void> {
    CHANGE_OPTIONS.check(options, "The second argument of deletePlan");
    const event = this.#admin.event("plan_deleted", planAuditId(checkPlanId(id)), options, {});
    const reply = await this.#deps.scope.plans.delete(id, event);
    if (reply.kind === "missing") throw planMissing(id);
    if (reply.kind === "inUse") {
      throw new ConflictError(
        "plan_in_use",
        `Entities use the plan ${id}, such as ${reply.entityId}; give them another plan, or none, first.`,
      );
    }
    this.#admin.changed(event);
  }
}
