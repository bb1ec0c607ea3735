/** Counts of durations in buckets that are at most one percent wide, so that percentiles of many can be told from little memory. */
export interface HistogramCounts {
  /** Index of a bucket, and how many are in it. */
  readonly counts: readonly (readonly [bucket: number, count: number])[];
  readonly maxMicros: number;
}

/** Up to here a bucket is one microsecond wide; above, every doubling has so many buckets. */
const STEPS = 128;
const STEP_BITS = 7;

/** Durations in whole microseconds. */
export class Histogram {
  readonly #counts = new Map<number, number>();
  #total = 0;
  #maxMicros = 0;

  record(micros: number): void {
    const whole = Math.max(0, Math.round(micros));
    this.#add(bucketOf(whole), 1);
    this.#maxMicros = Math.max(this.#maxMicros, whole);
  }

  add({ counts, maxMicros }: HistogramCounts): void {
    for (const [bucket, count] of counts) this.#add(bucket, count);
    this.#maxMicros = Math.max(this.#maxMicros, maxMicros);
  }

  get total(): number {
    return this.#total;
  }

  get maxMicros(): number {
    return this.#maxMicros;
  }

  /** No fewer than this share of all are as short as the answer, which is the upper end of a bucket; 0 of none. */
  percentileMicros(share: number): number {
    let left = Math.ceil(this.#total * share);
    for (const [bucket, count] of this.#sorted()) {
      left -= count;
      if (left <= 0) return Math.min(lastOf(bucket), this.#maxMicros);
    }
    return this.#maxMicros;
  }

  counts(): HistogramCounts {
    return { counts: this.#sorted(), maxMicros: this.#maxMicros };
  }

  #sorted(): [number, number][] {
    return [...this.#counts].sort(([a], [b]) => a - b);
  }

  #add(bucket: number, count: number): void {
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + count);
    this.#total += count;
  }
}

function bucketOf(micros: number): number {
  if (micros < STEPS) return micros;
  const doublings = Math.floor(Math.log2(micros)) - STEP_BITS;
  return STEPS * doublings + Math.floor(micros / 2 ** doublings);
}

/** The longest duration of a bucket, in microseconds. */
export function lastOf(bucket: number): number {
  if (bucket < 2 * STEPS) return bucket;
  const doublings = Math.floor(bucket / STEPS) - 1;
  return (bucket - STEPS * doublings + 1) * 2 ** doublings - 1;
}
