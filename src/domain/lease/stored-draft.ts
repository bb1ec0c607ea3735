import { StoredForm } from "../limits/stored-form.ts";
import type { LeaseRecord } from "./lease-record.ts";
import { leaseFrom, leaseText } from "./stored-lease.ts";

const VERSION = 1;

/** A lease that is about to be taken. */
export interface StoredDraft {
  /** As it will be, but for what the take answers: nothing is seen, and every ticket is the plain one. */
  readonly record: LeaseRecord;
  /** For how long slots were asked for; the lease may end earlier. 0: it is charged at once, and there is no lease. */
  readonly holdMs: number;
  /** By its name. */
  readonly namespace: string;
  /** The key that its answer is remembered by, with the mark of whoever works under it. */
  readonly key: { readonly key: string; readonly mark: string } | undefined;
}

/** A draft as text. The id of its lease stands beside it. */
export function draftText({ record, holdMs, namespace, key }: StoredDraft): string {
  return JSON.stringify([
    VERSION,
    leaseText(record),
    holdMs,
    namespace,
    key === undefined ? null : [key.key, key.mark],
  ]);
}

/** The draft that was written down, exactly. */
export function draftFrom(leaseId: string, text: string): StoredDraft {
  const form = new StoredForm(`The draft of the lease ${leaseId}`);
  const [version, record, holdMs, namespace, key] = form.list(form.parse(text), 5);
  if (version !== VERSION) form.fail(`has the form ${String(version)}`);
  return {
    record: leaseFrom(leaseId, form.text(record)),
    holdMs: form.natural(holdMs),
    namespace: form.text(namespace),
    key: form.orNone(key, (value) => {
      const [name, mark] = form.list(value, 2);
      return { key: form.text(name), mark: form.text(mark) };
    }),
  };
}
