import type { Limit, StoredLimits } from "./shapes.ts";
import { refillWords, tokensWords } from "./words.ts";

/** The limits of a level in words, a line each. */
export function LimitWords({ stored }: { readonly stored: LimitsSaid | undefined }) {
  if (stored === undefined || stored.limits.length === 0) return <span class="quiet">none</span>;
  return (
    <ul class="changes">
      {stored.limits.map((limit) => (
        <li key={limit.name}>
          <b>{limit.name}</b> {limitWords(limit)}
        </li>
      ))}
      {stored.inherit === true && <li class="quiet">and inherited limits</li>}
      {stored.appliesTo === "callers" && <li class="quiet">for callers only</li>}
    </ul>
  );
}

export type LimitsSaid = Pick<StoredLimits, "limits" | "inherit" | "appliesTo">;

function limitWords(limit: Limit): string {
  const { name, capacity, counts, soft, shadow, notifyAt } = limit;
  return [
    tokensWords(name, capacity),
    refillWords(limit),
    ...(counts === undefined ? [] : [`counts ${counts}`]),
    ...(soft === true ? ["soft"] : []),
    ...(shadow === true ? ["shadow"] : []),
    ...(notifyAt === undefined ? [] : [`tells ${notifyAt.join(", ")} %`]),
  ].join(", ");
}
