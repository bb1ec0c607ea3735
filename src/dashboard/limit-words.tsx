import { limitWords } from "./limit-kinds.ts";
import type { StoredLimits } from "./shapes.ts";

/** The limits of a level in words, a line each. */
export function LimitWords({ stored }: { readonly stored: LimitsSaid | undefined }) {
  if (stored === undefined || stored.limits.length === 0) return <span class="quiet">none</span>;
  return (
    <ul class="changes">
      {stored.limits.map((limit) => (
        <li key={limit.name}>
          <b>{limit.name}</b> {limitWords(limit, ["counts", "soft", "shadow", "notifyAt"])}
        </li>
      ))}
      {stored.inherit === true && <li class="quiet">and inherited limits</li>}
      {stored.appliesTo === "callers" && <li class="quiet">for callers only</li>}
    </ul>
  );
}

export type LimitsSaid = Pick<StoredLimits, "limits" | "inherit" | "appliesTo">;
