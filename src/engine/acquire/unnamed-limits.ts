import { measureMissing, measureUnknown, uncountedWarning, unnamedWarning } from "../../domain/charge/charge-errors.ts";
import { type ChargedBucket, type ChargeRules, SILENT, type UnnamedLimit } from "../../domain/charge/charges.ts";
import type { LimitSource } from "../../domain/config/config.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";

/** The rules of `unnamedLimits`: for hard limits that a request leaves out, and for measures of adapters that no limit counts. */
export interface UnnamedRules {
  readonly take: ChargeRules;
  /** For a take that leaves out measures that no limit counts: `ignore` does so silently, `report` warns or refuses. */
  readonly ignore: ChargeRules;
  readonly report: ChargeRules;
  /** A question takes nothing, so it warns of nothing. */
  readonly question: ChargeRules;
}

export function unnamedRules(
  deps: Pick<EngineDeps, "warnings">,
  settings: Pick<Settings, "unnamedLimits" | "namespace">,
): UnnamedRules {
  switch (settings.unnamedLimits) {
    case "allow":
      return { take: SILENT, ignore: ignoring(SILENT), report: ignoring(SILENT), question: SILENT };
    case "warn": {
      const { unnamed, uncounted } = warning(deps, settings);
      const take = { unnamed };
      return { take, ignore: ignoring(take), report: { unnamed, uncounted }, question: SILENT };
    }
    case "refuse": {
      const report = { ...REFUSING, uncounted: refuseUncounted };
      return { take: REFUSING, ignore: ignoring(REFUSING), report, question: REFUSING };
    }
  }
}

function ignoring(rules: ChargeRules): ChargeRules {
  return { ...rules, uncounted: () => {} };
}

const REFUSING: ChargeRules = {
  unnamed: (unnamed) => {
    throw measureMissing(unnamed);
  },
};

function refuseUncounted([measure = ""]: readonly string[], chain: readonly ChargedBucket[]): never {
  throw measureUnknown(measure, chain);
}

function warning(
  { warnings }: Pick<EngineDeps, "warnings">,
  { namespace }: Pick<Settings, "namespace">,
): Required<Pick<ChargeRules, "unnamed" | "uncounted">> {
  const keyOf = (...parts: readonly string[]) => JSON.stringify([namespace, ...parts]);
  const measureKey = (measure: string, [asker]: readonly ChargedBucket[]) =>
    keyOf("measure", asker?.bucket.resource ?? "", measure);
  // Most takes leave out what earlier takes left out. The map saves building the text of the key again.
  const told = new WeakMap<Limit, string>();
  const unnamed = (of: UnnamedLimit) => {
    const { limit, level, chain, uncounted } = of;
    const from = level.sources?.[limit.name] ?? level.source ?? "none";
    const owner = ownerOf(level, from);
    if (told.get(limit) === owner) return;
    told.set(limit, owner);
    const resource = OF_A_RESOURCE.has(from) ? level.bucket.resource : "";
    const isNew = warnings.once(keyOf(from, owner, resource, limit.name), () => unnamedWarning(of));
    // The warning names the uncounted measures, too.
    if (isNew) for (const measure of uncounted) warnings.done(measureKey(measure, chain));
  };
  const uncounted = (measures: readonly string[], chain: readonly ChargedBucket[]) => {
    for (const measure of measures) {
      warnings.once(measureKey(measure, chain), () => uncountedWarning(measure, chain));
    }
  };
  return { unnamed, uncounted };
}

/** Levels that belong to one resource. `none` are the limits of a request. */
const OF_A_RESOURCE: ReadonlySet<LimitSource> = new Set(["plan", "resource", "none"]);

/** The owner of a limit. A limit that is set for many entities has one owner, so it warns once. */
function ownerOf({ bucket, planId = "" }: ChargedBucket, from: LimitSource): string {
  if (from === "entity") return bucket.id;
  if (from === "entityDefault" || from === "entityTotal") return bucket.entityId;
  return from === "plan" || from === "planDefault" || from === "planTotal" ? planId : "";
}
