import { useState } from "preact/hooks";
import { AuditEnds } from "../domain/config/audit.ts";
import { curl } from "./api.ts";
import { changesOf, type FieldChange } from "./audit-change.ts";
import { EntityInput } from "./name-fields.tsx";
import { ChangeList, Empty, ErrorNote, Name, PageHead } from "./parts.tsx";
import type { PageProps } from "./route.ts";
import { useEvery, useLoaded, usePages, useSession, useSettled } from "./session.tsx";
import type { AuditEvent, Listed } from "./shapes.ts";
import { CursorPager, Table } from "./table.tsx";
import { stampWords, untilWords } from "./words.ts";

const PAGE_SIZE = 100;
const REREAD_MS = 30_000;

/** The audit trail: changes with their principal, newest first. */
export function AuditPage({ params }: PageProps) {
  const session = useSession();
  const { api, path } = session;
  const [entity, setEntity] = useState(params.entity ?? "");
  const entityId = useSettled(entity.trim(), 300);
  const pages = usePages();
  const { value, error, reload } = useLoaded(
    async (signal) => {
      const list = (at: string | undefined) =>
        api.get<Listed<AuditEvent>>(`${path}/audit`, { limit: PAGE_SIZE, cursor: at, entityId }, signal);
      const shown = await list(pages.cursor);
      // The page after it has the old values of the oldest events on this one.
      const older: Listed<AuditEvent> = shown.cursor === undefined ? { items: [] } : await list(shown.cursor);
      return { shown, events: [...shown.items, ...older.items], isWholeTrail: older.cursor === undefined };
    },
    [entityId, pages.page],
    "main",
  );
  useEvery(REREAD_MS, () => {
    if (pages.page === 0) void reload();
  });
  const { items = [], cursor: next } = value?.shown ?? {};
  const nowMs = Date.now();
  const ends = new AuditEnds(nowMs, (atMs) => untilWords(atMs, nowMs));
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
            onValue={(text) => {
              setEntity(text);
              pages.begin();
            }}
          />
        </label>
      </PageHead>
      <ErrorNote error={error} />
      {value !== undefined && items.length > 0 && (
        <Table class="audit" caption="Changes, newest first" columns={["When", "Who", "What", "Of", "Old → new"]}>
          {items.map((event, i) => (
            <AuditRow
              key={event.eventId}
              changes={changesOf(value.events, i, value.isWholeTrail)}
              event={event}
              end={ends.of(event)}
            />
          ))}
        </Table>
      )}
      {value !== undefined && items.length === 0 && (
        <Empty
          title={entityId === "" ? "No changes yet" : "No changes of this entity"}
          command={curl(session, "GET", `${path}/audit`, undefined)}
        >
          Every change of entities, limits and policies is listed here. The same from a program:
        </Empty>
      )}
      {value !== undefined && <CursorPager pages={pages} next={next} count={items.length} what="changes" />}
    </>
  );
}

function AuditRow(props: {
  readonly event: AuditEvent;
  readonly changes: readonly FieldChange[];
  readonly end: string | undefined;
}) {
  const { event, changes, end } = props;
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
        <span>
          <span class="tag">{action.replaceAll("_", " ")}</span>
          {end !== undefined && <span class="small quiet"> {end}</span>}
        </span>
      </td>
      <td data-label="Of">
        <span>
          <Name text={entityId} class="mono" />{" "}
          {resource !== undefined && !entityId.startsWith("$") && <Name text={`on ${resource}`} class="quiet" />}
        </span>
      </td>
      <td data-label="Old → new">
        {changes.length === 0 ? <span class="quiet">–</span> : <ChangeList changes={changes} />}
      </td>
    </tr>
  );
}
