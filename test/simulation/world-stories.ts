import { readdirSync, readFileSync } from "node:fs";
import { shrunk } from "./shrink.ts";
import { type Script, type SeedReport, simulate } from "./simulation.ts";
import { openFor, type StoreKind } from "./stores.ts";

const FOLDER = new URL("./stories-found/", import.meta.url);

/** A world that was found once, with everything left out that it fails without: its character, and the steps as data. */
export interface WorldStory {
  readonly store: StoreKind;
  readonly seed: number;
  readonly script: Script;
}

/** The stories that are kept, with their names. */
export function keptWorldStories(): (WorldStory & { readonly name: string })[] {
  return readdirSync(FOLDER)
    .filter((file) => file.startsWith("world-"))
    .sort()
    .map((file) => ({
      name: file.replace(/^world-|\.json$/g, "").replaceAll("-", " "),
      ...(JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as WorldStory),
    }));
}

export function playWorldStory({ store, seed, script }: WorldStory, verbose: boolean): Promise<SeedReport> {
  return simulate(seed, { open: () => openFor(store, seed), verbose, script });
}

/** The shortest story of a seed that fails in the same way; undefined when it does not fail. */
export async function shrinkWorld(
  seed: number,
  store: StoreKind,
): Promise<{ readonly story: WorldStory; readonly report: SeedReport } | undefined> {
  const first = await simulate(seed, { open: () => openFor(store, seed), verbose: false });
  const [violation] = first.violations;
  if (violation === undefined || first.script === undefined) return undefined;
  const { profile } = first.script;
  let script: Script = first.script;
  const isSame = ({ violations }: SeedReport) => violations.some((one) => kindOf(one) === kindOf(violation));
  const fails = async (some: Script) => isSame(await playWorldStory({ store, seed, script: some }, false));
  const shorten = async () => {
    const decisions = await shrunk(script.decisions, (some) => fails({ ...script, decisions: some }));
    script = { ...script, decisions };
  };
  await shorten();
  // Simpler worlds: fewer clients, fewer things, clocks that are right, nothing that fails.
  for (const simpler of [
    { faultRate: 0 },
    { skewMs: 0 },
    { clients: 1 },
    { clients: 2 },
    { resources: profile.resources.slice(0, 1) },
    { entities: profile.entities.slice(0, 1) },
  ]) {
    const other = { ...script, profile: { ...script.profile, ...simpler } };
    if (await fails(other)) script = other;
  }
  await shorten();
  const story = { store, seed, script };
  return { story, report: await playWorldStory(story, false) };
}

/** What went wrong, whatever the numbers and names. */
function kindOf(violation: string): string {
  return violation
    .replace(/\d+/g, "")
    .replace(/\b(rpm|tpm|rpd)\b/g, "limit")
    .replace(/\{.*/s, "")
    .slice(0, 80);
}
