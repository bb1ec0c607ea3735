/** One time that somebody switched a scope's access. */
interface Switched {
  /** After how many events. */
  readonly event: number;
  /** The how manieth switch of the scope. */
  readonly times: number;
}

/**
 * Which switches of access count for everybody: those whose callers were told that they do. A switch that is applied and not yet
 * carried to the buckets, as its caller knows from the answer that is still to come, reaches them when configuration is read next.
 */
export class ToldSwitches {
  readonly #switched = new Map<string, Switched>();
  /** After how many changes the caller of a switch was told of it; by scope. */
  readonly #told = new Map<string, { readonly of: Switched; readonly changes: number }>();
  readonly #made = new Map<string, number>();
  #events = 0;

  /** How often a scope was switched. */
  times(scope: string): number {
    return this.#switched.get(scope)?.times ?? 0;
  }

  switched(scope: string): void {
    this.#switched.set(scope, { event: ++this.#events, times: this.times(scope) + 1 });
  }

  /**
   * The caller of a switch, or of one that was there already, is answered. Where others switched the scope meanwhile, it is not
   * known whose switch is in force.
   */
  told(scope: string, timesBefore: number, changes: number): void {
    const of = this.#switched.get(scope);
    if (of !== undefined && of.times <= timesBefore + 1) this.#told.set(scope, { of, changes });
  }

  /** A bucket was made: by a request that had read configuration before, perhaps, and then nothing on it tells of the switch. */
  made(bucket: string): void {
    this.#made.set(bucket, ++this.#events);
  }

  /**
   * Whether everybody knows what these scopes say: that which decides and the nearer ones, which say nothing now. Each was told
   * of after the hierarchy last changed, and the last of them was switched after the bucket was made.
   */
  areTold(scopes: readonly string[], bucket: string, ownerChanges: number): boolean {
    const switches = scopes.flatMap((scope) => this.#switched.get(scope) ?? []);
    const madeAt = this.#made.get(bucket) ?? 0;
    if (!switches.some(({ event }) => event > madeAt)) return false;
    return scopes.every((scope) => {
      const told = this.#told.get(scope);
      return told?.of === this.#switched.get(scope) && (told === undefined || told.changes >= ownerChanges);
    });
  }
}
