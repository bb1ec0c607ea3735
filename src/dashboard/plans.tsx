import { useState } from "preact/hooks";
import { curl } from "./api.ts";
import { Confirm, type DialogEnds, NamedDialog, type NamedDraft } from "./dialog.tsx";
import { LimitWords } from "./limits-stored.tsx";
import { Button, Empty, ErrorNote, Link, Name, PageHead } from "./parts.tsx";
import { useChanges, useLoaded, useSession } from "./session.tsx";
import type { Plan, StoredLimits } from "./shapes.ts";
import { levelsOf } from "./stored-limits.ts";
import { Table } from "./table.tsx";
import { whole } from "./words.ts";

type Doing = { readonly what: "create" } | { readonly what: "edit" | "delete"; readonly plan: Plan };

const PLANS_MAX = 1_000;

export function PlansPage() {
  const session = useSession();
  const { api, path, can } = session;
  const [doing, setDoing] = useState<Doing>();
  const { value, error, reload } = useLoaded(() => api.all<Plan>(`${path}/plans`, {}, PLANS_MAX), [], "main");
  useChanges(/^plan_|limits_|totals_/, () => void reload());
  const plans = value?.items ?? [];
  return (
    <>
      <PageHead title="Plans" note="Sets of limits that many entities share; a change applies to all of them.">
        {can.admin && (
          <Button kind="primary" testid="plan-create" onClick={() => setDoing({ what: "create" })}>
            New plan
          </Button>
        )}
      </PageHead>
      <ErrorNote error={error} />
      {plans.length > 0 && (
        <Table
          class="plans"
          caption="Plans by id"
          columns={["Plan", "On every resource", "Over all resources", "Actions"]}
        >
          {plans.map((plan) => (
            <PlanRow key={`${plan.id} ${plan.version}`} plan={plan} onDo={setDoing} />
          ))}
        </Table>
      )}
      {value?.more === true && <p class="filter-note">The first {whole(PLANS_MAX)} plans are shown.</p>}
      {value !== undefined && plans.length === 0 && (
        <Empty title="No plans yet" command={curl(session, "POST", `${path}/plans`, { id: "gold" })}>
          A plan is a named set of limits that entities can use.{" "}
          {can.admin ? "Create one here or with" : "An admin can create one with"}
        </Empty>
      )}
      {(doing?.what === "create" || doing?.what === "edit") && (
        <PlanForm
          plan={doing.what === "edit" ? doing.plan : undefined}
          onDone={reload}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing?.what === "delete" && (
        <Confirm
          title="Delete this plan?"
          submit="Delete"
          act={async () => {
            await api.send("DELETE", `${path}/plans/${encodeURIComponent(doing.plan.id)}`, {});
            await reload();
          }}
          onClose={() => setDoing(undefined)}
        >
          <p>
            <b class="mono wrap">{doing.plan.id}</b> will be deleted, with its limits and totals. This is refused while
            an entity uses it.
          </p>
        </Confirm>
      )}
    </>
  );
}

function PlanRow({ plan, onDo }: { readonly plan: Plan; readonly onDo: (doing: Doing) => void }) {
  const { api, path, can } = useSession();
  const { id, name, metadata } = plan;
  const levels = useLoaded(
    async (signal) => (await levelsOf(api, path, { entityId: "", resource: "", planId: id }, signal)).items,
    [id],
    "beside",
  );
  useChanges(/limits_|totals_/, () => void levels.reload());
  const at = (level: StoredLimits["level"]) => levels.value?.find((each) => each.level === level);
  return (
    <tr data-testid="plan-row" data-plan={id}>
      <td data-label="Plan">
        <span>
          <Name text={id} class="mono strong" /> {name !== id && <Name text={name} class="quiet" />}{" "}
          {Object.entries(metadata).map(([key, text]) => (
            <span class="tag" key={key}>
              {key} {text}
            </span>
          ))}
        </span>
      </td>
      <td data-label="On every resource">
        <LimitWords stored={at("planDefault")} />
      </td>
      <td data-label="Over all resources">
        <LimitWords stored={at("planTotal")} />
      </td>
      <td data-label="Actions" class="actions">
        <Link page="limits" params={{ plan: id, level: "planDefault" }} class="button small">
          Limits
        </Link>
        <Link page="limits" params={{ plan: id, level: "planTotal" }} class="button small">
          Totals
        </Link>
        <Link page="entities" params={{ plan: id }} class="button small">
          Entities
        </Link>
        {can.admin && (
          <>
            <Button kind="small" testid="plan-edit" onClick={() => onDo({ what: "edit", plan })}>
              Edit
            </Button>
            <Button kind="small danger" testid="plan-delete" onClick={() => onDo({ what: "delete", plan })}>
              Delete
            </Button>
          </>
        )}
      </td>
    </tr>
  );
}

function PlanForm({ plan, onDone, onClose }: DialogEnds & { readonly plan: Plan | undefined }) {
  const { api, path } = useSession();
  const save = async ({ id, name, metadata }: NamedDraft) => {
    const shared = { ...(name === "" ? {} : { name }), metadata };
    if (plan === undefined) await api.send("POST", `${path}/plans`, {}, { id, ...shared });
    else {
      const patch = { ...shared, version: plan.version };
      await api.send("PATCH", `${path}/plans/${encodeURIComponent(plan.id)}`, {}, patch);
    }
    await onDone();
  };
  const idHint = "Letters, digits and _ . - : @";
  return <NamedDialog what="plan" named={plan} {...{ idHint, save, onClose }} />;
}
