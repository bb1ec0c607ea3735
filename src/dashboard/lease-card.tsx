import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Confirm, Dialog, type DialogEnds } from "./dialog.tsx";
import { useTicking } from "./observable.ts";
import { Button, ErrorNote, Facts, Field, Link, Name, TextInput } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { LeaseView } from "./shapes.ts";
import { amountsText, numberOf, resourceWords, stampWords, tokensWords, waitWords } from "./words.ts";

const STATUS_WORDS = {
  open: "open",
  settled: "settled",
  rolledBack: "rolled back",
  expired: "expired",
} as const;

/** One lease that is open or has ended within the last day, with buttons that end it. */
export function LeaseCard({
  id,
  version,
  onDone,
  onClose,
}: DialogEnds & {
  readonly id: string;
  /** Changes whenever leases have changed. */
  readonly version: number;
}) {
  const { api, path, can } = useSession();
  const address = `${path}/leases/${encodeURIComponent(id)}`;
  const [doing, setDoing] = useState<"settle" | "rollback">();
  const [done, setDone] = useState("");
  const { value, error, reload } = useLoaded(
    (signal) => (can.leases ? api.get<LeaseView>(address, {}, signal) : foundIn(id)),
    [id, version],
    "beside",
  );
  // Without the scope to acquire, the lease is looked for among those that are open.
  const foundIn = async (leaseId: string) => {
    const { items } = await api.all<LeaseView>(`${path}/leases`, {}, 1_000);
    return items.find((lease) => lease.leaseId === leaseId);
  };
  const ended = async (what: string) => {
    setDone(what);
    await Promise.all([reload(), onDone()]);
  };
  const isOpen = value?.status === "open";
  return (
    <section class="lease-card" data-testid="lease-card" data-status={value?.status} aria-label={`The lease ${id}`}>
      <div class="page-head">
        <h2>
          Lease <Name text={id} class="mono" />
        </h2>
        <Button kind="small" testid="lease-close" onClick={onClose}>
          Close
        </Button>
      </div>
      <ErrorNote error={error} />
      <p class="saved" role="status" data-testid="lease-done">
        {done}
      </p>
      {value !== undefined && <LeaseFacts lease={value} />}
      {value === undefined && error === undefined && <p class="quiet">The lease is not open, or still loading.</p>}
      {value !== undefined && (
        <div class="explain-actions">
          <Link
            page="buckets"
            params={{ filter: `${value.entityId} ${value.resource}`, open: "1" }}
            class="button small"
          >
            Bucket
          </Link>
          {can.leases && isOpen && (
            <>
              <Button kind="small" testid="lease-settle" onClick={() => setDoing("settle")}>
                Settle
              </Button>
              <Button kind="small danger" testid="lease-rollback" onClick={() => setDoing("rollback")}>
                Roll back
              </Button>
            </>
          )}
        </div>
      )}
      {doing === "settle" && value !== undefined && (
        <LeaseSettle
          lease={value}
          address={address}
          onDone={() => ended("Settled: the difference was charged or given back.")}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing === "rollback" && value !== undefined && (
        <Confirm
          title="Roll back this lease?"
          submit="Roll back"
          act={async () => {
            await api.send("POST", `${address}/rollback`, {});
            await ended("Rolled back: everything was given back.");
          }}
          onClose={() => setDoing(undefined)}
        >
          <p>
            Everything that <b class="mono wrap">{value.entityId}</b> holds with this lease is given back:{" "}
            {amountsText(value.consumed)} on {value.resource}. Its holder can no longer use the lease.
          </p>
        </Confirm>
      )}
    </section>
  );
}

function LeaseFacts({ lease }: { readonly lease: LeaseView }) {
  const { entityId, resource, status, consumed, also, expiresAtMs, onExpiry, overdrawn, shadowed, bypassed, limits } =
    lease;
  const facts: [string, ComponentChildren][] = [
    ["Status", STATUS_WORDS[status]],
    ["Who", entityId],
    ...[[resource, consumed] as const, ...Object.entries(also)].map(([on, amounts]): [string, string] => [
      `Holds on ${on}`,
      amountsText(amounts) || "nothing",
    ]),
    ["When it expires", onExpiry === "charge" ? "tokens held are charged" : "tokens held are given back"],
  ];
  if (shadowed.length > 0) facts.push(["Would have been refused by", shadowed.join(", ")]);
  if (overdrawn.length > 0) facts.push(["Soft limits below zero", overdrawn.join(", ")]);
  if (bypassed) facts.push(["Bypassed", "counted, not taken"]);
  if (expiresAtMs !== null && status !== "open") facts.push(["Would have expired", stampWords(expiresAtMs)]);
  if (expiresAtMs !== null && status === "open") {
    const expiry = (
      <>
        {stampWords(expiresAtMs)}, <Expiry atMs={expiresAtMs} />
      </>
    );
    facts.push(["Expires", expiry]);
  }
  return (
    <>
      <Facts facts={facts} />
      {limits.length > 0 && (
        <p class="quiet wrap">
          Left after its last change:{" "}
          {limits
            .map(
              ({ entityId: of, resource: on, limit, available, capacity }) =>
                `${limit} of ${of} on ${resourceWords(on)} ${tokensWords(limit, available)} of ${tokensWords(limit, capacity)}`,
            )
            .join("; ")}
          .
        </p>
      )}
    </>
  );
}

/** The time until a lease expires, by the clock of this machine. */
export function Expiry({ atMs }: { readonly atMs: number | null }) {
  const leftS = useTicking(() => (atMs === null ? 0 : Math.ceil((atMs - Date.now()) / 1_000)), atMs !== null);
  if (atMs === null) return <>never</>;
  return (
    <time dateTime={new Date(atMs).toISOString()} title={stampWords(atMs)}>
      {leftS <= 0 ? "any moment" : `in ${waitWords(leftS * 1_000)}`}
    </time>
  );
}

/** Settles a lease by the amounts used on each of its resources. */
function LeaseSettle(props: DialogEnds & { readonly lease: LeaseView; readonly address: string }) {
  const { lease, address, onDone, onClose } = props;
  const { entityId, resource, consumed, also } = lease;
  const { api } = useSession();
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const holdings = [[resource, consumed] as const, ...Object.entries(also)];
  // Neither a resource nor a measure contains a line break.
  const keyOf = (on: string, measure: string) => `${on}\n${measure}`;
  const settle = async () => {
    const totals = holdings.map(([on, held]) => {
      const used = Object.entries(held).map(([measure, amount]) => {
        const text = typed[keyOf(on, measure)];
        return [measure, text === undefined ? amount : numberOf(measure, text)] as const;
      });
      return [on, Object.fromEntries(used)] as const;
    });
    const [[, own] = ["", {}], ...others] = totals;
    const further = others.length === 0 ? {} : { also: Object.fromEntries(others) };
    await api.send("POST", `${address}/settle`, {}, { consumed: own, ...further });
    await onDone();
  };
  return (
    <Dialog title="Settle this lease?" submit="Settle" testid="lease-settle-dialog" act={settle} onClose={onClose}>
      <p>
        Ends the lease of <b class="mono wrap">{entityId}</b> with the amounts actually used. Unused tokens are given
        back; tokens used beyond the held amount are charged, into debt if necessary. This cannot be undone.
      </p>
      {holdings.flatMap(([on, held]) =>
        Object.entries(held).map(([measure, amount]) => (
          <Field
            key={keyOf(on, measure)}
            label={holdings.length === 1 ? measure : `${measure} on ${on}`}
            hint={`It holds ${tokensWords(measure, amount)}`}
          >
            <TextInput
              inputMode="numeric"
              testid="lease-total"
              data-resource={on}
              data-measure={measure}
              value={typed[keyOf(on, measure)] ?? tokensWords(measure, amount)}
              onValue={(text) => setTyped({ ...typed, [keyOf(on, measure)]: text })}
            />
          </Field>
        )),
      )}
    </Dialog>
  );
}
