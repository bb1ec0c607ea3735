import type { UsageFormat } from "../../domain/charge/usage-export.ts";
import type { UsageRequest } from "../../engine/limiter/usage-query.ts";
import { given } from "../page.ts";
import type { Call } from "../route.ts";
import type { RouteResponse } from "../route-response.ts";

const TYPES: Readonly<Record<UsageFormat, string>> = {
  csv: "text/csv; charset=utf-8",
  ndjson: "application/x-ndjson",
  json: "application/json",
};

/** So many characters are sent at a time: a line each would cost more than what is in it. */
const CHUNK_LENGTH = 65_536;

/** Usage as a stream, read from the store as fast as it is read from here. */
export async function usageExported(
  call: Pick<Call<unknown, unknown>, "limiter" | "outlive">,
  query: { readonly [Key in keyof UsageRequest]: UsageRequest[Key] | undefined } & {
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
  // What is wrong is told as a problem, not in the middle of a file.
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
