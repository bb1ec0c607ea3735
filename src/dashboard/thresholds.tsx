import { useObserved } from "./observable.ts";
import { useSession } from "./session.tsx";
import { resourceWords, stampWords, timeWords, tokensWords } from "./words.ts";

/** So many are on the page; more stand in the stream. */
const SHOWN_MAX = 8;

/** Percentages of limits that were reached since the page was opened, as they come. Nothing while there are none. */
export function Thresholds() {
  const { live } = useSession();
  const reached = useObserved(live.thresholds);
  if (reached.length === 0) return null;
  return (
    <ul class="thresholds" aria-label="Thresholds reached" data-testid="thresholds">
      {reached.slice(0, SHOWN_MAX).map(({ atMs, entityId, resource, limit, percent, used, capacity, resetsAtMs }) => (
        <li
          key={`${atMs} ${entityId} ${resource} ${limit} ${percent}`}
          data-testid="threshold"
          data-limit={limit}
          data-percent={percent}
        >
          <span class="quiet">{timeWords(atMs)}</span>
          <b>
            {percent} % of {limit}
          </b>
          <span>
            {entityId} on {resourceWords(resource)}: {tokensWords(limit, used)} of {tokensWords(limit, capacity)} used
          </span>
          {resetsAtMs !== undefined && <span class="quiet">full again {stampWords(resetsAtMs)}</span>}
        </li>
      ))}
    </ul>
  );
}
