import { ConflictError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import { checkNamespace, shown } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { LimiterParts } from "../engine/limiter/limiter-parts.ts";
import { freezeNamespace } from "../engine/limiter/namespaces.ts";
import type { ScopedStore } from "../ports/store.ts";
import { compare, type Difference } from "./compare.ts";
import { clear, copiedOf, type Filling, fill, newLedger } from "./fill.ts";
import { type Copied, KINDS } from "./kinds.ts";
import { countOf, every, readLedger, removeLedger, writeLedger } from "./ledger.ts";
import { agreed, namespaceMissing, partsOfBoth, type Side, sideOf } from "./side.ts";

/** What is copied, and how. */
export interface CopyOptions {
  /** A limiter on the store that is read. */
  readonly from: Limiter;
  /** A limiter on the store that is written to. */
  readonly to: Limiter;
  /** The names of the namespaces. Default: all active ones. */
  readonly namespaces?: readonly string[];
  /**
   * Of a copy that was interrupted, or that differs. `true`: goes on with it. `"restart"`: removes it and begins anew. Default:
   * it is `copy_unfinished`.
   */
  readonly resume?: boolean | "restart";
  /**
   * `true`: the namespaces of the source are frozen first, until `unfreezeNamespace`, so that the copy has all that was ever granted. It waits
   * until every process knows it: `configTtlMs` of `from` on DynamoDB, 2 s elsewhere. Default: `false`.
   */
  readonly freeze?: boolean;
  /** Whether it only counts, and checks the target. Default: `false`. */
  readonly dryRun?: boolean;
  /** Called after each page. Default: nothing is called. */
  readonly onProgress?: (progress: CopyProgress) => void;
  /** Ends the copy between two pages; `resume` goes on with it. Default: none. */
  readonly signal?: AbortSignal;
}

/** How far a copy has come. */
export interface CopyProgress {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The kind that is being copied; `"freeze"`: nothing yet, it waits until every process knows that the source is frozen. */
  readonly kind: string;
  /** How many of these were read. */
  readonly rows: number;
}

/** What a copy did. */
export interface CopyReport {
  /** The name of the store that was read. */
  readonly from: string;
  /** The name of the store that was written to. */
  readonly to: string;
  /** Nothing was written. Absent: it was. */
  readonly dryRun?: true;
  /** How long it took. */
  readonly tookMs: number;
  /** The namespaces, in the order of their names. */
  readonly namespaces: readonly CopiedNamespace[];
}

/** What became of one namespace. */
export interface CopiedNamespace {
  /** Its name. */
  readonly name: string;
  /** `true`: the source is frozen, for the copy or before. The copy is not. */
  readonly frozen: boolean;
  /** Whether it is active in the target: not where something differs. */
  readonly active: boolean;
  /** How many open leases the source has: what they hold stays charged in the target, and nobody settles them there. */
  readonly leases: number;
  /** How many rows and buckets the source has changed since they were read: the target does not know of that. */
  readonly moved: number;
  /** What differs although nobody has changed it. */
  readonly differences: readonly Difference[];
  /** How much was copied. */
  readonly copied: Copied;
}

const OPTIONS = new KnownNames<CopyOptions>({
  ...{ from: true, to: true, namespaces: true, freeze: true, resume: true },
  ...{ dryRun: true, onProgress: true, signal: true },
});

/**
 * Copies namespaces from one store to another, compares what was written with what was read, and makes each active in one write. A
 * namespace of the target must not be there, or be empty; it is hidden until it is compared. Of what the source grants after a bucket
 * was read, the target knows nothing: `freeze` it first, or that much may be granted twice.
 *
 * ```ts
 * const report = await copyStore({ from, to });
 * console.log(report.namespaces.every(({ active }) => active));
 * ```
 */
export async function copyStore(options: CopyOptions): Promise<CopyReport> {
  const checked = checkedOptions(options);
  const parts = partsOfBoth(options.from, options.to);
  const { clock } = parts.to.deps;
  const beganMs = clock.now();
  // Every namespace is looked at before anything is written.
  const plans: NamespacePlan[] = [];
  for (const name of checked.namespaces ?? (await activeNames(parts.from))) {
    plans.push(await planned(parts, name, checked.resume));
  }
  if (checked.freeze && !checked.dryRun) await freezeAll(parts, plans, checked);
  // Writes the counts of this process that are not stored yet; those of others are seconds old at most.
  await parts.from.acquirer.refusals.close("store");
  await parts.from.acquirer.callers.close("store");
  const namespaces: CopiedNamespace[] = [];
  for (const plan of plans) namespaces.push(await copyNamespace(parts, plan, checked));
  return {
    ...{ from: parts.from.deps.store.name, to: parts.to.deps.store.name },
    ...(checked.dryRun ? { dryRun: true } : {}),
    tookMs: clock.now() - beganMs,
    namespaces,
  };
}

interface Checked extends Pick<CopyOptions, "namespaces" | "onProgress" | "signal"> {
  readonly resume: boolean | "restart";
  readonly freeze: boolean;
  readonly dryRun: boolean;
}

function checkedOptions(options: CopyOptions): Checked {
  const {
    namespaces,
    resume = false,
    freeze = false,
    dryRun = false,
    onProgress,
    signal,
  } = OPTIONS.check(options, "The options of copyStore");
  requireOption("resume", resume, [true, false, "restart"].includes(resume), 'true, false or "restart"');
  requireOption("freeze", freeze, typeof freeze === "boolean", "true or false");
  requireOption("dryRun", dryRun, typeof dryRun === "boolean", "true or false");
  const areNames = namespaces === undefined || (Array.isArray(namespaces) && namespaces.length > 0);
  requireOption("namespaces", namespaces, areNames, "a list of names, or leave it out for all");
  for (const name of namespaces ?? []) checkNamespace(name);
  const names = namespaces && [...new Set(namespaces)].sort();
  return { resume, freeze, dryRun, ...given({ namespaces: names, onProgress, signal }) };
}

interface Both {
  readonly from: LimiterParts;
  readonly to: LimiterParts;
}

/** A namespace that is to be copied, and what the target has of it. */
interface NamespacePlan {
  readonly name: string;
  readonly createdAtMs: number;
  readonly fromId: string;
  /** `empty`: it is active there, and has nothing. `unfinished`: a copy fills it, or has filled it with something that differs. */
  readonly target: { readonly kind: "nothing" } | { readonly kind: "empty" | "unfinished"; readonly id: string };
}

async function activeNames({ deps }: LimiterParts): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const { name } of every((page) => deps.store.namespaces.list(page))) names.push(name);
  return names.sort();
}

async function planned({ from, to }: Both, name: string, resume: Checked["resume"]): Promise<NamespacePlan> {
  const source = await from.deps.store.namespaces.get(name);
  if (source === undefined) throw namespaceMissing(name, from.deps.store.name);
  sideOf(from, source.id);
  const plan = { name, createdAtMs: source.createdAtMs, fromId: source.id };
  for await (const orphan of every((page) => to.deps.store.namespaces.listOrphans(page))) {
    if (orphan.status !== "copying" || orphan.name !== name) continue;
    if (resume === false) throw unfinished(name, to);
    const ledger = await readLedger(sideOf(to, orphan.id));
    if (resume === true && ledger !== undefined && ledger.from !== from.deps.store.name) {
      throw unfinished(name, to, ledger.from);
    }
    return { ...plan, target: { kind: "unfinished", id: orphan.id } };
  }
  const known = await to.deps.store.namespaces.get(name);
  if (known === undefined) return { ...plan, target: { kind: "nothing" } };
  const held = await firstIn(agreed(sideOf(to, known.id), { copy: sideOf(to, known.id).copy }));
  if (held === undefined) return { ...plan, target: { kind: "empty", id: known.id } };
  throw new ConflictError(
    "target_not_empty",
    `The namespace ${name} of ${to.deps.store.name} has ${held} already; delete the namespace there first, or name another store.`,
  );
}

function unfinished(name: string, { deps }: LimiterParts, from?: string): ConflictError {
  const whose = from === undefined ? "" : ` from ${shown(from)}`;
  return new ConflictError(
    "copy_unfinished",
    `A copy of ${name}${whose} to ${deps.store.name} was not finished; ${from === undefined ? "go on with it (`resume: true`, `--resume`), or " : ""}` +
      'begin anew (`resume: "restart"`, `--restart`).',
  );
}

/** The wait for processes on a store whose answers tell of changes: requests that are under way end meanwhile. */
const SETTLE_MS = 2_000;

/** Freezes the namespaces, and waits once until every process knows it. One that is frozen already keeps its reason. */
async function freezeAll({ from }: Both, plans: readonly NamespacePlan[], options: Checked): Promise<void> {
  let waitMs = 0;
  for (const { name, fromId } of plans) {
    const { scope } = sideOf(from, fromId);
    options.signal?.throwIfAborted();
    if (!(await isFrozen(scope))) await freezeNamespace(from, name, { reason: "copied to another store" });
    const isRemembered = scope.config.generation() === undefined;
    waitMs = Math.max(waitMs, isRemembered ? from.settings.configTtlMs : SETTLE_MS);
    options.onProgress?.({ namespace: name, kind: "freeze", rows: 0 });
  }
  await from.deps.clock.sleep(waitMs, options.signal);
}

async function isFrozen({ config }: Pick<ScopedStore, "config">): Promise<boolean> {
  return (await config.get({ level: "system" }))?.frozen !== undefined;
}

/** Something that an empty namespace has not. Former limits, owners and the audit log do not count. */
async function firstIn(side: Side): Promise<string | undefined> {
  const reading = { nowMs: side.deps.clock.now(), openFromMs: side.deps.clock.now(), place: 0 };
  for (const kind of KINDS) {
    if (["history", "owner", "owned", "audit", "refusal", "refusalLog"].includes(kind.kind)) continue;
    const { items } = await kind.read(side, { limit: 1 }, reading);
    if (items.length > 0) return `a ${kind.what}`;
  }
  return (await isFrozen(side.scope)) ? "been frozen" : undefined;
}

async function copyNamespace(parts: Both, plan: NamespacePlan, options: Checked): Promise<CopiedNamespace> {
  const { name } = plan;
  const { dryRun, onProgress, signal } = options;
  const source = sideOf(parts.from, plan.fromId);
  const leases = await countOf((page) => source.scope.leases.listOpen({}, page));
  const base = { name, frozen: await isFrozen(source.scope), leases };
  const progress = (kind: string, rows: number) => onProgress?.({ namespace: name, kind, rows });
  if (dryRun) {
    const filling: Filling = { from: agreed(source, source), to: undefined, signal, onProgress: progress };
    const { tallies } = await fill(filling, await newLedger(filling));
    return { ...base, active: false, moved: 0, differences: [], copied: copiedOf(tallies) };
  }
  const id = await hidden(parts.to, plan, options.resume);
  const target = sideOf(parts.to, id);
  const to = agreed(target, source);
  const filling: Filling = { from: agreed(source, target), to, signal, onProgress: progress };
  let ledger = await readLedger(to);
  if (ledger === undefined) {
    await clear(to);
    ledger = await newLedger(filling);
    await writeLedger(to, ledger);
  }
  const filled = await fill(filling, ledger);
  const compared = await compare(filling.from, to, ledger, filled);
  const copied = copiedOf(filled.tallies);
  const active = compared.differences.length === 0;
  if (active) await shownAgain(parts.to, to, name, { from: parts.from.deps.store.name, ...copied });
  return { ...base, active, ...compared, copied };
}

/** The id of the namespace in which the copy is made: nobody finds it by its name. */
async function hidden(
  { deps, admin, settings }: LimiterParts,
  plan: NamespacePlan,
  resume: Checked["resume"],
): Promise<string> {
  const { name, createdAtMs, target } = plan;
  const { namespaces } = deps.store;
  if (target.kind === "unfinished" && resume === true) return target.id;
  const id = target.kind === "nothing" ? deps.random.id() : target.id;
  if (target.kind === "unfinished") {
    const event = admin.event("namespace_purged", `$NAMESPACE:${id}`, {}, {});
    await namespaces.purge(id, event, await settings.namespaceId(), () => {});
  }
  const from = target.kind === "empty" ? "active" : "nothing";
  const known = target.kind === "empty" ? await namespaces.get(name) : undefined;
  const namespace = { id, name, status: "copying", createdAtMs: known?.createdAtMs ?? createdAtMs } as const;
  if (await namespaces.beginCopy(namespace, from)) return id;
  throw new ConflictError(
    "target_not_empty",
    `The namespace ${name} of ${deps.store.name} was made or deleted meanwhile; look at it, and try again.`,
  );
}

async function shownAgain(
  parts: LimiterParts,
  to: Side,
  name: string,
  details: Record<string, unknown>,
): Promise<void> {
  await removeLedger(to);
  const event = parts.admin.event("namespace_copied", `$NAMESPACE:${name}`, {}, details);
  const reply = await parts.deps.store.namespaces.endCopy(to.namespaceId, event);
  if (reply === "active") {
    parts.admin.changed(event);
    return;
  }
  throw new ConflictError(
    "target_not_empty",
    reply === "nameTaken"
      ? `Another namespace ${name} was made in ${parts.deps.store.name} meanwhile; delete it there, and go on with \`resume\`.`
      : `The copy of ${name} in ${parts.deps.store.name} was removed meanwhile; begin anew.`,
  );
}
