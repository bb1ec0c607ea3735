import type { Digest, Random } from "../ports/system.ts";
import { StraightBuckets } from "./buckets.ts";
import { KnownRows } from "./draft.ts";
import { Lane, type LaneConfig, type LaneParts } from "./lane.ts";

/** Rows that are remembered of a namespace; a row that is not costs a second trip at most. */
const ROWS_MAX = 100_000;

/** Texts of limits whose signatures are remembered. */
const SIGNATURES_MAX = 10_000;

/** All takes of one process on one store: its lanes, and the buckets of each namespace. */
export class StraightTakes {
  readonly #parts: LaneParts;
  readonly #lanes: readonly Lane[];
  readonly #requireOpen: () => void;
  readonly #id: string;
  #scopes = 0;

  constructor(
    parts: Omit<LaneParts, "signatureOf"> & {
      readonly digest: Digest;
      readonly random: Random;
      readonly laneCount: number;
      /** Throws once the store is closed. */
      readonly requireOpen: () => void;
    },
  ) {
    const { digest, random, laneCount, requireOpen, ...rest } = parts;
    this.#parts = { ...rest, signatureOf: remembering((text) => digest.of(text)) };
    this.#requireOpen = requireOpen;
    // New with every process: a lane's numbers never begin anew.
    const id = random.id();
    this.#id = id;
    this.#lanes = Array.from({ length: laneCount }, (_, i) => new Lane(`${id}/${i}`, this.#parts));
  }

  bucketsOf(namespaceId: string, config: LaneConfig): StraightBuckets {
    const scope = { namespaceId, known: new KnownRows(ROWS_MAX), config };
    return new StraightBuckets(scope, this.#parts, this.#lanes, this.#requireOpen, `${this.#id}/${++this.#scopes}/`);
  }

  /** Resolves when every call was answered. */
  async drained(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.drained()));
  }
}

function remembering(of: (text: string) => string): (text: string) => string {
  const known = new Map<string, string>();
  return (text) => {
    let signature = known.get(text);
    if (signature === undefined) {
      if (known.size >= SIGNATURES_MAX) known.clear();
      signature = of(text);
      known.set(text, signature);
    }
    return signature;
  };
}
