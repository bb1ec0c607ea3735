/** Who needs a slot: a token of some id, or nobody known, in a namespace, or in none. */
export interface Holder {
  /** Undefined: nobody was asked for a token. */
  readonly token: string | undefined;
  /** Empty: the request is about no namespace. */
  readonly namespace: string;
}

/** A slot that is held; give it back once. */
export interface PoolSlot {
  release(): void;
}

/** How many tokens there are, each of which is sure of a share; undefined: the service is open, and there are no shares. */
export type TokenCount = () => number | undefined;

/** A quarter of all slots is kept for tokens, the same for each. */
const KEPT_PART = 4;

/** Of what is common, one token or namespace may have so many times what it leaves to the others. */
const TIMES_LEFT = 4;

/**
 * So many slots, of which nobody can take all. Every token is sure of a share of its own, however busy the others are. The rest is
 * common: there a token, and a namespace, may have at most four times what is left over after it, so that whoever comes next
 * finds room. Counts alone decide, never a queue: nobody waits for another's requests.
 */
export class SharedPool {
  readonly max: number;
  readonly #tokenCount: TokenCount;
  readonly #byToken = new Map<string, number>();
  readonly #byNamespace = new Map<string, number>();
  #total = 0;

  constructor(max: number, tokenCount: TokenCount) {
    this.max = max;
    this.#tokenCount = tokenCount;
  }

  get count(): number {
    return this.#total;
  }

  /** A slot, or undefined where the holder has all that it may have now. */
  take(holder: Holder): PoolSlot | undefined {
    if (!this.#hasRoomFor(holder)) return undefined;
    this.#total += 1;
    bump(this.#byToken, holder.token, 1);
    bump(this.#byNamespace, holder.namespace, 1);
    let isHeld = true;
    return {
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#total -= 1;
        bump(this.#byToken, holder.token, -1);
        bump(this.#byNamespace, holder.namespace, -1);
      },
    };
  }

  #hasRoomFor({ token, namespace }: Holder): boolean {
    const free = this.max - this.#total;
    if (free <= 0) return false;
    const tokens = this.#tokenCount();
    // Whoever reaches an open service may do everything: there is nobody to keep anything for.
    if (tokens === undefined) return true;
    const share = shareOf(this.max, tokens);
    const own = token === undefined ? 0 : (this.#byToken.get(token) ?? 0);
    if (token !== undefined && own < share) return true;
    const left = free - this.#keptFree(share, tokens) - 1;
    if (left < 0) return false;
    const most = Math.max(1, TIMES_LEFT * left);
    const common = token === undefined ? this.#common(share) : own - share;
    return common < most && (namespace === "" || (this.#byNamespace.get(namespace) ?? 0) - share < most);
  }

  /** Slots that stand free for tokens which have not used up their shares. */
  #keptFree(share: number, tokens: number): number {
    let used = 0;
    for (const count of this.#byToken.values()) used += Math.min(count, share);
    return Math.max(0, share * tokens - used);
  }

  /** Slots held by those without a token. */
  #common(share: number): number {
    let held = 0;
    for (const count of this.#byToken.values()) held += count;
    return Math.max(0, this.#total - held - share);
  }
}

/** At least one slot for each token, where there are enough for that and for something in common. */
function shareOf(max: number, tokens: number): number {
  if (tokens === 0 || max < 2 * tokens) return 0;
  return Math.max(1, Math.floor(max / KEPT_PART / tokens));
}

function bump(counts: Map<string, number>, key: string | undefined, by: number): void {
  if (key === undefined || key === "") return;
  const next = (counts.get(key) ?? 0) + by;
  if (next === 0) counts.delete(key);
  else counts.set(key, next);
}
