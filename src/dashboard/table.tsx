import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button, Link, Name } from "./parts.tsx";
import type { usePages } from "./session.tsx";
import type { BucketName } from "./shapes.ts";
import { whole } from "./words.ts";

interface TableProps {
  /** For screen readers, unless `isCaptionSeen`. */
  readonly caption: ComponentChildren;
  readonly isCaptionSeen?: boolean;
  readonly columns: readonly string[];
  /** Columns that are aligned as numbers. */
  readonly numbers?: readonly string[];
  /** A last column of buttons, whose head only screen readers see. */
  readonly hasActions?: boolean;
  readonly class?: string;
  readonly testid?: string;
}

/** A table whose rows become cards on a narrow screen. */
export function Table(props: TableProps & { readonly children: ComponentChildren }) {
  const { caption, isCaptionSeen, columns, numbers, hasActions, class: kind, testid, children } = props;
  return (
    <table class={kind === undefined ? "cards" : `cards ${kind}`} data-testid={testid}>
      <caption class={isCaptionSeen ? undefined : "unseen"}>{caption}</caption>
      <thead>
        <tr>
          {columns.map((label) => (
            <th key={label} scope="col" class={numbers?.includes(label) ? "number" : undefined}>
              {label}
            </th>
          ))}
          {hasActions && (
            <th scope="col" class="actions">
              <span class="unseen">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

/** A wide table that scrolls, with `pageSize` of its items at a time. */
export function PagedTable<Item>(
  props: TableProps & {
    /** For screen readers. */
    readonly label: string;
    readonly items: readonly Item[];
    readonly pageSize: number;
    readonly row: (item: Item) => ComponentChildren;
  },
) {
  const { label, items, pageSize, row, ...rest } = props;
  const [page, setPage] = useState(0);
  const shown = items.slice(page * pageSize, (page + 1) * pageSize);
  const hasNext = (page + 1) * pageSize < items.length;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard. */}
      <section class="scroll" aria-label={label} tabIndex={0}>
        <Table {...rest}>{shown.map(row)}</Table>
      </section>
      <Pager page={page} count={shown.length} what="rows" hasNext={hasNext} onPage={setPage} />
    </>
  );
}

/** The entity and the resource of a bucket, with a link to it. */
export function BucketCells({ entityId, resource }: BucketName) {
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

/** Buttons for the pages before and after. */
export function Pager(props: {
  readonly page: number;
  readonly count: number;
  readonly what: string;
  readonly hasNext: boolean;
  readonly onPage: (page: number) => void;
}) {
  const { page, count, what, hasNext, onPage } = props;
  if (page === 0 && !hasNext) return null;
  return (
    <nav class="pager" aria-label={`Pages of ${what}`}>
      <Button kind="small" testid="pager-previous" disabled={page === 0} onClick={() => onPage(page - 1)}>
        Previous
      </Button>
      <span>
        Page {whole(page + 1)}, {whole(count)} {what}
      </span>
      <Button kind="small" testid="pager-next" disabled={!hasNext} onClick={() => onPage(page + 1)}>
        Next
      </Button>
    </nav>
  );
}

/** The pager of a list that is read by cursors; `next` is the cursor of the next page. */
export function CursorPager(props: {
  readonly pages: ReturnType<typeof usePages>;
  readonly next: string | undefined;
  readonly count: number;
  readonly what: string;
}) {
  const { pages, next, ...rest } = props;
  return <Pager page={pages.page} hasNext={next !== undefined} onPage={(to) => pages.go(to, next)} {...rest} />;
}
