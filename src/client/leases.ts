import type { Listing, ListOptions } from "../engine/listing.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import { bodyFrom } from "./answered-body.ts";
import { checkName } from "./check.ts";
import type { ServiceCalls } from "./http.ts";
import { listed, pageWithCursor } from "./listing.ts";
import { at } from "./path.ts";

type Amounts = Readonly<Record<string, number>>;

/** The leases that a service keeps, by their ids: for those who have not taken them. */
export class RemoteLeases {
  readonly #calls: ServiceCalls;

  constructor(calls: ServiceCalls) {
    this.#calls = calls;
  }

  /** Open ones. */
  list(query: { readonly entityId?: string; readonly resource?: string } & ListOptions = {}): Listing<LeaseView> {
    const { entityId, resource, ...page } = query;
    return listed(
      (each) => bodyFrom(this.#calls, "GET", at`leases`, { query: { entityId, resource, ...each } }),
      page,
      pageWithCursor,
    );
  }

  async get(leaseId: string): Promise<LeaseView> {
    return bodyFrom(this.#calls, "GET", at`leases/${checkName("leaseId", leaseId)}`, {});
  }

  /** Ends it with what it came to in total. */
  async settle(
    leaseId: string,
    totals: { readonly consumed?: Amounts; readonly also?: Readonly<Record<string, Amounts>> },
  ): Promise<LeaseView> {
    return bodyFrom(this.#calls, "POST", at`leases/${checkName("leaseId", leaseId)}/settle`, {
      body: totals,
      repeats: "lease",
    });
  }

  /** Gives everything back. */
  async rollback(leaseId: string): Promise<LeaseView> {
    return bodyFrom(this.#calls, "POST", at`leases/${checkName("leaseId", leaseId)}/rollback`, { repeats: "lease" });
  }
}
