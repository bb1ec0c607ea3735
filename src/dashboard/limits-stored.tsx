import { endingWords } from "./ends.tsx";
import { limitWords } from "./limit-kinds.ts";
import { ErrorNote, Link, Name } from "./parts.tsx";
import { useChanges, useLoaded, useSession } from "./session.tsx";
import type { Level, StoredLimits } from "./shapes.ts";
import { Table } from "./table.tsx";
import { plural } from "./words.ts";

const LEVELS_MAX = 1_000;

interface StoredRow {
  readonly on: string;
  readonly said: LimitsSaid;
  readonly params: Readonly<Record<string, string>>;
}

/** The stored defaults, shown while nothing is chosen; plans have a page of their own. */
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

/** The limits that are stored for an entity, on any resource. */
export function StoredForEntity({ entityId }: { readonly entityId: string }) {
  const { api, path } = useSession();
  const list = useStored(async () => {
    const { items } = await api.all<LimitsSaid & { readonly resource?: string }>(
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
  const list = useLoaded(load, keys, "beside");
  useChanges(/limits_|totals_/, () => void list.reload());
  return list;
}

function StoredTable({ caption, rows }: { readonly caption: string; readonly rows: readonly StoredRow[] }) {
  const { can } = useSession();
  return (
    <Table
      testid="limits-stored"
      caption={`${caption}: ${plural(rows.length, "level")}`}
      isCaptionSeen
      columns={["On", "Limits"]}
      hasActions
    >
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
    </Table>
  );
}

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
      {stored.untilMs !== undefined && <li class="quiet wrap">{endingWords(stored)}</li>}
    </ul>
  );
}

type LimitsSaid = Pick<StoredLimits, "limits" | "inherit" | "appliesTo" | "untilMs" | "then">;
