import { useEffect } from "preact/hooks";
import { type LimitsSaid, LimitWords } from "./limit-words.tsx";
import { ErrorNote, Link, Name } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Level, Limit, StoredLimits } from "./shapes.ts";
import { ActionsHead } from "./table-cells.tsx";
import { plural } from "./words.ts";

/** More than anybody looks through. */
const LEVELS_MAX = 1_000;

interface StoredRow {
  readonly on: string;
  readonly said: LimitsSaid;
  readonly params: Readonly<Record<string, string>>;
}

/** Stored defaults, for whoever has chosen nothing; plans have a page of their own. */
export function StoredForAll({ plans }: { readonly plans: readonly string[] }) {
  const { api, path } = useSession();
  const list = useStored(async () => {
    const { items } = await api.all<StoredLimits & { readonly resource?: string }>(
      `${path}/limits/defaults`,
      {},
      LEVELS_MAX,
    );
    return items.map(
      ({ level, resource = "", ...said }): StoredRow => ({
        on: level === "system" ? "every resource" : level === "systemTotal" ? "all resources together" : resource,
        said,
        params: { resource, level: level satisfies Level },
      }),
    );
  }, []);
  if (list.value === undefined) return <ErrorNote error={list.error} />;
  return (
    <div class="stored" data-testid="limits-overview">
      {list.value.length === 0 ? (
        <p class="filter-note">No default limits are stored yet.</p>
      ) : (
        <StoredTable caption="Stored defaults" rows={list.value} />
      )}
      {plans.length > 0 && (
        <p class="filter-note">
          Plans:{" "}
          {plans.map((id, i) => (
            <span key={id}>
              {i > 0 && ", "}
              <Link page="limits" params={{ plan: id }}>
                {id}
              </Link>
            </span>
          ))}
        </p>
      )}
      <p class="filter-note">Choose an entity above to see its own limits.</p>
    </div>
  );
}

/** What is stored for an entity, on whatever resource. */
export function StoredForEntity({ entityId }: { readonly entityId: string }) {
  const { api, path } = useSession();
  const list = useStored(async () => {
    const { items } = await api.all<{ readonly resource?: string; readonly limits: readonly Limit[] }>(
      `${path}/entities/${encodeURIComponent(entityId)}/limits`,
      {},
      LEVELS_MAX,
    );
    return items.map(
      ({ resource = "", ...said }): StoredRow => ({
        on: resource === "" ? "every resource" : resource,
        said,
        params: { entity: entityId, resource, level: resource === "" ? "entityDefault" : "entity" },
      }),
    );
  }, [entityId]);
  if (list.value === undefined || list.value.length === 0) return <ErrorNote error={list.error} />;
  return (
    <div class="stored" data-testid="limits-own">
      <StoredTable caption={`Stored for ${entityId}`} rows={list.value} />
    </div>
  );
}

function useStored(load: () => Promise<readonly StoredRow[]>, keys: readonly string[]) {
  const { live } = useSession();
  const list = useLoaded(load, keys, "beside");
  useEffect(
    () =>
      live.changes.subscribe(({ action }) => {
        if (/limits_|totals_/.test(action)) void list.reload();
      }),
    [live, list.reload],
  );
  return list;
}

function StoredTable({ caption, rows }: { readonly caption: string; readonly rows: readonly StoredRow[] }) {
  const { can } = useSession();
  return (
    <table class="cards" data-testid="limits-stored">
      <caption>
        {caption}: {plural(rows.length, "level")}
      </caption>
      <thead>
        <tr>
          <th scope="col">On</th>
          <th scope="col">Limits</th>
          <ActionsHead />
        </tr>
      </thead>
      <tbody>
        {rows.map(({ on, said, params }) => (
          <tr key={on} data-testid="limits-stored-row" data-on={on}>
            <td data-label="On">
              <Link page="limits" params={params}>
                <Name text={on} class="strong" />
              </Link>
            </td>
            <td data-label="Limits">
              <LimitWords stored={said} />
            </td>
            <td class="actions">
              <Link page="limits" params={params} class="button small">
                {can.admin ? "Edit" : "Show"}
              </Link>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
