import type { LeaseView } from "../../src/leases/lease-view.ts";
import type { StoredLeases } from "../../src/leases/stored-leases.ts";

/** A change of a lease of 500 tokens that may be sent again: under a key, or as the end of the lease. */
export interface KilledChange {
  readonly name: string;
  /** By how many tokens it changes what the lease holds. */
  readonly moves: number;
  send(storedLeases: StoredLeases, leaseId: string): Promise<LeaseView>;
}

const idempotencyKey = "order-7";

export const CHANGES: readonly KilledChange[] = [
  {
    name: "a keyed consume",
    moves: 40,
    send: async (storedLeases, id) => (await storedLeases.consume(id, { amounts: { tpm: 40 }, idempotencyKey })).lease,
  },
  {
    name: "a keyed adjust upwards",
    moves: 70,
    send: async (storedLeases, id) => (await storedLeases.adjust(id, { delta: { tpm: 70 }, idempotencyKey })).lease,
  },
  {
    name: "a keyed adjust downwards",
    moves: -70,
    send: async (storedLeases, id) => (await storedLeases.adjust(id, { delta: { tpm: -70 }, idempotencyKey })).lease,
  },
  {
    name: "a keyed release",
    moves: -100,
    send: async (storedLeases, id) => (await storedLeases.release(id, { amounts: { tpm: 100 }, idempotencyKey })).lease,
  },
  {
    name: "a settle at more",
    moves: 300,
    send: (storedLeases, id) => storedLeases.settle(id, { consumed: { tpm: 800 } }),
  },
  {
    name: "a settle at less",
    moves: -300,
    send: (storedLeases, id) => storedLeases.settle(id, { consumed: { tpm: 200 } }),
  },
  { name: "a rollback", moves: -500, send: (storedLeases, id) => storedLeases.rollback(id) },
];
