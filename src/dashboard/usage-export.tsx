import { exportedUsage, type UsageFormat } from "../domain/charge/usage-export.ts";
import type { UsageSnapshot } from "./shapes.ts";

/** What is shown, as a file. */
export function UsageExport({ items, name }: { readonly items: readonly UsageSnapshot[]; readonly name: string }) {
  const save = async (format: UsageFormat) => {
    const pieces: string[] = [];
    for await (const piece of exportedUsage(each(items), format)) pieces.push(piece);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(pieces, { type: format === "csv" ? "text/csv" : "application/x-ndjson" }));
    link.download = `${name}.${format}`;
    link.click();
    // The browser has it by then; at once would be too early for some.
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return (
    <>
      <button type="button" class="button" data-testid="usage-csv" onClick={() => void save("csv")}>
        Export CSV
      </button>
      <button type="button" class="button" data-testid="usage-ndjson" onClick={() => void save("ndjson")}>
        NDJSON
      </button>
    </>
  );
}

async function* each(items: readonly UsageSnapshot[]) {
  yield* items.toSorted((a, b) => a.windowStartMs - b.windowStartMs || a.entityId.localeCompare(b.entityId));
}
