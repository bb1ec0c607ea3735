/** The shadows that one operation passed by, as it was told. */
export class PassedBy {
  readonly #first = new Map<string, readonly string[]>();
  readonly #later = new Map<string, Set<string>>();
  readonly #consumed = new Set<string>();

  /** Of a bucket something was taken for it: for its lease, or for more under the lease. */
  took(bucketId: string, taken: readonly string[], shadowed: readonly string[], isUnderLease: boolean): void {
    if (!isUnderLease) {
      this.#first.set(bucketId, shadowed);
      this.#later.delete(bucketId);
      return;
    }
    const later = this.#later.get(bucketId) ?? new Set();
    this.#later.set(bucketId, later);
    for (const name of shadowed) later.add(name);
    for (const name of taken) this.#consumed.add(`${bucketId}\n${name}`);
  }

  /** Those that the lease passed by when it was taken. */
  first(bucketId: string): readonly string[] {
    return this.#first.get(bucketId) ?? [];
  }

  /** Whether its lease leaves out what is adjusted of a limit: it was told that it, or more under it, passed by. */
  has(bucketId: string, limit: string): boolean {
    return this.first(bucketId).includes(limit) || (this.#later.get(bucketId)?.has(limit) ?? false);
  }

  /** Whether nothing at all was taken of a limit for its lease: it passed by, and no more was consumed of it later. */
  isAll(bucketId: string, limit: string): boolean {
    return this.first(bucketId).includes(limit) && !this.#consumed.has(`${bucketId}\n${limit}`);
  }
}
