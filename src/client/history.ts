import type { RefusalCount, RefusalTotal } from "../domain/refusal-count.ts";
import type { UsageTotal } from "../domain/usage.ts";
import type { UsageFormat } from "../domain/usage-export.ts";
import type { Listing } from "../engine/listing.ts";
import type { RefusalRequest, RefusalTotalsRequest } from "../engine/refusal-counts.ts";
import type { UsageRequest } from "../engine/usage-query.ts";
import { bodyFrom } from "./answered-body.ts";
import { eventsIn, type RemoteEvent } from "./events.ts";
import type { ServiceCalls } from "./http.ts";
import { listed, pageWithCursor } from "./listing.ts";
import { at, type Path } from "./path.ts";

/** What was used and refused, and what happens now, for the command line. */
export class RemoteHistory {
  readonly #calls: ServiceCalls;

  constructor(calls: ServiceCalls) {
    this.#calls = calls;
  }

  async usageTotals(query: UsageRequest & { readonly by: "entity" | "resource" }): Promise<UsageTotal[]> {
    return (await this.#get<{ items: UsageTotal[] }>(at`usage/totals`, { ...query })).items;
  }

  /** The file as it comes, piece by piece. */
  async *exportUsage(query: UsageRequest & { readonly format: UsageFormat }): AsyncGenerator<string, void, undefined> {
    const parts = { query: { ...query }, isStream: true } as const;
    const { body } = await bodyFrom<Response>(this.#calls, "GET", at`usage/export`, parts);
    const decoder = new TextDecoder();
    for await (const bytes of (body ?? []) as AsyncIterable<Uint8Array>) yield decoder.decode(bytes, { stream: true });
  }

  refusals(query: RefusalRequest): Listing<RefusalCount> {
    const { cursor, pageSize, limit, ...about } = query;
    // A number is the size of a page; the name of a limit goes with the query.
    const size = pageSize ?? (typeof limit === "number" ? limit : undefined);
    const name = typeof limit === "string" ? { limit } : {};
    return listed(
      ({ limit: pageLimit, cursor: from }) =>
        this.#get(at`refusals`, { ...about, ...name, pageSize: pageLimit, cursor: from }),
      { limit: size, cursor },
      pageWithCursor,
    );
  }

  async refusalTotals(query: RefusalTotalsRequest): Promise<RefusalTotal[]> {
    return (await this.#get<{ items: RefusalTotal[] }>(at`refusals/totals`, { ...query })).items;
  }

  /** What happens from now on, or after an event that was seen; ends with the stream. */
  async *events(
    query: { readonly types?: string; readonly entityId?: string; readonly resource?: string },
    { signal, lastEventId }: { readonly signal: AbortSignal; readonly lastEventId: string | undefined },
  ): AsyncGenerator<RemoteEvent, void, undefined> {
    const headers: Readonly<Record<string, string>> = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    const parts = { query, headers, signal, isStream: true, repeats: "never" } as const;
    const { body } = await bodyFrom<Response>(this.#calls, "GET", at`events`, parts);
    if (body !== null) yield* eventsIn(body);
  }

  #get<Body>(path: Path, query: Readonly<Record<string, string | number | undefined>>): Promise<Body> {
    return bodyFrom(this.#calls, "GET", path, { query });
  }
}
