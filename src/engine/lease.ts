import { ValidationError } from "../domain/errors.ts";
import { allDone } from "./all-done.ts";
import type { LeasePart } from "./lease-part.ts";
import { type LeaseMaker, LeaseResource, type LeaseStatus } from "./lease-resource.ts";

/** What a lease was made of, for other parts of this package: not a member, for those are the public interface. */
export let partsOfLease: (lease: Lease) => readonly LeasePart[];

/**
 * Tokens taken for a piece of work. Adjust them while it runs; `settle` keeps what was consumed, `rollback` gives all of
 * it back. `await using lease = ...` rolls back unless it was settled, as a database transaction does.
 */
export class Lease<Name extends string = string> extends LeaseResource<Name> {
  static {
    partsOfLease = (lease) => [lease.part, ...[...(lease.#others?.values() ?? [])].map((other) => other.ownPart)];
  }

  readonly #others: ReadonlyMap<string, OtherResource> | undefined;

  /** @internal */
  // One by one, not in an object: it would be made for every take.
  constructor(
    maker: LeaseMaker,
    part: LeasePart,
    others: readonly LeasePart[],
    degradedReason: string | false,
    signal: AbortSignal | undefined,
  ) {
    super({ maker, status: "open", degradedReason, signal }, part);
    this.#others =
      others.length === 0
        ? undefined
        : new Map(others.map((other) => [other.resource, new OtherResource(this.core, other)]));
  }

  /** Open, settled or rolled back. */
  get status(): LeaseStatus {
    return this.core.status;
  }

  /** The signal of the request; without one, a signal that is never aborted. Hand it to the work: `fetch(url, { signal })`. */
  get signal(): AbortSignal {
    // Not one for all leases: who listens to it and never stops would be kept for ever.
    this.core.signal ??= new AbortController().signal;
    return this.core.signal;
  }

  /** False, or why the limiter could not count this work properly: it was let through without being charged, or in part. */
  get degraded(): string | false {
    return this.core.degradedReason;
  }

  /** Names of the resources that were taken from, the first one first. */
  get resources(): readonly string[] {
    return [this.part.resource, ...(this.#others?.keys() ?? [])];
  }

  /** What is held on one of several resources: `lease.resource("gpu-pool").adjust({ slots: -1 })`. */
  resource(name: string): LeaseResource {
    if (name === this.part.resource) return this;
    const other = this.#others?.get(name);
    if (other !== undefined) return other;
    throw new ValidationError(
      "resource_unknown",
      `The lease holds nothing on ${name}; it was taken for ${this.resources.join(", ")}. Name it in \`also\`.`,
    );
  }

  /**
   * Keeps what was consumed and closes the lease. A second time does nothing. It throws when an adjustment could not be stored; those
   * of the other levels and resources are stored all the same.
   */
  async settle(): Promise<void> {
    if (this.core.status !== "open") return;
    this.core.status = "settled";
    if (this.#others === undefined) return this.flushPendingDebits();
    await allDone([this.flushPendingDebits(), ...Array.from(this.#others.values(), (other) => other.settle())]);
  }

  /** Gives everything back, on every resource, and closes the lease. A second time does nothing. */
  async rollback(): Promise<void> {
    if (this.core.status !== "open") return;
    this.core.status = "rolledBack";
    if (this.#others === undefined) return this.giveAllBack();
    await allDone([this.giveAllBack(), ...Array.from(this.#others.values(), (other) => other.rollback())]);
  }

  /** Rolls back unless it was settled: for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.rollback();
  }
}

class OtherResource extends LeaseResource {
  get ownPart(): LeasePart {
    return this.part;
  }

  settle(): Promise<void> {
    return this.flushPendingDebits();
  }

  rollback(): Promise<void> {
    return this.giveAllBack();
  }
}
