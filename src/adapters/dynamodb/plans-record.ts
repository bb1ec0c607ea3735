import type { Plan } from "../../domain/config/plan.ts";
import { type Attributes, instantOf, instantText } from "./codec.ts";
import { DELETING, isBeingDeleted, VERSION } from "./entities-record.ts";
import type { Records } from "./records.ts";
import {
  all,
  type Condition,
  deleteRecord,
  exists,
  isStill,
  putRecord,
  type RecordWrite,
  texts,
  updateRecord,
} from "./records-write.ts";
import {
  CREATED_AT,
  GSI4PK,
  GSI4SK,
  METADATA,
  NAME,
  PLAN_SEQ,
  planKey,
  planMemberIndexKeys,
  planMemberKey,
  planPk,
  UPDATED_AT,
} from "./schema.ts";

/** A plan that is made now. */
export function planItem(namespaceId: string, plan: Plan): Attributes {
  return {
    ...texts({ [GSI4PK]: namespaceId, [GSI4SK]: planPk(namespaceId, plan.id) }),
    [CREATED_AT]: { S: instantText(plan.createdAtMs) },
    ...changeablePlan(plan),
    [PLAN_ID_OF]: { S: plan.id },
  };
}

/** The attributes that a change replaces. */
export function changeablePlan({ name, metadata, version, updatedAtMs }: Plan): Attributes {
  const entries = Object.entries(metadata).map(([key, S]) => [key, { S }] as const);
  return {
    [NAME]: { S: name },
    [METADATA]: { M: Object.fromEntries(entries) },
    [VERSION]: { N: String(version) },
    [UPDATED_AT]: { S: instantText(updatedAtMs) },
  };
}

/** The plan of an item; undefined where there is no item, or the plan was deleted. */
export function planOf(item: Attributes | undefined): Plan | undefined {
  if (item === undefined || isBeingDeleted(item)) return undefined;
  const id = item[PLAN_ID_OF]?.S ?? "";
  const createdAtMs = instantOf(item[CREATED_AT]?.S);
  const metadata = Object.entries(item[METADATA]?.M ?? {}).map(([key, { S }]) => [key, S ?? ""] as const);
  return {
    id,
    name: item[NAME]?.S ?? id,
    metadata: Object.fromEntries(metadata),
    version: Number(item[VERSION]?.N ?? 1),
    createdAtMs,
    updatedAtMs: instantOf(item[UPDATED_AT]?.S),
  };
}

/** There is such a plan, and it is not deleted. */
export const isPlan: Condition = all(exists, isStill(DELETING, undefined));

/** Whether an entity may have this plan: read as it is now. */
export async function hasPlan(records: Records, namespaceId: string, planId: string): Promise<boolean> {
  return planOf(await records.get(planKey(namespaceId, planId))) !== undefined;
}

/** What is written beside an entity that comes to a plan, leaves one, or goes from one to another. */
export function planMoved(
  namespaceId: string,
  entityId: string,
  { from, to }: { readonly from: string | undefined; readonly to: string | undefined },
): readonly RecordWrite[] {
  if (from === to) return [];
  return [
    ...(from === undefined ? [] : [deleteRecord(planMemberKey(namespaceId, from, entityId), undefined)]),
    ...(to === undefined
      ? []
      : [
          // A deletion of the plan goes by this number, and fails when an entity came meanwhile.
          updateRecord(planKey(namespaceId, to), { add: { [PLAN_SEQ]: { N: "1" } } }, isPlan),
          putRecord(
            planMemberKey(namespaceId, to, entityId),
            texts(planMemberIndexKeys(namespaceId, to, entityId)),
            undefined,
          ),
        ]),
  ];
}

const PLAN_ID_OF = "id";
