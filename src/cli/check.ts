/** What every store is asked for, in the order in which one depends on the other. */
export const CHECKS = ["store", "namespace", "version", "clock", "permissions"] as const;

/**
 * Whether one thing is well; null: what stands before it is not, so that it could not be looked at. One that is well and has a
 * remedy works, and could be better.
 */
export interface Check {
  readonly name: string;
  readonly ok: boolean | null;
  readonly detail: string;
  readonly remedy?: string;
}

/** Notes whether one thing is well. */
export type AddCheck = (name: Check["name"], ok: boolean, detail: string, remedy?: string) => void;
