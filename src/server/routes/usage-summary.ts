import { ancestorsOf, type Kin, ownUsage } from "../../domain/charge/own-usage.ts";
import { type UsageSnapshot, type UsageSummary, UsageTally } from "../../domain/charge/usage.ts";
import { NotFoundError } from "../../domain/names/errors.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import type { UsageRequest } from "../../engine/limiter/usage-query.ts";

/** Usage added up as it was charged, level by level, and with each request once. */
interface ServedSummary extends UsageSummary {
  /** Each request once, at the entity that asked for it, by the hierarchy as it is now. Of one entity: all that was charged to it. */
  readonly once: Pick<UsageSummary, "requests" | "total">;
}

/** Entities that are asked for at the same time. */
const TOGETHER = 16;
/** Snapshots that are taken apart before others have their turn. */
const PER_TURN = 500;

export async function summarized(limiter: Limiter, query: UsageRequest): Promise<ServedSummary> {
  const charged = new UsageTally();
  const once = new UsageTally();
  const families = new Families(limiter);
  let window: UsageSnapshot[] = [];
  const closeWindow = async () => {
    await families.addOwn(window, once);
    window = [];
  };
  for await (const snapshot of limiter.usage(query)) {
    charged.add(snapshot);
    if (query.entityId !== undefined) continue;
    // They come window by window, so that no more than one has to be held.
    if (window[0] !== undefined && window[0].windowStartMs !== snapshot.windowStartMs) await closeWindow();
    window.push(snapshot);
  }
  await closeWindow();
  const summary = charged.summary();
  const { requests, total } = query.entityId === undefined ? once.summary() : summary;
  return { ...summary, once: { requests, total } };
}

/** Who stands below whom, asked for as far as somebody used something. */
class Families {
  readonly #limiter: Limiter;
  readonly #kin = new Map<string, { readonly parentId?: string; readonly cascade: boolean }>();

  constructor(limiter: Limiter) {
    this.#limiter = limiter;
  }

  async addOwn(window: readonly UsageSnapshot[], tally: UsageTally): Promise<void> {
    const kin = await this.#of(window.map(({ entityId }) => entityId));
    const { turns } = partsOf(this.#limiter).deps;
    let count = 0;
    for (const [, own] of ownUsage(window, kin)) {
      if (own !== undefined) tally.add(own);
      if (++count % PER_TURN === 0) await turns.next();
    }
  }

  async #of(ids: readonly string[]): Promise<Kin> {
    let unknown = this.#unknown(ids);
    while (unknown.length > 0) {
      for (let i = 0; i < unknown.length; i += TOGETHER) {
        await Promise.all(unknown.slice(i, i + TOGETHER).map((id) => this.#ask(id)));
      }
      unknown = this.#unknown(unknown.flatMap((id) => ancestorsOf(id, this.#kin)));
    }
    return this.#kin;
  }

  #unknown(ids: readonly string[]): string[] {
    return [...new Set(ids)].filter((id) => !this.#kin.has(id));
  }

  async #ask(id: string): Promise<void> {
    try {
      const { parentId, cascade } = await this.#limiter.getEntity(id);
      this.#kin.set(id, { cascade, ...(parentId === undefined ? {} : { parentId }) });
    } catch (error) {
      // Who was never created, or is gone, has used something, too, and has no parent.
      if (!(error instanceof NotFoundError) || error.code !== "entity_not_found") throw error;
      this.#kin.set(id, { cascade: false });
    }
  }
}
