import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Scene, Story } from "./scene.ts";
import { holdLeaseWhile } from "./stories.ts";

/**
 * Splits the bucket of an entity, or joins what was split, whether or not anybody needs it; now and then with a lease in
 * hand that was taken before.
 */
export const resizeShards: Story = (scene) =>
  scene.random.chance(0.4) ? holdLeaseWhile(scene, () => resizeSome(scene)) : resizeSome(scene);

async function resizeSome({ client, random, around: { profile, journal } }: Scene): Promise<void> {
  const key = bucketKey(random.pick(profile.entities), random.pick(profile.resources));
  const to = random.pick(["more", "more", "more", "fewer", 1, 1] as const);
  // Before it has heard from the store, nobody goes by a clock that may be off by an hour.
  await client.protocol?.read([key]);
  for (let times = to === "more" ? random.integer(1, 3) : 1; times > 0; times--) {
    const done = await client.protocol?.resize(key, to, client.clock.now());
    if (done) journal.count(`resizes to ${to === 1 ? "one" : to}`);
    // Not again within ten seconds.
    if (times > 1 && !client.direct) await client.clock.sleep(10_000, undefined);
  }
}
