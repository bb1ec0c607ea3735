import type { RefusalCount, RefusalTotal } from "../domain/refusal-count.ts";
import type { UsageSnapshot, UsageSummary, UsageTotal } from "../domain/usage.ts";
import type { UsageFormat } from "../domain/usage-export.ts";
import type { RefusalRequest, RefusalTotalsRequest } from "../engine/refusal-counts.ts";
import type { UsageRequest } from "../engine/usage-query.ts";
import { eventsIn, type RemoteEvent } from "./events.ts";
import type { ServiceCalls } from "./http.ts";
import { type PageOf, pageWithCursor, RemoteListing, type RemoteListOptions } from "./listing.ts";

/** What was used and refused, and what happens now. */
export class RemoteHistory {
  readonly #calls: ServiceCalls;
  readonly #ns: string;

  constructor(calls: ServiceCalls, ns: string) {
    this.#calls = calls;
    this.#ns = ns;
  }

  usage(query: UsageRequest & RemoteListOptions): RemoteListing<UsageSnapshot> {
    const { limit, cursor, ...about } = query;
    return new RemoteListing<UsageSnapshot>(
      (each) => this.#get<PageOf<UsageSnapshot>>("/usage", { ...about, ...each }),
      { ...(limit === undefined ? {} : { limit }), ...(cursor === undefined ? {} : { cursor }) },
      pageWithCursor,
    );
  }

  usageSummary(query: UsageRequest): Promise<UsageSummary> {
    return this.#get("/usage/summary", { ...query });
  }

  async usageTotals(query: UsageRequest & { readonly by: "entity" | "resource" }): Promise<UsageTotal[]> {
    const { items } = await this.#get<{ items: UsageTotal[] }>("/usage/totals", { ...query });
    return items;
  }

  /** The file as it comes, piece by piece. */
  async *exportUsage(query: UsageRequest & { readonly format: UsageFormat }): AsyncGenerator<string, void, undefined> {
    const { body } = await this.#calls.stream({ method: "GET", path: `${this.#ns}/usage/export`, query: { ...query } });
    const decoder = new TextDecoder();
    for await (const bytes of (body ?? []) as AsyncIterable<Uint8Array>) yield decoder.decode(bytes, { stream: true });
  }

  refusals(query: RefusalRequest): RemoteListing<RefusalCount> {
    const { cursor, pageSize, limit, ...about } = query as RefusalRequest & {
      readonly pageSize?: number;
      readonly limit?: string | number;
    };
    // A number is the size of a page; the name of a limit goes with the query.
    const size = pageSize ?? (typeof limit === "number" ? limit : undefined);
    const name = typeof limit === "string" ? { limit } : {};
    return new RemoteListing<RefusalCount>(
      ({ limit: pageLimit, cursor: from }) =>
        this.#get<PageOf<RefusalCount>>("/refusals", { ...about, ...name, pageSize: pageLimit, cursor: from }),
      { ...(size === undefined ? {} : { limit: size }), ...(cursor === undefined ? {} : { cursor }) },
      pageWithCursor,
    );
  }

  async refusalTotals(query: RefusalTotalsRequest): Promise<RefusalTotal[]> {
    const { items } = await this.#get<{ items: RefusalTotal[] }>("/refusals/totals", { ...query });
    return items;
  }

  /** What happens from now on, or after an event that was seen; ends with the stream. */
  async *events(
    query: { readonly types?: string; readonly entityId?: string; readonly resource?: string },
    { signal, lastEventId }: { readonly signal: AbortSignal; readonly lastEventId: string | undefined },
  ): AsyncGenerator<RemoteEvent, void, undefined> {
    const { body } = await this.#calls.stream({
      ...{ method: "GET", path: `${this.#ns}/events`, query: { ...query }, signal },
      ...(lastEventId === undefined ? {} : { headers: { "last-event-id": lastEventId } }),
    });
    if (body !== null) yield* eventsIn(body);
  }

  #get<Body>(path: string, query: Readonly<Record<string, string | number | undefined>>): Promise<Body> {
    return this.#calls.json({ method: "GET", path: `${this.#ns}${path}`, query });
  }
}
