import type { ConfigScope } from "../domain/config.ts";
import { isTotal } from "../domain/config-scope.ts";

/** The route and the query by which the service knows a level. */
export function levelRequest(scope: ConfigScope): {
  readonly path: "/limits" | "/totals";
  readonly query: { readonly entityId?: string; readonly planId?: string; readonly resource?: string };
} {
  const { level: _, ...query } = scope;
  return { path: isTotal(scope) ? "/totals" : "/limits", query };
}
