import { type ClientLimiter, callsIfClient } from "../client/client.ts";
import { at, type Path, type RequestParts, type ServiceCalls } from "../client/http.ts";
import { ConflictError, ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type ApplyOptions, applyManifest, checkApplyOptions } from "./apply.ts";
import { documentOf } from "./document.ts";
import { type Drift, type DriftOptions, driftOf } from "./drift.ts";
import { type Exported, type ExportOptions, exportDocument } from "./export.ts";
import { type Change, type Manifest, ManifestInvalid, type ManifestProblem } from "./manifest.ts";
import {
  basisOf,
  namespaceMismatch,
  ownerOf,
  type Plan,
  type PlanBasis,
  type PlanOptions,
  planManifest,
  withBasis,
} from "./plan.ts";

/** The declared limits of a namespace, whether its store is at hand or behind a service. */
export interface Manifests {
  plan(manifest: Manifest, options: PlanOptions): Promise<Plan>;
  apply(plan: Plan, options: ApplyOptions): Promise<Plan>;
  drift(options: DriftOptions): Promise<Drift>;
  export(options: ExportOptions): Promise<Exported>;
}

export function manifestsOf(limiter: Limiter | ClientLimiter): Manifests {
  const calls = callsIfClient(limiter);
  if (calls !== undefined) return manifestsAt(calls);
  const here = limiter as Limiter;
  return {
    plan: (manifest, options) => planManifest(here, manifest, options),
    apply: (plan, options) => applyManifest(here, plan, options),
    drift: (options) => driftOf(here, options),
    export: (options) => exportDocument(here, options),
  };
}

/** A plan as the service answers it. */
export interface PlanAnswer extends Plan {
  /** Why it cannot be applied. Absent: it can. */
  readonly refusal?: { readonly code: string; readonly message: string };
}

/** What one call of an apply has done. */
export interface ApplyAnswer extends Plan {
  /** `true`: all changes are made. `false`: the next call goes on. */
  readonly complete: boolean;
}

function manifestsAt(calls: ServiceCalls): Manifests {
  return {
    plan: async (manifest, options) => {
      const { refusal, ...plan } = await answer<PlanAnswer>(calls, "POST", at`manifest/plan`, {
        body: bodyOf(manifest, options),
      });
      return withBasis(plan, { manifest, options: { ...options, owner: plan.owner }, refusal: refusalIn(refusal) });
    },
    apply: (plan, options) => applyAt(calls, plan, options),
    drift: (query) => answer(calls, "GET", at`manifest/drift`, { query }),
    export: ({ owned, ...others }) => {
      const query = { ...others, ...(typeof owned === "string" ? { owner: owned } : given({ owned })) };
      return answer(calls, "GET", at`manifest/export`, { query });
    },
  };
}

/** A service is sent what a manifest says, as JSON: to read YAML takes it five times as long. */
function bodyOf(manifest: Manifest, { owner, ...options }: PlanOptions): object {
  const whose = { ...given({ namespace: manifest.namespace }), owner: ownerOf(manifest, given({ owner })) };
  return { ...options, manifest: documentOf(whose, manifest.pieces) };
}

function refusalIn(refusal: PlanAnswer["refusal"]): PlanBasis["refusal"] {
  return refusal && new ConflictError(refusal.code, refusal.message);
}

/**
 * Sends what was shown, call after call until all of it is made: the service makes a part of the changes at a time, and no others. A call
 * is not sent again after a lost answer: what it has made would be told by nobody.
 */
async function applyAt(calls: ServiceCalls, plan: Plan, options: ApplyOptions): Promise<Plan> {
  checkApplyOptions(options);
  const { onChange, signal, principal } = options;
  if (principal !== undefined) {
    throw new ValidationError("option_unknown", "The audit log of a service names the token; leave principal out.");
  }
  const { manifest, options: planned, refusal } = basisOf(plan);
  const { namespace } = calls.options;
  if (plan.namespace !== namespace) throw namespaceMismatch(plan.namespace, namespace);
  if (refusal !== undefined) throw refusal;
  const body = { ...bodyOf(manifest, planned), changes: plan.changes };
  const made: Change[] = [];
  const tell = (changes: readonly Change[]) => {
    for (const change of changes) {
      made.push(change);
      onChange?.(change);
    }
  };
  for (let first: Plan | undefined; ; ) {
    signal?.throwIfAborted();
    try {
      const part = answer<ApplyAnswer>(calls, "POST", at`manifest/apply`, { body, repeats: "never" });
      const { complete, changes, ...rest } = await part;
      first ??= { ...rest, changes };
      tell(changes);
      if (complete) return { ...first, changes: made };
    } catch (error) {
      tell((error as { readonly made?: readonly Change[] }).made ?? []);
      throw error;
    }
  }
}

/** How long the service may take beyond the time of other answers. */
const WORK_MS = 30_000;

async function answer<Body>(calls: ServiceCalls, method: string, path: Path, parts: RequestParts): Promise<Body> {
  try {
    return (await calls.answer<Body>(method, path, { ...parts, waitMs: WORK_MS })).body;
  } catch (error) {
    // A service of another version may know fewer keys.
    const { code, problems } = error as { readonly code?: string; readonly problems?: readonly ManifestProblem[] };
    throw code === "manifest_invalid" && problems !== undefined ? new ManifestInvalid(undefined, problems) : error;
  }
}
