import type { Tokens } from "../../domain/charge/amounts.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { checkEntityId } from "../../domain/names/names.ts";
import type { ChainLink, ConfigCache } from "../acquire/config-cache.ts";

/** A question about an entity on a resource. It takes nothing. */
export interface Question {
  /** The entity that would ask. */
  readonly entityId: string;
  /** The resource that it would ask for. */
  readonly resource: string;
  /** Limits to answer for, in place of the stored ones. Default: the stored limits. */
  readonly limits?: readonly Limit[];
}

/** A question about a request: what it would take, and what it must leave. */
export interface RequestQuestion extends Question {
  /** Whole tokens by measure that would be asked for. Default: those of a request that names none. */
  readonly consume?: Tokens;
  /** How many percent of each limit would have to be left (`AcquireRequest.leavePercent`). Default: 0. */
  readonly leavePercent?: number;
}

/** The chain that a question is about, if all of it is remembered; throws for names that are none. */
export function knownChain(
  cache: ConfigCache,
  { entityId, resource }: Question,
  nowMs: number,
  check: (resource: unknown) => string,
): readonly ChainLink[] | undefined {
  if (typeof entityId === "string" && typeof resource === "string") {
    const chain = cache.chainKnown(entityId, resource, nowMs);
    // What is remembered was checked when it was read.
    if (chain !== undefined) return chain;
  }
  checkEntityId(entityId);
  check(resource);
  return undefined;
}
