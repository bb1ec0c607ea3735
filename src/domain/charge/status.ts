import type { LimitKind } from "../limits/limit-kind.ts";

/** How one limit of one entity stood when a request asked for it. */
export interface Status {
  /** Whose limit it is: the entity that asked, or a parent. */
  readonly entityId: string;
  /** The resource of the limit. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** The measure that it counts. */
  readonly counts: string;
  /** Whole tokens that it held, rounded down; negative in debt. */
  readonly available: number;
  /** Whole tokens: the most it holds at present. */
  readonly capacity: number;
  /** Whole tokens that the request asked for. */
  readonly requested: number;
  /** Whole tokens that the request must leave, rounded up (`leavePercent`). Absent: none, or the limit is soft. */
  readonly floor?: number;
  /** Whether it held too little. */
  readonly exceeded: boolean;
  /** How it fills again. */
  readonly kind: LimitKind;
  /** Whether it only measures and never refuses. */
  readonly soft: boolean;
  /** Whether it only decides, to be counted, and never refuses: then it is never `exceeded`, and has no wait. */
  readonly shadow: boolean;
  /** When a quota is full again, in ms since 1970. Absent for a limit that drips and for a session that has not begun. */
  readonly resetsAtMs?: number;
  /**
   * Milliseconds until this limit alone would grant the request: 0 if it fits now, `Infinity` if it never will. In the
   * primary status of a refusal: until the whole request fits.
   */
  readonly retryAfterMs: number;
  /**
   * When the bucket was read, if that was not for this request: the refusal came from memory (`denyMemoryMs`), or the
   * bucket could not be reached.
   */
  readonly asOfMs?: number;
}

/** Why a limit stands in the way, in words. One that owes refuses a request for 0 too. */
export function shortfallText({
  limit,
  entityId,
  available,
  requested,
  floor,
}: Pick<Status, "limit" | "entityId" | "available" | "requested" | "floor">): string {
  const leaving = floor === undefined ? "" : ` with ${floor} to be left`;
  if (available >= 0) return `${limit} of ${entityId} has ${available} left, ${requested} requested${leaving}`;
  return `${limit} of ${entityId} is ${-available} in debt, ${requested} requested; nothing is granted until the debt is refilled`;
}

/**
 * A limit by its name and how many levels up it stands, for those who must not read the ids above them: `day`, and `day^1` of the next
 * level. No name of a limit has a `^`. `resource`: where the limit is of another one than was asked for; it stands in front.
 */
export function levelName(limit: string, level: number, resource?: string): string {
  const name = resource === undefined ? limit : `${resource}/${limit}`;
  return level === 0 ? name : `${name}^${level}`;
}

/** The level that a name made by `levelName` is of. */
export function levelOfName(name: string): number {
  const mark = name.lastIndexOf("^");
  return mark < 0 ? 0 : Number(name.slice(mark + 1));
}
