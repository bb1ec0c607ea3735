import { useEffect, useRef } from "preact/hooks";
import { Button, ErrorNote, Name } from "./parts.tsx";
import { attributesOf, RefusalCells } from "./refusal-cells.tsx";
import { useLoaded, usePages, useSession } from "./session.tsx";
import type { Listed, LoggedRefusal } from "./shapes.ts";
import { CursorPager, Table } from "./table.tsx";
import { stampWords, tokensWords, waitWords } from "./words.ts";

const PAGE_SIZE = 50;

/** The single refusals of one entity, newest first. `heard` grows with every refusal that the page hears of. */
export function RefusalLog(props: { readonly entityId: string; readonly heard: number; readonly onClose: () => void }) {
  const { entityId, heard, onClose } = props;
  const { api, path } = useSession();
  const pages = usePages();
  const title = useRef<HTMLHeadingElement>(null);
  // It is drawn below a long table: whoever asked for it is taken there.
  useEffect(() => title.current?.focus(), []);
  const { value, error } = useLoaded(
    (signal) => {
      const query = { entityId, pageSize: PAGE_SIZE, cursor: pages.cursor };
      return api.get<Listed<LoggedRefusal>>(`${path}/refusals/log`, query, signal);
    },
    [entityId, pages.page, pages.page === 0 ? heard : 0],
    "beside",
  );
  const items = value?.items ?? [];
  return (
    <section data-testid="refusal-log" data-entity={entityId}>
      <div class="page-head further">
        <h2 ref={title} tabIndex={-1}>
          Log of {entityId}
        </h2>
        <div class="page-actions">
          <Button kind="small" testid="refusal-log-close" onClick={onClose}>
            Close
          </Button>
        </div>
      </div>
      <ErrorNote error={error} />
      <p class="note">
        Of each hour the first 20 and the last 20 refusals of each process, for 48 hours. Other processes write theirs
        from time to time.
      </p>
      {value !== undefined && items.length === 0 && <p class="note">No refusal of it is kept.</p>}
      {items.length > 0 && (
        <Table
          class="refusals"
          caption={`Refusals of ${entityId}, newest first`}
          columns={["When", "Who", "On", "Refused by", "Asked", "Left", "Wait", "Request"]}
          numbers={["Asked", "Left", "Wait"]}
        >
          {items.map((refusal, i) => (
            <LogRow key={`${refusal.atMs} ${i}`} refusal={refusal} />
          ))}
        </Table>
      )}
      {value !== undefined && <CursorPager pages={pages} next={value.cursor} count={items.length} what="refusals" />}
    </section>
  );
}

function LogRow({ refusal }: { readonly refusal: LoggedRefusal }) {
  const { atMs, limit, total, requested, available, capacity, retryAfterMs, waitedMs, requestId } = refusal;
  return (
    <tr {...attributesOf("refusal-log-row", refusal)}>
      <td data-label="When" class="quiet nowrap">
        <time dateTime={new Date(atMs).toISOString()}>{stampWords(atMs)}</time>
      </td>
      <RefusalCells {...refusal} total={total} others={0} count={1} />
      <td data-label="Asked" class="number">
        {tokensWords(limit, requested)}
      </td>
      <td data-label="Left" class={available < 0 ? "number bad-text" : "number"}>
        {tokensWords(limit, available)} of {tokensWords(limit, capacity)}
      </td>
      <td data-label="Wait" class="number nowrap">
        {waitWords(retryAfterMs)}
        {waitedMs !== undefined && <span class="quiet"> after {waitWords(waitedMs)}</span>}
      </td>
      <td data-label="Request">{requestId !== undefined && <Name text={requestId} class="mono" />}</td>
    </tr>
  );
}
