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
import { ValidationError } from "../domain/names/errors.ts";
import type { Drift } from "../manifest/drift.ts";
import type { Change, Manifest } from "../manifest/manifest.ts";
import type { Plan } from "../manifest/plan.ts";
import type { CommandContext, OptionRow } from "./command.ts";
import { EXIT, UsageError } from "./exit-code.ts";
import { readGiven } from "./output.ts";
import { isJson, printValue } from "./print.ts";
import { jsonOf, type Paint, paintOf, printable } from "./table.ts";

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

export const FILE_OPTIONS = [
  ["-f, --file <file>", "the manifest; - is stdin"],
  ["--owner <name>", "the owner, if the file names none; default: default"],
] as const satisfies readonly OptionRow[];

export async function printPlan(
  context: CommandContext,
  plan: Plan & { readonly dryRun?: boolean },
  end: "planned" | "applied",
): Promise<void> {
  await printValue(context, plan, () => planText(plan, paintOf(context), end));
}

export const EXIT_CODES = "Exit codes: 2 the manifest is invalid, 3 the store failed, 4 no such namespace or parent.";

/** Reads and checks the file, then does the work. What is wrong with the file is told with its places. */
export async function withManifest(
  context: CommandContext,
  { file, owner }: { readonly file?: string; readonly owner?: string },
  work: (manifest: Manifest) => Promise<number>,
): Promise<number> {
  if (file === undefined) throw new UsageError("No manifest is given; give -f FILE, or -f - for stdin.");
  const text = await readGiven(file, "The manifest");
  const [{ parseManifest }, { ManifestInvalid }] = await Promise.all([
    import("../entry/manifest.ts"),
    import("../manifest/manifest.ts"),
  ]);
  let manifest: Manifest;
  try {
    manifest = parseManifest(text, { file });
  } catch (error) {
    if (!(error instanceof ManifestInvalid)) throw error;
    return tellInvalid(context, file, error);
  }
  return work(withOwner(manifest, owner));
}

export function tellInvalid(
  context: CommandContext,
  file: string,
  {
    code,
    message,
    problems,
  }: { readonly code: string; readonly message: string; readonly problems: readonly object[] },
): number {
  const told = { error: { code, message, exitCode: EXIT.usage, file, problems } };
  context.output.note(isJson(context) ? `${jsonOf(told)}\n` : `${firstLines(message)}\n`);
  return EXIT.usage;
}

/** One mistake at the top of a file can make hundreds below it. */
const PROBLEMS_SHOWN = 20;

function firstLines(message: string): string {
  const lines = message.split("\n");
  if (lines.length <= PROBLEMS_SHOWN) return message;
  return [...lines.slice(0, PROBLEMS_SHOWN), `And ${lines.length - PROBLEMS_SHOWN} more; --json prints all.`].join(
    "\n",
  );
}

/** The namespace that the file and the options name: one, or the same. */
export function namespaceFor(manifest: Pick<Manifest, "namespace">, { env, options }: CommandContext): string {
  const asked = options.namespace ?? (env.ZAEL_NAMESPACE || undefined);
  if (manifest.namespace !== undefined && asked !== undefined && asked !== manifest.namespace) {
    throw new ValidationError(
      "namespace_mismatch",
      `The manifest is for the namespace ${manifest.namespace}, and -N is ${asked}; leave out -N, or name the same.`,
    );
  }
  return manifest.namespace ?? asked ?? "default";
}

function withOwner(manifest: Manifest, owner: string | undefined): Manifest {
  if (owner === undefined) return manifest;
  if (manifest.owner !== undefined && manifest.owner !== owner) {
    throw new ValidationError(
      "owner_mismatch",
      `The manifest belongs to the owner ${manifest.owner}, and --owner is ${owner}; leave out --owner, or name the same.`,
    );
  }
  return { ...manifest, owner };
}
