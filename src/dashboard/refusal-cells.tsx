import { Link, Name } from "./parts.tsx";
import { BucketCells } from "./table-cells.tsx";
import { plural, TOTALS } from "./words.ts";

interface RefusalCellsProps {
  /** Who asked. */
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  /** Whose limit it was. */
  readonly level: string;
  /** Whether it was one over all resources. */
  readonly total: boolean;
  /** How many other limits had too little, too. */
  readonly others: number;
}

/** Who was refused, on what, and the limit in the way: each leads to the bucket that it is about. */
export function RefusalCells({ entityId, resource, limit, level, total, others }: RefusalCellsProps) {
  const whose = level === entityId ? "its own" : `of parent ${level}`;
  return (
    <>
      <BucketCells {...{ entityId, resource }} />
      <td data-label="Refused by">
        <span class="in-the-way">
          <Name text={limit} class="strong" />
          <span class={level === entityId ? "tag" : "tag warn"}>
            {level === entityId && !total ? (
              whose
            ) : (
              <Link page="buckets" params={{ filter: `${level} ${total ? TOTALS : resource}`, open: "1" }}>
                {whose}
              </Link>
            )}
          </span>
          {total && <span class="quiet nowrap">over all resources</span>}
          {others > 0 && <span class="quiet nowrap">and {plural(others, "other")}</span>}
        </span>
      </td>
    </>
  );
}
