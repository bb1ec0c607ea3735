import { useEffect, useState } from "preact/hooks";
import { curl } from "./curl.ts";
import type { Refusal } from "./live.ts";
import { useObserved } from "./observable.ts";
import { Empty, Link, Name, PageHead } from "./parts.tsx";
import { useSession } from "./session.tsx";
import { plural, stampWords, timeWords, waitWords, whole } from "./words.ts";

const SHOWN_MAX = 100;

/** Who was refused, by which limit, as it happens. */
export function RefusalsPage() {
  const session = useSession();
  const { live, ready } = session;
  const all = useObserved(live.refusals);
  const count = useObserved(live.refusalCount);
  // While paused: the list as it was, and how many there were.
  const [paused, setPaused] = useState<{ readonly list: readonly Refusal[]; readonly count: number }>();
  useEffect(ready, [ready]);
  const [shownMax, setShownMax] = useState(SHOWN_MAX);
  const list = paused?.list ?? all;
  const waiting = paused === undefined ? 0 : count - paused.count;
  return (
    <>
      <PageHead
        title="Refusals"
        note={count === 0 ? "Every refusal, as it happens." : `${plural(count, "refusal")} since this page was opened`}
      >
        <button
          type="button"
          class="button"
          data-testid="refusal-pause"
          aria-pressed={paused !== undefined}
          onClick={() => setPaused(paused === undefined ? { list: all, count } : undefined)}
        >
          {paused === undefined ? "Pause" : waiting > 0 ? `Go on (${whole(waiting)} waiting)` : "Go on"}
        </button>
      </PageHead>
      {list.length === 0 ? (
        <Empty
          title={paused === undefined ? "Nobody has been refused" : "Paused"}
          command={curl(session, "POST", `${session.path}/acquire`, {
            entityId: "key-1",
            resource: "gpt-4",
            consume: { rpm: 100 },
            holdMs: 0,
          })}
        >
          Since this page was opened every request fitted its limits. A refusal shows up here the moment this service
          refuses. Ask for all there is, twice:
        </Empty>
      ) : (
        <table class="cards refusals">
          <caption class="unseen">Refusals, newest first</caption>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Who</th>
              <th scope="col">On</th>
              <th scope="col">Limit in the way</th>
              <th scope="col" class="number">
                Asked
              </th>
              <th scope="col" class="number">
                Left
              </th>
              <th scope="col" class="number">
                Wait
              </th>
            </tr>
          </thead>
          <tbody>
            {list.slice(0, shownMax).map((refusal) => (
              <RefusalRow key={refusal.number} refusal={refusal} />
            ))}
          </tbody>
        </table>
      )}
      {list.length > shownMax && (
        <button type="button" class="button" onClick={() => setShownMax(shownMax + SHOWN_MAX)}>
          Show older
        </button>
      )}
    </>
  );
}

function RefusalRow({ refusal }: { readonly refusal: Refusal }) {
  const { atMs, entityId, resource, primary, others, retryAfterMs } = refusal;
  const isParent = primary.entityId !== entityId;
  return (
    <tr
      data-testid="refusal-row"
      data-entity={entityId}
      data-resource={resource}
      data-limit={primary.limit}
      data-level-entity={primary.entityId}
    >
      <td data-label="When" class="quiet nowrap">
        <time dateTime={new Date(atMs).toISOString()} title={stampWords(atMs)}>
          {timeWords(atMs)}
        </time>
      </td>
      <td data-label="Who">
        <Link page="buckets" params={{ filter: entityId }}>
          <Name text={entityId} class="mono" />
        </Link>
      </td>
      <td data-label="On">
        <Name text={resource} />
      </td>
      <td data-label="Limit in the way">
        <span class="in-the-way">
          <Name text={primary.limit} class="strong" />
          <span class={isParent ? "tag warn" : "tag"}>{isParent ? <>of parent {primary.entityId}</> : "its own"}</span>
          {others > 0 && <span class="quiet nowrap">and {plural(others, "other")}</span>}
        </span>
      </td>
      <td data-label="Asked" class="number">
        {whole(primary.requested)}
      </td>
      <td data-label="Left" class={primary.available < 0 ? "number bad-text" : "number"}>
        {whole(primary.available)}
      </td>
      <td data-label="Wait" class="number nowrap">
        {waitWords(retryAfterMs)}
      </td>
    </tr>
  );
}
