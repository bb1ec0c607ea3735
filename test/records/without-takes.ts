import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { DEFAULT_NAMESPACE } from "../../src/domain/config/namespace.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import type { CountStore, RecordStore } from "../../src/ports/record-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { ensureDefault, namespacesOn } from "../../src/records/namespaces.ts";
import { NO_LEASES_BY_TAKES, recordScope } from "../../src/records/scope.ts";
import { recordParts } from "../../src/records/scoped-records.ts";
import { SeenGenerations } from "../../src/records/seen-changes.ts";
import { auditContract } from "../kit/contract-audit.ts";
import { configContract } from "../kit/contract-config.ts";
import { entityContract } from "../kit/contract-entities.ts";
import { type Suite, TestedNamespace } from "../kit/contract-kit.ts";
import { leaseContract } from "../kit/contract-leases.ts";
import { levelContract } from "../kit/contract-levels.ts";
import { manifestContract } from "../kit/contract-manifests.ts";
import { namespaceContract } from "../kit/contract-namespaces.ts";
import { planContract } from "../kit/contract-plans.ts";
import { policiesContract } from "../kit/contract-policies.ts";
import { refusalContract } from "../kit/contract-refusals.ts";
import { switchesContract } from "../kit/contract-switches.ts";

/** The ports of a store on records, without buckets. */
export async function openRecords(store: RecordStore & CountStore, onBucket: () => void = () => {}): Promise<Store> {
  const parts = recordParts(store, new SeenGenerations());
  const options = { retention: FILE_RETENTION, counts: store, takes: NO_LEASES_BY_TAKES };
  await ensureDefault(parts);
  const buckets = new Proxy({} as never, {
    get: () => {
      onBucket();
      throw new Error("Records have no buckets.");
    },
  });
  return {
    name: "records",
    atomicBucketsMax: Number.POSITIVE_INFINITY,
    namespaces: namespacesOn(parts),
    scope: (namespaceId) => ({ ...recordScope(parts, namespaceId, options), buckets }),
    ping: () => {},
    close: () => {},
  };
}

export interface OpenedRecords {
  readonly records: RecordStore & CountStore;
  close(): Promise<void>;
}

/** The contract of all ports but buckets. Stories that come to a bucket are skipped: they are told on the whole store. */
export function describeRecords(name: string, open: () => Promise<OpenedRecords>): void {
  let told = 0;
  const suite: Suite = {
    gaps: new Set(),
    repeatsMax: Number.POSITIVE_INFINITY,
    test: (sentence, story) => {
      test(sentence, async (context) => {
        const { records, close } = await open();
        let needsTakes = false;
        const another = () =>
          openRecords(records, () => {
            needsTakes = true;
          });
        try {
          await story(await TestedNamespace.in(await another(), DEFAULT_NAMESPACE, another));
          told++;
        } catch (error) {
          if (!needsTakes) throw error;
          context.skip("told on whole stores");
        } finally {
          await close();
        }
      });
    },
  };
  const themes: readonly (readonly [string, (suite: Suite) => void])[] = [
    ["configuration", configContract],
    ["levels of limits", levelContract],
    ["plans", planContract],
    ["policies and operations", policiesContract],
    ["switches", switchesContract],
    ["entities", entityContract],
    ["namespaces", namespaceContract],
    ["audit", auditContract],
    ["refusals", refusalContract],
    ["declared pieces", manifestContract],
    ["leases", leaseContract],
  ];
  describe(name, () => {
    for (const [theme, contract] of themes) describe(`${name}: ${theme}`, () => contract(suite));
    after(() => assert.ok(told >= 80, `only ${told} stories were told`));
  });
}
