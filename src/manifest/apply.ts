import { ConflictError, ValidationError } from "../domain/errors.ts";
import { KnownNames } from "../domain/known-names.ts";
import { checkPrincipal } from "../domain/names.ts";
import { isSameValue, type OwnedPiece, type PieceValue, pieceKey, pieceText } from "../domain/piece.ts";
import type { Limiter } from "../engine/limiter.ts";
import { type LimiterParts, partsOf } from "../engine/limiter-parts.ts";
import type { Change } from "./change.ts";
import { entityBlockers } from "./entity-deletion.ts";
import { allOwned } from "./live.ts";
import { basisOf, makePlan, ownedByOther, type Plan } from "./plan.ts";
import { planBlockers } from "./plan-deletion.ts";
import { writeChange } from "./write.ts";

/** How a plan is applied. */
export interface ApplyOptions {
  /** Called with each change that was made, its `done` true. */
  readonly onChange?: (change: Change) => void;
  /** Ends the apply after the change at hand. */
  readonly signal?: AbortSignal;
  /** Who applies, for the audit trail. */
  readonly principal?: string;
}

const OPTIONS = new KnownNames<ApplyOptions>({ onChange: true, signal: true, principal: true });

/**
 * Makes the changes of a plan, one after another, and stops at the first that fails; planned and applied again, it goes on
 * there. What was done meanwhile by others is seen: what need not be done any more is left, and a change that the plan did
 * not show is refused (`plan_outdated`) before anything is changed.
 */
export async function applyManifest(limiter: Limiter, plan: Plan, options: ApplyOptions = {}): Promise<Plan> {
  const parts = partsOf(limiter);
  OPTIONS.check(options, "The options of applyManifest");
  if (options.principal !== undefined) checkPrincipal(options.principal);
  const basis = basisOf(plan);
  if (plan.namespace !== parts.settings.namespace) {
    throw new ValidationError(
      "namespace_mismatch",
      `The plan is of the namespace ${plan.namespace}, and this is ${parts.settings.namespace}; plan it here.`,
    );
  }
  if (basis.refusal !== undefined) throw basis.refusal;
  options.signal?.throwIfAborted();
  const run = new Run(limiter, parts, plan.owner, { ...options, takeOver: basis.options.takeOver === true });
  await run.begin();
  // Made again now that no other apply of this owner may write.
  const fresh = await makePlan(parts, basis.manifest, basis.options);
  const { refusal } = basisOf(fresh);
  const unseen = fresh.changes.find((change) => !plan.changes.some((each) => isSameChange(each, change)));
  if (unseen !== undefined) throw outdated(unseen);
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
class Run {
  readonly #limiter: Limiter;
  readonly #parts: LimiterParts;
  readonly #owner: string;
  readonly #id: string;
  readonly #options: ApplyOptions & { readonly takeOver: boolean };

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

  // A piece is entered before it is written and struck out after it is gone: the record never lags behind.
  async make(change: Change): Promise<void> {
    const { action, after } = change;
    if (action === "release") return this.#strike(change);
    if (action === "adopt") return this.#enter(change, after);
    await this.#enter(change, null);
    if (action === "delete") {
      await this.#recheck(change);
      await this.#write(change);
      return this.#strike(change);
    }
    await this.#write(change);
    await this.#enter(change, after).catch(async (error: unknown) => {
      await this.#enterAnyway(change);
      throw error;
    });
  }

  #write(change: Change): Promise<void> {
    const { principal } = this.#options;
    return writeChange(this.#limiter, this.#parts, change, principal === undefined ? {} : { principal });
  }

  async #recheck(change: Change): Promise<void> {
    if (change.what !== "entity" && change.what !== "plan") return;
    const owned = new Map((await allOwned(this.#parts)).map((each) => [pieceKey(each.piece), each]));
    const deletion = { deleted: [change], owned, owner: this.#owner, declared: new Map() };
    const [blocker] = [
      ...(await entityBlockers(this.#parts, deletion)),
      ...(await planBlockers(this.#parts, deletion)),
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
      `Another apply of the owner ${this.#owner} has begun since; wait until it is done, plan again and apply what is left.`,
    );
  }
}

function isSameChange(one: Change, other: Change): boolean {
  return (
    pieceKey(one) === pieceKey(other) &&
    one.action === other.action &&
    isSameValue(one.after ?? undefined, other.after ?? undefined)
  );
}

function outdated(change: Change): ConflictError {
  return new ConflictError(
    "plan_outdated",
    `Something was changed since the plan: it would now ${change.action} ${pieceText(change)}, which it did not show. ` +
      "Nothing was changed; plan again.",
  );
}
