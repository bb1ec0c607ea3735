import { ancestorsOf, type Kin, ownUsage } from "../../domain/charge/own-usage.ts";
import { type UsageSnapshot, type UsageSummary, UsageTally } from "../../domain/charge/usage.ts";
import type { UsageFormat } from "../../domain/charge/usage-export.ts";
import { given } from "../../domain/names/given.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import type { UsageRequest } from "../../engine/limiter/listing.ts";
import { rowsToSum, UsageSums } from "../../engine/usage/usage-questions.ts";
import type { RouteResponse } from "../problem.ts";
import type { Call } from "../route.ts";
import { entityIfKnown } from "./levels.ts";

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
  const charged = new UsageSums(query.resource);
  const once = new UsageTally();
  const families = new Families(limiter);
  let window: UsageSnapshot[] = [];
  const closeWindow = async () => {
    await families.addOwn(window, once);
    window = [];
  };
  for await (const snapshot of rowsToSum(partsOf(limiter), query, undefined)) {
    if (!charged.add(snapshot)) continue;
    if (query.entityId !== undefined) continue;
    // Snapshots come window by window: only one window is in memory.
    if (window[0] !== undefined && window[0].windowStartMs !== snapshot.windowStartMs) await closeWindow();
    window.push(snapshot);
  }
  await closeWindow();
  const summary = charged.summary();
  const { requests, total } = query.entityId === undefined ? once.summary() : summary;
  return { ...summary, once: { requests, total } };
}

/** The hierarchy of the entities that used something. */
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
    const { parentId, cascade = false } = (await entityIfKnown(this.#limiter, id)) ?? {};
    this.#kin.set(id, given({ cascade, parentId }));
  }
}

const TYPES: Readonly<Record<UsageFormat, string>> = {
  csv: "text/csv; charset=utf-8",
  ndjson: "application/x-ndjson",
  json: "application/json",
};

/** Characters sent at a time: a chunk for each line would cost more than the line. */
const CHUNK_LENGTH = 65_536;

/** Usage as a stream, read from the store as fast as it is read from here. */
export async function usageExported(
  call: Pick<Call<unknown, unknown>, "limiter" | "outlive">,
  query: { readonly [Key in keyof UsageRequest]: UsageRequest[Key] | undefined } & {
    readonly totals?: boolean | undefined;
    readonly format?: UsageFormat | undefined;
  },
  isHead: boolean,
): Promise<RouteResponse> {
  const { format = "csv", ...about } = query;
  const headers = {
    "content-type": TYPES[format],
    "content-disposition": `attachment; filename="usage.${format}"`,
  };
  const pieces = call.limiter.exportUsage({ ...(given(about) as UsageRequest), format })[Symbol.asyncIterator]();
  // Read the first chunk now, so that an error is a problem and not in the middle of a file.
  const first = await chunkOf(pieces);
  if (isHead) {
    await pieces.return?.();
    return { status: 200, headers };
  }
  return { status: 200, stream: streamOf(first, pieces, call.outlive()), headers };
}

/** An export that nobody reads on for so long is cut: it has a place among the requests in progress. */
const UNREAD_MS = 30_000;

function streamOf(first: Chunk, pieces: AsyncIterator<string>, ended: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let next: Chunk | undefined = first;
  let unread: NodeJS.Timeout | undefined;
  const end = () => {
    clearTimeout(unread);
    ended();
  };
  return new ReadableStream({
    pull: async (controller) => {
      clearTimeout(unread);
      try {
        const { text, isLast } = next ?? (await chunkOf(pieces));
        next = undefined;
        if (text !== "") controller.enqueue(encoder.encode(text));
        if (isLast) {
          end();
          controller.close();
          return;
        }
      } catch (error) {
        end();
        throw error;
      }
      unread = setTimeout(() => {
        end();
        controller.error(new Error("The export was not read on, so it was cut."));
        pieces.return?.().catch(() => {});
      }, UNREAD_MS).unref();
    },
    cancel: async () => {
      end();
      await pieces.return?.();
    },
  });
}

interface Chunk {
  readonly text: string;
  readonly isLast: boolean;
}

async function chunkOf(pieces: AsyncIterator<string>): Promise<Chunk> {
  let text = "";
  while (text.length < CHUNK_LENGTH) {
    const { done, value } = await pieces.next();
    if (done) return { text, isLast: true };
    text += value;
  }
  return { text, isLast: false };
}
