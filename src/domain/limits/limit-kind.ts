/**
 * How a limit fills again: it drips, it is a quota that resets by the calendar, or one that resets some time after its
 * first use; or it says how many are at once, and what is taken is held until it is given back.
 */
export type LimitKind = "drip" | "calendar" | "session" | "concurrent";

/** Whether others give back what a refused request waits for, at any time. */
export function isGivenBack(kind: LimitKind): boolean {
  return kind === "concurrent";
}

/** The kind of a limit that refused, as a customer reads it. */
export const CUSTOMER_KINDS: Readonly<Record<LimitKind, "rate" | "quota" | "session" | "concurrent">> = {
  drip: "rate",
  calendar: "quota",
  session: "session",
  concurrent: "concurrent",
};
