import { readdirSync, readFileSync } from "node:fs";
import { SeededRandom } from "../../src/testing/random.ts";
import { playBucketWorld } from "./bucket-fuzz.ts";
import { type BucketStoreKind, type BucketWorld, drawBucketWorld, type Happening } from "./bucket-world.ts";
import { shrunk } from "./shrink.ts";
import type { SeedReport } from "./simulation.ts";

const FOLDER = new URL("./stories-found/", import.meta.url);

/** A world that once failed, shrunk: it is data, so that it does not change when worlds are drawn differently. */
export interface BucketStory {
  readonly name: string;
  /** The store on which it failed. */
  readonly stores: readonly BucketStoreKind[];
  /** Of what happens by chance in it. */
  readonly seed: number;
  readonly world: Omit<BucketWorld, "store">;
}

/** Those that do not depend on chance have no seed. */
type KeptStory = Omit<BucketStory, "name" | "seed"> & { readonly seed?: number };

/** The stories that are kept, by their file names. */
export function keptBucketStories(): BucketStory[] {
  return readdirSync(FOLDER)
    .filter((file) => file.startsWith("bucket-"))
    .sort()
    .map((file) => {
      const { stores, seed, world } = JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as KeptStory;
      return { name: file.replace(/^bucket-|\.json$/g, "").replaceAll("-", " "), stores, seed: seed ?? 1, world };
    });
}

/** The world of a seed with everything left out that it fails without; undefined when it does not fail. */
export async function shrinkBucketWorld(
  seed: number,
  store: BucketStoreKind,
): Promise<{ readonly story: Omit<BucketStory, "name">; readonly report: SeedReport } | undefined> {
  let world = drawBucketWorld(store, new SeededRandom(seed));
  const fails = async (some: BucketWorld) => (await playBucketWorld(some, seed)).violations.length > 0;
  if (!(await fails(world))) return undefined;
  const failsWith = (happenings: readonly Happening[]) => fails({ ...world, happenings });
  const oneByOne = world.happenings.flatMap(parted);
  if (await failsWith(oneByOne)) world = { ...world, happenings: oneByOne };
  world = { ...world, happenings: await shrunk(world.happenings, failsWith) };
  for (const simpler of [{ exact: true }, { coalesce: false }, { processes: 1 }]) {
    const other = {
      ...world,
      ...simpler,
      happenings: "processes" in simpler ? world.happenings.map(byFirst) : world.happenings,
    };
    if (await fails(other)) world = other;
  }
  const { store: _, ...kept } = world;
  return { story: { stores: [store], seed, world: kept }, report: await playBucketWorld(world, seed) };
}

/** What happened together, one after the other, where that fails as well. */
function parted(happening: Happening): readonly Happening[] {
  return happening.do === "together" ? happening.all : [happening];
}

function byFirst(happening: Happening): Happening {
  if (happening.do === "together") return { ...happening, all: happening.all.map(byFirst) };
  return "by" in happening ? { ...happening, by: 0 } : happening;
}
