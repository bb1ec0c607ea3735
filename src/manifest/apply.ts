import type { Access, OnUnavailable } from "../domain/config/config.ts";
import {
  type EntityValue,
  type LimitsValue,
  limitsOfValue,
  type OwnedPiece,
  type PieceValue,
  type PlanValue,
  scopeOfPiece,
} from "../domain/config/piece.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { ConflictError, LimiterError, NotFoundError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { checkPrincipal } from "../domain/names/names.ts";
import { setBaseAccess } from "../engine/acquire/policies.ts";
import type { ChangeOptions } from "../engine/limiter/level-options.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type LimiterParts, partsOf } from "../engine/limiter/limiter-parts.ts";
import { deletionBlockers } from "./entity-deletion.ts";
import { configsOnce, isAsShown, type LivePiece, livePiece, outdated, requireShown } from "./live.ts";
import type { Change } from "./manifest.ts";
import { basisOf, makePlan, namespaceMismatch, ownedByOther, type Plan } from "./plan.ts";

/** The principal of a change, and the stored piece. */
interface ChangeContext extends ChangeOptions {
  readonly live: LivePiece;
}

/**
 * Makes one change by the public calls, so that registries, live buckets and the audit trail follow. An entity or a plan is created only
 * where none is, and updated only at the version that was found.
 */
async function writeChange(limiter: Limiter, change: Change, { live, ...who }: ChangeContext): Promise<void> {
  const { admin } = partsOf(limiter);
  const { what, after } = change;
  switch (what) {
    case "limits":
    case "totals":
      return writeLimits(admin, change, who);
    case "plan":
      return writePlan(limiter, change, { live, ...who });
    case "access":
      await setBaseAccess(partsOf(limiter), whereOf(change), (after as Access | null) ?? "inherit", who);
      return;
    case "cascade":
      await limiter.setCascade(whereOf(change), (after as boolean | null) ?? "inherit", who);
      return;
    case "onUnavailable":
      await admin.changeSystem({ onUnavailable: after as OnUnavailable | null }, who);
      return;
    case "usageKeptDays":
      await admin.changeSystem({ usageKeptDays: after as number | null }, who);
      return;
    case "entity":
      return writeEntity(limiter, change, { live, ...who });
  }
}

/** A manifest declares bases: an override that runs goes on to its end. */
async function writeLimits(admin: LimiterParts["admin"], change: Change, who: ChangeOptions): Promise<void> {
  const after = change.after as readonly Limit[] | LimitsValue | null;
  const scope = scopeOfPiece(change);
  if (scope === undefined) return;
  if (scope.level === "system") {
    await admin.changeSystem(after === null ? { limits: null } : limitsOfValue(after), { ...who, keepOverride: true });
    return;
  }
  if (after === null) {
    // They may have been deleted with their plan.
    await admin.deleteBase(scope, who).catch(unlessMissing);
    return;
  }
  const { limits, ...options } = limitsOfValue(after);
  await admin.setConfig(scope, limits, { ...options, ...who, keepOverride: true });
}

async function writePlan(
  limiter: Limiter,
  { planId = "", after }: Change,
  { live, ...who }: ChangeContext,
): Promise<void> {
  if (after === null) return limiter.deletePlan(planId, who).catch(unlessMissing);
  const { name, metadata } = after as PlanValue;
  if (live.version === undefined) await limiter.createPlan({ id: planId, name, metadata }, who);
  else await limiter.updatePlan(planId, { name, metadata }, { ...who, version: live.version });
}

/** Ignores that somebody else deleted it first. */
function unlessMissing(error: unknown): void {
  if (!(error instanceof NotFoundError)) throw error;
}

/** Writes every field: a declared entity has defaults for the others. */
async function writeEntity(
  limiter: Limiter,
  { entityId = "", after }: Change,
  { live, ...who }: ChangeContext,
): Promise<void> {
  if (after === null) return limiter.deleteEntity(entityId, who).catch(unlessMissing);
  const { parentId, planId, ...rest } = after as EntityValue;
  if (live.version === undefined) {
    await limiter.createEntity({ id: entityId, ...rest, ...given({ parentId, planId }) }, who);
    return;
  }
  const patch = { ...rest, parentId: parentId ?? null, planId: planId ?? null };
  await limiter.updateEntity(entityId, patch, { ...who, version: live.version });
}

function whereOf({ entityId, resource }: Change): { readonly entityId?: string; readonly resource?: string } {
  return given({ entityId, resource });
}

/** How to apply a plan. */
export interface ApplyOptions {
  /** Called with each change that was made, its `done` true. Default: nothing is called. */
  readonly onChange?: (change: Change) => void;
  /** Ends the apply after the current change when it is aborted. Default: none. */
  readonly signal?: AbortSignal;
  /** Who applies it, for the audit trail. Default: not recorded. */
  readonly principal?: string;
}

const OPTIONS = new KnownNames<ApplyOptions>({ onChange: true, signal: true, principal: true });

export function checkApplyOptions(options: ApplyOptions): void {
  OPTIONS.check(options, "The options of applyManifest");
}

export async function applyManifest(limiter: Limiter, plan: Plan, options: ApplyOptions): Promise<Plan> {
  const parts = partsOf(limiter);
  checkApplyOptions(options);
  if (options.principal !== undefined) checkPrincipal(options.principal);
  const basis = basisOf(plan);
  const { namespace } = parts.settings;
  if (plan.namespace !== namespace) throw namespaceMismatch(plan.namespace, namespace);
  if (basis.refusal !== undefined) throw basis.refusal;
  options.signal?.throwIfAborted();
  const { principal } = options;
  const id = parts.deps.random.id();
  const takeOver = basis.options.takeOver === true;
  const run = new ManifestApply({ limiter, parts, owner: plan.owner, id, principal, takeOver });
  await run.begin();
  // Plan again, now that no other apply of this owner may write.
  const fresh = await makePlan(parts, basis.manifest, basis.options);
  const { refusal } = basisOf(fresh);
  requireShown(plan.changes, fresh.changes);
  if (refusal !== undefined) throw refusal;
  const done: Change[] = [];
  for (const change of fresh.changes) {
    options.signal?.throwIfAborted();
    await run.make(change);
    const made = { ...change, done: true };
    done.push(made);
    options.onChange?.(made);
  }
  return { ...fresh, changes: done };
}

interface ApplyRun {
  readonly limiter: Limiter;
  readonly parts: LimiterParts;
  readonly owner: string;
  readonly id: string;
  readonly principal: string | undefined;
  readonly takeOver: boolean;
}

/** One apply: it may write until another of the same owner begins. */
class ManifestApply {
  readonly #run: ApplyRun;
  readonly #configs: ReturnType<typeof configsOnce>;
  #done = 0;

  constructor(run: ApplyRun) {
    this.#run = run;
    this.#configs = configsOnce(run.parts);
  }

  async begin(): Promise<void> {
    const { parts, owner, id } = this.#run;
    const { clock, scope } = parts.deps;
    await scope.manifests.setRun({ owner, run: id, appliedAtMs: clock.now() });
  }

  async make(change: Change): Promise<void> {
    await this.#make(change);
    this.#done += 1;
  }

  /** Enters a piece before it is written, and strikes it out after it is gone: the record never lags behind. */
  async #make(change: Change): Promise<void> {
    const { action, after } = change;
    if (action === "release") return this.#strike(change);
    if (action === "adopt") return this.#enter(change, after);
    // A long apply reaches its last piece long after it was planned.
    const live = await livePiece(this.#run.parts, change);
    if (!isAsShown(change, live)) throw outdated(change, this.#done);
    await this.#enter(change, null);
    if (action === "delete") {
      await this.#recheck(change);
      await this.#write(change, live);
      return this.#strike(change);
    }
    await this.#write(change, live);
    await this.#enter(change, after).catch(async (error: unknown) => {
      await this.#enterAnyway(change);
      throw error;
    });
  }

  async #write(change: Change, live: LivePiece): Promise<void> {
    const { limiter, parts, principal } = this.#run;
    try {
      await writeChange(limiter, change, { live, ...given({ principal }) });
    } catch (error) {
      if (!(error instanceof LimiterError) || !CHANGED_MEANWHILE.has(error.code)) throw error;
      // The answer to a create may have been lost. Then the piece has the new value.
      if (!isAsShown({ ...change, before: change.after }, await livePiece(parts, change))) {
        throw outdated(change, this.#done);
      }
    }
  }

  /** Own pieces of an entity or a plan are deleted before it, so whatever is still there is somebody else's. */
  async #recheck(change: Change): Promise<void> {
    if (change.what !== "entity" && change.what !== "plan") return;
    const deletion = { deleted: [change], owned: new Map(), owner: this.#run.owner, declared: new Map() };
    const [blocker] = await deletionBlockers(this.#run.parts, deletion, this.#configs);
    if (blocker !== undefined) throw blocker;
  }

  async #enter(change: Change, value: PieceValue | null): Promise<void> {
    const { parts, id, takeOver } = this.#run;
    const reply = await parts.deps.scope.manifests.enter(this.#owned(change, value), { run: id, takeOver });
    if (reply.kind === "ownedByOther") throw ownedByOther(change, reply.owner);
    if (reply.kind === "superseded") throw this.#superseded();
  }

  /** Enters a piece that was written although another apply had begun and may have struck it out: it would have no owner. */
  async #enterAnyway(change: Change): Promise<void> {
    const { manifests } = this.#run.parts.deps.scope;
    try {
      await manifests.enter(this.#owned(change, null), { run: undefined, takeOver: false });
    } catch {
      // The error before this one is thrown.
    }
  }

  async #strike(change: Change): Promise<void> {
    const { parts, owner, id } = this.#run;
    const reply = await parts.deps.scope.manifests.strike(change, owner, { run: id });
    if (reply.kind === "superseded") throw this.#superseded();
  }

  #owned({ what, level, resource, entityId, planId }: Change, value: PieceValue | null): OwnedPiece {
    const { parts, owner } = this.#run;
    const piece = given({ what, level, resource, entityId, planId });
    const entry = { piece, owner, atMs: parts.deps.clock.now() };
    return value === null ? { ...entry, state: "pending" } : { ...entry, state: "applied", value };
  }

  #superseded(): ConflictError {
    return new ConflictError(
      "apply_in_progress",
      `Another apply of the owner ${this.#run.owner} has started since; wait until it ends, then plan and apply again.`,
    );
  }
}

/** Codes of conditional writes that found another version. */
const CHANGED_MEANWHILE: ReadonlySet<string> = new Set(
  ["entity", "plan"].flatMap((what) => [`${what}_changed`, `${what}_exists`]),
);
