import { measureMissing, measureUnknown, uncountedWarning, unnamedWarning } from "../../domain/charge/charge-errors.ts";
import { type ChargedBucket, type ChargeRules, SILENT, type UnnamedLimit } from "../../domain/charge/charges.ts";
import type { LimitSource } from "../../domain/config/config.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";

/** What becomes of hard limits that requests leave out, and of measures that adapters use and nothing counts (`unnamedLimits`). */
export interface UnnamedRules {
  /** Of what is taken. */
  readonly take: ChargeRules;
  /** The same where measures that nothing counts are left out: silently, or as hard limits are. */
  readonly ignore: ChargeRules;
  readonly report: ChargeRules;
  /** Of a question, which warns of nothing: it takes nothing either. */
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
): Required<ChargeRules> {
  const keyOf = (...parts: readonly string[]) => JSON.stringify([namespace, ...parts]);
  const measureKey = (measure: string, [asker]: readonly ChargedBucket[]) =>
    keyOf("measure", asker?.bucket.resource ?? "", measure);
  // Most takes leave out what those before them left out, of a limit that is remembered: no text is made for them.
  const told = new WeakMap<Limit, string>();
  const unnamed = (of: UnnamedLimit) => {
    const { limit, level, chain, uncounted } = of;
    const from = level.sources?.[limit.name] ?? level.source ?? "none";
    const owner = ownerOf(level, from);
    if (told.get(limit) === owner) return;
    told.set(limit, owner);
    const resource = OF_A_RESOURCE.has(from) ? level.bucket.resource : "";
    const isNew = warnings.once(keyOf(from, owner, resource, limit.name), () => unnamedWarning(of));
    // One warning tells both.
    if (isNew) for (const measure of uncounted) warnings.done(measureKey(measure, chain));
  };
  const uncounted = (measures: readonly string[], chain: readonly ChargedBucket[]) => {
    for (const measure of measures) {
      warnings.once(measureKey(measure, chain), () => uncountedWarning(measure, chain));
    }
  };
  return { unnamed, uncounted };
}

/** Levels that say which resource they are about; `none`: limits of a request. */
const OF_A_RESOURCE: ReadonlySet<LimitSource> = new Set(["plan", "resource", "none"]);

/** Whose a limit is: what is set for many is one limit for all of them. */
function ownerOf({ bucket, planId = "" }: ChargedBucket, from: LimitSource): string {
  if (from === "entity") return bucket.id;
  if (from === "entityDefault" || from === "entityTotal") return bucket.entityId;
  return from === "plan" || from === "planDefault" || from === "planTotal" ? planId : "";
}
