import { describe } from "node:test";
import { auditContract } from "./contract-audit.ts";
import { bucketContract } from "./contract-buckets.ts";
import { callerContract } from "./contract-callers.ts";
import { changeInstantsContract } from "./contract-change-instants.ts";
import { changeLevelsContract } from "./contract-change-levels.ts";
import { changedLimitsContract } from "./contract-changed-limits.ts";
import { configContract } from "./contract-config.ts";
import { endsContract } from "./contract-ends.ts";
import { entityContract } from "./contract-entities.ts";
import { floorsContract } from "./contract-floors.ts";
import { freezeContract } from "./contract-freeze.ts";
import { giveBackContract } from "./contract-give-back.ts";
import { holdsContract } from "./contract-holds.ts";
import { changedHoldsContract } from "./contract-holds-changed.ts";
import { kindsContract } from "./contract-kinds.ts";
import { type Gap, type OpenStore, type Suite, suiteOn } from "./contract-kit.ts";
import { leaseChangeContract } from "./contract-lease-changes.ts";
import { leaseContract } from "./contract-leases.ts";
import { levelContract } from "./contract-levels.ts";
import { manifestContract } from "./contract-manifests.ts";
import { measuresContract } from "./contract-measures.ts";
import { namespaceContract } from "./contract-namespaces.ts";
import { planContract } from "./contract-plans.ts";
import { policiesContract } from "./contract-policies.ts";
import { refusalLogContract } from "./contract-refusal-log.ts";
import { refusalContract } from "./contract-refusals.ts";
import { rememberedContract } from "./contract-remembered.ts";
import { schedulesContract } from "./contract-schedules.ts";
import { shadowContract } from "./contract-shadow.ts";
import { strictWindowsContract } from "./contract-strict-windows.ts";
import { switchesContract } from "./contract-switches.ts";
import { thresholdsContract } from "./contract-thresholds.ts";
import { usageContract } from "./contract-usage.ts";

/**
 * The contract of a store as tests of `node:test`. A store's test file is ten lines:
 *
 * ```ts
 * describeStore("my store", () => {
 *   const store = openMyStore();
 *   return { store, close: () => store.close() };
 * });
 * ```
 *
 * `open` gives a new, empty store for every test, on a calendar that knows UTC and Europe/Berlin; `gaps` names what the
 * store does not have.
 */
export function describeStore(name: string, open: OpenStore, gaps: readonly Gap[] = []): void {
  describeSuite(name, suiteOn(open, gaps));
}

/** The contract on a suite, which may say more of how it is told. */
export function describeSuite(name: string, suite: Suite): void {
  const under = (theme: string, contract: (suite: Suite) => void) =>
    describe(`${name}: ${theme}`, () => contract(suite));
  under("taking", bucketContract);
  under("debits and give-backs", giveBackContract);
  under("changed limits", changedLimitsContract);
  under("changes that count from when they were made", changeInstantsContract);
  under("changes of plans and of how levels go together", changeLevelsContract);
  under("limits with an end", endsContract);
  under("limits that come back", rememberedContract);
  under("quotas and changed kinds", kindsContract);
  under("schedules and soft limits", schedulesContract);
  under("strict windows", strictWindowsContract);
  under("floors", floorsContract);
  under("how many are at once", holdsContract);
  under("how many are at once, when limits change", changedHoldsContract);
  under("thresholds", thresholdsContract);
  under("shadow limits", shadowContract);
  under("configuration", configContract);
  under("what limits count", measuresContract);
  under("levels of limits", levelContract);
  under("plans", planContract);
  under("policies and operations", policiesContract);
  under("switches", switchesContract);
  under("frozen namespaces", freezeContract);
  under("entities", entityContract);
  under("namespaces", namespaceContract);
  under("audit", auditContract);
  under("usage", usageContract);
  under("refusals", refusalContract);
  under("single refusals", refusalLogContract);
  under("usage of callers", callerContract);
  under("declared pieces", manifestContract);
  under("leases", leaseContract);
  under("changes of leases", leaseChangeContract);
}
