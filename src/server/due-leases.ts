/** Where a lease is, as far as its end is concerned. */
export interface ListedLease {
  readonly leaseId: string;
  readonly namespace: { readonly name: string; readonly id: string | undefined };
}

/** So many are remembered; the end of others is found in the store. */
const LISTED_MAX = 100_000;

const SECOND_MS = 1_000;

/** Leases by the second in which they end: those that this process opened, and those that it found in the store. */
export class DueLeases {
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
