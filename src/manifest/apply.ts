import type { OwnedPiece, PieceValue } from "../domain/config/piece.ts";
import { ConflictError, LimiterError, ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { checkPrincipal } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type LimiterParts, partsOf } from "../engine/limiter/limiter-parts.ts";
import type { Change } from "./change.ts";
import { entityBlockers } from "./entity-deletion.ts";
import { allConfigs } from "./live.ts";
import { basisOf, makePlan, ownedByOther, type Plan } from "./plan.ts";
import { planBlockers } from "./plan-deletion.ts";
import { isAsShown, type LivePiece, livePiece, outdated, requireShown } from "./stale.ts";
import { writeChange } from "./write.ts";

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

/**
 * Makes the changes of a plan, one after another, and stops at the first that fails. Planned and applied again, it
 * goes on there. It skips a change that somebody else made meanwhile. If the store changed so that it would do
 * something that the plan does not show, or replace another value, it throws `plan_outdated`: before the first change,
 * and again at each piece.
 */
export async function applyManifest(limiter: Limiter, plan: Plan, options: ApplyOptions = {}): Promise<Plan> {
  const parts = partsOf(limiter);
  OPTIONS.check(options, "The options of applyManifest");
  if (options.principal !== undefined) checkPrincipal(options.principal);
  const basis = basisOf(plan);
  if (plan.namespace !== parts.settings.namespace) {
    throw new ValidationError(
      "namespace_mismatch",
      `The plan is for the namespace ${plan.namespace}, and this is ${parts.settings.namespace}; plan again here.`,
    );
  }
  if (basis.refusal !== undefined) throw basis.refusal;
  options.signal?.throwIfAborted();
  const run = new ManifestApply(limiter, parts, plan.owner, { ...options, takeOver: basis.options.takeOver === true });
  await run.begin();
  // Made again now that no other apply of this owner may write.
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

/** One apply: it may write until another of the same owner begins. */
class ManifestApply {
  readonly #limiter: Limiter;
  readonly #parts: LimiterParts;
  readonly #owner: string;
  readonly #id: string;
  readonly #options: ApplyOptions & { readonly takeOver: boolean };
  #done = 0;
  #configs: ReturnType<typeof allConfigs> | undefined;

  constructor(
    limiter: Limiter,
    parts: LimiterParts,
    owner: string,
    options: ApplyOptions & { readonly takeOver: boolean },
  ) {
    this.#limiter = limiter;
    this.#parts = parts;
    this.#owner = owner;
    this.#id = parts.deps.random.id();
    this.#options = options;
  }

  async begin(): Promise<void> {
    const { clock, scope } = this.#parts.deps;
    await scope.manifests.setRun({ owner: this.#owner, run: this.#id, appliedAtMs: clock.now() });
  }

  async make(change: Change): Promise<void> {
    await this.#make(change);
    this.#done += 1;
  }

  // A piece is entered before it is written and struck out after it is gone: the record never lags behind.
  async #make(change: Change): Promise<void> {
    const { action, after } = change;
    if (action === "release") return this.#strike(change);
    if (action === "adopt") return this.#enter(change, after);
    // A long apply comes to its last piece long after its plan.
    const live = await livePiece(this.#parts, change);
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
    const { principal } = this.#options;
    try {
      await writeChange(this.#limiter, this.#parts, change, {
        live,
        ...(principal === undefined ? {} : { principal }),
      });
    } catch (error) {
      if (!(error instanceof LimiterError) || !CHANGED_MEANWHILE.has(error.code)) throw error;
      // The answer to a create may have been lost: then it is there, as it shall be.
      if (!isAsShown({ ...change, before: change.after }, await livePiece(this.#parts, change))) {
        throw outdated(change, this.#done);
      }
    }
  }

  // What was owned of an entity or a plan is deleted before it, so that whatever is there now is somebody else's.
  async #recheck(change: Change): Promise<void> {
    if (change.what !== "entity" && change.what !== "plan") return;
    const deletion = { deleted: [change], owned: new Map(), owner: this.#owner, declared: new Map() };
    // Read once for all plans, which go last: a store has no list of those of one.
    const configs = () => {
      this.#configs ??= allConfigs(this.#parts, {});
      return this.#configs;
    };
    const [blocker] = [
      ...(await entityBlockers(this.#parts, deletion)),
      ...(await planBlockers(this.#parts, deletion, configs)),
    ];
    if (blocker !== undefined) throw blocker;
  }

  async #enter(change: Change, value: PieceValue | null): Promise<void> {
    const right = { run: this.#id, takeOver: this.#options.takeOver };
    const reply = await this.#parts.deps.scope.manifests.enter(this.#owned(change, value), right);
    if (reply.kind === "ownedByOther") throw ownedByOther(change, reply.owner);
    if (reply.kind === "superseded") throw this.#superseded();
  }

  // It was written although another apply had begun, which may have struck it out in between: then it would be nobody's.
  async #enterAnyway(change: Change): Promise<void> {
    try {
      await this.#parts.deps.scope.manifests.enter(this.#owned(change, null), { run: undefined, takeOver: false });
    } catch {
      // The fault before this one is told.
    }
  }

  async #strike(change: Change): Promise<void> {
    const reply = await this.#parts.deps.scope.manifests.strike(change, this.#owner, { run: this.#id });
    if (reply.kind === "superseded") throw this.#superseded();
  }

  #owned({ what, level, resource, entityId, planId }: Change, value: PieceValue | null): OwnedPiece {
    const piece = {
      what,
      ...(level === undefined ? {} : { level }),
      ...(resource === undefined ? {} : { resource }),
      ...(entityId === undefined ? {} : { entityId }),
      ...(planId === undefined ? {} : { planId }),
    };
    const entry = { piece, owner: this.#owner, atMs: this.#parts.deps.clock.now() };
    return value === null ? { ...entry, state: "pending" } : { ...entry, state: "applied", value };
  }

  #superseded(): ConflictError {
    return new ConflictError(
      "apply_in_progress",
      `Another apply of the owner ${this.#owner} has started since; wait until it ends, then plan and apply again.`,
    );
  }
}

/** Of a write by version, or of one where nothing was. */
const CHANGED_MEANWHILE: ReadonlySet<string> = new Set([
  "entity_changed",
  "plan_changed",
  "entity_exists",
  "plan_exists",
]);
