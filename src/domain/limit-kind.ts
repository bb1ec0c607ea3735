/**
 * How a limit fills again: it drips, it is a quota that resets by the calendar, or one that resets some time after its
 * first use.
 */
export type LimitKind = "drip" | "calendar" | "session";

/** What a refused limit is to its customer. */
export const CUSTOMER_KINDS: Readonly<Record<LimitKind, "rate" | "quota" | "session">> = {
  drip: "rate",
  calendar: "quota",
  session: "session",
};
