import {
  type EntityValue,
  type LimitsValue,
  limitsOfValue,
  type Piece,
  type PieceValue,
  pieceText,
} from "../domain/config/piece.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { textOfLimit } from "../domain/limits/limit-text.ts";
import type { Change } from "../manifest/change.ts";
import type { Drift } from "../manifest/drift.ts";
import type { Plan } from "../manifest/plan.ts";
import type { Paint } from "./color.ts";
import { jsonOf, printable } from "./printable.ts";

const SIGNS = {
  create: ["+", "green"],
  update: ["~", "yellow"],
  delete: ["-", "red"],
  adopt: ["=", "cyan"],
  release: [">", "dim"],
} as const;

/** A plan as a person reads it: a line a change with old -> new, and a last line that counts. */
export function planText(plan: Plan, paint: Paint, end: "planned" | "applied"): string {
  const conflicts = plan.conflicts.map((conflict) => {
    return `${paint("red", "!")} ${pieceText(conflict)} is declared by the owner ${conflict.owner}; --take-over takes it over`;
  });
  const changes = plan.changes.map((change) => changeLine(change, paint));
  const warnings = plan.warnings.map((warning) => `${paint("yellow", "Note:")} ${warning}`);
  return `${[...changes, ...conflicts, ...warnings, countLine(plan, end)].join("\n")}\n`;
}

export function driftText({ owner, namespace, drift }: Drift, paint: Paint): string {
  if (drift.length === 0) return `No drift: everything of ${owner} in ${namespace} is as it was last applied.\n`;
  const lines = drift.map((each) => {
    const { by } = each;
    const who =
      by === undefined ? "" : `  (${by.action} by ${by.principal ?? "unknown"}, ${new Date(by.atMs).toISOString()})`;
    return `${paint("yellow", "~")} ${pieceText(each)}: ${valueText(each, each.applied)} -> ${valueText(each, each.live)}${who}`;
  });
  return `${lines.join("\n")}\n${counted(drift.length, "piece")} of ${owner} in ${namespace} drifted.\n`;
}

function changeLine(change: Change, paint: Paint): string {
  const { action, before, after, drift, done } = change;
  const [sign, color] = SIGNS[action];
  const marks = `${drift ? paint("dim", " (drift)") : ""}${done === false ? paint("dim", " (not done)") : ""}`;
  const values =
    action === "create"
      ? valueText(change, after)
      : action === "update"
        ? `${valueText(change, before)} -> ${valueText(change, after)}`
        : valueText(change, before);
  const what = action === "adopt" || action === "release" ? `${action} ${pieceText(change)}` : pieceText(change);
  return `${paint(color, `${sign} ${what}`)}: ${values}${marks}`;
}

function valueText({ what }: Piece, value: PieceValue | null): string {
  if (value === null) return "nothing";
  if (what === "limits" || what === "totals") {
    const { limits, inherit, appliesTo } = limitsOfValue(value as readonly Limit[] | LimitsValue);
    const options = [...(inherit === true ? ["inherit"] : []), ...(appliesTo === undefined ? [] : [appliesTo])];
    return [...limits.map(textOfLimit), ...(options.length === 0 ? [] : [`(${options.join(", ")})`])].join(" ");
  }
  if (what !== "entity" && what !== "plan") return String(value);
  const { name, parentId, planId, cascade, metadata } = value as EntityValue;
  const plan = planId === undefined ? "" : ` on the plan ${planId}`;
  const parent = parentId === undefined ? "" : ` below ${parentId}${cascade ? "" : ", without charging it"}`;
  const pairs = Object.entries(metadata).map(([key, each]) => ` ${key}=${each}`);
  return `${jsonOf(name)}${parent}${plan}${printable(pairs.join(""))}`;
}

function countLine({ changes, conflicts, summary, namespace, owner }: Plan, end: "planned" | "applied"): string {
  const where = `in ${namespace} for ${owner}`;
  if (changes.length === 0 && conflicts.length === 0)
    return `Nothing to change ${where}; ${summary.unchanged} unchanged.`;
  const words = { create: "created", update: "updated", delete: "deleted", adopt: "adopted", release: "released" };
  const counts = (Object.keys(words) as Change["action"][]).flatMap((action) =>
    summary[action] === 0 ? [] : [`${summary[action]} ${end === "planned" ? `to ${action}` : words[action]}`],
  );
  const refused = conflicts.length === 0 ? [] : [counted(conflicts.length, "conflict")];
  return `${end === "planned" ? "Plan" : "Applied"} ${where}: ${[...counts, ...refused, `${summary.unchanged} unchanged`].join(", ")}.`;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
