import type { Caller } from "./caller.ts";
import type { Underway } from "./inflight.ts";
import type { OriginGuard } from "./origin-guard.ts";

/** What a request came by, as the listener or the caller of `fetch` knows it. */
export interface Gate {
  readonly guard: OriginGuard;
  /** Who is asking where no tokens are needed; undefined: tokens are. */
  readonly openTo: Caller | undefined;
  /** Called by a program, not by our listener: fields that a server sets are not there. */
  readonly isFetch: boolean;
  /** Whatever name it is asked by: for a listener that pages cannot use, as it wants tokens. */
  readonly anyHost?: boolean;
  /** The addresses that there are here; absent: all. */
  readonly onlyPaths?: ReadonlySet<string>;
}

/** What is known of a request beside itself. */
export interface RequestContext {
  readonly gate: Gate;
  readonly requestId: string;
  readonly underway: Underway;
  readonly cutOff: (() => void) | undefined;
}
