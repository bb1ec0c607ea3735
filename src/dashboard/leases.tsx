import { useEffect, useState } from "preact/hooks";
import { curl } from "./api.ts";
import { Expiry, LeaseCard } from "./lease-card.tsx";
import { NameFields, useNames } from "./name-fields.tsx";
import { Button, Empty, ErrorNote, Form, PageHead } from "./parts.tsx";
import type { PageProps } from "./route.ts";
import { keepAddress, useEvery, useLoaded, usePages, useSession, useSettled } from "./session.tsx";
import type { LeaseView, Listed } from "./shapes.ts";
import { BucketCells, CursorPager, Table } from "./table.tsx";
import { amountsText, plural } from "./words.ts";

const PAGE_SIZE = 100;
const TYPING_MS = 250;
/** A lease can be adjusted without an event. */
const REREAD_MS = 15_000;
/** The list is read at most this often, however many leases begin and end. */
const GATHER_MS = 1_000;

/** Open leases. An operator can end one whose holder does not. */
export function LeasesPage({ params }: PageProps) {
  const session = useSession();
  const { api, path, live } = session;
  const names = useNames(params.entity, params.resource);
  const [id, setId] = useState(params.id ?? "");
  const entityId = useSettled(names.entity.trim(), TYPING_MS);
  const resourceId = useSettled(names.resource.trim(), TYPING_MS);
  const pages = usePages();
  const [changes, setChanges] = useState(0);
  const heard = useSettled(changes, GATHER_MS);
  useEffect(() => live.leases.subscribe(() => setChanges((before) => before + 1)), [live]);
  useEffect(() => keepAddress("leases", { entity: entityId, resource: resourceId, id }), [entityId, resourceId, id]);
  const { value, error, reload } = useLoaded(
    (signal) => {
      const query = { entityId, resource: resourceId, limit: PAGE_SIZE, cursor: pages.cursor };
      return api.get<Listed<LeaseView>>(`${path}/leases`, query, signal);
    },
    [entityId, resourceId, pages.cursor, heard],
    "main",
  );
  useEvery(REREAD_MS, () => void reload());
  const leases = value?.items ?? [];
  return (
    <>
      <PageHead
        title="Leases"
        note={
          value === undefined || leases.length === 0
            ? "Tokens held until their work is done."
            : `${plural(leases.length, "open lease")}${value.cursor === undefined && pages.page === 0 ? "" : " on this page"}`
        }
      />
      <Form class="filters">
        <NameFields id="leases" none="all" names={names} onChange={pages.begin} />
      </Form>
      <ErrorNote error={error} />
      {id !== "" && <LeaseCard key={id} id={id} version={heard} onDone={reload} onClose={() => setId("")} />}
      {leases.length > 0 && (
        <Table class="leases" caption="Open leases" columns={["Who", "On", "Holds", "Expires"]} hasActions>
          {leases.map((lease) => (
            <LeaseRow key={lease.leaseId} lease={lease} isOpen={lease.leaseId === id} onOpen={setId} />
          ))}
        </Table>
      )}
      {value !== undefined && <CursorPager pages={pages} next={value.cursor} count={leases.length} what="leases" />}
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
        <Button
          kind="small"
          testid="lease-show"
          aria-expanded={isOpen}
          aria-label={`Show the lease of ${entityId} on ${resource}`}
          onClick={() => onOpen(leaseId ?? "")}
        >
          Show
        </Button>
      </td>
    </tr>
  );
}
