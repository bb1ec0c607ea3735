import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { numberOf } from "./number-text.ts";
import { Field } from "./parts.tsx";
import { useAction, useSession } from "./session.tsx";
import type { LeaseView } from "./shapes.ts";
import { tokensWords } from "./words.ts";

/** Ends a lease with what it came to: totals by measure, on each of its resources. */
export function LeaseSettle(props: {
  readonly lease: LeaseView;
  readonly address: string;
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}) {
  const { lease, address, onDone, onClose } = props;
  const { entityId, resource, consumed, also } = lease;
  const { api } = useSession();
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const { isBusy, error, run } = useAction();
  const holdings = [[resource, consumed] as const, ...Object.entries(also)];
  // Neither a resource nor a measure contains a line break.
  const keyOf = (on: string, measure: string) => `${on}\n${measure}`;
  const settle = async () => {
    const done = await run(async () => {
      const totals = holdings.map(([on, held]) => [
        on,
        Object.fromEntries(
          Object.entries(held).map(([measure, amount]) => {
            const text = typed[keyOf(on, measure)];
            return [measure, text === undefined ? amount : numberOf(measure, text)];
          }),
        ),
      ]) as [string, Record<string, number>][];
      const [[, own] = ["", {}], ...others] = totals;
      const further = others.length === 0 ? {} : { also: Object.fromEntries(others) };
      await api.send("POST", `${address}/settle`, {}, { consumed: own, ...further });
      await onDone();
    });
    if (done) onClose();
  };
  return (
    <Dialog
      title="Settle this lease?"
      submit="Settle"
      testid="lease-settle-dialog"
      {...{ isBusy, error, onClose }}
      onSubmit={() => void settle()}
    >
      <p>
        Ends the lease of <b class="mono wrap">{entityId}</b> with the amounts actually used. Unused tokens are given
        back; tokens used beyond the held amount are charged, into debt if necessary. This cannot be undone.
      </p>
      {holdings.flatMap(([on, held]) =>
        Object.entries(held).map(([measure, amount]) => (
          <Field
            key={keyOf(on, measure)}
            label={holdings.length === 1 ? measure : `${measure} on ${on}`}
            hint={`It holds ${tokensWords(measure, amount)}`}
          >
            <input
              type="text"
              inputMode="numeric"
              data-testid="lease-total"
              data-resource={on}
              data-measure={measure}
              value={typed[keyOf(on, measure)] ?? tokensWords(measure, amount)}
              onInput={(event) => setTyped({ ...typed, [keyOf(on, measure)]: event.currentTarget.value })}
            />
          </Field>
        )),
      )}
    </Dialog>
  );
}
