import { useState } from "preact/hooks";
import { Confirm } from "./dialog.tsx";
import { LeaseSettle } from "./lease-settle.tsx";
import { ErrorNote, Link, Name } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { LeaseView } from "./shapes.ts";
import { useTicking } from "./tick.ts";
import { amountsText, resourceWords, stampWords, tokensWords, waitWords } from "./words.ts";

const STATUS_WORDS = {
  open: "open",
  settled: "settled",
  rolledBack: "rolled back",
  expired: "expired",
} as const;

/** One lease, open or ended within the last day: what it holds and of whom, and the two ways to end it. */
export function LeaseCard(props: {
  readonly id: string;
  /** Another one whenever leases have changed. */
  readonly version: number;
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}) {
  const { id, version, onDone, onClose } = props;
  const { api, path, can } = useSession();
  const address = `${path}/leases/${encodeURIComponent(id)}`;
  const [doing, setDoing] = useState<"settle" | "rollback">();
  const [done, setDone] = useState("");
  const { value, error, reload } = useLoaded(
    (signal) => (can.leases ? api.get<LeaseView>(address, {}, signal) : foundIn(id)),
    [id, version],
    "beside",
  );
  // Whoever may only look finds it among those that are open.
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
        <button type="button" class="button small" data-testid="lease-close" onClick={onClose}>
          Close
        </button>
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
              <button type="button" class="button small" data-testid="lease-settle" onClick={() => setDoing("settle")}>
                Settle
              </button>
              <button
                type="button"
                class="button small danger"
                data-testid="lease-rollback"
                onClick={() => setDoing("rollback")}
              >
                Roll back
              </button>
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
  const facts: [string, string][] = [
    ["Status", STATUS_WORDS[status]],
    ["Who", entityId],
    [`Holds on ${resource}`, amountsText(consumed) || "nothing"],
    ...Object.entries(also).map(([name, amounts]): [string, string] => [
      `Holds on ${name}`,
      amountsText(amounts) || "nothing",
    ]),
    ["When it expires", onExpiry === "charge" ? "tokens held are charged" : "tokens held are given back"],
    ...(shadowed.length === 0 ? [] : [["Would have been refused by", shadowed.join(", ")] as [string, string]]),
    ...(overdrawn.length === 0 ? [] : [["Soft limits below zero", overdrawn.join(", ")] as [string, string]]),
    ...(bypassed ? [["Bypassed", "counted, not taken"] as [string, string]] : []),
  ];
  return (
    <>
      <dl class="facts">
        {facts.map(([label, text]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd class="wrap">{text}</dd>
          </div>
        ))}
        {expiresAtMs !== null && (
          <div>
            <dt>{status === "open" ? "Expires" : "Would have expired"}</dt>
            <dd>
              {stampWords(expiresAtMs)}
              {status === "open" && (
                <>
                  , <Expiry atMs={expiresAtMs} />
                </>
              )}
            </dd>
          </div>
        )}
      </dl>
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

/** How long it is still held, by the clock of this machine. */
export function Expiry({ atMs }: { readonly atMs: number | null }) {
  const leftS = useTicking(() => (atMs === null ? 0 : Math.ceil((atMs - Date.now()) / 1_000)), atMs !== null);
  if (atMs === null) return <>never</>;
  return (
    <time dateTime={new Date(atMs).toISOString()} title={stampWords(atMs)}>
      {leftS <= 0 ? "any moment" : `in ${waitWords(leftS * 1_000)}`}
    </time>
  );
}
