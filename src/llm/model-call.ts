import type { ModelCallInfo } from "./adapter-options.ts";

/** A call as an adapter has read it. */
export interface ModelCall extends ModelCallInfo {
  /** The entity of this call alone; undefined: that of the options. */
  readonly entityId: string | undefined;
  /** The most output tokens that the call allows; undefined: it does not say. */
  readonly outputMax: number | undefined;
  /** `"none"`: it has no output, as embeddings have none. */
  readonly output: "text" | "none";
  readonly signal: AbortSignal | undefined;
}
