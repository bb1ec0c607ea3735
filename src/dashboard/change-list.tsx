import type { FieldChange } from "./audit-change.ts";

/** Fields with their old and their new values. */
export function ChangeList({ changes }: { readonly changes: readonly FieldChange[] }) {
  return (
    <ul class="changes">
      {changes.map(({ field, before, after }) => (
        <li key={field}>
          <b>{field}</b>{" "}
          {before === undefined ? <i class="quiet">older than this page</i> : before !== "none" && <s>{before}</s>} →{" "}
          <span>{after}</span>
        </li>
      ))}
    </ul>
  );
}
