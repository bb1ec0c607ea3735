/** What a statement is of: a take or a read for one, or everything else. */
export type Side = "takes" | "others";

interface Waiter {
  readonly side: Side;
  readonly grant: () => void;
}

/** A permit that is asked for. `cancel` gives it back if it was granted, or asks no longer. */
interface AskedPermit {
  readonly granted: Promise<void>;
  readonly cancel: () => void;
}

/** After a connection could not be opened, none is opened beside the others for so long. */
const PAUSE_MS = 1_000;

/**
 * Who may use a connection of a pool. A statement uses one that is open, and waits for one where all are in use: meanwhile one more is
 * opened beside them, up to `max`, so that no request pays for the first use of a connection. Neither side can take all of them.
 */
export class ConnectionPermits {
  readonly #max: number;
  readonly #grow: (opened: () => void) => Promise<void>;
  readonly #sideMax: Readonly<Record<Side, number>>;
  readonly #used: Record<Side, number> = { takes: 0, others: 0 };
  #waiting: Waiter[] = [];
  /** Connections that may be in use at once: those that are open, or one that the first statement opens. */
  #size = 1;
  /** Those of them that are being prepared. */
  #reserved = 0;
  /** Connections that are being opened or prepared. */
  #growing = 0;
  #isPaused = false;

  /** `grow` opens a connection and prepares it; it calls `opened` as soon as it is open. */
  constructor(max: number, grow: (opened: () => void) => Promise<void>) {
    this.#max = max;
    this.#sideMax = { takes: Math.max(1, max - 1), others: Math.max(1, Math.ceil(max / 2)) };
    this.#grow = grow;
  }

  ask(side: Side): AskedPermit {
    if (this.#mayGrant(side)) {
      this.#used[side]++;
      return { granted: Promise.resolve(), cancel: () => this.release(side) };
    }
    let isGranted = false;
    let waiter: Waiter | undefined;
    const granted = new Promise<void>((resolve) => {
      waiter = {
        side,
        grant: () => {
          isGranted = true;
          resolve();
        },
      };
      this.#waiting.push(waiter);
    });
    this.#growIfWanted();
    const cancel = () => {
      if (isGranted) this.release(side);
      else this.#waiting = this.#waiting.filter((one) => one !== waiter);
    };
    return { granted, cancel };
  }

  release(side: Side): void {
    this.#used[side]--;
    this.#serve();
  }

  /** A connection has ended. */
  closed(): void {
    this.#size = Math.max(1, this.#size - 1);
  }

  get #isFull(): boolean {
    return this.#used.takes + this.#used.others + this.#reserved >= this.#size;
  }

  #mayGrant(side: Side): boolean {
    return !this.#isFull && this.#used[side] < this.#sideMax[side];
  }

  /** Those who have waited longest first; one side's do not wait behind the other's, which has all that it may. */
  #serve(): void {
    const still: Waiter[] = [];
    for (const waiter of this.#waiting) {
      if (!this.#mayGrant(waiter.side)) {
        still.push(waiter);
        continue;
      }
      this.#used[waiter.side]++;
      waiter.grant();
    }
    this.#waiting = still;
    this.#growIfWanted();
  }

  #growIfWanted(): void {
    if (!this.#isFull || this.#isPaused) return;
    const wanted = this.#wantedBy("takes") + this.#wantedBy("others");
    while (this.#growing < wanted && this.#size + this.#growing - this.#reserved < this.#max) this.#growByOne();
  }

  #wantedBy(side: Side): number {
    const waiting = this.#waiting.filter((one) => one.side === side).length;
    return Math.min(waiting, this.#sideMax[side] - this.#used[side]);
  }

  #growByOne(): void {
    let isOpen = false;
    const opened = () => {
      isOpen = true;
      this.#size++;
      this.#reserved++;
    };
    const ended = () => {
      this.#growing--;
      if (isOpen) this.#reserved--;
    };
    this.#growing++;
    this.#grow(opened).then(
      () => {
        ended();
        this.#serve();
      },
      () => {
        ended();
        if (this.#isPaused) return;
        this.#isPaused = true;
        // Those who wait are served by the connections that there are.
        setTimeout(() => {
          this.#isPaused = false;
          this.#serve();
        }, PAUSE_MS).unref();
      },
    );
  }
}
