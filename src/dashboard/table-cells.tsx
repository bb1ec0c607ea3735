import { Link, Name } from "./parts.tsx";

/** Who, and on what: leads to the bucket. */
export function BucketCells({ entityId, resource }: { readonly entityId: string; readonly resource: string }) {
  return (
    <>
      <td data-label="Who">
        <Link page="buckets" params={{ filter: `${entityId} ${resource}`, open: "1" }}>
          <Name text={entityId} class="mono" />
        </Link>
      </td>
      <td data-label="On">
        <Name text={resource} />
      </td>
    </>
  );
}

/** The head of a column of buttons, for who hears the page. */
export function ActionsHead() {
  return (
    <th scope="col" class="actions">
      <span class="unseen">Actions</span>
    </th>
  );
}
