import { NotFoundError } from "../domain/names/errors.ts";
import type { Plan } from "../entry/index.ts";
import type { CommandLimiter } from "./command-limiter.ts";
import { nearText } from "./on-store.ts";

const NAMES_MAX = 1_000;

/** The plan, which must be there. */
export async function requirePlan(limiter: CommandLimiter, id: string): Promise<Plan> {
  try {
    return await limiter.getPlan(id);
  } catch (error) {
    if (!(error instanceof NotFoundError) || error.code !== "plan_not_found") throw error;
    const known = (await limiter.listPlans({ limit: NAMES_MAX })).map((plan) => plan.id);
    throw new NotFoundError(
      "plan_not_found",
      `There is no plan "${id}"${nearText(id, known)} Create it with \`zae-limiter plan create ${id}\`.`,
    );
  }
}
