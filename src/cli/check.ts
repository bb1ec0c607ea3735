/** Whether one thing is well; null: what stands before it is not, so that it could not be looked at. */
export interface Check {
  readonly name: "store" | "namespace" | "version" | "clock" | "permissions";
  readonly ok: boolean | null;
  readonly detail: string;
  readonly remedy?: string;
}

/** Notes whether one thing is well. */
export type AddCheck = (name: Check["name"], ok: boolean, detail: string, remedy?: string) => void;
