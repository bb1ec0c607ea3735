import type { Namespace } from "../domain/config/namespace.ts";
import { LimiterError } from "../domain/names/errors.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { DueOutcome } from "../leases/changing.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { NamespaceStore } from "../ports/config-store.ts";
import type { Tenants } from "./tenants.ts";

interface ListedLease {
  readonly leaseId: string;
  readonly namespace: { readonly name: string; readonly id: string | undefined };
}

/** The most leases in memory. Others are found in the store when they are due. */
const LISTED_MAX = 100_000;

const SECOND_MS = 1_000;

/** Leases by the second in which they end: those that this process opened, and those that it found in the store. */
class DueLeases {
  readonly #bySecond = new Map<number, Map<string, ListedLease & { readonly dueAtMs: number }>>();
  readonly #secondOf = new Map<string, number>();

  get size(): number {
    return this.#secondOf.size;
  }

  /** False: there are too many. */
  add(lease: ListedLease, dueAtMs: number): boolean {
    this.delete(lease.leaseId);
    if (this.#secondOf.size >= LISTED_MAX) return false;
    const second = Math.floor(dueAtMs / SECOND_MS);
    const known = this.#bySecond.get(second) ?? new Map<string, ListedLease & { readonly dueAtMs: number }>();
    this.#bySecond.set(second, known);
    known.set(lease.leaseId, { ...lease, dueAtMs });
    this.#secondOf.set(lease.leaseId, second);
    return true;
  }

  delete(leaseId: string): void {
    const second = this.#secondOf.get(leaseId);
    if (second === undefined) return;
    this.#secondOf.delete(leaseId);
    const known = this.#bySecond.get(second);
    known?.delete(leaseId);
    if (known?.size === 0) this.#bySecond.delete(second);
  }

  /** Takes those out that are due, the earliest first. */
  takeDue(nowMs: number): readonly ListedLease[] {
    const last = Math.floor(nowMs / SECOND_MS);
    const seconds = [...this.#bySecond.keys()].filter((second) => second <= last).sort((a, b) => a - b);
    const begun = seconds.flatMap((second) => [...(this.#bySecond.get(second)?.values() ?? [])]);
    const due = begun.filter(({ dueAtMs }) => dueAtMs <= nowMs).sort((a, b) => a.dueAtMs - b.dueAtMs);
    for (const { leaseId } of due) this.delete(leaseId);
    return due;
  }
}

interface ExpiryOptions {
  /** On the namespace that the service was opened on. */
  readonly limiter: Limiter;
  readonly namespaces: Pick<NamespaceStore, "withDueLeases" | "nothingDue">;
  readonly tenants: Tenants;
  /** The namespaces that tokens name. */
  readonly named: () => readonly string[];
  readonly now: () => number;
  /** How often the store is asked for due leases of other instances. */
  readonly lookEveryMs: number;
  /** Whether an earlier version may have written leases that one query does not find. Then all namespaces are visited once. */
  readonly visitsAll: boolean;
  /** A lease of this instance was ended by another. */
  readonly onClosed: (lease: LeaseView) => void;
  readonly log: (line: string) => void;
}

/** Every lease that this instance opened ends within two of these. */
const TICK_MS = 1_000;

/** The most due leases of a namespace that one query finds. */
const FOUND_MAX = 100;

/** Namespaces worked on at the same time. */
const AT_ONCE = 8;

/**
 * Ends leases whose time is up. Those that this instance opened it knows, and does not have to look for. For those of others it asks
 * the store now and then, once for all namespaces, and for what ends until the next time: so an idle service costs one
 * question each time, however many tenants there are.
 */
export class LeaseExpiry {
  readonly #options: ExpiryOptions;
  readonly #due = new DueLeases();
  #timer: NodeJS.Timeout | undefined;
  #nextLookMs = Number.NEGATIVE_INFINITY;
  #hasVisited: boolean;
  #working: Promise<void> | undefined;
  #hasFailed = false;
  #isDenied = false;

  constructor(options: ExpiryOptions) {
    this.#options = options;
    this.#hasVisited = !options.visitsAll;
  }

  start(): void {
    this.#timer = setInterval(() => void this.look(), TICK_MS).unref();
    void this.look();
  }

  /** Resolves when work that is under way has ended. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#working;
  }

  /** A lease of this instance was opened or has ended. */
  changed({ leaseId, namespace, status, expiresAtMs }: LeaseView): void {
    if (leaseId === null) return;
    if (status !== "open" || expiresAtMs === null) this.#due.delete(leaseId);
    else this.#due.add({ leaseId, namespace: { name: namespace, id: undefined } }, expiresAtMs);
  }

  /** One at a time: a store that is slow is not asked again before it has answered. */
  look(): Promise<void> {
    this.#working ??= this.#look().finally(() => {
      this.#working = undefined;
    });
    return this.#working;
  }

  async #look(): Promise<void> {
    const { tenants, lookEveryMs, now, log } = this.#options;
    try {
      for (const { storedLeases } of tenants.readyTools()) await storedLeases.resolveLost();
      if (now() >= this.#nextLookMs) {
        this.#nextLookMs = now() + lookEveryMs;
        await this.#find(now() + lookEveryMs);
      }
      await this.#end();
      this.#hasFailed = false;
    } catch (error) {
      // Once for an outage, not once a second.
      if (!this.#hasFailed) log(`Expired leases could not be ended: ${(error as Error).message}`);
      this.#hasFailed = true;
    }
  }

  /** Lists what is due until then in all namespaces. */
  async #find(untilMs: number): Promise<void> {
    const { namespaces, now } = this.#options;
    if (!this.#hasVisited) {
      await eachOf(await this.#all(), (namespace) => this.#findIn(namespace, untilMs));
      this.#hasVisited = true;
    }
    if (this.#isDenied) return this.#findInOwn(untilMs);
    let due: Awaited<ReturnType<NamespaceStore["withDueLeases"]>>;
    try {
      due = await namespaces.withDueLeases(untilMs);
    } catch (error) {
      if (!isDenied(error)) throw error;
      this.#denied();
      return this.#findInOwn(untilMs);
    }
    await eachOf(due, async ({ namespace, sinceMs }) => {
      if ((await this.#findIn(namespace, untilMs)) === 0) await namespaces.nothingDue(namespace.id, sinceMs, now());
    });
  }

  /** Credentials of one tenant: look only into the namespaces that this instance serves. */
  async #findInOwn(untilMs: number): Promise<void> {
    await eachOf(await this.#own(), (tenant) => this.#findIn(tenant, untilMs));
  }

  /** The namespaces that tokens name, and those that somebody has asked for. */
  async #own(): Promise<readonly Pick<Namespace, "name" | "id">[]> {
    const { tenants, named } = this.#options;
    for (const name of named()) {
      try {
        await tenants.get(name).tools();
      } catch {
        // It is not there, or not for these credentials; requests for it are told so.
      }
    }
    return tenants.ready();
  }

  #denied(): void {
    if (this.#isDenied) return;
    this.#isDenied = true;
    this.#options.log(
      "The credentials do not allow listing expired leases of all namespaces: this instance ends only those of the namespaces that it serves.",
    );
  }

  async #all(): Promise<readonly Pick<Namespace, "name" | "id">[]> {
    try {
      const all: Namespace[] = [];
      for await (const namespace of this.#options.limiter.listNamespaces({ limit: 1000 })) all.push(namespace);
      return all;
    } catch (error) {
      if (!isDenied(error)) throw error;
      this.#denied();
      return this.#own();
    }
  }

  /** Answers how many there are. */
  async #findIn({ name, id }: Pick<Namespace, "name" | "id">, untilMs: number): Promise<number> {
    const { storedLeases } = this.#options.tenants.toolsOf(name, id);
    const found = await storedLeases.findDue(untilMs, FOUND_MAX);
    for (const { leaseId, dueAtMs } of found) this.#due.add({ leaseId, namespace: { name, id } }, dueAtMs);
    // There may be more of them: not in a minute, but as soon as these are ended.
    if (found.length === FOUND_MAX) this.#nextLookMs = Math.min(this.#nextLookMs, found.at(-1)?.dueAtMs ?? 0);
    return found.length;
  }

  /** Ends what is due now, namespace by namespace, so that one with many does not hold up the others. */
  async #end(): Promise<void> {
    const byNamespace = new Map<string, ListedLease[]>();
    for (const lease of this.#due.takeDue(this.#options.now())) {
      const known = byNamespace.get(lease.namespace.name);
      if (known === undefined) byNamespace.set(lease.namespace.name, [lease]);
      else known.push(lease);
    }
    await eachOf([...byNamespace.values()], (leases) => this.#endThese(leases));
  }

  async #endThese(leases: readonly ListedLease[]): Promise<void> {
    const { tenants, now } = this.#options;
    const again = (lease: ListedLease) => this.#due.add(lease, now() + TICK_MS);
    let outcomes: readonly DueOutcome[];
    try {
      const { name, id } = (leases[0] as ListedLease).namespace;
      const { storedLeases } = await (id === undefined ? tenants.get(name).tools() : tenants.toolsOf(name, id));
      outcomes = await storedLeases.endDue(leases.map(({ leaseId }) => leaseId));
    } catch (error) {
      // The namespace may have been deleted since.
      if (error instanceof LimiterError && error.code === "namespace_not_found") return;
      for (const lease of leases) again(lease);
      throw error;
    }
    for (const [i, outcome] of outcomes.entries()) this.#note(leases[i] as ListedLease, outcome, again);
    const failed = outcomes.find((one) => one.kind === "failed");
    if (failed?.kind === "failed") throw failed.error;
  }

  #note(lease: ListedLease, outcome: DueOutcome, again: (lease: ListedLease) => void): void {
    if (outcome.kind === "open") this.#due.add(lease, outcome.expiresAtMs);
    else if (outcome.kind === "closed") this.#options.onClosed(outcome.lease);
    else if (outcome.kind === "waiting") again(lease);
    else if (outcome.kind === "failed" && !isDamaged(outcome.error)) again(lease);
  }
}

/** Works on all items, a few at a time. Throws the first failure when the others are done. */
async function eachOf<Item>(items: readonly Item[], work: (item: Item) => MaybePromise<unknown>): Promise<void> {
  let failure: { readonly error: unknown } | undefined;
  for (let from = 0; from < items.length; from += AT_ONCE) {
    const done = await Promise.allSettled(items.slice(from, from + AT_ONCE).map(async (item) => work(item)));
    const failed = done.find((one) => one.status === "rejected");
    if (failed?.status === "rejected") failure ??= { error: failed.reason };
  }
  if (failure !== undefined) throw failure.error;
}

function isDenied(error: unknown): boolean {
  return error instanceof LimiterError && error.code === "access_denied";
}

/** Trying again would fail again. The next reader of the store reports it. */
function isDamaged(error: unknown): boolean {
  return error instanceof LimiterError && error.code === "stored_form_unknown";
}
