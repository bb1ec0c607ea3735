import { useEffect, useState } from "preact/hooks";
import { curl } from "./curl.ts";
import { Confirm } from "./dialog.tsx";
import { LimitWords } from "./limit-words.tsx";
import { NamedDialog, type NamedDraft } from "./named-dialog.tsx";
import { Empty, ErrorNote, Link, Name, PageHead } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Plan, StoredLimits } from "./shapes.ts";
import { levelsOf } from "./stored-limits.ts";
import { whole } from "./words.ts";

type Doing = { readonly what: "create" } | { readonly what: "edit" | "delete"; readonly plan: Plan };

/** More than anybody looks through. */
const PLANS_MAX = 1_000;

/** Named sets of limits that entities refer to. */
export function PlansPage() {
  const session = useSession();
  const { api, path, can, live } = session;
  const [doing, setDoing] = useState<Doing>();
  const { value, error, reload } = useLoaded(() => api.all<Plan>(`${path}/plans`, {}, PLANS_MAX), [], "main");
  useEffect(
    () =>
      live.changes.subscribe(({ action }) => {
        if (/^plan_|limits_|totals_/.test(action)) void reload();
      }),
    [live, reload],
  );
  const plans = value?.items ?? [];
  return (
    <>
      <PageHead title="Plans" note="Sets of limits that many entities share; a change applies to all of them.">
        {can.admin && (
          <button
            type="button"
            class="button primary"
            data-testid="plan-create"
            onClick={() => setDoing({ what: "create" })}
          >
            New plan
          </button>
        )}
      </PageHead>
      <ErrorNote error={error} />
      {plans.length > 0 && (
        <table class="cards plans">
          <caption class="unseen">Plans by id</caption>
          <thead>
            <tr>
              <th scope="col">Plan</th>
              <th scope="col">On every resource</th>
              <th scope="col">Over all resources</th>
              <th scope="col">Actions</th>
            </tr>
          </thead>
          <tbody>
            {plans.map((plan) => (
              <PlanRow key={`${plan.id} ${plan.version}`} plan={plan} onDo={setDoing} />
            ))}
          </tbody>
        </table>
      )}
      {value?.more === true && <p class="filter-note">The first {whole(PLANS_MAX)} plans are shown.</p>}
      {value !== undefined && plans.length === 0 && (
        <Empty title="No plans yet" command={curl(session, "POST", `${path}/plans`, { id: "gold" })}>
          A plan is a named set of limits that entities can use.{" "}
          {can.admin ? "Create one here or with" : "An admin can create one with"}
        </Empty>
      )}
      {doing?.what === "create" && <PlanForm plan={undefined} onDone={reload} onClose={() => setDoing(undefined)} />}
      {doing?.what === "edit" && <PlanForm plan={doing.plan} onDone={reload} onClose={() => setDoing(undefined)} />}
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
  const { api, path, can, live } = useSession();
  const { id, name, metadata } = plan;
  const levels = useLoaded(
    async (signal) => (await levelsOf(api, path, { entityId: "", resource: "", planId: id }, signal)).items,
    [id],
    "beside",
  );
  useEffect(
    () =>
      live.changes.subscribe(({ action }) => {
        if (/limits_|totals_/.test(action)) void levels.reload();
      }),
    [live, levels.reload],
  );
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
            <button
              type="button"
              class="button small"
              data-testid="plan-edit"
              onClick={() => onDo({ what: "edit", plan })}
            >
              Edit
            </button>
            <button
              type="button"
              class="button small danger"
              data-testid="plan-delete"
              onClick={() => onDo({ what: "delete", plan })}
            >
              Delete
            </button>
          </>
        )}
      </td>
    </tr>
  );
}

function PlanForm(props: {
  readonly plan: Plan | undefined;
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}) {
  const { plan, onDone, onClose } = props;
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
