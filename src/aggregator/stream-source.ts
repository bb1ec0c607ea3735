import type { StreamRecord } from "./stream-record.ts";

/** A part of a stream. Records of one item are all in one shard at a time, and move on to its children. */
export interface StreamShard {
  readonly id: string;
  /** The shard that its records follow on; it may be gone already. */
  readonly parentId: string | undefined;
  /** It gets no more records. */
  readonly isClosed: boolean;
}

/** Where to begin in a shard. */
export type StreamPosition =
  | { readonly kind: "oldest" }
  | { readonly kind: "latest" }
  | { readonly kind: "after"; readonly sequence: string };

export type StreamOpened =
  | { readonly kind: "opened"; readonly iterator: string }
  /** The records at this position are no longer kept. */
  | { readonly kind: "trimmed" }
  /** Throttled, or unreachable for now. */
  | { readonly kind: "busy"; readonly cause: unknown };

export type StreamRead =
  /** `next` is undefined at the end of the shard. No records does not mean that there are none further on. */
  | { readonly kind: "records"; readonly records: readonly StreamRecord[]; readonly next: string | undefined }
  /** Iterators are good for some minutes. */
  | { readonly kind: "expired" }
  | { readonly kind: "trimmed" }
  | { readonly kind: "busy"; readonly cause: unknown };

/** The stream of a table. What asking again cannot help is thrown. */
export interface StreamSource {
  /** Names this very stream: a table that gets a new one begins anew. */
  readonly label: string;
  /** All that are known; `isOver`: the stream was switched off, and gets no more records. */
  shards(): Promise<{ readonly shards: readonly StreamShard[]; readonly isOver: boolean }>;
  open(shardId: string, position: StreamPosition): Promise<StreamOpened>;
  read(iterator: string): Promise<StreamRead>;
}
