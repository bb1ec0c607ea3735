/** How one limit of one level stands: what header fields for clients are made of. JSON-safe. */
export interface LimitStanding {
  readonly entityId: string;
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** 0 the entity that asked, 1 the first parent that counts the request, and so on. */
  readonly level: number;
  /** Whole tokens, negative in debt. */
  readonly available: number;
  /** Whole tokens in force. */
  readonly capacity: number;
  /** In which time an empty limit fills up by dripping, or how long a session lasts; null for a calendar quota, or never. */
  readonly windowMs: number | null;
  /** Until it is full or resets; null when it is full, or never is, and in a refusal, where waits stand in the statuses. */
  readonly fullInMs: number | null;
}
