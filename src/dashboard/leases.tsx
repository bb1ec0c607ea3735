import { useEffect, useState } from "preact/hooks";
import { keepAddress } from "./address.ts";
import { curl } from "./curl.ts";
import { Expiry, LeaseCard } from "./lease-card.tsx";
import { NameFields } from "./name-fields.tsx";
import { Empty, ErrorNote, PageHead, Pager, useEvery, useSettled } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { LeaseView, Listed } from "./shapes.ts";
import { ActionsHead, BucketCells } from "./table-cells.tsx";
import { amountsText, plural } from "./words.ts";

const PAGE_SIZE = 100;
const TYPING_MS = 250;
/** What a lease holds may be adjusted without an event. */
const REREAD_MS = 15_000;
/** A crowd of leases that begin and end is asked about once a second. */
const GATHER_MS = 1_000;

/** What is held at this moment: by whom, how much and until when, to be ended by hand where its holder will not. */
export function LeasesPage({ params }: { readonly params: Readonly<Record<string, string>> }) {
  const session = useSession();
  const { api, path, live } = session;
  const [entity, setEntity] = useState(params.entity ?? "");
  const [resource, setResource] = useState(params.resource ?? "");
  const [id, setId] = useState(params.id ?? "");
  const entityId = useSettled(entity.trim(), TYPING_MS);
  const resourceId = useSettled(resource.trim(), TYPING_MS);
  // Where each page begins; the last one is shown.
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined]);
  const [changes, setChanges] = useState(0);
  const heard = useSettled(changes, GATHER_MS);
  useEffect(() => live.leases.subscribe(() => setChanges((before) => before + 1)), [live]);
  useEffect(() => keepAddress("leases", { entity: entityId, resource: resourceId, id }), [entityId, resourceId, id]);
  const { value, error, reload } = useLoaded(
    (signal) => {
      const query = { entityId, resource: resourceId, limit: PAGE_SIZE, cursor: cursors.at(-1) };
      return api.get<Listed<LeaseView>>(`${path}/leases`, query, signal);
    },
    [entityId, resourceId, cursors.at(-1), heard],
    "main",
  );
  useEvery(REREAD_MS, () => void reload());
  const names = useLoaded(async () => (await api.all<string>(`${path}/resources`, {}, 1_000)).items, [], "beside");
  const leases = value?.items ?? [];
  const page = cursors.length - 1;
  const begin = (set: (text: string) => void) => (text: string) => {
    set(text);
    setCursors([undefined]);
  };
  return (
    <>
      <PageHead
        title="Leases"
        note={
          value === undefined || leases.length === 0
            ? "Tokens held until their work is done."
            : `${plural(leases.length, "open lease")}${value.cursor === undefined && page === 0 ? "" : " on this page"}`
        }
      />
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <NameFields
          id="leases"
          none="all"
          entity={entity}
          onEntity={begin(setEntity)}
          resource={resource}
          onResource={begin(setResource)}
          resources={names.value}
        />
      </form>
      <ErrorNote error={error} />
      {id !== "" && <LeaseCard key={id} id={id} version={heard} onDone={reload} onClose={() => setId("")} />}
      {leases.length > 0 && (
        <table class="cards leases">
          <caption class="unseen">Open leases</caption>
          <thead>
            <tr>
              <th scope="col">Who</th>
              <th scope="col">On</th>
              <th scope="col">Holds</th>
              <th scope="col">Expires</th>
              <ActionsHead />
            </tr>
          </thead>
          <tbody>
            {leases.map((lease) => (
              <LeaseRow key={lease.leaseId} lease={lease} isOpen={lease.leaseId === id} onOpen={setId} />
            ))}
          </tbody>
        </table>
      )}
      {value !== undefined && (
        <Pager
          {...{ page, count: leases.length, what: "leases", hasNext: value.cursor !== undefined }}
          onPage={(next) => setCursors(next > page ? [...cursors, value.cursor] : cursors.slice(0, -1))}
        />
      )}
      {value !== undefined && leases.length === 0 && (
        <Empty
          title={entityId === "" && resourceId === "" ? "No open leases" : "No open lease matches"}
          command={curl(session, "POST", `${path}/acquire`, {
            entityId: entityId || "key-1",
            resource: resourceId || "gpt-4",
            consume: { rpm: 1 },
            holdMs: 60_000,
          })}
        >
          Leases acquired over HTTP are listed here until they are settled, rolled back or expire; leases of the library
          are not. Acquire one that is held for a minute:
        </Empty>
      )}
    </>
  );
}

function LeaseRow(props: {
  readonly lease: LeaseView;
  readonly isOpen: boolean;
  readonly onOpen: (id: string) => void;
}) {
  const { lease, isOpen, onOpen } = props;
  const { leaseId, entityId, resource, consumed, also, onExpiry } = lease;
  const others = Object.entries(also).map(([name, amounts]) => `${amountsText(amounts)} on ${name}`);
  return (
    <tr data-testid="lease-row" data-lease={leaseId} data-entity={entityId} data-resource={resource}>
      <BucketCells {...{ entityId, resource }} />
      <td data-label="Holds">
        <span>{[amountsText(consumed), ...others].join("; ")}</span>
      </td>
      <td data-label="Expires">
        <span>
          <Expiry atMs={lease.expiresAtMs} />, then {onExpiry === "charge" ? "charged" : "given back"}
        </span>
      </td>
      <td class="actions">
        <button
          type="button"
          class="button small"
          data-testid="lease-show"
          aria-expanded={isOpen}
          aria-label={`Show the lease of ${entityId} on ${resource}`}
          onClick={() => onOpen(leaseId ?? "")}
        >
          Show
        </button>
      </td>
    </tr>
  );
}
