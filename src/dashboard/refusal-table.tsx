import { useState } from "preact/hooks";
import { Pager } from "./parts.tsx";
import { RefusalCells } from "./refusal-cells.tsx";
import type { RefusalSum } from "./refusal-sums.ts";
import { whole } from "./words.ts";

const ROWS_MAX = 50;

/** Stands for all that were too many to be counted by their names. */
const OTHER = "_other_";

/** Who was refused most, of all processes on the store. */
export function RefusalTable({ sums }: { readonly sums: readonly RefusalSum[] }) {
  const [page, setPage] = useState(0);
  const rows = sums.slice(page * ROWS_MAX, (page + 1) * ROWS_MAX);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard. */}
      <section class="scroll" aria-label="Sums of refusals" tabIndex={0}>
        <table class="cards" data-testid="refusal-sums">
          <caption class="unseen">Refusals by entity, resource and limit, most refused first</caption>
          <thead>
            <tr>
              <th scope="col">Who</th>
              <th scope="col">On</th>
              <th scope="col">Refused by</th>
              <th scope="col" class="number">
                Refused
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((sum) => (
              <SumRow key={sum.key} sum={sum} />
            ))}
          </tbody>
        </table>
      </section>
      <Pager
        {...{ page, count: rows.length, what: "rows", hasNext: (page + 1) * ROWS_MAX < sums.length, onPage: setPage }}
      />
    </>
  );
}

function SumRow({ sum }: { readonly sum: RefusalSum }) {
  const { entityId, resource, limit, level, total, count } = sum;
  const attributes = {
    "data-testid": "refusal-sum",
    "data-entity": entityId,
    "data-resource": resource,
    "data-limit": limit,
    "data-level-entity": level,
  };
  if (entityId === OTHER) {
    return (
      <tr {...attributes}>
        <td data-label="Who" class="quiet" colSpan={3}>
          Others, too many to list separately
        </td>
        <td data-label="Refused" class="number">
          {whole(count)}
        </td>
      </tr>
    );
  }
  return (
    <tr {...attributes}>
      <RefusalCells {...{ entityId, resource, limit, level, total }} others={0} />
      <td data-label="Refused" class="number">
        {whole(count)}
      </td>
    </tr>
  );
}
