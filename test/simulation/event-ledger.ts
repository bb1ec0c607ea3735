import type { AcquiredEvent, ChargedEvent, Events, GaveBackEvent } from "../../src/ports/events.ts";
import type { UsageLedger } from "./usage-ledger.ts";

type Place = Pick<AcquiredEvent, "entityId" | "resource">;

/** What all clients have published of tokens, by bucket and limit: it has to add up to what usage counts. */
export class EventLedger {
  readonly #sums = new Map<string, bigint>();
  /** Something was published of which nobody knows whether it was counted. */
  #isInDoubt = false;
  /** Their usage is gone with them. */
  readonly #deleted = new Set<string>();

  /** The channels of one client. */
  channels(): Pick<Events, "acquired" | "charged" | "gaveBack" | "unavailable" | "degraded" | "limitsChanged"> {
    const doubt = () => {
      this.#isInDoubt = true;
    };
    return {
      acquired: { active: true, publish: (event) => this.#add(event, event.consumed, 1n) },
      charged: { active: true, publish: (event: ChargedEvent) => this.#add(event, event.amounts, 1n) },
      gaveBack: { active: true, publish: (event) => this.#gaveBack(event) },
      unavailable: { active: true, publish: doubt },
      degraded: { active: true, publish: doubt },
      limitsChanged: {
        active: true,
        publish: ({ action, entityId }) => {
          if (action === "entity_deleted") this.#deleted.add(entityId);
        },
      },
    };
  }

  /** Where it differs from what was counted. */
  problems(usage: UsageLedger): string[] {
    if (this.#isInDoubt) return [];
    const counted = usage.net((entityId) => !this.#deleted.has(entityId));
    for (const entityId of this.#deleted) {
      for (const place of this.#sums.keys()) if (place.includes(` of ${entityId}/`)) this.#sums.delete(place);
    }
    const places = [...new Set([...this.#sums.keys(), ...counted.keys()])];
    return places.flatMap((place) => {
      const [told, is] = [this.#sums.get(place) ?? 0n, counted.get(place) ?? 0n];
      return told === is ? [] : [`events of ${place} come to ${told}, and usage to ${is}`];
    });
  }

  /** What a refused request had taken was never told as acquired; usage keeps slots that come back after their use. */
  #gaveBack(event: GaveBackEvent): void {
    if (!event.confirmed) this.#isInDoubt = true;
    if (event.reason !== "refused" && event.reason !== "settle") this.#add(event, event.amounts, -1n);
  }

  #add({ entityId, resource }: Place, amounts: Readonly<Record<string, number>>, sign: bigint): void {
    // What is given back to several shards may be parts of a token.
    for (const [limit, tokens] of Object.entries(amounts)) {
      const place = `${limit} of ${entityId}/${resource}`;
      this.#sums.set(place, (this.#sums.get(place) ?? 0n) + sign * BigInt(Math.round(tokens * 1000)));
    }
  }
}
