import type { Limiter } from "../../src/engine/limiter/limiter.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { drawEnd, drawPart } from "./ends.ts";
import { drawLimits, type Levels, type Profile, STRANGER } from "./profile.ts";
import type { Scene, Story } from "./scene.ts";

/** Sets the totals of an entity, a plan or everybody, or takes them away. */
export const changeTotals: Story = async ({ client, random, around }) => {
  const { limiter } = client;
  const { profile, journal } = around;
  const { levels } = profile;
  if (levels === undefined) return;
  const entityId = random.pick(profile.entities);
  const planId = random.pick(levels.plans);
  const totals = drawTotalLimits(random, levels);
  const how = { ...drawOptions(random, profile), ...drawEnd(random, client, around) };
  const part = drawPart(random, profile);
  journal.count("changes of totals");
  await random.weighted<() => Promise<unknown>>([
    [4, () => limiter.setTotals(entityId, totals, how)],
    [2, () => limiter.setPlanTotals(planId, totals, how)],
    [2, () => limiter.setSystemTotals(totals, how)],
    [2, () => limiter.deleteTotals(entityId, part)],
    [1, () => limiter.deletePlanTotals(planId, part)],
    [1, () => limiter.deleteSystemTotals(part)],
  ])();
};

/** Changes what a plan says, or who has it; now and then a plan goes and comes again. */
export const changePlans: Story = async ({ client, random, around }) => {
  const { limiter } = client;
  const { profile, journal } = around;
  const { levels } = profile;
  if (levels === undefined) return;
  const entityId = random.pick(profile.entities);
  const planId = random.pick(levels.plans);
  const limits = drawLimits(random, profile);
  const at = random.chance(0.4) ? { resource: random.pick(profile.resources) } : {};
  const how = { ...drawOptions(random, profile), ...drawEnd(random, client, around) };
  const part = drawPart(random, profile);
  journal.count("changes of plans");
  await random.weighted<() => Promise<unknown>>([
    [3, () => limiter.setPlanLimits(planId, limits, { ...at, ...how })],
    [1, () => limiter.deletePlanLimits(planId, { ...at, ...part })],
    [5, () => limiter.updateEntity(entityId, { planId: random.pick([...levels.plans, null]) })],
    [0.7, () => limiter.deletePlan(planId)],
    [0.7, () => limiter.createPlan({ id: planId })],
  ])();
};

/** What is there over all resources together. */
export async function lookAtTotals({ client, random, around }: Scene): Promise<void> {
  const { profile, truth, journal } = around;
  const entityId = random.pick(profile.entities);
  if (truth.limitsOf(entityId, "*").length === 0) return;
  for (const { resource, limit, available, capacity } of await client.limiter.available({ entityId, resource: "*" })) {
    if (resource !== "*") journal.violation(`${limit} of ${resource} is shown among the totals of ${entityId}`);
    if (available > capacity) journal.violation(`${available} of ${limit} are available of ${capacity}, in total`);
  }
}

/** Plans with limits and totals, entities that have them, and totals of their own. */
export async function furnishLevels(limiter: Limiter, random: SeededRandom, profile: Profile): Promise<void> {
  const { levels } = profile;
  if (levels === undefined) return;
  for (const id of levels.plans) {
    await limiter.createPlan({ id });
    const how = drawOptions(random, profile);
    if (random.chance(0.6)) await limiter.setPlanLimits(id, drawLimits(random, profile), how);
    const resource = random.pick(profile.resources);
    if (random.chance(0.3)) await limiter.setPlanLimits(id, drawLimits(random, profile), { ...how, resource });
    if (random.chance(0.5)) await limiter.setPlanTotals(id, drawTotalLimits(random, levels), how);
  }
  for (const id of profile.entities) {
    const planId = random.pick([...levels.plans, null]);
    if (id !== STRANGER) await limiter.updateEntity(id, { planId });
    if (random.chance(0.4)) await limiter.setTotals(id, drawTotalLimits(random, levels), drawOptions(random, profile));
  }
  if (random.chance(0.3)) await limiter.setSystemTotals(drawTotalLimits(random, levels), drawOptions(random, profile));
}

/** How a level goes with those after it, and whom it meets. */
export function drawOptions(
  random: SeededRandom,
  { levels }: Profile,
): { readonly inherit?: true; readonly appliesTo?: "callers" } {
  if (levels === undefined) return {};
  return {
    ...(random.chance(levels.inherits) ? { inherit: true } : {}),
    ...(random.chance(levels.callersOnly) ? { appliesTo: "callers" } : {}),
  };
}

/** The plan that an entity is made with. */
export function drawPlan(random: SeededRandom, { levels }: Profile): { readonly planId?: string } {
  return levels !== undefined && random.chance(0.5) ? { planId: random.pick(levels.plans) } : {};
}

/** The resources of a world, and the asterisk for all of them together. */
export function withTotals({ levels, resources }: Profile): readonly string[] {
  return levels === undefined ? resources : [...resources, "*"];
}

function drawTotalLimits(random: SeededRandom, { totals }: Levels) {
  return random.pick(totals);
}
