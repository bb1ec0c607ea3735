import { Link, Name } from "./parts.tsx";
import type { BucketName } from "./shapes.ts";
import { BucketCells } from "./table.tsx";
import { plural, TOTALS, whole } from "./words.ts";

/** A limit that refused requests of a bucket. */
interface RefusedBy extends BucketName {
  readonly limit: string;
  /** The entity whose limit it was. */
  readonly level: string;
}

interface RefusalCellsProps extends RefusedBy {
  /** True for a limit over all resources. */
  readonly total: boolean;
  /** The number of other limits that had too little. */
  readonly others: number;
  /** The number of equal refusals that stand in this row. */
  readonly count: number;
}

/** The entity, the resource and the limit that refused, with links to their buckets. */
export function RefusalCells({ entityId, resource, limit, level, total, others, count }: RefusalCellsProps) {
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
          {count > 1 && (
            <b class="nowrap" data-testid="refusal-times">
              {whole(count)} times
            </b>
          )}
          {others > 0 && <span class="quiet nowrap">and {plural(others, "other")}</span>}
        </span>
      </td>
    </>
  );
}

/** What tests and styles know a row of refusals by. */
export function attributesOf(testid: string, { entityId, resource, limit, level }: RefusedBy) {
  return {
    "data-testid": testid,
    "data-entity": entityId,
    "data-resource": resource,
    "data-limit": limit,
    "data-level-entity": level,
  };
}
