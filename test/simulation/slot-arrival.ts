import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Surroundings } from "./client.ts";
import type { Ground } from "./ground.ts";
import { withTotals } from "./level-stories.ts";
import { shownKey } from "./operation.ts";

/** Whatever was lost, forgotten or died: once the longest hold is over, by any clock, all slots are free. */
export async function allSlotsBack({ profile, clock, journal }: Surroundings, ground: Ground): Promise<void> {
  const keys = profile.entities.flatMap((entityId) =>
    withTotals(profile).map((resource) => bucketKey(entityId, resource)),
  );
  const states = await ground.whole.scope("default").buckets.read(keys);
  for (const [i, state] of states.entries()) {
    for (const { name, limit, slices } of state?.limits ?? []) {
      const held = slices.filter(({ endMs, heldMilli }) => endMs > clock.now() && heldMilli > 0);
      if (limit.holdMs !== undefined) journal.count("limits with all slots back");
      if (held.length === 0) continue;
      journal.violation(`${shownKey(keys[i]?.id ?? "")}: of ${name} ${JSON.stringify(held)} never come back`);
    }
  }
}
