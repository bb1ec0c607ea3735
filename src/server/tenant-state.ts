/**
 * What a service knows of a namespace by its name.
 * - `unknown`: nobody has asked for it yet.
 * - `looking`: the store was asked, and has not answered.
 * - `ready`: it is registered under this id.
 * - `failed`: the store did not answer; it is asked again by the first request from `retryAtMs` on.
 * - `gone`: it is not registered, or was deleted. That is final: its name may be registered anew, as another tenant.
 */
export type TenantState =
  | { readonly kind: "unknown" }
  | { readonly kind: "looking"; readonly sinceMs: number }
  | { readonly kind: "ready"; readonly id: string }
  | { readonly kind: "failed"; readonly cause: unknown; readonly retryAtMs: number }
  | { readonly kind: "gone" };

export type TenantEvent =
  | { readonly kind: "asked"; readonly nowMs: number }
  | { readonly kind: "found"; readonly id: string }
  | {
      readonly kind: "unanswered";
      readonly cause: unknown;
      readonly nowMs: number;
      /** An outage may be over with the next request; a missing right, for example, is not. */
      readonly isOutage: boolean;
    }
  | { readonly kind: "missing" };

/** For so long a store that refuses to answer for a namespace is not asked for it again. */
export const RETRY_MS = 1_000;

/** The state after an event. */
export function nextState(state: TenantState, event: TenantEvent): TenantState {
  if (state.kind === "gone") return state;
  switch (event.kind) {
    case "asked":
      return isAsked(state, event.nowMs) ? { kind: "looking", sinceMs: event.nowMs } : state;
    case "found":
      return { kind: "ready", id: event.id };
    case "missing":
      return { kind: "gone" };
    case "unanswered":
      // What is known stays known: an outage does not change the id of a namespace.
      if (state.kind === "ready") return state;
      // Work that an outage lets through is not counted: it must not be let through for longer than the outage.
      return { kind: "failed", cause: event.cause, retryAtMs: event.nowMs + (event.isOutage ? 0 : RETRY_MS) };
  }
}

/** Whether a request has to ask the store. */
function isAsked(state: TenantState, nowMs: number): boolean {
  return state.kind === "unknown" || (state.kind === "failed" && nowMs >= state.retryAtMs);
}
