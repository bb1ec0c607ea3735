import type { StackChange } from "../infra/stack-changes.ts";
import type { Paint } from "./color.ts";
import { printable } from "./printable.ts";

const MARKS = { Add: "+", Modify: "~", Remove: "-", Import: "+", Dynamic: "~" } as const;
const COLORS = { Add: "green", Modify: "yellow", Remove: "red", Import: "green", Dynamic: "yellow" } as const;

/** A line a change: what it is of, and old -> new. */
export function changesText(changes: readonly StackChange[], paint: Paint): string {
  return changes.map((change) => `${lineOf(change, paint)}\n`).join("");
}

function lineOf({ action, logicalId, type, replacement, from, to }: StackChange, paint: Paint): string {
  const what = type === undefined ? logicalId : `${logicalId} (${type})`;
  const anew = replacement === "True" ? ", replaced" : replacement === "Conditional" ? ", perhaps replaced" : "";
  const values = from === undefined && to === undefined ? "" : `: ${valueText(from)} -> ${valueText(to)}`;
  return printable(`${MARKS[action]} ${what}${anew}${values}`).replace(/^./, (mark) => paint(COLORS[action], mark));
}

function valueText(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}
