/**
 * How a limit fills again: it drips, it is a quota that resets by the calendar, or one that resets some time after its
 * first use.
 */
export type LimitKind = "drip" | "calendar" | "session";
