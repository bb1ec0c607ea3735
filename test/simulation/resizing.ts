import { bucketKey } from "../../src/domain/bucket-key.ts";
import type { Story } from "./scene.ts";

/** Splits the bucket of an entity, or joins what was split, whether or not anybody needs it. */
export const resizeShards: Story = async ({ client, random, around: { profile, journal } }) => {
  const key = bucketKey(random.pick(profile.entities), random.pick(profile.resources));
  const to = random.pick(["more", "more", "more", "fewer", 1] as const);
  // Before it has heard from the store, nobody goes by a clock that may be off by an hour.
  await client.protocol?.read([key]);
  for (let times = to === "more" ? random.integer(1, 3) : 1; times > 0; times--) {
    const done = await client.protocol?.resize(key, to, client.clock.now());
    if (done) journal.count(`resizes to ${to === 1 ? "one" : to}`);
  }
};
