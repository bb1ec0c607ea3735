import type { Refusal } from "../engine/refusal.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import type { ServiceCalls } from "./http.ts";
import { type PageOf, pageWithCursor, RemoteListing, type RemoteListOptions } from "./listing.ts";

type Amounts = Readonly<Record<string, number>>;

/** What is taken, and for how long it is held. */
export interface RemoteTake {
  readonly entityId: string;
  readonly resource: string;
  readonly consume?: Amounts;
  readonly also?: Readonly<Record<string, Amounts>>;
  readonly wait?: { readonly maxMs: number };
  readonly requestId?: string;
  /** 0: charged at once, and no lease. */
  readonly holdMs?: number;
  readonly onExpiry?: "charge" | "refund";
}

export type RemoteOutcome =
  | { readonly ok: true; readonly lease: LeaseView }
  | Pick<Refusal, "ok" | "statuses" | "primary" | "retryAfterMs">;

/** The leases that a service keeps. */
export class RemoteLeases {
  readonly #calls: ServiceCalls;
  readonly #ns: string;

  constructor(calls: ServiceCalls, ns: string) {
    this.#calls = calls;
    this.#ns = ns;
  }

  /** Takes, or answers why not. Sent again after a lost answer it takes once. */
  take(request: RemoteTake, signal: AbortSignal | undefined): Promise<RemoteOutcome> {
    return this.#calls.json({
      ...{ method: "POST", path: `${this.#ns}/try`, body: request, isRepeatable: true },
      headers: { "idempotency-key": crypto.randomUUID() },
      waitMs: request.wait?.maxMs ?? 0,
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** Open ones. */
  list(
    query: { readonly entityId?: string; readonly resource?: string } & RemoteListOptions = {},
  ): RemoteListing<LeaseView> {
    const { entityId, resource, ...page } = query;
    const path = `${this.#ns}/leases`;
    return new RemoteListing<LeaseView>(
      (each) => this.#calls.json<PageOf<LeaseView>>({ method: "GET", path, query: { entityId, resource, ...each } }),
      page,
      pageWithCursor,
    );
  }

  get(leaseId: string): Promise<LeaseView> {
    return this.#calls.json({ method: "GET", path: this.#one(leaseId) });
  }

  /** Ends it with what it came to in total. */
  settle(
    leaseId: string,
    totals: { readonly consumed?: Amounts; readonly also?: Readonly<Record<string, Amounts>> },
  ): Promise<LeaseView> {
    return this.#calls.json({ method: "POST", path: `${this.#one(leaseId)}/settle`, body: totals, isRepeatable: true });
  }

  /** Gives everything back. */
  rollback(leaseId: string): Promise<LeaseView> {
    return this.#calls.json({ method: "POST", path: `${this.#one(leaseId)}/rollback`, isRepeatable: true });
  }

  #one(leaseId: string): string {
    return `${this.#ns}/leases/${encodeURIComponent(leaseId)}`;
  }
}
