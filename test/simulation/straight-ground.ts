import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { BatchStore } from "../../src/ports/batch-store.ts";
import type { BucketStore, MaybePromise } from "../../src/ports/bucket-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { configOn } from "../../src/records/config.ts";
import { recordParts, ScopedRecords } from "../../src/records/scoped-records.ts";
import { SeenGenerations } from "../../src/records/seen-changes.ts";
import { BucketSweep } from "../../src/straight/sweep.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { type StraightSite, straightWorld } from "../kit/straight-whole.ts";
import { type Copies, faultyBatches } from "../straight/faulty-batches.ts";
import { straightProcess } from "../straight/process.ts";
import { calendar } from "./calendar.ts";
import type { Connector } from "./connection.ts";
import { type Ground, type GroundContext, groundOn } from "./ground.ts";

/**
 * Processes on a store that takes in batches. Their batches get lost, come twice and are rolled back on the way, and processes die with
 * one under way: what the lane makes of that is one answer for each call, which is compared with the model as that of any store.
 */
export function straightGround(context: GroundContext): Ground {
  return straightGroundOn(
    straightWorld(() => context.clock.now()),
    context,
  );
}

/** What takes in batches: in memory, or a server. */
export interface BatchWorld extends StraightSite {
  readonly batches: BatchStore & StraightSite["batches"];
  /** What was asked of a server, and is not answered yet. */
  underWay?(): number;
}

export function straightGroundOn(world: BatchWorld, context: GroundContext): Ground {
  const { seed, clock, journal, profile } = context;
  const random = new SeededRandom(seed + 2 ** 46);
  const coalesce = seed % 4 !== 0;
  const processCount = 1 + (seed % 3);
  const joins = coalesce && processCount === 1;
  // Of several lanes, one may be answered later than another that came after it; the model goes by the order of the answers.
  const laneCount = joins ? 1 : 3;
  let rate = seed % 5 === 0 ? 0 : Math.max(0.02, profile.faultRate);
  const copies: Copies = [];
  const begun = (onDeath: () => void): Store => {
    const line = faultyBatches(
      world.batches,
      random.fork(),
      copies,
      () => rate,
      (mishap) => {
        journal.count(`batches ${mishap}`);
        if (mishap === "diedBefore" || mishap === "diedAfter") onDeath();
      },
    );
    return straightProcess(world, { line, random: random.fork(), calendar, coalesce, laneCount, clock });
  };
  const processes = Array.from({ length: processCount }, () => new Reborn(begun));
  const ground = groundOn(
    processes.map(({ store }) => store),
    joins,
    context,
    "in the open hour",
    "beside the take",
  );
  const connectors = processes.map((process, i) => {
    const connector = ground.connectors[i] as Connector;
    return mortal(laneCount === 1 ? connector : oneByOne(connector), process, () => {
      rate = 0;
    });
  });
  const recorded = recordParts(world.records, new SeenGenerations());
  const sweepAt = (nowMs: number) => {
    const store = overriding<BatchStore>(world.batches, {
      forget: async (namespaceId, idle) => {
        const rowOf = ({ entityId, resource }: BucketKey) =>
          world.batches.rows.get(`${namespaceId}\n${entityId}\n${resource}`);
        // A row that was changed since it was looked at stays.
        const versions = new Map(idle.map(({ key, version }) => [key, version]));
        const due = idle.filter(({ key, version }) => rowOf(key)?.version === version).map(({ key }) => key);
        const forgot = ground.forgetting(due);
        const count = await world.batches.forget(namespaceId, idle);
        forgot((key) => rowOf(key)?.version !== versions.get(key), nowMs);
        return count;
      },
    });
    const configOf = (namespaceId: string) => configOn(new ScopedRecords(recorded, namespaceId));
    return new BucketSweep(store, calendar, true, configOf).toEnd("default", nowMs);
  };
  let sweeps = 0;
  return {
    ...ground,
    get underWay() {
      return ground.underWay + sweeps + (world.underWay?.() ?? 0);
    },
    get disturbances() {
      return ground.disturbances;
    },
    happenings: () => [
      [
        1,
        "sweep",
        () => {
          journal.note("the store is swept");
          sweeps++;
          void sweepAt(clock.now()).then((swept) => {
            sweeps--;
            for (let i = 0; i < swept; i++) journal.count("buckets swept");
          });
        },
      ],
    ],
    connector: (chance) => chance.pick(connectors),
  };
}

/**
 * Whoever does not wait for turns may have several calls under way for one lease. On several lanes they would be answered in another order
 * than they were applied in, so each waits for the one before it.
 */
function oneByOne(connector: Connector): Connector {
  return {
    ...connector,
    connect: (id, manner, around, onFault) => {
      const connection = connector.connect(id, manner, around, onFault);
      if (!manner.direct) return connection;
      let before: Promise<unknown> = Promise.resolve();
      const inTurn = <Reply>(call: () => MaybePromise<Reply>): Promise<Reply> => {
        const own = before.then(call);
        before = own.catch(() => {});
        return own;
      };
      const store = overriding<Store>(connection.store, {
        scope: (namespaceId) => {
          const scope = connection.store.scope(namespaceId);
          const { buckets } = scope;
          return {
            ...scope,
            buckets: overriding<BucketStore>(buckets, {
              take: (...args) => inTurn(() => buckets.take(...args)),
              debit: (...args) => inTurn(() => buckets.debit(...args)),
              credit: (...args) => inTurn(() => buckets.credit(...args)),
              refund: (...args) => inTurn(() => buckets.refund(...args)),
            }),
          };
        },
      });
      return overriding(connection, { store });
    },
  };
}

/** A process, and the one that is begun in its place when it has died: whoever connects then gets to that one. */
class Reborn {
  readonly store: Store;
  /** Of whoever is connected. */
  #deaths: (() => void)[] = [];

  constructor(begun: (onDeath: () => void) => Store) {
    const begin = () =>
      begun(() => {
        alive = begin();
        for (const die of this.#deaths.splice(0)) die();
      });
    let alive = begin();
    this.store = overriding(alive, { scope: (namespaceId) => alive.scope(namespaceId) });
  }

  /** Called when the process of now has died. */
  onDeath(die: () => void): void {
    this.#deaths.push(die);
  }
}

/** Its clients end with their process; and with the lines of clients, those of their batches grow calm. */
function mortal(connector: Connector, process: Reborn, calm: () => void): Connector {
  return {
    ...connector,
    connect: (id, manner, around, onFault) => {
      const connection = connector.connect(id, manner, around, onFault);
      let isDead = false;
      process.onDeath(() => {
        isDead = true;
        onFault("process died");
        connection.crash();
      });
      return overriding(connection, {
        isDead: () => isDead,
        calm: () => {
          calm();
          connection.calm();
        },
      });
    },
  };
}
