import { useState } from "preact/hooks";
import { changesOf, type FieldChange } from "./audit-change.ts";
import { ChangeList } from "./change-list.tsx";
import { curl } from "./curl.ts";
import { EntityInput } from "./entity-input.tsx";
import { Empty, ErrorNote, Name, PageHead, Pager, useEvery, useSettled } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { AuditEvent, Listed } from "./shapes.ts";
import { stampWords } from "./words.ts";

const PAGE_SIZE = 100;
const REREAD_MS = 30_000;

/** Who changed what, and when. */
export function AuditPage({ params }: { readonly params: Readonly<Record<string, string>> }) {
  const session = useSession();
  const { api, path } = session;
  const [entity, setEntity] = useState(params.entity ?? "");
  const entityId = useSettled(entity.trim(), 300);
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined]);
  const { value, error, reload } = useLoaded(
    async (signal) => {
      const list = (cursor: string | undefined) =>
        api.get<Listed<AuditEvent>>(`${path}/audit`, { limit: PAGE_SIZE, cursor, entityId }, signal);
      const page = await list(cursors.at(-1));
      // The page after it, for what the oldest of this one changed.
      const older: Listed<AuditEvent> = page.cursor === undefined ? { items: [] } : await list(page.cursor);
      return { page, events: [...page.items, ...older.items], isWholeTrail: older.cursor === undefined };
    },
    [entityId, cursors.length],
    "main",
  );
  useEvery(REREAD_MS, () => {
    if (cursors.length === 1) void reload();
  });
  const page = cursors.length - 1;
  return (
    <>
      <PageHead title="Audit" note="Every change of configuration, newest first.">
        {/* biome-ignore lint/a11y/noLabelWithoutControl: the control is inside EntityInput. */}
        <label class="search">
          <span class="unseen">Entity</span>
          <EntityInput
            type="search"
            testid="audit-entity"
            placeholder="Entity, $SYSTEM or $RESOURCE:name"
            value={entity}
            onValue={(next) => {
              setEntity(next);
              setCursors([undefined]);
            }}
          />
        </label>
      </PageHead>
      <ErrorNote error={error} />
      {value !== undefined && value.page.items.length > 0 && (
        <table class="cards audit">
          <caption class="unseen">Changes, newest first</caption>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Who</th>
              <th scope="col">What</th>
              <th scope="col">Of</th>
              <th scope="col">Old → new</th>
            </tr>
          </thead>
          <tbody>
            {value.page.items.map((event, i) => (
              <AuditRow key={event.eventId} changes={changesOf(value.events, i, value.isWholeTrail)} event={event} />
            ))}
          </tbody>
        </table>
      )}
      {value !== undefined && value.page.items.length === 0 && (
        <Empty
          title={entityId === "" ? "No changes yet" : "No changes of this entity"}
          command={curl(session, "GET", `${path}/audit`, undefined)}
        >
          Every change of entities, limits and policies is listed here. The same from a program:
        </Empty>
      )}
      {value !== undefined && (
        <Pager
          {...{ page, count: value.page.items.length, what: "changes", hasNext: value.page.cursor !== undefined }}
          onPage={(next) => setCursors(next > page ? [...cursors, value.page.cursor] : cursors.slice(0, -1))}
        />
      )}
    </>
  );
}

function AuditRow({ event, changes }: { readonly event: AuditEvent; readonly changes: readonly FieldChange[] }) {
  const { action, atMs, principal, entityId, resource } = event;
  return (
    <tr data-testid="audit-row" data-action={action} data-entity={entityId}>
      <td data-label="When" class="nowrap quiet">
        <time dateTime={new Date(atMs).toISOString()}>{stampWords(atMs)}</time>
      </td>
      <td data-label="Who">
        <Name text={principal ?? "unknown"} class={principal === undefined ? "quiet" : ""} />
      </td>
      <td data-label="What">
        <span class="tag">{action.replaceAll("_", " ")}</span>
      </td>
      <td data-label="Of">
        <Name text={entityId} class="mono" />
        {resource !== undefined && !entityId.startsWith("$") && <Name text={`on ${resource}`} class="quiet" />}
      </td>
      <td data-label="Old → new">
        {changes.length === 0 ? <span class="quiet">–</span> : <ChangeList changes={changes} />}
      </td>
    </tr>
  );
}
