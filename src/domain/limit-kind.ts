/** How time acts on a limit's balance. */
export type LimitKind = "drip" | "calendar" | "session";
